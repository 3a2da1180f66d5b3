package executor

import (
	"context"
	"fmt"
	"log/slog"
)

// FatalError is what [Fatal] returns.
type FatalError struct{ Err error } // the reason

// Fatal ends the executor in order, because of err, which the job alone did not cause:
// the program can't do its work any more, and may be able to in a new process. From
// then on no job begins, calls from outside return ErrClosed, and the running handlers
// have Config.StopTimeout to return. When they have, and all that they did is on disk,
// the executor calls Config.OnFatal with the [*FatalError]. Run and Stop return an
// error that wraps it.
//
// What becomes of the job depends on err. A plain error is a failure, which spends a
// retry: so a job that ends each process is dead-lettered at last. The job keeps its
// place, and makes that retry in the next process. With Snooze(0) as err it spends
// none. One Fatal among [BatchErrors] or [PayloadErrors] is enough; a batch is not
// halved.
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
