// Package shard turns committed entries into jobs, and jobs into runs. It is a room
// of package executor, which is what programs use: shard has no compatibility promise,
// and may change with every version.
//
// A shard owns every id that hashes to it. Inside it each id with something to
// do has a lane:
//
//	              deliver                     take                   start
//	(no lane) ───────────────► waiting ─────────────────► handed ───────────► running
//	     ▲                      ▲ │  ▲     due and first in line  │              │
//	     │ nothing left         │ │  └───── revoked: fresh payload│              │
//	     │                      │ └─ halted (a person says go)    │              │
//	     └──────────────────────┴─────────────────────────────────┴── finish ────┘
//
// # What is promised
//
//   - Two runs of one id never overlap: a lane is in one run at a time.
//   - The payloads of a run are in (score, position) order, and a payload that
//     failed is never overtaken by a later one of its id. Of those that failed together
//     under a larger Config.MaxPayloads, the later ones are new after a start.
//   - A run has everything that arrived before it started: a fresh payload
//     takes an id that was handed out but not started back, and merges.
//   - What has ended is settled a quantum after the run was handed out, and from
//     then on as it ends: an item waits for those of its batch only.
//   - Every payload ends once: done, merged, discarded, or in the morgue, and
//     the [journal] hears of it.
//   - The state is a fold of the log. Loading the live entries of a log in
//     position order gives the lanes that were there before, with the same
//     payloads, due times, retry counts and errors, but for the turns below, and for a
//     state that a disk which is short of room has had none for so far.
//
// # What is not promised
//
//   - Order between ids: the oldest due one comes first, but several ids may be
//     handed out together.
//   - Equal due times run in no particular order after a restart.
//
// # What can't be read
//
// The journal may fail to give back an entry. Then the shard stops where it is:
// it hands out, merges and records nothing any more, and what it was about to
// decide is not written down. So the next start finds everything as it was.
//
// # One payload at a time
//
// Under [Config].Single a run still has several payloads of an id, so that they
// share a hand-out and a commit, but each has an outcome of its own. The worker
// goes through them until one is not done. What was done before that one is over;
// the verdict, the retry count and the last error are about that one alone; what
// comes behind it did not run, and waits with it or goes on.
//
// A run has as many payloads as its worker is likely to come to within the
// [Quantum]. When it takes longer, what is done until then is settled, and the
// worker gives back what it has not begun: a slow payload holds up those behind
// it, but none that was before it, and no other id.
//
// While runs are as long as they may be, because jobs take microseconds, a shard has
// one of them out at a time: another worker would have more to do with the shard than
// with the jobs. One that is not over after the quantum is no reason to wait.
//
// # The newest state alone
//
// Under [MergeSupersede] a payload is a state of its id, of which the newest counts. It
// takes the place of the one that waits, is retried or is halted, and of the id's dead
// letter; one that runs gives way to it unless it is done. What is older than the one
// that waits or runs, or than what was done, is superseded as it arrives: a dead letter was
// not done. So a lane has one payload that waits at most, and one that runs. With scores
// of its own an id leaves its last version behind, about 150 bytes in memory and 50 and the
// id in the journal; without, the order of acceptance tells, and no trace is left. What comes
// after an id was deleted, while it ran or was dead, is behind a border, which is kept like that.
//
// # What people do
//
// An id may be held for several reasons at a time, see [Hold], and a shard paused as a
// whole: then it hands out no run, takes back what no worker has begun, and sets no
// timer. Neither is written down here. [Core.Remove] ends payloads before they run, and
// notes on an [Item] what is to become of those that a worker has in hand: what the
// worker says of them counts if they are over by it, and the note otherwise. What is
// left of a job goes on as before, or without what has failed as a new one.
//
// # Two layers
//
// [Core] is the state machine: plain data, no clock, no goroutine, and no I/O but
// that of the journal for what has left memory. Each method gets the time and
// leaves what has to be written in a journal change. [Shard] is the shell: an
// actor that feeds the core one message at a time, writes its changes down, keeps
// one timer for the next due time, and asks a [Dispatcher] for workers. [LoadAll] fills
// the cores of a queue with what the journal has for it.
//
// # What a due time is
//
// It belongs to the job, not to the payload: the earliest accepted payload that
// is live decides, until a state (a failure, a snooze) is written; then that
// one does. This definition needs no history, which is what makes replay exact.
// Where a job's due time would be another one by it, because that payload is
// gone or because one came back from the morgue, a state is written. Those that are
// left when a person removes some are due when the job was.
//
// A run that comes to nothing, because it was interrupted or by a crash, is as if it
// had not begun: what arrived meanwhile has moved the due time of its job as that of
// one that waits, as a replay finds it. That is kept on the [Item], apart from when
// those payloads are due if the run is over without them. What came back from the
// morgue while the job ran is one of these, and moves nothing. Under Config.Pull the
// start writes a state, too, where a payload that arrived while a retry ran is due
// before it.
//
// When a part of an id's payloads is done, the rest is due at that moment: each id
// has its turn. This is written down only if a replay might make something else of
// it than a time that is over, because a payload was accepted for later. Otherwise
// a state for each payload would cost as much as all else in a backlog of events;
// so after a restart the id has its turn again, by its earliest payload.
//
// Under [Config].DuePull and DuePush fresh payloads move the due time of a job
// that waits, and under [Config].Quiet they put it off, up to a limit. As long as all the
// payloads that did so are live, a replay of them moves it as they did. A state is
// written when one of them ends without the job, as by merging, and from then on with
// every move; it has the limit, too. Under Config.Throttle a state without a payload
// says how long an id rests that has no payload; it ends with the rest, or with a
// job that begins after it.
//
// The wall clock may be set. A moment that a caller asked for stays that moment; a pause, as
// before a retry, is a length of time and moves along. While an id rests, its lane keeps its own
// due time and the end of the rest apart, and so does a state of it. Under [Config].Quiet the due
// time tells: within Quiet all payloads have come, and if the clock skips the time of one, that
// one comes then. What has no time of its own is due when it comes, also if the clock was set
// back while it was under way.
//
// A job never starts before its due time. A timer starts it at that moment, or
// under Config.Slack at the next multiple of the slack on the wall clock, which
// all shards have in common: only what was put off for a hundred slacks when it
// came to wait is late for that. Whatever else the shard is awake for takes along
// what is due. The slack is not a part of the state, and not written down.
//
// A state has one due time, that of the failed payloads under Config.Block.
// What waits behind them is due, when they are over, as the first of it is. If its caller
// asked for no time, it is due by then: the clock may have been set back since, in an
// earlier process. Of all else whose due time moves with the clock, a state says so.
//
// # What it costs
//
// A job takes about 80 bytes of heap beside its entry in the journal: 64 of them
// are its lane, 8 to 16 its place in the table of ids. The id stands in the entry
// only, which may have left memory: then it is read back when the job is handed
// out, and when something arrives for the id. Lanes are tied by numbers, tables
// grow and shrink a segment at a time, and what a burst took is given back; a
// shard with nothing to do keeps 7 KB at most, for the next job. On its way a job
// makes no allocation of its own: the ids of a run share one. See BenchmarkJob and
// TestBytesPerJob.
//
// # Census
//
// No goroutine: what a shard does is done by the goroutine that brings it
// something, if it is idle, or else by its actor's. One timer per shard while a job
// is due in the future, or stands behind one that runs.
package shard
