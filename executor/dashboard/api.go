package dashboard

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/each"
)

// apiPrefix begins the paths of the API.
const apiPrefix = "/api/"

// answer is what a program gets for a query.
type answer = func(*http.Request, *params) (any, error)

// api is the site as programs see it.
type api struct{ *site }

// look is the route of a query with parameters of some names.
func (s api) look(look answer, names ...string) route {
	about := anyQueue
	if slices.Contains(names, "queue") {
		about = namedQueue
	}
	return route{http.MethodGet, about, s.looking(func(w http.ResponseWriter, r *http.Request) error {
		p, err := paramsOf(r, names...)
		if err != nil {
			return err
		}
		answer, err := look(r, p)
		if err != nil {
			return err
		}
		return sendJSON(w, r, http.StatusOK, "application/json", answer)
	}), s.cfg.PageTimeout, names}
}

// table has the routes of the API.
func (s api) table() (all map[string]route) {
	look := s.look
	all = map[string]route{
		apiPrefix + "v1/": look(func(*http.Request, *params) (any, error) { return endpointsOf(all), nil }),
		"/api/v1/stats":   look(s.total),
		"/api/v1/queues":  look(s.queues, "queue"),
		"/api/v1/jobs": look(s.list(inspect.Inspector.Jobs), "queue", "state", "order", "desc", "prefix", "error", "limit",
			"cursor", "patience"),
		"/api/v1/dead":    look(s.list(inspect.Inspector.Dead), "queue", "order", "desc", "prefix", "error", "limit", "cursor", "patience"),
		"/api/v1/job":     look(s.job, "queue", "id"),
		"/api/v1/details": look(s.details, "queue", "id"),
		"/api/v1/explain": look(s.explain, "queue", "id"),
		"/api/v1/find":    look(s.find, "queue", "id"),
		"/api/v1/running": look(s.running, "queue", "stacks", "limit"),
		"/api/v1/locks":   look(keys(s, "keys", inspect.Inspector.LockedKeys, func(k inspect.KeyLockStatus) string { return k.Key }), "limit", "cursor"),
		"/api/v1/leases":  look(keys(s, "leases", inspect.Inspector.Leases, func(l inspect.LeaseStatus) string { return l.Key }), "limit", "cursor"),
		"/api/v1/slots":   look(s.slots, "limit"),
		"/api/v1/limits": look(func(*http.Request, *params) (any, error) {
			return map[string]any{"limits": s.x.Inspect().Limits()}, nil
		}),
		"/api/v1/schedules": look(func(*http.Request, *params) (any, error) { return s.scheduled(), nil }),
		"/api/v1/journal":   look(func(r *http.Request, _ *params) (any, error) { return s.journaled(r) }),
		"/api/v1/copy":      {http.MethodPost, nil, s.sendCopy, 0, nil},
		"/api/v1/actions":   {http.MethodPost, nil, s.act, 0, nil},
	}
	return all
}

func sendJSON(w http.ResponseWriter, r *http.Request, status int, kind string, answer any) error {
	text, err := admin.Encode(answer)
	if err != nil {
		return err
	}
	send(w, r, status, kind, text)
	return nil
}

// params are those of a query, of which each name is known. The first that makes no sense is
// err.
type params struct {
	url.Values
	err error
}

// paramsOf reads the query of a request, which has no other names, and each once. Only
// state may come more often, and id where there may be several.
func paramsOf(r *http.Request, names ...string) (*params, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, wrong("the query can't be read: %v", err)
	}
	for name, values := range q {
		switch {
		case !slices.Contains(names, name):
			return nil, wrong("there is no parameter %q here; there are %s", clip(name, 40), cmp.Or(strings.Join(names, ", "), "none"))
		case len(values) > 1 && name != "state" && (name != "id" || !strings.HasSuffix(r.URL.Path, "/details")):
			return nil, wrong("%s is there %d times; once is what it may be", name, len(values))
		}
	}
	p := &params{Values: q}
	p.flag("desc") // what is there makes sense, or nothing is looked at
	p.flag("stacks")
	p.limit(brief.MaxRows)
	p.patience()
	return p, p.err
}

