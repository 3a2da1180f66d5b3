package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/strandjobs/strand/shard"
)

// worker is one goroutine that runs handlers. Its fields belong to that
// goroutine, except where something else is said.
type worker struct {
	x    *Executor
	runs chan *shard.Run // has room for the one run that it may be assigned

	run      *shard.Run // what it works on; nil while idle
	queue    *queue     // of run
	next     int        // the first item of run that it has not looked at
	start    time.Time  // of run
	settling bool       // the handler has returned, hooks may be running

	firstWord, words int // its part of the crash recorder

	// mu guards writes to batch, and reads by others. Nothing is called under it.
	mu    sync.Mutex
	batch []*shard.Item // what the handler has in hand
}

// Assign implements [shard.Worker].
func (w *worker) Assign(r *shard.Run) { w.runs <- r }

// main works until runs is closed. User code that calls Goexit ends this
// goroutine; then another one goes on where it was.
func (w *worker) main() {
	ended := false
	defer func() {
		if !ended {
			w.x.working.Go(w.main)
		}
	}()
	if w.run != nil {
		w.exited()
		w.goOn()
	}
	for r := range w.runs {
		w.run, w.queue = r, r.Shard.Dispatcher().(*port).queue
		w.next, w.start = 0, time.Now()
		w.goOn()
	}
	ended = true
}

// goOn runs what is left of the run and gives it back.
func (w *worker) goOn() {
	for w.next < len(w.run.Items) && w.mayStart() {
		if w.startBatch() {
			w.call()
		}
	}
	r := w.run
	r.Elapsed = time.Since(w.start)
	w.run, w.queue = nil, nil
	r.Shard.Finish(r)
	w.x.dispatcher.free(w)
}

// mayStart: the first of a run always may, the others only within the quantum,
// because what stays behind merges with what arrives.
func (w *worker) mayStart() bool {
	return !w.x.draining.Load() && (w.next == 0 || time.Since(w.start) < shard.Quantum)
}

// startBatch takes the next items in hand; false when the shard has taken all
// of them back.
func (w *worker) startBatch() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ; w.next < len(w.run.Items) && len(w.batch) < w.queue.batch; w.next++ {
		if it := &w.run.Items[w.next]; it.Start() {
			w.batch = append(w.batch, it)
		}
	}
	for i, it := range w.batch[:min(len(w.batch), w.words)] {
		w.x.running.Set(w.firstWord+i, it.Payloads[0].Ref.Position())
	}
	return len(w.batch) > 0
}

func (w *worker) endBatch() {
	for i := range min(len(w.batch), w.words) {
		w.x.running.Clear(w.firstWord + i)
	}
	w.x.acquit(w.queue, w.batch)
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.batch)
	w.batch = w.batch[:0]
}

// call runs the handler for the batch and settles it.
func (w *worker) call() {
	var errs []error
	err := guarded(func() error {
		errs = w.queue.call(w.x.handlers, w.batch)
		return nil
	})
	if err != nil {
		errs = repeat(err, len(w.batch))
	}
	w.settle(errs)
}

func repeat(err error, n int) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// exited settles a batch during which the goroutine was ended.
func (w *worker) exited() {
	if !w.settling {
		w.settle(repeat(ErrHandlerExited, len(w.batch)))
		return
	}
	// A hook did it: no hook is asked any more.
	for _, it := range w.batch {
		if it.Outcome.Verdict == shard.Unstarted {
			it.Outcome.Verdict, it.Outcome.Delay, it.Outcome.Error = shard.Failed, RetryIn(it.Retry+1), ErrHandlerExited.Error()
		}
	}
	w.settling = false
	w.endBatch()
}

// settle turns the errors of a batch into outcomes. Nil errs: all are done.
func (w *worker) settle(errs []error) {
	w.settling = true
	var last []*shard.Item
	for i, it := range w.batch {
		if errs == nil || errs[i] == nil {
			it.Outcome.Verdict = shard.Done
			continue
		}
		w.judge(it, errs[i])
		if it.Outcome.Verdict == shard.Failed && it.Retry+1 >= w.queue.core.MaxRetries {
			last = append(last, it)
		}
	}
	if len(last) > 0 && w.queue.exhausted != nil {
		w.x.guardHook("RetriesExhausted", func() { w.queue.exhausted(w.x.handlers, last) })
	}
	w.settling = false
	w.endBatch()
}

// judge finds out what a handler's error asks for. The verdict is set last: it
// says that the judgement is complete.
func (w *worker) judge(it *shard.Item, err error) {
	out := &it.Outcome
	if _, ok := errors.AsType[*discardError](err); ok {
		out.Verdict = shard.Discarded
		return
	}
	if snooze, ok := errors.AsType[*snoozeError](err); ok {
		out.Delay, out.Verdict = snooze.d, shard.Snoozed
		return
	}
	if w.interrupted(err) {
		out.Verdict = shard.Interrupted
		return
	}
	out.Error = w.errorText(err)
	if _, ok := errors.AsType[*cancelError](err); ok {
		out.Verdict = shard.Canceled
		w.log(it, slog.LevelWarn, "job cancelled")
		return
	}
	if retry, ok := errors.AsType[*retryError](err); ok {
		out.Delay = retry.d
	} else {
		out.Delay = w.retryIn(it.Retry + 1)
	}
	out.Verdict = shard.Failed
	w.log(it, slog.LevelDebug, "job failed")
}

// interrupted reports whether the stop kept the handler from its work. A
// handler may dress up the end of its context as any error, so every error
// after that end counts.
func (w *worker) interrupted(err error) bool {
	return context.Cause(w.x.handlers) != nil || (w.x.draining.Load() && errors.Is(err, ErrClosed))
}

func (w *worker) errorText(err error) string {
	said := text(func() string { return w.queue.formatError(err) })
	if p, ok := errors.AsType[*PanicError](err); ok {
		w.x.cfg.Logger.Error("handler panicked", slog.String("queue", w.queue.name), slog.String("error", said), slog.String("stack", p.Stack))
	}
	return said
}

func (w *worker) retryIn(n int) (d time.Duration) {
	err := guarded(func() error { d = w.queue.retryIn(n); return nil })
	if err != nil {
		w.x.cfg.Logger.Error("hook panicked", slog.String("hook", "RetryIn"), slog.Any("error", err))
		return RetryIn(n)
	}
	return d
}

func (w *worker) log(it *shard.Item, level slog.Level, message string) {
	if l := w.x.cfg.Logger; l.Enabled(context.Background(), level) {
		l.Log(context.Background(), level, message, slog.String("queue", w.queue.name), slog.String("id", it.ID),
			slog.Int("retry", it.Retry+1), slog.String("error", it.Outcome.Error))
	}
}

// jobs names what the worker has in hand. Any goroutine may call it.
func (w *worker) jobs() (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, it := range w.batch {
		names = append(names, fmt.Sprintf("%q", it.ID))
	}
	return names
}
