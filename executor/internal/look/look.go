// Package look shows an executor to people: its queues, jobs, dead letters and workers, and
// what jobs hold and wait for. It changes nothing.
//
// # What is promised
//
//   - All that look at an executor go in turns, in pieces that keep no shard for longer than some
//     tens of microseconds. While there is work, they take a small share of the processors; see
//     package pace.
//   - What is listed stays where it is: a page of many takes the memory of the page.
//   - Codecs are called on a goroutine of their own, which lasts until they return.
//   - Running waits for nothing but the locks of workers.
//
// Any goroutine may call all methods, at any time. Census: a goroutine for each call that decodes.
package look

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/each"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/goroutine"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/listing"
	"github.com/strandjobs/strand/executor/internal/pace"
	"github.com/strandjobs/strand/executor/internal/slots"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Inspector has those methods of [inspect.Inspector] that show. New makes one.
type Inspector struct {
	*engine.Engine
	Pacer *pace.Pacer

	next  atomic.Uint64 // the position that the journal gave out next when it was last asked
	nonce uint64        // of this process, for cursors that mean nothing to another one
}

// What all who look take together while there is work, of each processor and of all,
// unless more lies idle; and what they may take at once.
const (
	lookShare = 0.02
	mostLooks = 0.5
	Burst     = 50 * time.Millisecond
)

// Share is the share of one processor for all who look.
func Share() float64 { return min(lookShare*float64(runtime.GOMAXPROCS(0)), mostLooks) }

// New returns the inspector of an executor.
func New(e *engine.Engine) *Inspector {
	return &Inspector{Engine: e, Pacer: pace.New(Share(), Burst, new(pace.Idle).Lately), nonce: rand.Uint64()}
}

// Paced does a piece of work when its turn has come; see [pace.Pacer.Do].
func (i *Inspector) Paced(ctx context.Context, piece func() (time.Duration, error)) error {
	return i.Pacer.Do(ctx, i.atWork, piece)
}

// atWork reports whether a handler runs, or something was accepted since the last
// time it was asked.
func (i *Inspector) atWork() bool {
	_, busy := i.Dispatcher.Load()
	next := uint64(i.Log.Stats().Next)
	return i.next.Swap(next) != next || busy > 0
}

// deadPerTurn is how many dead letters are read at once, unless they are large.
const deadPerTurn = 256

