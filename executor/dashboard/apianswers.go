package dashboard

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
)

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

func (s *site) total(r *http.Request, _ *params) (any, error) {
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

// stats are the figures, with those queues that a request may look at.
func (b *board) stats(r *http.Request) (inspect.Stats, error) {
	s, err := b.x.Stats(r.Context())
	if err == nil {
		s.Queues, err = seen(b, r, s.Queues, statsName)
	}
	return s, err
}

func (b *board) trouble() string {
	if err := b.x.Err(); err != nil {
		return err.Error()
	}
	return ""
}

func noQueue(name string) error {
	return problem{http.StatusNotFound, fmt.Sprintf("there is no queue %q", clip(name, 80))}
}

// queues has all that the request may look at, or the one that it asks for.
func (s *site) queues(r *http.Request, p *params) (any, error) {
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
func (s *site) list(of func(inspect.Inspector, context.Context, inspect.JobQuery) (inspect.JobPage, error)) answer {
	return func(r *http.Request, p *params) (any, error) {
		page, err := of(s.x.Inspect(), r.Context(), inspect.JobQuery{
			Queue: p.Get("queue"), States: statesOf(p.Values), Order: inspect.Order(p.Get("order")), Descending: p.flag("desc"),
			Filter: inspect.JobFilter{IDPrefix: p.Get("prefix"), ErrorContains: p.Get("error")},
			Limit:  p.limit(inspect.MaxListLimit), Cursor: p.Get("cursor"), Patience: p.patience(),
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

func (s *site) apiJob(r *http.Request, p *params) (any, error) {
	d, err := s.x.Inspect().Job(r.Context(), p.Get("queue"), p.Get("id"))
	if err != nil {
		return nil, err
	}
	s.showPayloads(r, &d, shownAll)
	return d, r.Context().Err()
}

// details is job for some ids: those of which there is nothing are left out.
func (s *site) details(r *http.Request, p *params) (any, error) {
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

// showPayloads leaves of the payloads of a job what may be seen, while there is room for them, and
// returns how much is left of that.
func (b *board) showPayloads(r *http.Request, d *inspect.JobDetail, left int) int {
	admin.Hide(&d.PayloadInfo)
	for _, p := range admin.PayloadsOf(d) {
		left = b.show(r, d.Queue, d.ID, p, left)
	}
	return left
}

func (s *site) explain(r *http.Request, p *params) (any, error) {
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

func (s *site) apiFind(r *http.Request, p *params) (any, error) {
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

func (s *site) apiRunning(r *http.Request, p *params) (any, error) {
	return s.inHand(r, inspect.RunningQuery{Queue: p.Get("queue"), Stacks: p.flag("stacks"), Limit: p.limit(inspect.MaxListLimit)})
}

// inHand lists what workers have in hand, of the queues that a request may look at: More
// counts those of others, too, beyond the longest list. All goroutines of the process stand still
// while stacks are taken, so that is done for one request at a time.
func (b *board) inHand(r *http.Request, query inspect.RunningQuery) (inspect.RunningList, error) {
	ctx := r.Context()
	if query.Stacks {
		share, err := b.stacks.Enter(ctx, 1)
		if err != nil {
			return inspect.RunningList{}, err
		}
		defer share.Leave()
	}
	most := query.Limit
	query.Limit = inspect.MaxListLimit // some may not be seen
	list, err := b.x.Inspect().Running(ctx, query)
	if err == nil {
		list.Running, err = seen(b, r, list.Running, func(r inspect.Running) string { return r.Queue })
	}
	if more := max(len(list.Running)-most, 0); more > 0 {
		list.Running, list.More = list.Running[:most], list.More+more
	}
	return list, err
}

// keys answers with a part of a list of keys, by the name of the list: its cursor is the
// last key, as it may be in an address.
func keys[S any](s *site, name string, read func(inspect.Inspector, string, int) ([]S, int, error), key func(S) string) answer {
	return func(_ *http.Request, p *params) (any, error) {
		after, err := base64.RawURLEncoding.DecodeString(p.Get("cursor"))
		if err != nil {
			return nil, fmt.Errorf("%w: %q", inspect.ErrInvalidCursor, clip(p.Get("cursor"), 40))
		}
		page, more, err := read(s.x.Inspect(), string(after), p.limit(inspect.MaxListLimit))
		answer := map[string]any{name: page, "more": more}
		if n := len(page); more > 0 && n > 0 {
			answer["next"] = base64.RawURLEncoding.EncodeToString([]byte(key(page[n-1])))
		}
		return answer, err
	}
}

func (s *site) slots(_ *http.Request, p *params) (any, error) {
	held, more, err := s.x.Inspect().Slots(p.limit(inspect.MaxListLimit))
	return map[string]any{"slots": held, "more": more}, err
}

type wireLimit struct {
	Limit string
	inspect.LimitStats
	Keys []inspect.LimitKey // for which most jobs wait
}

// limits are all, each with so many keys at most.
func (b *board) limits(most int) (all []wireLimit) {
	for _, l := range b.x.Limits() {
		keys := l.Keys()
		all = append(all, wireLimit{l.Name(), l.Stats(), keys[:min(len(keys), most)]})
	}
	return all
}

// scheduled is what ticks, and who leads.
type scheduled struct {
	Crons   []wireCron
	Leaders []wireLeader
}

type wireCron struct {
	Cron      int // in Config.Crons
	Leads     bool
	Schedules []cron.Entry
}

type wireLeader struct {
	Election     string
	Leader       string // "": there is none
	Epoch        uint64
	Since, Until time.Time
}

// Left is how long a reign goes on if it is not extended.
func (l wireLeader) Left(now time.Time) time.Duration { return max(l.Until.Sub(now), 0) }

func (b *board) scheduled() (s scheduled) {
	for i, c := range b.cfg.Crons {
		s.Crons = append(s.Crons, wireCron{i, c.Leads(), c.List()})
	}
	for _, e := range b.cfg.Elections {
		l, _ := e.Leader()
		s.Leaders = append(s.Leaders, wireLeader{e.Name, l.ID, l.Epoch, l.Since, l.Until})
	}
	return s
}

// wireJournal is how the journal is doing.
type wireJournal struct {
	Trouble  string
	InMemory bool
	inspect.JournalStats
	Backlog inspect.Backlog
}

// Share is how much of the log is alive, in percent.
func (j wireJournal) Share() int {
	if j.Bytes == 0 {
		return 100
	}
	return 100 * j.LiveBytes / j.Bytes
}

// PerCommit is how long the disk took for one, on average.
func (j wireJournal) PerCommit() time.Duration {
	return j.CommitTime / time.Duration(max(j.Commits, 1))
}

func (b *board) journaled(r *http.Request) (wireJournal, error) {
	s, err := b.x.Stats(r.Context())
	return wireJournal{b.trouble(), s.Journal.UUID == "", s.Journal, s.Backlog}, err
}
