package dashboard

import (
	"cmp"
	"context"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
)

// queuePage is a queue with one of its lists.
type queuePage struct {
	list
	Stats  inspect.QueueStats
	Shards []inspect.ShardStats
	More   int // shards that are not in Shards
	Empty  string
	Paused []string // prefixes, the first of them

	inspect.JobPage // of the first Examined ones, of Of, if it is partial
	Of              int
	Late            string                                         // why there is no list
	Buttons         []map[string]any                               // of actions that the rows offer
	Preview         func(id string, of inspect.PayloadInfo) string // the begin of each payload; nil: the list has none
}

// How many of each a page shows: the latest shards, and the first of the paused prefixes.
const mostShards, mostPrefixes = 16, 100

func (s pages) queue(r *http.Request) (page, error) {
	l, err := listOf(r.URL.Query())
	if err != nil {
		return page{}, err
	}
	began := time.Now()
	info, err := s.info(r.Context(), l.Queue)
	if err != nil {
		return page{}, err
	}
	p := queuePage{list: l, Stats: info, Shards: info.Shards, Empty: l.tab().Empty, Of: info.Jobs}
	if s.cfg.ShowPreview != nil {
		p.Preview = func(id string, of inspect.PayloadInfo) string { return s.preview(r, Payload{l.Queue, id, of}) }
	}
	if l.Tab == morgue {
		p.Of = info.Dead
	}
	slices.SortStableFunc(p.Shards, func(a, b inspect.ShardStats) int { return cmp.Compare(b.Lag, a.Lag) })
	p.Shards, p.More = p.Shards[:min(len(p.Shards), mostShards)], max(len(p.Shards)-mostShards, 0)
	can, err := s.can(r, l.Queue, append([]Verb{Pause, Resume}, l.tab().verbs...)...) // while there is time for it
	if err != nil {
		return page{}, err
	}
	for prefix, err := range s.x.Inspect().PausedPrefixes(l.Queue) {
		if err != nil || len(p.Paused) == mostPrefixes {
			break // the figure says how many there are
		}
		p.Paused = append(p.Paused, prefix)
	}
	for _, v := range l.tab().verbs {
		if d := deeds[v]; can[v] {
			p.Buttons = append(p.Buttons, dictOf("Verb", v, "Name", d.button, "Danger", d.danger))
		}
	}
	status := 0
	if err = s.fill(r.Context(), &p, began); errors.Is(err, context.DeadlineExceeded) && r.Context().Err() != nil {
		status, p.Late, err = http.StatusServiceUnavailable, lateList(err).Error(), nil
	}
	return page{Title: l.Queue, Content: p, Can: can, status: status}, err
}

const (
	// hotIDs is how many ids are shown of those with the most payloads.
	hotIDs = 10
	// hotFor is how long they are shown to all who ask: each page of a queue does.
	hotFor = 5 * time.Second
)

// hot shows the hot ids of a queue, as they were at a moment.
func (s pages) hot(r *http.Request) (page, error) {
	ctx, name := r.Context(), listedQueue(r)
	if _, err := s.info(ctx, name); err != nil {
		return page{}, err
	}
	known, _ := s.hots.LoadOrStore(name, newShared[inspect.JobPage]())
	hot, at, err := known.(*shared[inspect.JobPage]).get(ctx, hotFor, func() (inspect.JobPage, error) {
		return s.x.Inspect().Jobs(ctx, inspect.JobQuery{Queue: name, Order: inspect.OrderPayloads, Descending: true,
			Limit: hotIDs, Patience: listPatience})
	})
	content := struct {
		inspect.JobPage
		Queue string
		Most  int
		At    time.Time
	}{hot, name, 1, at}
	for _, j := range hot.Jobs {
		content.Most = max(content.Most, j.Payloads)
	}
	return page{Title: "Hot ids of " + name, Content: content}, err
}

// tab is a list of a queue's page.
type tab struct {
	Name, Title string
	Empty       string // what to say when there is nothing in it
	those       string // the jobs in it, in words
	Figure      string // that counts them
	states      []inspect.JobState
	Count       func(inspect.QueueStats) int
	verbs       []Verb
}

// tabs of a queue. What waits is all that does not run; those behind it are parts of it,
// but for what runs, which may be fresh, too.
var tabs = []tab{
	{"waiting", "Waiting", "No job waits: everything that was accepted has run, or runs. " +
		"Jobs that are enqueued and can’t run at once are here.", "", "waiting",
		[]inspect.JobState{inspect.JobReady, inspect.JobScheduled, inspect.JobRetrying, inspect.JobParked, inspect.JobHalted},
		func(s inspect.QueueStats) int { return max(s.Jobs-s.Running, 0) }, []Verb{RunNow, Cancel, Delete}},
	{"fresh", "Fresh", "No job is fresh. Those that have not failed are here, whether they wait or run.", " that are fresh", "fresh",
		[]inspect.JobState{inspect.JobFresh}, func(s inspect.QueueStats) int { return s.Fresh }, []Verb{RunNow, Cancel, Delete}},
	{"retrying", "Retrying", "No job waits for a retry. Those that failed are here until their next attempt is due.", " that retry", "retries",
		[]inspect.JobState{inspect.JobRetrying}, func(s inspect.QueueStats) int { return s.Retrying }, failedVerbs},
	{"running", "Running", "No job of this queue runs at this moment. What all workers do is under Running, in the menu.", " that run", "running",
		[]inspect.JobState{inspect.JobRunning}, func(s inspect.QueueStats) int { return s.Running }, []Verb{Cancel, Delete}},
	{"parked", "Parked", "No job waits for a lock, a slot, a limit or its turn, and no id is paused.", " that are parked", "parked",
		[]inspect.JobState{inspect.JobParked}, func(s inspect.QueueStats) int { return s.Parked }, []Verb{Cancel, Delete}},
	{"halted", "Halted", "No id is halted. With OnExhaustedHalt, an id whose retries are used up stops here " +
		"until a person runs it.", " that are halted", "halted",
		[]inspect.JobState{inspect.JobHalted}, func(s inspect.QueueStats) int { return s.Halted }, failedVerbs},
	{morgue, "Morgue", "The morgue is empty: no payload has been given up. What is in it can be put back in its place.", "", "dead",
		nil, func(s inspect.QueueStats) int { return s.Dead }, []Verb{Requeue, DeleteDead}},
}

