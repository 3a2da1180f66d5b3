package executor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/goroutine"
	"github.com/strandjobs/strand/executor/internal/listing"
	"github.com/strandjobs/strand/executor/internal/slots"
	"github.com/strandjobs/strand/shard"
)

// Inspect returns what shows the executor to people, and lets them act on it; see package
// [inspect]. It may be called at any time, also before Start and after Stop.
func (x *Executor) Inspect() inspect.Inspector { return inspector{x} }

// inspector is the inspector of an executor.
type inspector struct{ x *Executor }

// begin checks what all calls are given.
func (i inspector) begin(ctx context.Context, queue string) (context.Context, *queue, error) {
	ctx, err := usable(ctx)
	if err != nil {
		return nil, nil, err
	}
	q, err := i.x.lookup(queue)
	return ctx, q, err
}

func listLimit(n int) (int, error) {
	switch {
	case n < 0 || n > inspect.MaxListLimit:
		return 0, fmt.Errorf("%w: Limit is %d, it must be from 0, for %d, to %d", inspect.ErrInvalidQuery, n, inspect.DefaultListLimit, inspect.MaxListLimit)
	case n == 0:
		return inspect.DefaultListLimit, nil
	}
	return n, nil
}

// rows is how many rows a page of what jobs hold has, or why there is none. A stop that is
// under way is looked at.
func (i inspector) rows(limit int) (int, error) {
	select {
	case <-i.x.stopped:
		return 0, ErrClosed
	default:
		return listLimit(limit)
	}
}

// listed are the states of jobs in lists.
var listed = [...]inspect.JobState{
	shard.StateReady: inspect.JobReady, shard.StateScheduled: inspect.JobScheduled, shard.StateRetrying: inspect.JobRetrying,
	shard.StateParked: inspect.JobParked, shard.StateHalted: inspect.JobHalted, shard.StateRunning: inspect.JobRunning,
}

// stateSet is which jobs are asked for by their states.
type stateSet struct {
	of    [len(listed)]bool // by shard.State
	fresh bool              // also those that have used up no retry
}

// statesOf returns the set of some states; none: all.
func statesOf(states []inspect.JobState) (set stateSet, err error) {
	set.fresh = len(states) == 0
	for _, s := range states {
		i := slices.Index(listed[:], s)
		switch {
		case s == inspect.JobFresh:
			set.fresh = true
		case i < 0:
			return set, fmt.Errorf("%w: no list has jobs in the state %q; those are %q and %q, and dead payloads are listed by Inspector.Dead",
				inspect.ErrInvalidQuery, brief.Clip(string(s)), listed, inspect.JobFresh)
		default:
			set.of[i] = true
		}
	}
	for i := range set.of {
		set.of[i] = set.of[i] || len(states) == 0
	}
	return set, nil
}

// has reports whether a job is asked for.
func (s *stateSet) has(v *shard.View) bool { return s.of[v.State] || s.fresh && v.Retry < 0 }

// none reports whether a shard with these figures has no job that is asked for.
func (s *stateSet) none(c shard.Counts) bool {
	w := &s.of
	return c.Jobs == 0 || (!s.fresh || c.Jobs == c.Retrying) &&
		!w[shard.StateReady] && !w[shard.StateScheduled] &&
		(!w[shard.StateRetrying] || c.Retrying == 0) && (!w[shard.StateParked] || c.Parked+c.Paused+c.Prefixes == 0) &&
		(!w[shard.StateHalted] || c.Halted == 0) && (!w[shard.StateRunning] || c.Running == 0)
}

// maxFilterBytes bounds ErrorContains.
const maxFilterBytes = 1 << 10

func checkFilter(f *inspect.JobFilter) error {
	switch {
	case len(f.IDPrefix) > MaxIDBytes:
		return fmt.Errorf("%w: IDPrefix has %d bytes, and no id more than %d", inspect.ErrInvalidQuery, len(f.IDPrefix), MaxIDBytes)
	case len(f.ErrorContains) > maxFilterBytes:
		return fmt.Errorf("%w: ErrorContains has %d bytes, the limit is %d", inspect.ErrInvalidQuery, len(f.ErrorContains), maxFilterBytes)
	case f.OlderThan < 0:
		return fmt.Errorf("%w: OlderThan is %v, it must not be negative", inspect.ErrInvalidQuery, f.OlderThan)
	}
	return nil
}

// means reports whether a filter picks what has an id and an error, as far as these
// tell. Lists and selections ask it, so that what is acted upon is what is shown.
func means(f *inspect.JobFilter, id, last string, failed bool) bool {
	return strings.HasPrefix(id, f.IDPrefix) && strings.Contains(last, f.ErrorContains) && (failed || !f.Failed)
}

