package executor

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/strandjobs/strand/shard"
)

// Stats are the figures of an executor. Those of different shards are taken one
// after the other, not at one moment.
type Stats struct {
	Workers int
	Busy    int           // workers that are running a handler, or about to
	Paused  bool          // the executor as a whole; see [Executor.Pause]
	Stuck   int           // workers whose handlers go on after their time is over; see Config.StuckAfter
	Backlog Backlog       // against Config.MaxBacklog and MaxBacklogBytes, over all queues
	Age     time.Duration // the longest of all queues
	Queues  []QueueStats
	Journal JournalStats
}

// JournalStats are figures of the journal.
type JournalStats struct {
	UUID  string // of the journal and its copies; empty in memory, and for one from before there was one
	Epoch uint64 // how many times it was opened
	Next  uint64 // the position that the next payload gets, or a later one

	Bytes     int    // of the log on disk
	LiveBytes int    // of these, of payloads and states of jobs that are not over
	HeldBytes int    // of entries that are in memory; see Config.MemoryBudget
	ReadBacks uint64 // how often the disk was read for entries that are not in memory

	CommitAge  time.Duration // how long the disk has been at the commit that it is at; 0: it is at none
	Commits    uint64        // since Open
	CommitTime time.Duration // that the disk took for them together
	LastCommit time.Time     // when the last of them ended; zero: there was none
}

func (x *Executor) journalStats() JournalStats {
	s := x.log.Stats()
	return JournalStats{
		UUID: s.UUID, Epoch: s.Epoch, Next: uint64(s.Next), Bytes: s.Bytes, LiveBytes: s.LiveBytes,
		HeldBytes: s.HeldBytes, ReadBacks: s.ReadBacks, CommitAge: s.CommitAge, Commits: s.Commits, CommitTime: s.CommitTime,
		LastCommit: s.LastCommit,
	}
}

// QueueStats are the figures of one queue. Totals count since Open.
type QueueStats struct {
	Name string

	// Registered is false for a queue that has payloads or dead ones in the
	// journal and that is not registered. They are kept and block nothing. Only
	// Name, Unclaimed, Dead and Age are set then.
	Registered bool
	Unclaimed  int // payloads that wait, of a queue that is not registered
	Dead       int // payloads in the morgue

	// Of now.
	Jobs     int // ids with something to do
	Payloads int // that wait or run
	Retrying int // jobs whose last run failed
	Halted   int // jobs that wait for RunNow
	Running  int // jobs that workers have in hand, or come to next
	Parked   int // jobs that wait for something else than their time: a lock, a slot; not for a pause

	Paused    bool // the queue, or the executor
	PausedIDs int  // ids that are paused by themselves, with a job or without: lists show their jobs as JobParked

	// Since Open, in payloads, but for Failed, Snoozed and Interrupted, which are
	// runs. Of those that were Merged, because an equal one stands for them,
	// Replaced had been accepted as standing by themselves: a later one has taken
	// their place, or both met again after a run. Deleted are those that a person
	// has deleted, before they were over or in the morgue, and Expired those in the
	// morgue that [MorgueRetention] has: what was dead was Buried before. Superseded are
	// those of Merged that under [MergeSupersede] a newer one of their id has superseded,
	// SupersededDead those in the morgue.
	Done, Discarded, Buried, Merged, Replaced uint64
	Deleted, Expired                          uint64
	Superseded, SupersededDead                uint64
	Failed, Snoozed, Interrupted              uint64

	Backlog Backlog // against QueueConfig.MaxBacklog and MaxBacklogBytes

	// Age is how long the oldest payload has waited that is not over: since it was accepted,
	// or put back from the morgue; 0 when there is none. It is exact to a second, and counts
	// what waits for its due time, runs, is retried, halted, parked or paused, and of a queue
	// that is not registered, too. So it grows when anything is stuck, which Lag does not.
	Age time.Duration

	// Lag is how long the oldest due job has been due, which may be the
	// Config.TimerSlack; 0 when none is. Jobs of a paused queue count; those that are
	// Parked, for a limit or a lock, and single ids that are paused do not.
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
	queues := x.registered()
	s := Stats{Journal: x.journalStats(), Backlog: Backlog(x.backlog.Stats(""))}
	s.Workers, s.Busy = x.dispatcher.load()
	s.Paused, _ = x.pauses.of("")
	s.Stuck = int(x.watchdog.stuck.Load())
	all, err := figuresOf(ctx, queues)
	if err != nil {
		return Stats{}, err
	}
	for _, one := range all {
		s.Queues = append(s.Queues, one.QueueStats)
	}
	s.Queues = append(s.Queues, x.unregistered(queues)...)
	for i := range s.Queues {
		s.Age = max(s.Age, s.Queues[i].Age)
	}
	slices.SortFunc(s.Queues, func(a, b QueueStats) int { return strings.Compare(a.Name, b.Name) })
	return s, nil
}

