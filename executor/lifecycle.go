package executor

import "context"

// Start runs the jobs of all registered queues until Stop is called. Queues may be
// registered later, too, except under Config.Advanced.Strict: then Start returns ErrConfig,
// and may be called again. It returns the error of OnStart, ErrFailed when the
// journal has failed, ErrContext, and ErrState when it was called before or Stop
// was.
//
// Handlers see the values of ctx. Its end means nothing once Start has returned:
// see [Executor.Run]. Each call of a handler has a context of its own, which ends
// with [ErrReturned] when the handler has returned.
func (x *Executor) Start(ctx context.Context) error { return x.life.Start(ctx) }

// Run starts, waits until ctx ends, Stop is called, a handler returns [Fatal] or the
// executor fails, and stops: running handlers, and OnFatal, have StopTimeout to end. It
// returns nil after a clean end, and otherwise why it failed or what did not end. If it
// can't start because Start was called before, it stops nothing.
//
// For a program that ends in order on the first signal, and at once on the second
// one:
//
//	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
//	context.AfterFunc(ctx, restore)
//	err := x.Run(ctx)
func (x *Executor) Run(ctx context.Context) error { return x.life.Run(ctx) }

// Stop ends the executor. From then on it accepts payloads only from handlers that still run; on PostgreSQL it
// accepts them from all callers, until the handlers have ended. Running handlers, with the halves of their
// batch, are waited for until ctx ends, then their contexts are cancelled with the cause [ErrStopping], and
// what they return after that spends no retry. What they did is written down: a full disk may get room for it
// until ctx ends, or if that has no deadline for Config.StopTimeout; what is not on disk by then runs again.
// Stop does not wait for a failure that a disk short of room has not taken: that job runs again at once after
// the next start, and has spent no retry. Handlers that do not return within another 50 ms are left behind:
// [ErrStuck] names them. What they do then changes nothing any more, and the journal stays locked until the
// last of them has returned, so that the same job never runs in another process beside them. If they never do,
// only the end of the process frees it.
//
// Stop is idempotent. Calls may come together: each waits for the end, and the ctx
// that ends first counts for all. Called with the context of a handler, which can't
// wait for itself, it begins the stop and returns nil; a handler that calls it with
// another context waits for itself until that ends.
//
// It returns nil after a clean end, ErrStuck, ErrFailed when the journal failed before or
// did so now, an error that wraps the one of a handler that returned [Fatal], and
// ErrContext, and then it stops nothing. A disk that does not answer holds it for a second
// after ctx has ended; then it returns ErrStuck, and the stop goes on.
func (x *Executor) Stop(ctx context.Context) error { return x.life.Stop(ctx) }