func (i inspector) LockedKeys(after string, limit int) (page []inspect.KeyLockStatus, more int, err error) {
	return keyPage(i, after, limit, i.x.keys.Keys, i.x.keys.Status)
}

func (i inspector) Leases(after string, limit int) (page []inspect.LeaseStatus, more int, err error) {
	return keyPage(i, after, limit, i.x.leases.Table.Keys, i.x.leases.Status)
}

// keyPage reads a page of keys, and what is to be said of each.
func keyPage[S any](i inspector, after string, limit int, all func() []string, status func(string) S) (page []S, more int, err error) {
	if limit, err = i.rows(limit); err != nil {
		return nil, 0, err
	}
	i.x.ledger.View(func() {
		var keys []string
		keys, more = listing.FirstKeys(all(), after, limit)
		for _, key := range keys {
			page = append(page, status(key))
		}
	})
	return page, more, nil
}

func (i inspector) Slots(limit int) (held []inspect.SlotHeld, more int, err error) {
	if limit, err = i.rows(limit); err != nil {
		return nil, 0, err
	}
	seen := make(map[slots.Sequence]bool) // several queues may share one
	for _, q := range i.x.registered() {
		for _, source := range q.slots {
			if seen[source] {
				continue
			}
			seen[source] = true
			held = append(held, source.Holders()...)
		}
	}
	slices.SortFunc(held, func(a, b inspect.SlotHeld) int {
		return cmp.Or(strings.Compare(a.Slot, b.Slot), strings.Compare(a.By, b.By))
	})
	more = max(len(held)-limit, 0)
	return held[:len(held)-more], more, nil
}

// stackBytes is how much of a stack is shown.
const stackBytes = 16 << 10

func (i inspector) Running(ctx context.Context, query inspect.RunningQuery) (inspect.RunningList, error) {
	if _, err := usable(ctx); err != nil {
		return inspect.RunningList{}, err
	}
	if query.Queue != "" {
		if _, err := i.x.lookup(query.Queue); err != nil {
			return inspect.RunningList{}, err
		}
	}
	limit, err := listLimit(query.Limit)
	if err != nil {
		return inspect.RunningList{}, err
	}
	var at []atWork
	now := time.Now()
	for _, w := range i.x.crew() {
		if a, ok := w.atWork(now); ok && (query.Queue == "" || query.Queue == a.Queue) {
			if p, said := w.progress(); said {
				a.Progress = &p
			}
			at = append(at, a)
		}
	}
	slices.SortStableFunc(at, func(a, b atWork) int { return a.Since.Compare(b.Since) })
	list := inspect.RunningList{More: max(len(at)-limit, 0)}
	at = at[:len(at)-list.More]
	if query.Stacks && len(at) > 0 {
		dump := goroutine.All()
		for i := range at {
			at[i].Stack = brief.Cut(dump.Of(at[i].goroutine), stackBytes)
		}
	}
	for _, a := range at {
		list.Running = append(list.Running, a.Running)
	}
	return list, nil
}

// atWork is a worker that has something in hand, and its goroutine.
type atWork struct {
	inspect.Running
	goroutine goroutine.Header
}

// atWork says what the worker has in hand. Any goroutine may call it: what the
// worker writes without mu, it writes while nothing is in hand.
func (w *worker) atWork(now time.Time) (a atWork, ok bool) {
	w.hand.Lock()
	defer w.hand.Unlock()
	if len(w.batch) == 0 {
		return atWork{}, false
	}
	a = atWork{inspect.Running{
		Queue: w.queue.name, Worker: w.place, Since: w.start, Age: now.Sub(w.start), Timeout: w.queue.timeout, Stuck: w.hand.IsStuck(),
		More: max(len(w.batch)-inspect.MaxListed, 0),
	}, w.hand.Goroutine}
	for _, it := range w.batch[:len(w.batch)-a.More] {
		p, retry := it.InHand()
		a.Jobs = append(a.Jobs, inspect.RunningJob{ID: it.ID, Attempt: retry + firstAttempt, Position: uint64(p.Ref.Position()), Payloads: len(it.Payloads)})
	}
	return a, true
}

func (i inspector) Queues(ctx context.Context) ([]inspect.QueueInfo, error) {
	ctx, err := usable(ctx)
	if err != nil {
		return nil, err
	}
	queues := i.x.registered()
	all, err := figuresOf(ctx, queues)
	if err != nil {
		return nil, err
	}
	for at, q := range queues {
		all[at].Busy = q.share.Running()
	}
	for _, s := range i.x.unregistered(queues) {
		all = append(all, inspect.QueueInfo{QueueStats: s})
	}
	slices.SortFunc(all, func(a, b inspect.QueueInfo) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}