// EachDead calls f for the dead letters of a queue from a position on, in the order in which
// they were accepted, until f returns false, some in each of its turns.
func (i *Inspector) EachDead(ctx context.Context, queue uint32, from journal.Position, f func(*journal.Buried) bool) error {
	for more := true; more; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		err := i.Paced(ctx, func() (time.Duration, error) {
			began, n := time.Now(), 0
			more = false
			for b, err := range i.Log.Morgue(queue, from) {
				if err != nil {
					return 0, i.Border(err)
				}
				if n++; n > deadPerTurn {
					more = true
					break
				}
				from = b.Entry.Position + 1
				if !f(&b) {
					break
				}
			}
			return time.Since(began), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Queue is a queue that is looked at.
type Queue struct {
	*engine.Queue
	in *Inspector
}

// Queue returns a queue by its name, and the context of a call as it may be used.
func (i *Inspector) Queue(ctx context.Context, name string) (context.Context, Queue, error) {
	ctx, err := guard.Context(ctx)
	if err != nil {
		return nil, Queue{}, err
	}
	q, err := i.Lookup(name)
	return ctx, Queue{q, i}, err
}

func listLimit(n int) (int, error) {
	if n < 0 || n > brief.MaxRows {
		return 0, fmt.Errorf("%w: Limit is %d, it must be from 0, for %d, to %d", inspect.ErrInvalidQuery, n, brief.PageRows, brief.MaxRows)
	}
	return cmp.Or(n, brief.PageRows), nil
}

// rows is how many rows a page of what jobs hold has, or why there is none. A stop that is
// under way is looked at.
func (i *Inspector) rows(limit int) (int, error) {
	if guard.Over(i.Stopped) {
		return 0, i.Border(journal.ErrClosed)
	}
	return listLimit(limit)
}

func (i *Inspector) LockedKeys(after string, limit int) (page []inspect.KeyLockStatus, more int, err error) {
	i.Ledger.View(func() { page, more, err = keyPage(i, after, limit, i.Keys.Keys, i.Keys.Status) })
	return page, more, err
}

func (i *Inspector) Leases(after string, limit int) (page []inspect.LeaseStatus, more int, err error) {
	return keyPage(i, after, limit, i.Engine.Leases.Table.Keys, i.Engine.Leases.Status)
}

// keyPage reads a page of keys, and what is to be said of each.
func keyPage[S any](i *Inspector, after string, limit int, all func() []string, status func(string) S) (page []S, more int, err error) {
	if limit, err = i.rows(limit); err != nil {
		return nil, 0, err
	}
	keys, more := listing.FirstKeys(all(), after, limit)
	return each.Of(keys, status), more, nil
}

func (i *Inspector) Slots(limit int) (held []inspect.SlotHeld, more int, err error) {
	if limit, err = i.rows(limit); err != nil {
		return nil, 0, err
	}
	seen := make(map[slots.Sequence]bool) // several queues may share one
	for _, q := range i.Registered() {
		for _, source := range q.Slots {
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

func (i *Inspector) Limits(keys ...string) []inspect.LimitStats {
	return i.Engine.Limits.Show(brief.Most, keys)
}

// stackBytes is how much of a stack is shown.
const stackBytes = 16 << 10

func (i *Inspector) Running(ctx context.Context, query inspect.RunningQuery) (list inspect.RunningList, err error) {
	if _, err = guard.Context(ctx); query.Queue != "" {
		_, _, err = i.Queue(ctx, query.Queue)
	}
	limit, wrong := listLimit(query.Limit)
	if err = cmp.Or(err, wrong); err != nil {
		return list, err
	}
	at := slices.DeleteFunc(i.Hands(time.Now()), func(h engine.Hand) bool { return query.Queue != "" && query.Queue != h.Queue })
	slices.SortStableFunc(at, func(a, b engine.Hand) int { return a.Since.Compare(b.Since) })
	list.More = max(len(at)-limit, 0)
	at = at[:len(at)-list.More]
	var dump goroutine.Dump
	if query.Stacks && len(at) > 0 {
		dump = goroutine.All()
	}
	for _, h := range at {
		if query.Stacks {
			h.Stack = brief.Cut(dump.Of(h.Goroutine), stackBytes)
		}
		list.Running = append(list.Running, h.Running)
	}
	return list, nil
}

// Stats are the figures of all queues, by name, and of the executor.
func (i *Inspector) Stats(ctx context.Context) (inspect.Stats, error) {
	j := i.Log.Stats()
	s := inspect.Stats{Backlog: i.Backlog.Stats(""), Stuck: i.Watchdog.Stuck(), Journal: inspect.JournalStats{
		UUID: j.UUID, Epoch: j.Epoch, Next: uint64(j.Next), Bytes: j.Bytes, LiveBytes: j.LiveBytes,
		HeldBytes: j.HeldBytes, ReadBacks: j.ReadBacks, CommitAge: j.CommitAge, Commits: j.Commits, CommitTime: j.CommitTime,
		LastCommit: j.LastCommit,
	}}
	s.Workers, s.Busy = i.Dispatcher.Load()
	s.Paused = i.Pauses.Of("")
	all, err := i.queues(ctx)
	if err != nil {
		return inspect.Stats{}, err
	}
	for _, q := range all {
		s.Age = max(s.Age, q.Age)
	}
	s.Queues = all
	return s, nil
}

// queues are the figures of all. All are asked at the same time: where handlers compute on all
// processors, each answer waits for some of these.
func (i *Inspector) queues(ctx context.Context) ([]inspect.QueueStats, error) {
	ctx, err := guard.Context(ctx)
	if err != nil {
		return nil, err
	}
	queues := i.Registered()
	all := make([]inspect.QueueStats, len(queues))
	group, ctx := errgroup.WithContext(ctx)
	for at, q := range queues {
		group.Go(func() (err error) {
			all[at], err = i.Figures(ctx, q)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	unclaimed := i.Log.Unclaimed()
	for name, number := range i.Log.Queues() {
		known := slices.ContainsFunc(queues, func(q *engine.Queue) bool { return q.Number == number })
		if s := (inspect.QueueStats{Name: name, Unclaimed: unclaimed[number], Dead: i.Log.Buried(number)}); !known && s.Unclaimed+s.Dead > 0 {
			s.Age, s.Paused = ageOf(i.Log.OldestUnclaimed(number), i.Now()), i.Pauses.Of(name)
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b inspect.QueueStats) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Figures are those of a queue, and of each of its shards.
func (i *Inspector) Figures(ctx context.Context, q *engine.Queue) (inspect.QueueStats, error) {
	s := inspect.QueueStats{Name: q.Name, Registered: true, Busy: q.Share.Running(), Dead: i.Log.Buried(q.Number), Backlog: i.Backlog.Stats(q.Name)}
	s.Expired, s.Deleted = q.Dead.Expired.Load(), q.Dead.Deleted.Load()
	s.Paused = i.Pauses.Of(q.Name)
	now := i.Now()
	counts := make([]shard.Counts, len(q.Shards.All))
	due, oldest := make([]int64, len(q.Shards.All)), make([]int64, len(q.Shards.All))
	// All at once, because each may have much to do first.
	group, ctx := errgroup.WithContext(ctx)
	for at, a := range q.Shards.All {
		group.Go(func() error {
			return a.Do(ctx, func(c *shard.Core) {
				counts[at], due[at], oldest[at] = c.Counts(), c.NextDue(), c.Oldest()
			})
		})
	}
	if err := group.Wait(); err != nil {
		return inspect.QueueStats{}, i.Border(err)
	}
	for at, c := range counts {
		s = s.Plus(inspect.QueueStats{
			Jobs: c.Jobs, Payloads: c.Payloads, Retrying: c.Retrying, Fresh: c.Jobs - c.Retrying, Halted: c.Halted, Running: c.Running,
			Parked: c.Parked, PausedIDs: c.Paused, Done: c.Done, Discarded: c.Discarded, Deleted: c.Deleted, Buried: c.Buried, Merged: c.Merged,
			Replaced: c.Replaced, Superseded: c.Superseded, SupersededDead: c.SupersededDead, Failed: c.Failed, Snoozed: c.Snoozed, Interrupted: c.Interrupted,
			Processed: c.Done + c.Discarded,
		})
		s.PausedPrefixes = c.Prefixes // the same for all
		lag := time.Duration(max(now-due[at], 0))
		s.Shards = append(s.Shards, inspect.ShardStats{
			Shard: at, Jobs: c.Jobs, Payloads: c.Payloads, Retrying: c.Retrying, Fresh: c.Jobs - c.Retrying, Halted: c.Halted, Running: c.Running, Parked: c.Parked,
			Done: c.Done, Discarded: c.Discarded, Processed: c.Done + c.Discarded, Buried: c.Buried, Failed: c.Failed, Snoozed: c.Snoozed, Interrupted: c.Interrupted, Lag: lag,
		})
		s.Lag = max(s.Lag, lag)
		s.Age = max(s.Age, ageOf(oldest[at], now))
	}
	return s, nil
}

// ageOf is how long before now a moment was; 0 is none.
func ageOf(at, now int64) time.Duration {
	if at == 0 {
		return 0
	}
	return time.Duration(max(now-at, 0))
}
