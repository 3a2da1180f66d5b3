package world

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor"
)

// Callers get what the handler returned for their payload, or how else it ended, and it
// stays so.
var calling = &feature{
	name: "do", claims: `HandleResult Caller.Do`,
	plan: []string{"discard", "cancel", "do~q1.a", "do~q2.b+k1", "do~q1.c+k2"},
	acts: map[string]func(*world, context.Context, *run, int, string) error{"do": askWithin},
	queue: func(d *draw, l line) {
		if shape := l.str("shape"); shape != "batch" && shape != "merged" {
			l.set("result", "yes")
		}
	},
	steps: []step{{"do", 10, true, func(d *draw) line {
		l := drawEnqueue(d)
		for _, name := range []string{"many", "ctx"} {
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
	a := w.asks(q, l, i)
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
		w.did(a, result, err)
	})
}

// asked is a call of Do that is under way.
type asked struct {
	queue *queue
	line  line
	item  *item
	life  int
	first *item // that came with its key before, for certain: it waits for that one; nil: none is known
	by    *run  // whose handler it is of; nil: none
}

// asks notes a call that is about to be made.
func (w *world) asks(q *queue, l line, i *item) *asked {
	a := &asked{queue: q, line: l, item: i, life: w.life}
	if l.has("idem") {
		a.first = w.firstBefore(q, l, i)
	}
	if s := w.sources(); l.has("src") {
		s.open = append(s.open, int64(l.num("off")))
		s.most = max(s.most, int64(l.num("off")))
	}
	return a
}

// did notes what a call was told.
func (w *world) did(a *asked, result int, err error) {
	q, i, life := a.queue, a.item, a.life
	if s := w.sources(); a.line.has("src") {
		at := slices.Index(s.open, int64(a.line.num("off")))
		s.open = slices.Delete(s.open, at, at+1)
	}
	if life == w.life && !errors.Is(err, executor.ErrUnknown) { // else it may be accepted after later calls
		i.said = w.epoch
	}
	counts := err == nil && i.value.N != 0 && !q.gathers() && q.conf.str("shape") == "handle"
	switch own := !counts || uint64(result) == i.pos; {
	case a.first != nil:
		if i.state == acked && i.value.N != 0 {
			w.fail("key: %v was accepted again, after %v", i, a.first)
		}
		if i.unsay(refused); counts && uint64(result) != a.first.pos {
			w.fail("told wrongly: Do says %d of a duplicate of %v", result, a.first)
		}
		return
	case a.line.has("idem") && w.maybeFirst(a, counts && own, err):
		i.unsay(maybe)
		return
	case !own:
		w.fail("told wrongly: Do says %d of %v", result, i)
	}
	w.didOne(q, i, life, err)
}

// endOf is what an error says of the payload of the call itself: its job may have failed with what another call was told.
func endOf(err error) (pending *executor.PendingError, buried *executor.BuriedError) {
	for ; err != nil && pending == nil && buried == nil; err = errors.Unwrap(err) {
		pending, _ = err.(*executor.PendingError)
		buried, _ = err.(*executor.BuriedError)
	}
	return pending, buried
}

// didOne notes what a call was told of its own payload.
func (w *world) didOne(q *queue, i *item, life int, err error) {
	pending, buried := endOf(err)
	switch {
	case pending != nil:
		if life == w.life {
			w.receipt(q, i, pending.Receipt)
		} else {
			i.unsay(maybe)
		}
		return
	case buried == nil && (errors.Is(err, executor.ErrUnknown) || errors.Is(err, executor.ErrNoResult)),
		q.conf.has("async") && !w.lives(life): // it may not be on disk
		i.unsay(maybe)
		return
	case buried != nil:
		if i.pos == 0 && i.state != acked {
			i.state = acked
		}
		if w.closes(q, i, buried.Reason); i.doom == 0 && i.value.N != 0 && !q.gathers() {
			w.fail("told wrongly: Do says that %v is buried: %v", i, err)
		}
	case err == nil, errors.Is(err, executor.ErrDiscarded), errors.Is(err, executor.ErrDeleted):
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

// askWithin has a handler wait for another job, maybe with a key, which may be that of an earlier call.
func askWithin(w *world, ctx context.Context, r *run, _ int, arg string) error {
	arg, key, _ := strings.Cut(arg, "+")
	q, id := w.target(arg)
	if q == nil {
		return nil
	}
	do := q.on(r).do
	if do == nil {
		return nil
	}
	l := newLine("within", "id", id)
	if key != "" {
		l.set("idem", key)
	}
	i := w.offspring(q, id, nil, line{})
	w.mu.Lock()
	a := w.asks(q, l, i)
	a.by = r
	w.asking = append(w.asking, a)
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	result, err := do(ctx, id, i.value, once.option(w, l)...)
	w.mu.Lock()
	defer w.mu.Unlock()
	if pending, buried := endOf(err); pending == nil && buried == nil && errors.Is(err, executor.ErrDeadlock) && !w.maybeStuck(a) {
		w.fail("deadlock: %s/%s can wait for %s/%s: %v", r.queue.name, r.id, q.name, id, err)
	}
	w.asking = slices.DeleteFunc(w.asking, func(other *asked) bool { return other == a })
	if w.did(a, result, err); err != nil {
		return fmt.Errorf("asked: %w", err)
	}
	return nil
}

// maybeStuck reports whether a call of a handler may be one that can't end before that handler has: it waits for
// its own job, for one that waits itself, or for what it holds, or all workers wait.
func (w *world) maybeStuck(a *asked) bool {
	id := a.item.id
	if a.first != nil {
		id = a.first.id
	}
	unsure := a.line.has("idem") && a.first == nil
	holds := slices.ContainsFunc(w.queues, func(q *queue) bool {
		return q.conf.has("locks") || q.conf.has("lane") || q.conf.has("limited") || q.conf.has("slots") || w.excludes(q)
	})
	waits := slices.ContainsFunc(w.asking, func(other *asked) bool {
		return other == a && (a.by.queue.name == a.queue.name && a.by.id == id) || other.by.queue == a.queue && other.by.id == id || other.by.queue.conf.str("shape") == "batch"
	})
	return unsure || holds || waits || w.town != nil || len(w.asking) >= max(w.conf.num("workers"), 1)
}
