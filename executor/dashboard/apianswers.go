package dashboard

import (
	"encoding/base64"
	"fmt"
	"maps"
	"math"
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

// apiIndex says what there is.
func (h *handler) apiIndex(*http.Request, *params) (any, error) {
	type endpoint struct {
		Method, Path string // the path from here
		Params       []string
	}
	var all []endpoint
	for _, path := range slices.Sorted(maps.Keys(h.routes)) {
		if name, found := strings.CutPrefix(path, apiPrefix+"v1/"); found && name != "" {
			all = append(all, endpoint{h.routes[path].method, name, h.routes[path].params})
		}
	}
	return map[string]any{"endpoints": all}, nil
}

func (h *handler) apiStats(r *http.Request, _ *params) (any, error) {
	stats, err := h.stats(r)
	s := struct {
		Time     time.Time
		Trouble  string // what keeps the executor from its work; "": nothing
		Workers  int
		Stuck    int
		Total    inspect.QueueStats
		ByWorker map[string]inspect.QueueStats // by queue, of those with a name in UTF-8; without their shards
	}{time.Now(), h.trouble(), stats.Workers, stats.Stuck, stats.Total(), make(map[string]inspect.QueueStats)}
	for _, q := range stats.Queues {
		if q.Shards = nil; utf8.ValidString(q.Name) {
			s.ByWorker[q.Name] = q
		}
	}
	return s, err
}

// stats are the figures, with those queues that a request may look at.
func (h *handler) stats(r *http.Request) (inspect.Stats, error) {
	s, err := h.x.Stats(r.Context())
	if err == nil {
		s.Queues, err = seen(h, r, s.Queues, statsName)
	}
	return s, err
}

func (h *handler) trouble() string {
	if err := h.x.Err(); err != nil {
		return err.Error()
	}
	return ""
}

func noQueue(name string) error {
	return problem{http.StatusNotFound, fmt.Sprintf("there is no queue %q", clip(name, 80))}
}

// apiQueues has all that the request may look at, or the one that it asks for.
func (h *handler) apiQueues(r *http.Request, p *params) (any, error) {
	stats, err := h.stats(r)
	if name := p.Get("queue"); err == nil && p.Has("queue") {
		stats.Queues = slices.DeleteFunc(stats.Queues, func(q inspect.QueueStats) bool { return q.Name != name })
		if len(stats.Queues) == 0 {
			err = noQueue(name)
		}
	}
	return map[string]any{"queues": stats.Queues}, err
}

func (h *handler) apiJobs(r *http.Request, p *params) (any, error) {
	page, err := h.x.Inspect().Jobs(r.Context(), p.query())
	for i := range page.Jobs {
		admin.Hide(&page.Jobs[i].PayloadInfo)
	}
	return page, lateList(err)
}

func (h *handler) apiDead(r *http.Request, p *params) (any, error) {
	page, err := h.x.Inspect().Dead(r.Context(), p.query())
	for i := range page.Dead {
		admin.Hide(&page.Dead[i].PayloadInfo)
	}
	return page, lateList(err)
}

func (h *handler) apiJob(r *http.Request, p *params) (any, error) {
	d, err := h.x.Inspect().Job(r.Context(), p.Get("queue"), p.Get("id"))
	if err != nil {
		return nil, err
	}
	left := shownAll
	h.showPayloads(r, &d, &left)
	return d, r.Context().Err()
}

// apiDetails is apiJob for some ids: those of which there is nothing are left out.
func (h *handler) apiDetails(r *http.Request, p *params) (any, error) {
	found, err := h.x.Inspect().JobsByID(r.Context(), p.Get("queue"), p.Values["id"]...)
	if err != nil {
		return nil, err
	}
	left := shownAll
	for i := range found {
		h.showPayloads(r, &found[i], &left)
	}
	return map[string]any{"details": found}, r.Context().Err()
}

// showPayloads leaves of the payloads of a job what may be seen, while there is room for them.
func (h *handler) showPayloads(r *http.Request, d *inspect.JobDetail, left *int) {
	shown := payloads{h, r, d.Queue, d.ID, *left}
	admin.Hide(&d.PayloadInfo)
	for _, list := range [...][]inspect.PayloadInfo{d.InHand, d.Waiting} {
		for i := range list {
			shown.show(&list[i])
		}
	}
	for i := range d.Dead {
		shown.show(&d.Dead[i].PayloadInfo)
	}
	*left = shown.left
}

func (h *handler) apiExplain(r *http.Request, p *params) (any, error) {
	id, err := p.id()
	if err != nil {
		return nil, err
	}
	e, err := h.x.Inspect().Explain(r.Context(), p.Get("queue"), id)
	if err == nil && e.State == inspect.JobUnknown {
		err = inspect.ErrUnknownJob
	}
	return e, err
}

func (h *handler) apiFind(r *http.Request, p *params) (any, error) {
	id, err := p.id()
	if err != nil {
		return nil, err
	}
	all, queues, late, err := h.lookFor(r, p.Get("queue"), id)
	if err == nil && p.Has("queue") && !slices.Equal(queues, p.Values["queue"]) {
		err = noQueue(p.Get("queue"))
	}
	return map[string]any{"found": all, "late": late}, err // late: not all queues were asked in time
}

func (h *handler) apiRunning(r *http.Request, p *params) (any, error) {
	return h.inHand(r, inspect.RunningQuery{Queue: p.Get("queue"), Stacks: p.flag("stacks"), Limit: p.limit(inspect.MaxListLimit)})
}

// inHand lists what workers have in hand, of the queues that a request may look at: More
// counts those of others, too, beyond the longest list. All goroutines of the process stand still
// while stacks are taken, so that is done for one request at a time.
func (h *handler) inHand(r *http.Request, query inspect.RunningQuery) (inspect.RunningList, error) {
	ctx := r.Context()
	if query.Stacks {
		select {
		case h.stacks <- struct{}{}:
			defer func() { <-h.stacks }()
		case <-ctx.Done():
			return inspect.RunningList{}, ctx.Err()
		}
	}
	most := query.Limit
	query.Limit = inspect.MaxListLimit // some may not be seen
	list, err := h.x.Inspect().Running(ctx, query)
	if err == nil {
		list.Running, err = seen(h, r, list.Running, func(r inspect.Running) string { return r.Queue })
	}
	if more := max(len(list.Running)-most, 0); more > 0 {
		list.Running, list.More = list.Running[:most], list.More+more
	}
	return list, err
}

// keysPage answers with a part of a list of keys, by the name of the list: its cursor is the
// last key, as it may be in an address.
func keysPage[S any](name string, p *params, read func(after string, limit int) ([]S, int, error), key func(S) string) (any, error) {
	after, err := base64.RawURLEncoding.DecodeString(p.Get("cursor"))
	if err != nil {
		return nil, fmt.Errorf("%w: %q", inspect.ErrInvalidCursor, clip(p.Get("cursor"), 40))
	}
	page, more, err := read(string(after), p.limit(inspect.MaxListLimit))
	answer := map[string]any{name: page, "more": more}
	if more > 0 {
		answer["next"] = base64.RawURLEncoding.EncodeToString([]byte(last(page, key)))
	}
	return answer, err
}

// last is the key of the last of a list.
func last[S any](list []S, key func(S) string) string {
	if len(list) == 0 {
		return ""
	}
	return key(list[len(list)-1])
}

func keyOf(k inspect.KeyLockStatus) string { return k.Key }
func leaseOf(l inspect.LeaseStatus) string { return l.Key }

func (h *handler) apiLocks(_ *http.Request, p *params) (any, error) {
	return keysPage("keys", p, h.x.Inspect().LockedKeys, keyOf)
}

func (h *handler) apiLeases(_ *http.Request, p *params) (any, error) {
	return keysPage("leases", p, h.x.Inspect().Leases, leaseOf)
}

func (h *handler) apiSlots(_ *http.Request, p *params) (any, error) {
	held, more, err := h.x.Inspect().Slots(p.limit(inspect.MaxListLimit))
	return map[string]any{"slots": held, "more": more}, err
}

type wireLimit struct {
	Limit string
	inspect.LimitStats
	Keys []inspect.LimitKey // for which most jobs wait
}

func (h *handler) apiLimits(*http.Request, *params) (any, error) {
	return map[string]any{"limits": h.limits(math.MaxInt)}, nil
}

// limits are all, each with so many keys at most.
func (h *handler) limits(most int) (all []wireLimit) {
	for _, l := range h.x.Limits() {
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

func (h *handler) scheduled() (s scheduled) {
	for i, c := range h.cfg.Crons {
		s.Crons = append(s.Crons, wireCron{i, c.Leads(), c.List()})
	}
	for _, e := range h.cfg.Elections {
		l, _ := e.Leader()
		s.Leaders = append(s.Leaders, wireLeader{e.Name, l.ID, l.Epoch, l.Since, l.Until})
	}
	return s
}

func (h *handler) apiSchedules(*http.Request, *params) (any, error) { return h.scheduled(), nil }

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

func (h *handler) journaled(r *http.Request) (wireJournal, error) {
	s, err := h.x.Stats(r.Context())
	return wireJournal{h.trouble(), s.Journal.UUID == "", s.Journal, s.Backlog}, err
}

func (h *handler) apiJournal(r *http.Request, _ *params) (any, error) { return h.journaled(r) }
