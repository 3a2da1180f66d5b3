package shard

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/journal"
)

// Run is what a shard hands to a worker: jobs to be run one after the other,
// or BatchSize at a time. The worker starts them with Next, fills in their
// outcomes, and gives the run back with [Shard.Finish]. Then it must let go of it.
// The shard does not wait for that: see ends.reclaim.
type Run struct {
	Shard *Shard
	Items []Item
	// Elapsed is set by the worker: from the first start to the end.
	Elapsed time.Duration

	next   int   // first of Items that the worker has not looked at; only the worker uses it
	size   int   // what hands.pace counts
	taken  int64 // Unix ns
	exempt bool  // does not count against Concurrency; see Core.Exempt
}

// Next starts up to n more items, without those that the shard has taken back,
// and appends them to batch. None: the run is over. The items of earlier calls
// have their outcomes by then, and may be the shard's again.
func (r *Run) Next(batch []*Item, n int) []*Item {
	over := r.next
	for started := 0; r.next < len(r.Items) && started < n; r.next++ {
		if it := &r.Items[r.next]; it.start(over) {
			batch = append(batch, it)
			started++
		}
	}
	return batch
}

// Item is one id in a run. It belongs to the worker from the call of Next that
// returns it to the one after, or to Finish; the exported fields above Outcome
// are only to be read.
type Item struct {
	ID        string
	Payloads  []Payload // in order, one at least
	Retry     int       // −1 new, 0 failed once, …; under Config.Single of the payload in hand
	LastError string
	History   journal.History // of failures, of which the last one is LastError
	Due       int64           // Unix ns
	Folded    []byte          // what the payloads of the run became; nil: they are as they were accepted

	Outcome Outcome
	// Claim is what the worker's side holds for the item; the recorder gets it
	// with the change that settles the item. Nil: none.
	Claim Held

	state    atomic.Uint32 // handed → started by a worker, and either → revoked by the shard
	before   int           // items of the run that had their outcomes when it was started
	passed   atomic.Int32  // payloads at the front that are done, if there are others
	recalled atomic.Bool   // the shard wants what the worker has not begun
	settled  int           // of passed: those that have ended; the shard's own
	removals atomic.Pointer[[]*Removal]
	staged   atomic.Pointer[staged] // newest first; nil: nothing
	tried    int32                  // Retry when it was handed out; see InHand
	hash     uint32                 // of ID
	lane     *lane
	shift    int64 // timing.shift when it was handed out
	undone   int64 // when its job is due if nothing comes of the run, by the clock of then
	limit    int64 // of undone, see Config.Quiet
	decided  bool  // undone, see runHistory.decided
	moved    bool  // undone, by a payload that came meanwhile, and no state says so
	held     bool  // the payloads run alone, because they failed before
	partial  bool  // other payloads of the id stayed behind
	combined bool  // what was folded is over, and its first payload stands for it
	over     bool  // none of the payloads runs again
	behind   int   // payloads at the end that this run is not about; see Fold
	inline   [1]Payload
}

const (
	handed uint32 = iota
	started
	revoked
)

// start takes the item for a worker that is done with the first so many items of
// the run. False: the shard has taken it back.
func (it *Item) start(over int) bool {
	it.before = over // the shard reads it of a started item only
	return it.state.CompareAndSwap(handed, started)
}

func (it *Item) revoke() bool { return it.state.CompareAndSwap(handed, revoked) }

// Pass says that the payload in hand is done, under Config.Single, and takes the
// next one in hand. False: there is none, or the shard wants it back; then the
// worker gives the item the verdict Done.
func (it *Item) Pass() bool {
	n := it.Outcome.Done + 1
	if n == len(it.Payloads) {
		return false
	}
	// In this order: either the shard sees that this one is over, or the worker
	// that it must not begin the next.
	it.passed.Store(int32(n))
	if it.recalled.Load() {
		return false
	}
	it.Outcome.Done, it.Retry, it.LastError, it.History = n, -1, "", nil
	return true
}

// InHand returns the first payload in hand and its retry count. Any goroutine may call
// it, as long as it keeps the worker from giving the item back.
func (it *Item) InHand() (p Payload, retry int) {
	if n := int(it.passed.Load()); n > 0 {
		return it.Payloads[min(n, len(it.Payloads)-1)], -1
	}
	return it.Payloads[0], int(it.tried)
}

// Verdict is what became of a job that ran.
type Verdict uint8

