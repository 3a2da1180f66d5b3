package inspect

import (
	"time"
)

// Stats are the figures of an executor. The executor takes those of different shards
// one after the other, so they are not of one moment.
type Stats struct {
	Workers int
	Busy    int  // workers that are running a handler, or about to
	Paused  bool // the executor as a whole; see [SelectExecutor]
	// Stuck counts workers whose handlers go on after their time is over; see
	// Config.Stuck.After.
	Stuck   int
	Backlog Backlog       // against Config.MaxBacklog, over all queues
	Age     time.Duration `wire:"age"` // the longest of all queues
	Queues  []QueueStats
	Journal JournalStats
}

// Total returns the figures of all queues together, as Plus does. Name is empty, and Paused
// is that of the executor.
func (s Stats) Total() QueueStats {
	t := QueueStats{Registered: true, Paused: s.Paused, Backlog: s.Backlog}
	for _, q := range s.Queues {
		t = t.Plus(q)
	}
	return t
}

// JournalStats are figures of the journal.
type JournalStats struct {
	// UUID names the journal and its copies. It is empty in memory, and for a journal
	// from before there was one. For a cluster it says how many journals there are.
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

// QueueStats are the figures of one queue. Some are of now, and totals count since Open.
// They leave out what DurabilityAsync has accepted and a full disk has no room for yet.
type QueueStats struct {
	Name string `wire:"queue,omit"`

	// Registered is false for a queue that the journal has payloads or dead letters of, and that the program has not
	// registered. They are kept and hold up no others. Only Name, Unclaimed, Dead, Age and Paused are set then.
	Registered bool
	Unclaimed  int // payloads that wait, of an unregistered queue
	Dead       int `wire:"morgue_length"` // dead letters, with those that are not on disk yet

	// Of now.
	Jobs     int `wire:"length"` // ids with something to do
	Payloads int // that wait or run
	Retrying int `wire:"retries"` // jobs that have used up a retry, halted ones among them
	Fresh    int // jobs that have used up no retry
	Halted   int // jobs that have stopped, until a person acts; see [JobHalted]
	Running  int // jobs that workers have in hand, or come to next
	Busy     int // workers that work for the queue
	// Parked counts jobs that wait for a key, a lease, a slot, a limit or their turn in shared lanes, or are suspects of a
	// crash; a pause does not count.
	Parked int

	Paused bool // the queue, or the executor
	// PausedIDs counts ids that are paused one by one, with a job or without, PausedPrefixes
	// prefixes, not ids. Lists show the jobs of both as JobParked; Parked does not count them.
	PausedIDs, PausedPrefixes int

	// Totals since Open; they include what registration itself superseded or buried. Failed, Snoozed and
	// Interrupted count runs, of a batch one for each id and none for its halves; all others payloads.
	//
	//   - Buried went to the dead letters.
	//   - Merged have ended because an equal payload runs in their stead. Of those,
	//     Replaced had been accepted as standing by themselves: a later one took their
	//     place, or both met again after a run. Superseded are those that a newer
	//     payload of their id replaced under [executor.MergeSupersede].
	//   - SupersededDead are the dead letters that a newer payload of their id replaced:
	//     they count as Buried, and not as Merged.
	//   - Deleted were deleted by a person, as payloads that had not ended or as dead
	//     letters. Expired are dead letters that [executor.Retention] deleted. A dead letter was
	//     counted in Buried before.
	Done, Discarded, Buried, Merged, Replaced uint64
	Deleted, Expired                          uint64
	Superseded, SupersededDead                uint64
	Failed, Snoozed, Interrupted              uint64
	Processed                                 uint64 // Done and Discarded

	Backlog Backlog // against QueueConfig.MaxBacklog

	// Age is how long the oldest payload that has not ended has waited: since its call, or since it was put back from
	// the dead letters; 0 when there is none. It counts payloads that wait for their due time, run, are retried,
	// halted, blocked or paused, and those of an unregistered queue. So it grows when anything is stuck, which Lag does
	// not. Under [executor.MergeSupersede] the age counts from the oldest state since the id was last done or dead;
	// after a restart, from the one that is still there. It is exact to a second.
	Age time.Duration `wire:"age"`

	// Lag is how late the queue is: how long its oldest due job has been due; 0 when no job is due. Jobs of a paused
	// queue count. Parked jobs, and ids that are paused, or begin as a paused prefix, do not. Where
	// Config.Advanced.TimerSlack is set, a lag of up to that is normal. Lag grows when the workers can't keep up; when
	// jobs are parked, halted or fail, Age grows alone.
	Lag time.Duration `wire:"lag"`

	Shards []ShardStats `wire:",omit"` // of a registered queue
}

// Plus returns the figures of both together: sums, and of Age and Lag the longest. Backlog,
// Shards, and all that is no figure, stay those of t.
func (t QueueStats) Plus(q QueueStats) QueueStats {
	t.Age, t.Lag = max(t.Age, q.Age), max(t.Lag, q.Lag)
	t.Unclaimed, t.Dead = t.Unclaimed+q.Unclaimed, t.Dead+q.Dead
	t.Jobs, t.Payloads, t.Retrying, t.Fresh = t.Jobs+q.Jobs, t.Payloads+q.Payloads, t.Retrying+q.Retrying, t.Fresh+q.Fresh
	t.Halted, t.Running, t.Parked, t.PausedIDs, t.Busy = t.Halted+q.Halted, t.Running+q.Running, t.Parked+q.Parked, t.PausedIDs+q.PausedIDs, t.Busy+q.Busy
	t.Done, t.Discarded, t.Buried, t.Merged = t.Done+q.Done, t.Discarded+q.Discarded, t.Buried+q.Buried, t.Merged+q.Merged
	t.Replaced, t.Deleted, t.Expired = t.Replaced+q.Replaced, t.Deleted+q.Deleted, t.Expired+q.Expired
	t.Superseded, t.SupersededDead, t.PausedPrefixes = t.Superseded+q.Superseded, t.SupersededDead+q.SupersededDead, t.PausedPrefixes+q.PausedPrefixes
	t.Failed, t.Snoozed, t.Interrupted, t.Processed = t.Failed+q.Failed, t.Snoozed+q.Snoozed, t.Interrupted+q.Interrupted, t.Processed+q.Processed
	return t
}

// ShardStats are the figures of one shard of a queue; see [QueueStats], which has their sums and the longest Lag, and
// says what each is.
type ShardStats struct {
	Shard int // 0, 1, 2, …

	Jobs     int `wire:"length"`
	Retrying int `wire:"retries"`
	Fresh    int

	Payloads, Halted, Running, Parked                                int
	Done, Discarded, Processed, Buried, Failed, Snoozed, Interrupted uint64

	Lag time.Duration `wire:"lag"`
}

// Backlog says how full a backlog is. A limit of payloads or of bytes has both counted; without one all is zero.
type Backlog struct {
	// Payloads and Bytes are what counts against the limits: payloads that are accepted
	// and have not ended, and those of calls that are under way.
	Payloads, Bytes int
	Refused         uint64 // calls that got [executor.ErrFull] because of this limit, since Open
	Waiting         int    // calls that wait for room, under Config.WaitForRoom

	// Stalled is how long ago a call was first refused, or began to wait, since a payload last ended or a call last got
	// in. 0: no call was. See [executor.ErrStalled].
	Stalled time.Duration
}
