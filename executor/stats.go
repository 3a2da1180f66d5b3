package executor

import (
	"context"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Stats are the figures of an executor. Those of different shards are taken
// one after the other, not at one moment.
type Stats struct {
	Workers int
	Busy    int     // workers that are running a handler, or about to
	Stuck   int     // workers whose handlers go on after their time is over; see Config.StuckAfter
	Backlog Backlog // against Config.MaxBacklog and MaxBacklogBytes, over all queues
	Queues  []QueueStats
	Journal journal.Stats
}

// QueueStats are the figures of one queue. Totals count since Open.
type QueueStats struct {
	Name string

	// Registered is false for a queue that has entries or dead payloads in the
	// journal and that is not registered. They are kept and block
	// nothing. Only Name, Unclaimed and Dead are set then.
	Registered bool
	Unclaimed  int // entries of a queue that is not registered
	Dead       int // payloads in the morgue

	shard.Counts

	Backlog Backlog // against QueueConfig.MaxBacklog and MaxBacklogBytes

	// Lag is how long the oldest due job has been due, which may be the
	// Config.TimerSlack; 0 when none is.
	Lag time.Duration
}

// Fresh returns how many jobs have not failed.
func (s QueueStats) Fresh() int { return s.Jobs - s.Retrying }

// Stats returns the figures of all queues, by name. It asks every shard, and
// returns ErrClosed after Stop, and the cause of ctx when that ends first.
func (x *Executor) Stats(ctx context.Context) (Stats, error) {
	ctx, err := usable(ctx)
	if err != nil {
		return Stats{}, err
	}
	x.mu.Lock()
	queues := make([]*queue, 0, len(x.queues))
	for _, q := range x.queues {
		queues = append(queues, q)
	}
	x.mu.Unlock()
	s := Stats{Journal: x.log.Stats(), Backlog: Backlog(x.backlog.Stats(""))}
	s.Workers, s.Busy = x.dispatcher.load()
	s.Stuck = int(x.watchdog.stuck.Load())
	for _, q := range queues {
		qs, err := q.stats(ctx)
		if err != nil {
			return Stats{}, err
		}
		s.Queues = append(s.Queues, qs)
	}
	s.Queues = append(s.Queues, x.unregistered(queues)...)
	slices.SortFunc(s.Queues, func(a, b QueueStats) int { return strings.Compare(a.Name, b.Name) })
	return s, nil
}

// unregistered returns what the journal has of other queues.
func (x *Executor) unregistered(queues []*queue) (others []QueueStats) {
	unclaimed := x.log.Unclaimed()
	for name, number := range x.log.Queues() {
		known := slices.ContainsFunc(queues, func(q *queue) bool { return q.number == number })
		if s := (QueueStats{Name: name, Unclaimed: unclaimed[number], Dead: x.log.Buried(number)}); !known && s.Unclaimed+s.Dead > 0 {
			others = append(others, s)
		}
	}
	return others
}

// Stats returns the figures of the queue.
func (t *Queue[T]) Stats(ctx context.Context) (QueueStats, error) {
	ctx, err := t.usable(ctx)
	if err != nil {
		return QueueStats{}, err
	}
	return t.q.stats(ctx)
}

func (q *queue) stats(ctx context.Context) (QueueStats, error) {
	s := QueueStats{Name: q.name, Registered: true, Dead: q.x.log.Buried(q.number), Backlog: Backlog(q.x.backlog.Stats(q.name))}
	now := time.Now().UnixNano()
	counts := make([]shard.Counts, len(q.actors))
	due := make([]int64, len(q.actors))
	// All at once, because each may have much to do first.
	group, ctx := errgroup.WithContext(ctx)
	for i, a := range q.actors {
		group.Go(func() error {
			return a.Do(ctx, func(c *shard.Core) { counts[i], due[i] = c.Counts(), c.NextDue() })
		})
	}
	if err := group.Wait(); err != nil {
		return QueueStats{}, border(err)
	}
	for _, c := range counts {
		s.Counts.Add(c)
	}
	if oldest := slices.Min(due); oldest <= now {
		s.Lag = time.Duration(now - oldest)
	}
	return s, nil
}

// load returns how many workers there are, and how many are not idle.
func (d *dispatcher) load() (workers, busy int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.total, d.total - len(d.idle)
}