// wrong notes the first value that makes no sense.
func (p *params) wrong(name, must string, args ...any) {
	p.err = cmp.Or(p.err, wrong("%s is %q; "+must, append([]any{name, clip(p.Get(name), 40)}, args...)...))
}

func (p *params) flag(name string) bool {
	on, err := strconv.ParseBool(p.Get(name))
	if err != nil && p.Has(name) {
		p.wrong(name, "it must be true or false")
	}
	return on
}

// limit is how many rows a page has, of so many at most.
func (p *params) limit(most int) int {
	n, err := strconv.Atoi(p.Get("limit"))
	switch {
	case !p.Has("limit"):
		return defaultRows
	case err != nil || !digits(p.Get("limit")) || n < 1 || n > most:
		p.wrong("limit", "a page has from 1 to %d rows", most)
	}
	return n
}

// patience is how long a list may take to be made; 0: as long as its answer.
func (p *params) patience() time.Duration {
	seconds, err := strconv.ParseFloat(p.Get("patience"), 64)
	switch {
	case !p.Has("patience"):
		return 0
	case err != nil || !(seconds > 0 && seconds <= mostPatience):
		p.wrong("patience", "it is in seconds, above 0 and up to %d", mostPatience)
	}
	return max(time.Duration(seconds*float64(time.Second)), 1)
}

// mostPatience is in seconds. Config.PageTimeout ends an answer anyhow.
const mostPatience = 3600

func statesOf(q url.Values) []inspect.JobState {
	return each.Of(q["state"], func(text string) inspect.JobState { return inspect.JobState(text) })
}

// id is one that there can be.
func (p *params) id() (id string, err error) {
	if id = p.Get("id"); id == "" || len(id) > executor.MaxIDBytes {
		err = wrong("id has %d bytes; it must have from 1 to %d", len(id), executor.MaxIDBytes)
	}
	return id, err
}

// What the API says beside what the Inspector does; see package admin for the JSON.

// endpointsOf says what there is.
func endpointsOf(routes map[string]route) any {
	type endpoint struct {
		Method, Path string // the path from here
		Params       []string
	}
	var all []endpoint
	for _, path := range slices.Sorted(maps.Keys(routes)) {
		if name := strings.TrimPrefix(path, apiPrefix+"v1/"); name != "" {
			all = append(all, endpoint{routes[path].method, name, routes[path].params})
		}
	}
	return map[string]any{"endpoints": all}
}

func (s api) total(r *http.Request, _ *params) (any, error) {
	stats, err := s.stats(r)
	t := struct {
		Time     time.Time
		Trouble  string // what keeps the executor from its work; "": nothing
		Workers  int
		Stuck    int
		Total    inspect.QueueStats
		ByWorker map[string]inspect.QueueStats // by queue, of those with a name in UTF-8; without their shards
	}{time.Now(), s.trouble(), stats.Workers, stats.Stuck, stats.Total(), make(map[string]inspect.QueueStats)}
	for _, q := range stats.Queues {
		if q.Shards = nil; utf8.ValidString(q.Name) {
			t.ByWorker[q.Name] = q
		}
	}
	return t, err
}

func noQueue(name string) error {
	return problem{http.StatusNotFound, fmt.Sprintf("there is no queue %q", clip(name, 80))}
}

// queues has all that the request may look at, or the one that it asks for.
func (s api) queues(r *http.Request, p *params) (any, error) {
	stats, err := s.stats(r)
	if name := p.Get("queue"); err == nil && p.Has("queue") {
		stats.Queues = slices.DeleteFunc(stats.Queues, func(q inspect.QueueStats) bool { return q.Name != name })
		if len(stats.Queues) == 0 {
			err = noQueue(name)
		}
	}
	return map[string]any{"queues": stats.Queues}, err
}

