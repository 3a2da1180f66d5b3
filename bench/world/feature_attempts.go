package world

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
)

// A failure spends a retry, and a snooze, a stop or a crash spends none; a job says how its last run
// has failed, and pauses as long as its queue or its handler says. What a handler gets was enqueued
// when it was, and no more of it comes in one call than its queue takes.
var trying = &feature{
	name: "attempts", always: true,
	began: func(w *world, r *run) {
		if most := r.queue.conf.num("payloads"); most > 0 && len(r.parts) > most && !r.queue.gathers() {
			w.fail("too much: %s/%s gets %d payloads, of %d", r.queue.name, r.id, len(r.parts), most)
		}
		w.enqueuedThen(r)
		for _, i := range r.items {
			w.triesAgain(r, i)
			i.again = retryAt{by: r.nth}
		}
	},
	ended: func(w *world, r *run, err error) {
		next := w.nextRun(r, err)
		next.by = r.nth
		for _, i := range r.items {
			if i.again.by == r.nth { // or another owner has begun it anew, which counts
				i.again = next
			}
		}
	},
	died: func(w *world, r *run) {
		for _, i := range r.items {
			if !r.queue.gathers() && !w.conditional(r.queue) && i.again.by == r.nth {
				i.again = retryAt{attempt: r.attempt, unsure: true}
			}
		}
	},
}

// retryAt is when a payload runs again that has failed or was put off, and in which attempt.
type retryAt struct {
	from, at time.Time
	life     int    // 0: whatever it is, behind a stop or a crash
	attempt  int    // 0: not known
	unsure   bool   // in another life it may be one before: what came of that, or of others of the job, was not on disk
	said     string // in the last error; "": not known
	by       int    // the last run that has begun
}

// nextRun is what is known of the next run of what is left of one; zero: nothing is.
func (w *world) nextRun(r *run, err error) (next retryAt) {
	q := r.queue
	batch := q.conf.str("shape") == "batch"
	switch {
	case r.full, q.twice(), q.gathers(), q.conf.str("format") == "exits" && q.conf.has("parts"), batch && (r.wild || w.at.with), w.conditional(q), q.conf.str("shape") != "handle" && q.conf.num("payloads") > 0:
		return retryAt{} // a batch is halved, other jobs of it are ended by a person, or what comes before it runs, and begins anew for all
	case errors.Is(err, executor.ErrStopping):
		return retryAt{attempt: r.attempt}
	case r.cut:
		return retryAt{}
	}
	parts, _ := errors.AsType[executor.PayloadErrors](err)
	if parts == nil {
		parts = executor.PayloadErrors{0: err}
	}
	next = retryAt{from: time.Now(), life: w.term(r.id), attempt: r.attempt, said: r.said}
	pause, some := time.Duration(0), false
	for _, err := range parts { // they run again together, after the longest of their pauses
		d, fails, known := pauseBehind(err)
		if !known {
			return retryAt{}
		}
		pause, next.unsure, some = max(pause, d), next.unsure || fails, some || d >= 0
	}
	if !some || next.unsure && r.attempt > q.conf.num("retries") {
		return retryAt{} // all have ended, or the retries are used up
	}
	if next.at = next.from.Add(pause); next.unsure {
		next.attempt, next.said = next.attempt+1, errPlanned.Error()
	}
	if r.wild || q.conf.has("format") {
		next.said = ""
	}
	return next
}

// pauseBehind is how long a payload pauses after an error, and whether that spends a retry; below zero: it
// does not run again. Of other errors than those of plans it is not known.
func pauseBehind(err error) (pause time.Duration, fails, known bool) {
	wish, _ := errors.AsType[*executor.WishError](err)
	switch {
	case err == nil:
		return -1, false, true
	case err == errPlanned, err == errStray:
		return 2 * time.Second, true, true
	case wish == nil:
		return 0, false, false
	case wish.Outcome == events.Failed, wish.Outcome == events.Snoozed:
		return wish.After, wish.Outcome == events.Failed, true
	}
	return -1, false, true
}

// conditional reports whether a job may fail without a run, for what it waits for.
func (w *world) conditional(q *queue) bool {
	return q.conf.has("locks") || q.conf.has("lane") || w.mayClose(q)
}

// mayClose reports whether a job of a queue may fail because it waits for what a handler has that waits for it.
func (w *world) mayClose(q *queue) bool {
	waits := q.conf.has("unique") || w.excludes(q) || q.conf.has("limited") || q.conf.has("slots") || q.conf.has("locks") || q.conf.has("lane")
	return waits && slices.ContainsFunc(w.ledger.items, func(i *item) bool { return strings.Contains(i.value.Plan, "do~") })
}

// triesAgain compares a run with what came of the last one. What a person has had to do with may have
// its retries back, and be due.
func (w *world) triesAgain(r *run, i *item) {
	next, here := i.again, i.again.life == w.term(i.id)
	single := r.queue.conf.str("shape") == "handle" // else the attempt is that of all payloads of the job
	if w.hurried(r) || i.buried || w.flaps(i, !single) {
		return
	}
	if i.calls == 0 && r.attempt != 1 && single && !r.queue.conf.has("merge") && !w.conditional(r.queue) {
		w.fail("attempts: %v is at attempt %d, and has not run", i, r.attempt)
	}
	pulled := r.queue.conf.str("fresh") == "pull" || r.queue.conf.str("freshdue") == "pull"
	moment := !next.unsure && w.setSince(next.from) // that a snooze has named
	if here && !pulled && !moment && time.Now().Before(next.at) && !w.loose(next.from) {
		w.fail("retried too early: %v, %v before its pause is over", i, time.Until(next.at))
	}
	lost := !here && (next.unsure || next.life != 0) && (r.attempt < next.attempt || !single)
	if next.attempt != 0 && r.attempt != next.attempt && !lost {
		w.fail("attempts: %v is at attempt %d, and should be at %d", i, r.attempt, next.attempt)
	}
	if next.said != "" && here && !strings.Contains(r.said, next.said) {
		w.fail("last error: that of %v is %q, and it has failed with %q", i, r.said, next.said)
	}
}

// enqueuedThen compares when payloads were enqueued with what the ledger knows: between its call and
// the answer, as long as the clock was not set. Of equal ones it may be another's.
func (w *world) enqueuedThen(r *run) {
	if len(w.clocks()) > 0 {
		return
	}
	for _, p := range r.parts {
		i := w.ledger.byN[p.value.N]
		if i == nil || p.value.N == 0 {
			continue
		}
		if p.at.Before(i.at.Add(-time.Millisecond)) || !i.answered.IsZero() && p.at.After(i.answered.Add(time.Millisecond)) {
			w.fail("enqueued: %v is said to be of %v, and was of %v to %v", i, p.at.UTC(), i.at.UTC(), i.answered.UTC())
		}
		if i.meta != nil && !maps.Equal(p.meta, i.meta) {
			w.fail("metadata: %v has %v, and was given %v", i, p.meta, i.meta)
		}
	}
}
