package executor

import (
	"math/rand/v2"
	"time"

	"github.com/strandjobs/strand/executor/internal/backdoor"
	"github.com/strandjobs/strand/executor/internal/feed"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// What happens to an id is told by one goroutine after the other, so that events of
// an id are in their order: the committer before a shard gets a payload, the worker
// that has it in hand, and its shard for what no worker decides. Each of them looks
// first whether anybody wants to hear of it: one atomic load.

// events is the feed of an executor.
type events struct {
	feed *feed.Feed[fact] // nil: Config.Advanced.EventBuffer says so
	life uint64           // names the executor in tokens
	self feed.Source      // of what is about no queue

	witness backdoor.Witness // nil: none, as there is but in tests
}

func (e *events) init(size int) {
	if size < 0 {
		return
	}
	e.feed, e.life = feed.New[fact](size), rand.Uint64()
	e.feed.Add(&e.self)
}

// close ends the loops of the readers when they have had all.
func (e *events) close() {
	if e.feed != nil {
		e.feed.Close()
	}
}

// join makes the queue a source of events.
func (q *queue) join() {
	q.events.Name = q.name
	if f := q.x.events.feed; f != nil {
		f.Add(&q.events)
	}
}

// Kinds that are told together.
var (
	arrivals  = kindsOf(EventAccepted, EventRequeued)
	verdicts  = kindsOf(EventDone, EventFailed, EventSnoozed, EventDiscarded, EventCancelled, EventInterrupted, EventHalted)
	callKinds = verdicts | kindsOf(EventStarted)
)

func kindsOf(kinds ...EventKind) (all feed.Kinds) {
	for _, k := range kinds {
		all |= feed.Of(uint8(k))
	}
	return all
}

// watched reports whether anybody wants any event of the queue.
func (q *queue) watched() bool { return q.events.Watched() }

// tell puts an event into the feed, if anybody wants it.
func (q *queue) tell(kind EventKind, f fact) {
	if f.payloads = max(f.payloads, 1); q.events.Wants(kindsOf(kind)) {
		q.x.events.put(&q.events, kind, f)
	}
}

// tellPause says that an id of the queue, what begins with the text, or without either
// the queue, is paused or goes on.
func (q *queue) tellPause(on bool, of fact) { q.x.events.tellPause(&q.events, on, of) }

func (e *events) tellPause(of *feed.Source, on bool, f fact) {
	kind := EventResumed
	if on {
		kind = EventPaused
	}
	if of.Wants(kindsOf(kind)) {
		e.put(of, kind, f)
	}
}

// tellCommitted is called by the committer.
func (e *events) tellCommitted(took time.Duration) {
	if e.self.Wants(kindsOf(EventCommitted)) {
		e.put(&e.self, EventCommitted, fact{duration: took})
	}
}

func (e *events) put(of *feed.Source, kind EventKind, f fact) {
	if f.at == 0 {
		f.at = time.Now().UnixNano()
	}
	f.text = eventText(f.text)
	e.feed.Put(of, feed.Event[fact]{Kind: uint8(kind), Value: f})
}

// eventText bounds what an event keeps of a text.
func eventText(s string) string {
	if len(s) <= maxEventError {
		return s
	}
	return opening(s, maxEventError)
}

// tellAccepted is called by the committer before a shard gets what was committed.
func (q *queue) tellAccepted(d *journal.Delivery) {
	if !q.events.Wants(arrivals) {
		return
	}
	now := time.Now().UnixNano()
	told := make([]feed.Event[fact], 0, d.Len())
	for i := range d.Len() {
		var e journal.Entry
		ref, err := d.Read(i, &e)
		if err != nil {
			break // the shard finds out
		}
		kind := EventAccepted
		if e.Restored {
			kind = EventRequeued
		}
		if w := q.x.events.witness; w != nil {
			w.Accepted(q.name, &e)
		}
		told = append(told, feed.Event[fact]{Kind: uint8(kind), Value: fact{id: string(e.ID), at: now, position: uint64(ref.Position()), payloads: 1}})
	}
	q.x.events.feed.Put(&q.events, told...)
}

// decided returns the events of what a shard has decided by itself: what was merged,
// what a person has deleted, and what goes to the morgue. They are told when it is written down, but by then the
// ids can't be read any more.
func (q *queue) decided(c *shard.Change) (told []feed.Event[fact]) {
	if len(c.Merged)+len(c.Deleted)+len(c.Buried) == 0 {
		return nil
	}
	now := time.Now().UnixNano()
	merged, deleted := c.Merged, c.Deleted // both are among those that ended, in the same order
	for _, ref := range c.Ended {
		at := ref.Position()
		f := fact{at: now, position: uint64(at), payloads: 1}
		kind := EventDeleted
		switch {
		case len(merged) > 0 && merged[0].Position == at:
			kind, f.into, merged = EventMerged, uint64(merged[0].Into), merged[1:]
		case len(deleted) > 0 && deleted[0] == at:
			deleted = deleted[1:]
		default:
			continue
		}
		f.id = idOf(ref)
		told = append(told, feed.Event[fact]{Kind: uint8(kind), Value: f})
	}
	for _, b := range c.Buried {
		told = append(told, feed.Event[fact]{Kind: uint8(EventBuried), Value: fact{
			id: idOf(b.Ref), at: now, position: uint64(b.Ref.Position()), attempt: b.Retry + firstAttempt, text: eventText(b.Reason), payloads: 1,
		}})
	}
	return told
}

// idOf returns the id of a payload, none if the journal can't say, which it fails
// with.
func idOf(ref journal.Ref) string {
	id, err := ref.ID()
	if err != nil {
		return ""
	}
	return string(id)
}

// tellStarted says that the handler is about to be called for the batch.
func (w *worker) tellStarted() {
	if !w.queue.events.Wants(callKinds) {
		return
	}
	w.called, w.calledIn = time.Now(), w.attempt
	if !w.queue.events.Wants(kindsOf(EventStarted)) {
		return
	}
	for _, it := range w.batch {
		in := w.queue.inHand(it)
		w.queue.tell(EventStarted, fact{
			id: it.ID, at: w.called.UnixNano(), position: uint64(in[0].Ref.Position()), payloads: len(in), attempt: it.Retry + firstAttempt,
		})
	}
}

// took is how long the handler has been at it, 0 if that is not known.
func (w *worker) took(now time.Time) time.Duration {
	if w.calledIn != w.attempt { // it was not called, or nobody wanted to know
		return 0
	}
	return now.Sub(w.called)
}

// tellPassed says that a payload is done whose item has another one: the one before
// that in hand.
func (w *worker) tellPassed(it *shard.Item, retry int) {
	if !w.queue.events.Wants(kindsOf(EventDone)) {
		return
	}
	now := time.Now()
	w.queue.tell(EventDone, fact{
		id: it.ID, at: now.UnixNano(), position: uint64(it.Payloads[it.Outcome.Done-1].Ref.Position()), attempt: retry + firstAttempt, duration: w.took(now),
	})
}

// tellOutcomes says what came of the batch.
func (w *worker) tellOutcomes() {
	wanted := verdicts
	if w.errs == nil { // only payloads that don't decode may have fared otherwise
		wanted = kindsOf(EventDone, EventCancelled)
	}
	if !w.queue.events.Wants(wanted) {
		return
	}
	now := time.Now()
	for _, it := range w.batch {
		w.tellOutcome(it, fact{id: it.ID, at: now.UnixNano(), attempt: it.Retry + firstAttempt, duration: w.took(now)})
	}
}

// ends are the events of the verdicts.
var ends = [...]EventKind{
	shard.VerdictDone: EventDone, shard.VerdictFailed: EventFailed, shard.VerdictSnoozed: EventSnoozed,
	shard.VerdictInterrupted: EventInterrupted, shard.VerdictCanceled: EventCancelled, shard.VerdictDiscarded: EventDiscarded,
}

func (w *worker) tellOutcome(it *shard.Item, f fact) {
	q, out := w.queue, &it.Outcome
	in, parts := q.inHand(it), out.Parts
	for _, part := range parts {
		g := f
		g.position, g.text = uint64(it.Payloads[part.Index].Ref.Position()), part.Error
		q.tell(ends[part.Verdict], g)
	}
	first := -1
	for i, p := range in {
		switch {
		case len(parts) > 0 && parts[0].Index == i:
			parts = parts[1:]
			continue
		case w.tellRemoved(it, p, f):
			continue
		case first < 0:
			first = i
		}
		f.payloads++
	}
	if f.payloads == 0 || out.Verdict == shard.VerdictUnstarted {
		return
	}
	f.position, f.text, f.delay = uint64(in[first].Ref.Position()), out.Error, max(out.Delay, 0)
	exhausts := q.core.Exhausts(it)
	if exhausts {
		f.delay = 0
	}
	q.tell(ends[out.Verdict], f)
	if exhausts && q.core.OnExhausted == shard.OnExhaustedHalt {
		f.duration = 0
		q.tell(EventHalted, f)
	}
}

// tellRemoved reports whether a payload ends because a person wants it so, and says
// so if it is cancelled. That it is deleted its shard tells.
func (w *worker) tellRemoved(it *shard.Item, p shard.Payload, f fact) bool {
	if v := it.Outcome.Verdict; v == shard.VerdictDone || v == shard.VerdictDiscarded || v == shard.VerdictUnstarted {
		return false // it is over, or was not in hand
	}
	r := it.RemovalOf(p)
	if r == nil {
		return false
	}
	if r.Verdict == shard.VerdictCanceled {
		f.payloads, f.position, f.text = 1, uint64(p.Ref.Position()), r.Reason
		w.queue.tell(EventCancelled, f)
	}
	return true
}