var failedVerbs = []Verb{RunNow, KillFailed, DeleteFailed}

const morgue = "morgue"

// What a page of a list has.
const (
	defaultRows = 50
	maxRows     = 200
	// listPatience leaves time for the rest of a page that people should have within
	// 200 ms.
	listPatience  = 150 * time.Millisecond
	leastPatience = 50 * time.Millisecond // if the rest was late
)

// list says which part of which list of a queue is meant: what is in the address.
type list struct {
	Queue, Tab, Sort, Prefix, Error, After string
	Desc                                   bool
	Whole                                  bool // it may take its time
	Limit                                  int
}

func listOf(q url.Values) (l list, err error) {
	if of := q.Get("of"); of != "" { // from the form of a filter
		list, err := url.ParseQuery(of)
		if err != nil {
			return l, wrong("of is no query: %v", err)
		}
		for name, values := range list {
			if !q.Has(name) {
				q[name] = values
			}
		}
	}
	p := params{Values: q}
	l = list{Queue: q.Get("name"), Tab: cmp.Or(q.Get("tab"), tabs[0].Name), Sort: q.Get("sort"), Prefix: q.Get("prefix"),
		Error: q.Get("error"), After: q.Get("after"), Desc: q.Get("desc") != "", Whole: q.Get("whole") != ""}
	if q.Get("limit") != "" {
		l.Limit = p.limit(maxRows)
	}
	l.Limit = cmp.Or(l.Limit, defaultRows)
	_, err = tabOf(l.Tab)
	return l, cmp.Or(err, p.err)
}

func (l list) tab() tab {
	t, _ := tabOf(l.Tab)
	return t
}

// tabOf returns the tab with a name.
func tabOf(name string) (tab, error) {
	for _, t := range tabs {
		if t.Name == name {
			return t, nil
		}
	}
	return tab{}, wrong("tab is %q; there is no such list", clip(name, 80))
}

// Filtered reports whether some of the list are left out.
func (l list) Filtered() bool { return l.Prefix != "" || l.Error != "" }

func (l list) filter() inspect.JobFilter {
	return inspect.JobFilter{IDPrefix: l.Prefix, ErrorContains: l.Error}
}

// query is the list of a page that was begun a while ago, and how long it may take to be made;
// 0: as long as its page.
func (l list) query(began time.Time) inspect.JobQuery {
	patience := max(listPatience-time.Since(began), leastPatience)
	if l.Whole {
		patience = 0
	}
	return inspect.JobQuery{Queue: l.Queue, States: l.tab().states, Order: inspect.Order(l.Sort), Descending: l.Desc,
		Filter: l.filter(), Limit: l.Limit, Cursor: l.After, Patience: patience}
}

// Address is the query of the list's page.
func (l list) Address() template.URL {
	on, limit := map[bool]string{true: "1"}, ""
	if l.Limit != defaultRows && l.Limit != 0 {
		limit = strconv.Itoa(l.Limit)
	}
	return query("name", l.Queue, "tab", l.Tab, "sort", l.Sort, "desc", on[l.Desc], "prefix", l.Prefix, "error", l.Error,
		"limit", limit, "after", l.After, "whole", on[l.Whole])
}

// To is the list behind a cursor; whole: it may take its time.
func (l list) To(after string, whole bool) template.URL {
	l.After, l.Whole = after, whole
	return l.Address()
}

// Unfiltered is the list as its filter's form has it: encoded, because a form would
// change what is no UTF-8.
func (l list) Unfiltered() string {
	return string(list{Queue: l.Queue, Tab: l.Tab, Sort: l.Sort, Desc: l.Desc}.Address())
}

// Other is another list of the same queue.
func (l list) Other(name string) template.URL {
	return list{Queue: l.Queue, Tab: name, Limit: l.Limit}.Address()
}

// By is the list by a column, the other way round if it is by that already.
func (l list) By(column string) template.URL {
	l.Desc = l.Sort == column && !l.Desc
	l.Sort, l.After, l.Whole = column, "", false
	return l.Address()
}

// Pick names a row of the list in a form.
func (list) Pick(id string, position uint64) string {
	if position == 0 {
		return ":" + url.QueryEscape(id)
	}
	return strconv.FormatUint(position, 10) + ":" + url.QueryEscape(id)
}
