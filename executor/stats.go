package executor

import (
	"golang.org/x/sync/errgroup"

	"context"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/shard"
	"slices"
	"strings"
	"time"
)

func (x *Executor) journalStats() inspect.JournalStats {
	s := x.log.Stats()
	return inspect.JournalStats{
		UUID: s.UUID, Epoch: s.Epoch, Next: uint64(s.Next), Bytes: s.Bytes, LiveBytes: s.LiveBytes,
		HeldBytes: s.HeldBytes, ReadBacks: s.ReadBacks, CommitAge: s.CommitAge, Commits: s.Commits, CommitTime: s.CommitTime,
		LastCommit: s.LastCommit,
	}
}

// Stats returns the figures of all queues, by name. It asks every shard, and
// returns ErrClosed after Stop, and the cause of ctx when that ends first.
func (x *Executor) Stats(ctx context.Context) (inspect.Stats, error) {
	ctx, err := usable(ctx)
	if err != nil {
		return inspect.Stats{}, err
	}
	queues := x.registered()
	s := inspect.Stats{Journal: x.journalStats(), Backlog: inspect.Backlog(x.backlog.Stats(""))}
	s.Workers, s.Busy = x.dispatcher.Load()
	s.Paused, _ = x.pauses.Of("")
	s.Stuck = x.watchdog.Stuck()
	all, err := figuresOf(ctx, queues)
	if err != nil {
		return inspect.Stats{}, err
	}
	for _, one := range all {
		s.Queues = append(s.Queues, one.QueueStats)
	}
	s.Queues = append(s.Queues, x.unregistered(queues)...)
	for i := range s.Queues {
		s.Age = max(s.Age, s.Queues[i].Age)
	}
	slices.SortFunc(s.Queues, func(a, b inspect.QueueStats) int { return strings.Compare(a.Name, b.Name) })
	return s, nil
}

// unregistered returns what the journal has of other queues.
func (x *Executor) unregistered(queues []*queue) (others []inspect.QueueStats) {
	unclaimed, now := x.log.Unclaimed(), x.clock().UnixNano()
	for name, number := range x.log.Queues() {
		known := slices.ContainsFunc(queues, func(q *queue) bool { return q.number == number })
		if s := (inspect.QueueStats{Name: name, Unclaimed: unclaimed[number], Dead: x.log.Buried(number)}); !known && s.Unclaimed+s.Dead > 0 {
			s.Age = ageOf(x.log.OldestUnclaimed(number), now)
			others = append(others, s)
		}
	}
	return others
}

// figuresOf returns the figures of queues, in their order. All are asked at the same time:
// where handlers compute on all processors, each answer waits for some of these.
func figuresOf(ctx context.Context, queues []*queue) ([]inspect.QueueInfo, error) {
	all := make([]inspect.QueueInfo, len(queues))
	group, ctx := errgroup.WithContext(ctx)
	for i, q := range queues {
		group.Go(func() (err error) {
			all[i].QueueStats, all[i].Shards, err = q.figures(ctx)
			return err
		})
	}
	return all, group.Wait()
}

// figures returns those of the queue, and of each of its shards.
func (q *queue) figures(ctx context.Context) (s inspect.QueueStats, shards []inspect.ShardStats, err error) {
	s = inspect.QueueStats{Name: q.name, Registered: true, Dead: q.x.log.Buried(q.number), Backlog: inspect.Backlog(q.x.backlog.Stats(q.name))}
	s.Expired, s.Deleted = q.dead.Expired.Load(), q.dead.Deleted.Load()
	all, one := q.x.pauses.Of(q.name)
	s.Paused = all || one
	now := q.x.clock().UnixNano()
	counts := make([]shard.Counts, len(q.shards.All))
	due, oldest := make([]int64, len(q.shards.All)), make([]int64, len(q.shards.All))
	// All at once, because each may have much to do first.
	group, ctx := errgroup.WithContext(ctx)
	for i, a := range q.shards.All {
		group.Go(func() error {
			return a.Do(ctx, func(c *shard.Core) {
				counts[i], due[i], oldest[i] = c.Counts(), c.NextDue(), c.Oldest()
			})
		})
	}
	if err := group.Wait(); err != nil {
		return inspect.QueueStats{}, nil, border(err)
	}
	for i, c := range counts {
		s = s.Plus(countsOf(c))
		s.PausedPrefixes = c.Prefixes
		lag := time.Duration(max(now-due[i], 0))
		shards = append(shards, inspect.ShardStats{
			Shard: i, Jobs: c.Jobs, Payloads: c.Payloads, Retrying: c.Retrying, Fresh: c.Jobs - c.Retrying, Halted: c.Halted, Running: c.Running, Parked: c.Parked,
			Done: c.Done, Discarded: c.Discarded, Buried: c.Buried, Failed: c.Failed, Snoozed: c.Snoozed, Interrupted: c.Interrupted, Lag: lag,
		})
		s.Lag = max(s.Lag, lag)
		s.Age = max(s.Age, ageOf(oldest[i], now))
	}
	return s, shards, nil
}

// ageOf is how long before now a moment was; 0 is none.
func ageOf(at, now int64) time.Duration {
	if at == 0 {
		return 0
	}
	return time.Duration(max(now-at, 0))
}

// countsOf are the figures of a shard. What is paused by a prefix is the same for all.
func countsOf(c shard.Counts) inspect.QueueStats {
	return inspect.QueueStats{
		Jobs: c.Jobs, Payloads: c.Payloads, Retrying: c.Retrying, Fresh: c.Jobs - c.Retrying, Halted: c.Halted, Running: c.Running,
		Parked: c.Parked, PausedIDs: c.Paused, Done: c.Done, Discarded: c.Discarded, Deleted: c.Deleted, Buried: c.Buried, Merged: c.Merged,
		Replaced: c.Replaced, Superseded: c.Superseded, SupersededDead: c.SupersededDead, Failed: c.Failed, Snoozed: c.Snoozed, Interrupted: c.Interrupted,
	}
}
