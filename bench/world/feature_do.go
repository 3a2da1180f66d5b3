package world

import (
	"context"
	"errors"
	"time"

	"github.com/strandjobs/strand/executor"
)

// Callers get what the handler returned for their payload, or how else it ended, and it
// stays so.
var calling = &feature{
	name: "do", claims: `HandleResult Caller.Do`,
	plan: []string{"discard", "cancel"},
	queue: func(d *draw, l line) {
		if shape := l.str("shape"); shape != "batch" && shape != "merged" {
			l.set("result", "yes")
		}
	},
	steps: []step{{"do", 10, true, func(d *draw) line {
		l := drawEnqueue(d)
		for _, name := range []string{"many", "ctx", "idem", "src", "off", "absent"} {
			delete(l.args, name)
		}
		l.verb = "do"
		l.set("d", d.one("1ms", "5s", "5m"))
		return l
	}, playDo}},
}

// registerCaller registers a queue whose handler returns how often the payload was run.
func (w *world) registerCaller(x *executor.Executor, q *queue, cfg executor.QueueConfig[payload]) error {
	handler := w.single(q)
	caller, err := executor.HandleResult(x, q.name, func(ctx context.Context, job executor.Job[payload]) (int, error) {
		err := handler(ctx, job)
		return int(job.Position), err
	}, cfg)
	if err == nil {
		q.queue, q.do = caller.Queue, caller.Do
	}
	return err
}

// playDo begins a call, and goes on.
func playDo(w *world, l line) {
	q := w.queueOf(l.str("q"))
	if q == nil || q.do == nil {
		return
	}
	w.mu.Lock()
	n := l.num("n")
	if n == 0 {
		n = w.ledger.number()
	}
	i := w.add(&item{
		n: n, queue: q.name, id: l.str("id"), value: valueOf(q, l, n), score: q.scoreOf(l), life: w.life, moved: w.epoch, born: w.epoch, at: time.Now(),
	})
	life := w.life
	w.mu.Unlock()
	var options []executor.Option
	for _, f := range w.features {
		if f.option != nil {
			options = append(options, f.option(w, l)...)
		}
	}
	call := q.do
	w.waiters.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), max(l.dur("d"), time.Millisecond))
		defer cancel()
		result, err := call(ctx, i.id, i.value, options...)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.did(q, i, life, result, err)
	})
}

// did notes what a call was told.
func (w *world) did(q *queue, i *item, life, result int, err error) {
	if life == w.life && !errors.Is(err, executor.ErrUnknown) { // else it may be accepted after later calls
		i.said = w.epoch
	}
	pending, buried := (*executor.PendingError)(nil), (*executor.BuriedError)(nil)
	switch {
	case errors.As(err, &pending):
		if life == w.life {
			w.receipt(q, i, pending.Receipt)
		} else {
			i.unsay(maybe)
		}
		return
	case errors.Is(err, executor.ErrUnknown), errors.Is(err, executor.ErrNoResult),
		q.conf.has("async") && !w.lives(life): // it may not be on disk
		i.unsay(maybe)
		return
	case errors.As(err, &buried):
		if i.pos == 0 && i.state != acked {
			i.state = acked
		}
		if w.closes(q, i, buried.Reason); i.doom == 0 && i.value.N != 0 && !q.gathers() {
			w.fail("told wrongly: Do says that %v is buried: %v", i, err)
		}
	case err == nil, errors.Is(err, executor.ErrDiscarded), errors.Is(err, executor.ErrDeleted):
		if err == nil && i.value.N != 0 && !q.gathers() && q.conf.str("shape") == "handle" && uint64(result) != i.pos {
			w.fail("told wrongly: Do says %d of %v", result, i)
		}
		w.guessed(i)
		i.state = acked
		if q.gathers() {
			return
		}
		w.waited(q, i, life, err)
	default:
		if i.state == acked {
			w.fail("refused and accepted all the same: %v: %v", i, err)
		}
		i.unsay(refused)
	}
}
