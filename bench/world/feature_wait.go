package world

import (
	"context"
	"errors"
	"time"

	"github.com/strandjobs/strand/executor"
)

// Callers wait for the end of payloads. What they are told stays true, after a crash, too.
var waiting = &feature{
	name: "wait", claims: "Queue.Wait",
	steps: []step{{"wait", 14, true, func(d *draw) line {
		l := newLine("wait", "n", max(d.n-d.IntN(4), 1), "d", d.one("1ms", "5s", "5m"))
		return l
	}, playWait}},
}

// playWait begins to wait for a payload, and goes on.
func playWait(w *world, l line) {
	w.mu.Lock()
	i := w.ledger.named[l.num("n")]
	var q *queue
	if i != nil && i.state == acked && i.pos != 0 && (i.sure || i.life == w.life) { // else it may be lost, and its place another's
		q = w.queueOf(i.queue)
	}
	life := w.life
	var r executor.Receipt
	if q != nil {
		r = executor.Receipt{ID: i.id, Position: i.pos}
		if w.town == nil && l.num("n")%3 == 0 { // of a call with the key of that payload's, and another id
			r.ID, r.Duplicate = "another", true
		}
	}
	w.mu.Unlock()
	if q == nil {
		return
	}
	handle := q.queue
	w.waiters.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), max(l.dur("d"), time.Millisecond))
		defer cancel()
		err := handle.Wait(ctx, r)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.waited(q, i, life, err)
	})
}

// waited notes what a caller was told of the end of a payload.
func (w *world) waited(q *queue, i *item, life int, err error) {
	buried := (*executor.BuriedError)(nil)
	async := q.conf.has("async")
	switch {
	case async && !w.lives(life): // ends that are not on disk count, and go with the process
		return
	case errors.As(err, new(*executor.PendingError)), errors.Is(err, executor.ErrClosed), errors.Is(err, executor.ErrFailed):
		return
	case errors.As(err, &buried):
		ran := i // or what runs in its stead
		if other := w.ledger.byPos[spot{i.id, buried.Position}]; other != nil && (i.hint != "" || w.superseded(i, tried) || q.conf.has("merge") && same(other.value, i.value)) {
			ran = other
		}
		if w.closes(q, ran, buried.Reason); ran.doom == 0 {
			w.fail("told wrongly: Wait says that %v is buried: %v", i, err)
		}
	case err == nil, errors.Is(err, executor.ErrDiscarded), errors.Is(err, executor.ErrDeleted):
		if i.hint == "" && w.expired(i) { // not in the morgue any more, it is taken for done
			i.hint = "expired"
		}
		unrun := w.superseded(i, tried) || q.conf.str("when") == "skip"
		if i.hint == "" && i.told == "" && !q.gathers() && !unrun && life == w.life {
			w.fail("told wrongly: Wait says %v of %v, which nothing has ended", err, i)
		}
		if i.told == "" && !async && !q.gathers() {
			i.told = "Wait: " + errText(err)
		}
	default:
		w.fail("told wrongly: Wait says %v of %v", err, i)
	}
}

func errText(err error) string {
	if err == nil {
		return "done"
	}
	return err.Error()
}