const (
	// VerdictUnstarted is the zero Verdict: the worker did not come to it.
	VerdictUnstarted Verdict = iota
	// VerdictDone: the payloads are over.
	VerdictDone
	// VerdictFailed: they run again after Delay, and the retry counts.
	VerdictFailed
	// VerdictSnoozed: they run again after Delay, and the retry count stays.
	VerdictSnoozed
	// VerdictInterrupted: they run again as if they had not run.
	VerdictInterrupted
	// VerdictCanceled: they go to the morgue.
	VerdictCanceled
	// VerdictDiscarded: they are over, and counted as discarded.
	VerdictDiscarded
	// VerdictDeleted: they are over, because a person wants them to be; see
	// Core.Remove. It is no worker's.
	VerdictDeleted
)

// Outcome is what a worker found out about an item.
type Outcome struct {
	// Done is how many payloads at the front are done, under Config.Single; see
	// Item.Pass. All else is about the payload behind them. What comes after that
	// one did not run.
	Done    int
	Verdict Verdict
	Unrun   bool          // no handler was called: no run for Throttle and Counts.Interrupted; but a failure counts
	Crashed bool          // it did not run, because it kills the process; see Core.Condemn
	Delay   time.Duration // of Failed and Snoozed; below zero means zero
	Error   string        // of Failed and Canceled
	Parts   []Part        // payloads that the verdict is not about, by ascending index. Under Config.Single: none
	Room    int           // what was taken of the disk for their burial or their retry, see journal.Change
	Say     func()        // under MergeSupersede: the recorder calls it if it goes to the morgue, or halts its id; nil: nothing
}

// Part is a payload of an item that has ended, whatever becomes of the others.
type Part struct {
	Index   int     // in Payloads
	Verdict Verdict // Done, Discarded or Canceled
	Error   string  // of Canceled
}

// AddPart adds a part in its place, unless the payload is one already.
func (o *Outcome) AddPart(part Part) {
	i, found := slices.BinarySearchFunc(o.Parts, part.Index, func(p Part, index int) int { return p.Index - index })
	if !found {
		o.Parts = slices.Insert(o.Parts, i, part)
	}
}

// begin makes the item stand for the waiting payloads of l, up to limit.
func (it *Item) begin(l *lane, limit int) {
	it.Retry, it.Due, it.lane = l.retry(), l.due, l
	it.undone, it.moved = l.due, false
	it.state.Store(handed)
	it.tried = int32(it.Retry)
	if l.rest == nil { // most are new, and have one payload
		it.held, it.partial = false, false
		it.inline[0], l.one = l.one, Payload{}
		it.Payloads = it.inline[:]
		return
	}
	it.LastError, it.History = l.known().failures()
	if it.held = l.holds(); it.held {
		it.Payloads, l.past().held = l.held(), nil
	} else {
		n := l.n()
		if limit > 0 && limit < n {
			n = limit
		} else if b := l.bag(); b != nil {
			b.index = nil // nothing stays that could be looked for
		}
		it.Payloads = slices.Grow(it.inline[:0], n)
		for range n {
			it.Payloads = append(it.Payloads, l.take())
		}
	}
	it.partial = l.n() > 0
}

// staged is what the recorder gets with the end of a payload. The worker adds to the
// list while the shard may read it, see ends.recall.
type staged struct {
	what    any
	payload int // Outcome.Done when it was staged
	next    *staged
}

// Stage says what the recorder is to get, among [Change].Staged, with the change that
// ends the payload in hand, if it ends as done, and not otherwise; without
// Config.Single, with the end of those that the verdict is about. It is for the worker,
// before it says what has become of the payload.
func (it *Item) Stage(what any) { it.staged.Store(&staged{what, it.Outcome.Done, it.staged.Load()}) }

// reset lets go of everything, for the next use.
func (it *Item) reset() {
	if len(it.Payloads) > 1 || it.removals.Load() != nil {
		it.passed.Store(0)
		it.recalled.Store(false)
		it.removals.Store(nil)
	}
	it.ID, it.Payloads, it.LastError, it.History, it.lane, it.Outcome, it.Claim, it.inline = "", nil, "", nil, nil, Outcome{}, nil, [1]Payload{}
	it.Folded, it.combined, it.behind, it.over, it.settled = nil, false, 0, false, 0
	if it.staged.Load() != nil { // a store costs more, and most have none
		it.staged.Store(nil)
	}
}

// Failed returns the history of the item, which stays as it is, with one more failure: now, and with reason as
// its text.
func (it *Item) Failed(now int64, reason string) journal.History {
	return it.History.Add(it.LastError, journal.Failure{Attempt: it.Retry + 2, At: now, Text: reason})
}
