package executor

import (
	"context"
	"fmt"
	"log/slog"
)

// FatalError is what [Fatal] returns.
type FatalError struct{ Err error } // the reason

// Fatal ends the executor in order, because of err, which is no error of the job alone:
// a program that can't do its work any more, and may in a new process. No job begins
// from then on, calls from outside return ErrClosed, and the handlers that run have
// Config.StopTimeout to return. When they have, and all that they did is on disk,
// Config.OnFatal is called with the *FatalError. Run and Stop return an error that
// wraps it.
//
// What err is by itself says what becomes of the job: a plain error is a failure, which
// spends a retry, so that a job that ends each process is given up at last. The job
// keeps its place, and waits for that retry, in the next process; with Snooze(0) as err
// it spends none. Of [BatchErrors] and [PayloadErrors] one that is Fatal is enough; a
// batch is not halved.
func Fatal(err error) error { return &FatalError{err} }

func (e *FatalError) Error() string { return "fatal: " + reason(e.Err) }
func (e *FatalError) Unwrap() error { return e.Err }

// endWith stops the executor because a handler has returned Fatal. Only the first one
// counts. When it returns, no worker begins anything.
func (x *Executor) endWith(f *FatalError) {
	x.mu.Lock()
	if x.err != nil || x.fatal != nil {
		x.mu.Unlock()
		return
	}
	x.fatal = f
	under := x.state == stopping
	x.mu.Unlock()
	if !under {
		x.draining.Store(true)
		x.dispatcher.close()
		x.beginStop()
	}
	go x.tellFatal(f, under)
}

// tellFatal calls OnFatal when the stop is over; one that was under way has its own time
// for that.
func (x *Executor) tellFatal(f *FatalError, under bool) {
	x.cfg.Logger.Error("a handler ends the executor", slog.Any("error", f))
	if !under {
		grace, cancel := context.WithTimeout(context.Background(), max(x.cfg.StopTimeout, 0))
		defer cancel()
		_ = x.Stop(grace) // says it to those who ask
	} else {
		<-x.stopped
	}
	x.tellOnce(f)
}

// ended returns the error of a stop that a handler has asked for; nil: none has.
func (x *Executor) ended() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.fatal == nil {
		return nil
	}
	return fmt.Errorf("executor: a handler has ended it: %w", x.fatal)
}