// list is a page of jobs or of dead letters.
func (s api) list(of func(inspect.Inspector, context.Context, inspect.JobQuery) (inspect.JobPage, error)) answer {
	return func(r *http.Request, p *params) (any, error) {
		page, err := of(s.x.Inspect(), r.Context(), inspect.JobQuery{
			Queue: p.Get("queue"), States: statesOf(p.Values), Order: inspect.Order(p.Get("order")), Descending: p.flag("desc"),
			Filter: inspect.JobFilter{IDPrefix: p.Get("prefix"), ErrorContains: p.Get("error")},
			Limit:  p.limit(brief.MaxRows), Cursor: p.Get("cursor"), Patience: p.patience(),
		})
		for i := range page.Jobs {
			admin.Hide(&page.Jobs[i].PayloadInfo)
		}
		for i := range page.Dead {
			admin.Hide(&page.Dead[i].PayloadInfo)
		}
		return page, lateList(err)
	}
}

func (s api) job(r *http.Request, p *params) (any, error) {
	d, err := s.x.Inspect().Job(r.Context(), p.Get("queue"), p.Get("id"))
	if err != nil {
		return nil, err
	}
	s.showPayloads(r, &d, shownAll)
	return d, r.Context().Err()
}

// details is job for some ids: those of which there is nothing are left out.
func (s api) details(r *http.Request, p *params) (any, error) {
	found, err := s.x.Inspect().JobsByID(r.Context(), p.Get("queue"), p.Values["id"]...)
	if err != nil {
		return nil, err
	}
	left := shownAll
	for i := range found {
		left = s.showPayloads(r, &found[i], left)
	}
	return map[string]any{"details": found}, r.Context().Err()
}

func (s api) explain(r *http.Request, p *params) (any, error) {
	id, err := p.id()
	if err != nil {
		return nil, err
	}
	e, err := s.x.Inspect().Explain(r.Context(), p.Get("queue"), id)
	if err == nil && e.State == inspect.JobUnknown {
		err = inspect.ErrUnknownJob
	}
	return e, err
}

func (s api) find(r *http.Request, p *params) (any, error) {
	id, err := p.id()
	if err != nil {
		return nil, err
	}
	all, queues, late, err := s.lookFor(r, p.Get("queue"), id)
	if err == nil && p.Has("queue") && !slices.Equal(queues, p.Values["queue"]) {
		err = noQueue(p.Get("queue"))
	}
	return map[string]any{"found": all, "late": late}, err // late: not all queues were asked in time
}

func (s api) running(r *http.Request, p *params) (any, error) {
	return s.inHand(r, inspect.RunningQuery{Queue: p.Get("queue"), Stacks: p.flag("stacks"), Limit: p.limit(brief.MaxRows)})
}

// keys answers with a part of a list of keys, by the name of the list: its cursor is the
// last key, as it may be in an address.
func keys[S any](s api, name string, read func(inspect.Inspector, string, int) ([]S, int, error), key func(S) string) answer {
	return func(_ *http.Request, p *params) (any, error) {
		after, err := base64.RawURLEncoding.DecodeString(p.Get("cursor"))
		if err != nil {
			return nil, fmt.Errorf("%w: %q", inspect.ErrInvalidCursor, clip(p.Get("cursor"), 40))
		}
		page, more, err := read(s.x.Inspect(), string(after), p.limit(brief.MaxRows))
		answer := map[string]any{name: page, "more": more}
		if n := len(page); more > 0 && n > 0 {
			answer["next"] = base64.RawURLEncoding.EncodeToString([]byte(key(page[n-1])))
		}
		return answer, err
	}
}

func (s api) slots(_ *http.Request, p *params) (any, error) {
	held, more, err := s.x.Inspect().Slots(p.limit(brief.MaxRows))
	return map[string]any{"slots": held, "more": more}, err
}