// registered returns the queues there are, in no particular order.
func (x *Executor) registered() []*queue {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Collect(maps.Values(x.queues))
}

// unregistered returns what the journal has of other queues.
func (x *Executor) unregistered(queues []*queue) (others []QueueStats) {
	unclaimed, now := x.log.Unclaimed(), time.Now().UnixNano()
	for name, number := range x.log.Queues() {
		known := slices.ContainsFunc(queues, func(q *queue) bool { return q.number == number })
		if s := (QueueStats{Name: name, Unclaimed: unclaimed[number], Dead: x.log.Buried(number)}); !known && s.Unclaimed+s.Dead > 0 {
			s.Age = ageOf(x.log.OldestUnclaimed(number), now)
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
	s, _, err := q.figures(ctx)
	return s, err
}

// figuresOf returns the figures of queues, in their order. All are asked at the same time:
// where handlers compute on all processors, each answer waits for some of these.
func figuresOf(ctx context.Context, queues []*queue) ([]QueueInfo, error) {
	all := make([]QueueInfo, len(queues))
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
func (q *queue) figures(ctx context.Context) (s QueueStats, shards []ShardStats, err error) {
	s = QueueStats{Name: q.name, Registered: true, Dead: q.x.log.Buried(q.number), Backlog: Backlog(q.x.backlog.Stats(q.name))}
	s.Expired, s.Deleted = q.undertaker.expired.Load(), q.deadDeleted.Load()
	all, one := q.x.pauses.of(q.name)
	s.Paused = all || one
	now := time.Now().UnixNano()
	counts := make([]shard.Counts, len(q.actors))
	due, oldest := make([]int64, len(q.actors)), make([]int64, len(q.actors))
	// All at once, because each may have much to do first.
	group, ctx := errgroup.WithContext(ctx)
	for i, a := range q.actors {
		group.Go(func() error {
			return a.Do(ctx, func(c *shard.Core) {
				counts[i], due[i], oldest[i] = c.Counts(), c.NextDue(), c.Oldest()
			})
		})
	}
	if err := group.Wait(); err != nil {
		return QueueStats{}, nil, border(err)
	}
	for i, c := range counts {
		s.add(c)
		one := newShardStats(i, c, max(now-due[i], 0))
		s.Lag, shards = max(s.Lag, one.Lag), append(shards, one)
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

// add adds the figures of a shard.
func (s *QueueStats) add(c shard.Counts) {
	s.Jobs += c.Jobs
	s.Payloads += c.Payloads
	s.Retrying += c.Retrying
	s.Halted += c.Halted
	s.Running += c.Running
	s.Parked += c.Parked
	s.PausedIDs += c.Paused
	s.Done += c.Done
	s.Discarded += c.Discarded
	s.Deleted += c.Deleted
	s.Buried += c.Buried
	s.Merged += c.Merged
	s.Replaced += c.Replaced
	s.Superseded += c.Superseded
	s.SupersededDead += c.SupersededDead
	s.Failed += c.Failed
	s.Snoozed += c.Snoozed
	s.Interrupted += c.Interrupted
}

// load returns how many workers there are, and how many are not idle.
func (d *dispatcher) load() (workers, busy int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.total, d.total - len(d.idle)
}
