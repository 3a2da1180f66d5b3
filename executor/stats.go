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

// Stats are the figures of an executor. The executor takes those of different shards
// one after the other, so they are not of one moment.
type Stats struct {
	Workers int
	Busy    int  // workers that are running a handler, or about to
	Paused  bool // the executor as a whole; see [Executor.Pause]
	// Stuck counts workers whose handlers go on after their time is over; see
	// Config.Stuck.After.
	Stuck   int
	Backlog Backlog       // against Config.MaxBacklog, over all queues
	Age     time.Duration `wire:"age"` // the longest of all queues
	Queues  []QueueStats
	Journal JournalStats
}

// JournalStats are figures of the journal.
type JournalStats struct {
	// UUID names the journal and its copies. It is empty in memory, and for a journal
	// from before there was one.
	UUID  string
	Epoch uint64 // how many times it was opened
	Next  uint64 // the position that the next payload gets, or a later one

	Bytes int // of the log on disk
	// LiveBytes are those of Bytes that belong to payloads and states of jobs that have
	// not ended.
	LiveBytes int
	// HeldBytes is the size of the entries that are in memory; see
	// Config.Advanced.MemoryBudget.
	HeldBytes int
	// ReadBacks counts how often the executor has read entries from disk that were not in
	// memory.
	ReadBacks uint64

	// CommitAge is how long the disk has been at the current commit; 0: it is at none.
	CommitAge  time.Duration
	Commits    uint64        // since Open
	CommitTime time.Duration `wire:"commit_seconds"` // that the disk took for them together
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

// QueueStats are the figures of one queue. Some are of now, and totals count since
// Open.
type QueueStats struct {
	Name string `wire:"queue,omit"`

	// Registered is false for a queue that the journal has payloads or dead letters of,
	// and that the program has not registered. They are kept and hold up no others.
	// Only Name, Unclaimed, Dead and Age are set then.
	Registered bool
	Unclaimed  int // payloads that wait, of an unregistered queue
	Dead       int `wire:"morgue_length"` // dead letters

	// Of now.
	Jobs     int `wire:"length"` // ids with something to do
	Payloads int // that wait or run
	Retrying int `wire:"retries"` // jobs whose last run failed
	Fresh    int // jobs that have used up no retry
	Halted   int // jobs that wait for RunNow
	Running  int // jobs that workers have in hand, or come to next
	Parked   int // blocked jobs: they wait for a lock, a slot or a limit; a pause does not count

	Paused bool // the queue, or the executor
	// PausedIDs counts ids that are paused by themselves, with a job or without. Lists
	// show their jobs as JobParked, and those of PausedPrefixes, which counts prefixes.
	PausedIDs, PausedPrefixes int

	// Totals since Open. Failed, Snoozed and Interrupted count runs, all others
	// payloads.
	//
	//   - Buried went to the dead letters.
	//   - Merged have ended because an equal payload runs in their stead. Of those,
	//     Replaced had been accepted as standing by themselves: a later one took their
	//     place, or both met again after a run. Superseded are those that a newer
	//     payload of their id replaced under [MergeSupersede].
	//   - SupersededDead are the dead letters that a newer payload of their id replaced:
	//     they count as Buried, and not as Merged.
	//   - Deleted were deleted by a person, as payloads that had not ended or as dead
	//     letters. Expired are dead letters that [Retention] deleted. A dead letter was
	//     counted in Buried before.
	Done, Discarded, Buried, Merged, Replaced uint64
	Deleted, Expired                          uint64
	Superseded, SupersededDead                uint64
	Failed, Snoozed, Interrupted              uint64

	Backlog Backlog // against QueueConfig.MaxBacklog

	// Age is how long the oldest payload that has not ended has waited: since its call,
	// or since it was put back from the dead letters; 0 when there is none. It counts
	// payloads that wait for their due time, run, are retried, halted, blocked or
	// paused, and those of an unregistered queue. So it grows when anything is stuck,
	// which Lag does not. A state counts from the first one of its id that is not done;
	// after a restart, from the one that is left. It is exact to a second.
	Age time.Duration `wire:"age"`

	// Lag is how late the queue is: how long its oldest due job has been due; 0 when no
	// job is due. Jobs of a paused queue count. Blocked jobs, which wait for a lock, a
	// slot or a limit, and ids that are paused, or begin as a paused prefix, do not. Where
	// Config.Advanced.TimerSlack is set, a lag of up to that is normal. Lag grows when
	// the workers can't keep up; when jobs are blocked, halted or fail, Age grows
	// alone.
	Lag time.Duration `wire:"lag"`
}

// Stats returns the figures of all queues, by name. It asks every shard, and
// returns ErrClosed after Stop, and the cause of ctx when that ends first.
func (x *Executor) Stats(ctx context.Context) (Stats, error) {
	ctx, err := usable(ctx)
	if err != nil {
		return Stats{}, err
	}
	queues := x.registered()
	s := Stats{Journal: x.journalStats(), Backlog: Backlog(x.backlog.Stats(""))}
	s.Workers, s.Busy = x.dispatcher.Load()
	s.Paused, _ = x.pauses.Of("")
	s.Stuck = x.watchdog.Stuck()
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

// Total returns the figures of all queues together: sums, and of Age and Lag the longest.
// Name is empty, and Paused is that of the executor.
func (s Stats) Total() QueueStats {
	t := QueueStats{Registered: true, Paused: s.Paused, Backlog: s.Backlog}
	for _, q := range s.Queues {
		t.Age, t.Lag = max(t.Age, q.Age), max(t.Lag, q.Lag)
		t.Unclaimed, t.Dead = t.Unclaimed+q.Unclaimed, t.Dead+q.Dead
		t.Jobs, t.Payloads, t.Retrying, t.Fresh = t.Jobs+q.Jobs, t.Payloads+q.Payloads, t.Retrying+q.Retrying, t.Fresh+q.Fresh
		t.Halted, t.Running, t.Parked, t.PausedIDs = t.Halted+q.Halted, t.Running+q.Running, t.Parked+q.Parked, t.PausedIDs+q.PausedIDs
		t.Done, t.Discarded, t.Buried, t.Merged = t.Done+q.Done, t.Discarded+q.Discarded, t.Buried+q.Buried, t.Merged+q.Merged
		t.Replaced, t.Deleted, t.Expired = t.Replaced+q.Replaced, t.Deleted+q.Deleted, t.Expired+q.Expired
		t.Superseded, t.SupersededDead, t.PausedPrefixes = t.Superseded+q.Superseded, t.SupersededDead+q.SupersededDead, t.PausedPrefixes+q.PausedPrefixes
		t.Failed, t.Snoozed, t.Interrupted = t.Failed+q.Failed, t.Snoozed+q.Snoozed, t.Interrupted+q.Interrupted
	}
	return t
}

// registered returns the queues there are, in no particular order.
func (x *Executor) registered() []*queue {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Collect(maps.Values(x.queues))
}

// unregistered returns what the journal has of other queues.
func (x *Executor) unregistered(queues []*queue) (others []QueueStats) {
	unclaimed, now := x.log.Unclaimed(), x.clock().UnixNano()
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
	s, _, err := t.q.figures(ctx)
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
		return QueueStats{}, nil, border(err)
	}
	for i, c := range counts {
		s.add(c)
		lag := time.Duration(max(now-due[i], 0))
		shards = append(shards, ShardStats{
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

// add adds the figures of a shard.
func (s *QueueStats) add(c shard.Counts) {
	s.Jobs += c.Jobs
	s.Payloads += c.Payloads
	s.Retrying += c.Retrying
	s.Fresh += c.Jobs - c.Retrying
	s.Halted += c.Halted
	s.Running += c.Running
	s.Parked += c.Parked
	s.PausedIDs += c.Paused
	s.PausedPrefixes = c.Prefixes // each shard has all
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

// QueueInfo is a queue with its shards.
type QueueInfo struct {
	QueueStats
	Busy   int          // workers that work for the queue
	Shards []ShardStats // none of an unregistered queue
}

// ShardStats are the figures of one shard of a queue; see [QueueStats], of which
// those of its shards are the sum, and the longest Lag.
type ShardStats struct {
	Shard int // 0, 1, 2, …

	Jobs     int `wire:"length"`
	Retrying int `wire:"retries"`
	Fresh    int

	Payloads, Halted, Running, Parked                     int
	Done, Discarded, Buried, Failed, Snoozed, Interrupted uint64

	Lag time.Duration `wire:"lag"`
}

// Queues returns the figures of all queues and their shards, by name: those of
// [Executor.Stats], in the same way. It returns ErrContext, ErrClosed, or the cause
// of ctx.
func (i *Inspector) Queues(ctx context.Context) ([]QueueInfo, error) {
	if i == nil || i.x == nil {
		return nil, errNoInspector
	}
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
		all = append(all, QueueInfo{QueueStats: s})
	}
	slices.SortFunc(all, func(a, b QueueInfo) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}
