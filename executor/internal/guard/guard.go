// Package guard calls the code of users: functions, methods of errors and contexts, handlers of
// loggers. What panics there is an error here. It keeps nothing, and nothing waits in it but the
// code that it calls.
package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// Panicked makes the error of a panic, and StackOf recognises it. Package executor, whose error
// it is and which this one can't import, sets them before a main function runs.
var (
	Panicked = func(value any, stack string) error { return fmt.Errorf("panic: %v\n%s", value, stack) }
	StackOf  = func(error) (stack string, panicked bool) { return "", false }
)

// Call calls f, which is user code, and turns a panic into an error. It is the one place
// that recovers. When f ends the goroutine with Goexit, nothing can stop that: Call does
// not return, and the deferred functions of its callers run.
func Call(f func() error) (err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		// A nil value is Goexit, and then no caller sees err; or panic(nil) in a
		// program that was built with panicnil=1.
		err = Panicked(recover(), string(debug.Stack()))
	}()
	err = f()
	returned = true
	return err
}

// Hook calls f, and logs what goes wrong in it: there is no caller to return it to.
func Hook(l *slog.Logger, name string, f func()) {
	if err := Call(func() error { f(); return nil }); err != nil {
		l.Error("hook panicked", slog.String("hook", name), slog.Any("error", err))
	}
}

// Returned calls f on a goroutine of its own, and returns what is closed when f has returned, or ended that.
func Returned(f func()) <-chan struct{} {
	over := make(chan struct{})
	go func() { defer close(over); f() }()
	return over
}

// logFor is how long a line is waited for.
const logFor = 250 * time.Millisecond

// Log calls f, which logs what others are to come after. A logger that blocks, or ends the goroutine, holds
// them up no longer than a moment.
func Log(f func()) {
	select {
	case <-Returned(f):
	case <-time.After(logFor):
	}
}

// Is is errors.Is of an error that may be the user's, as the cause of a context is. One that can't be asked is not target.
func Is(err, target error) (is bool) {
	_ = Call(func() error { is = errors.Is(err, target); return nil })
	return is
}

// maxErrorText is how much of an error's text is kept with a job.
const maxErrorText = 4 << 10

// NoText stands for what an error said.
const NoText = "an error whose text can't be had: a method of it, or a hook, panicked or exited"

// Text returns what the first of fs says that does not panic: at most 4 KiB of
// valid UTF-8.
func Text(fs ...func() string) string {
	s := NoText
	for _, f := range fs {
		if Call(func() error { s = f(); return nil }) == nil {
			break
		}
	}
	s = strings.ToValidUTF8(s[:min(len(s), maxErrorText+utf8.UTFMax)], "\uFFFD")
	if s == "" {
		return "an error without text"
	}
	for len(s) > maxErrorText {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return s
}

var (
	// ErrContext is returned for a context that can't be asked whether it has ended.
	ErrContext = errors.New("executor: unusable context")

	// ErrNilContext is that of no context.
	ErrNilContext = fmt.Errorf("%w: it is nil; context.Background() is one that never ends", ErrContext)
)

// A context is its caller's code, which may block, panic, end the goroutine or call
// the executor back. So it is asked here only, and never under a lock or inside a
// gate. One that can't be asked counts as ended.

// guarded is a caller's context whose methods don't panic.
type guarded struct {
	context.Context
	done <-chan struct{}
}

// Context returns ctx as it may be handed on, to other goroutines, too. Enqueue does
// without it, because it costs an allocation.
func Context(ctx context.Context) (context.Context, error) {
	if ctx == nil {
		return nil, ErrNilContext
	}
	c := &guarded{Context: ctx}
	if err := Call(func() error { c.done = ctx.Done(); return nil }); err != nil {
		return nil, fmt.Errorf("%w: Done: %w", ErrContext, err)
	}
	return c, nil
}

func (c *guarded) Done() <-chan struct{} { return c.done }

func (c *guarded) Err() (err error) {
	if err := Call(func() error { err = c.Context.Err(); return nil }); err != nil {
		return fmt.Errorf("%w: Err: %w", ErrContext, err)
	}
	if Over(c.done) {
		return orMute(err)
	}
	return err
}

func (c *guarded) Value(key any) (value any) {
	_ = Call(func() error { value = c.Context.Value(key); return nil })
	return value
}

func (c *guarded) Deadline() (deadline time.Time, ok bool) {
	_ = Call(func() error { deadline, ok = c.Context.Deadline(); return nil })
	return deadline, ok
}

// orMute is the error of a context that has ended.
func orMute(err error) error {
	if err == nil {
		return fmt.Errorf("%w: it has ended and gives no reason", ErrContext)
	}
	return err
}

// Done returns the channel that is closed when ctx ends.
func Done(ctx context.Context) (c <-chan struct{}) {
	if Call(func() error { c = ctx.Done(); return nil }) != nil {
		over := make(chan struct{})
		close(over)
		return over
	}
	return c
}

// Over reports whether a channel is closed that nothing is sent to.
func Over(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// Cause returns why ctx has ended, whose channel is closed.
func Cause(ctx context.Context) (cause error) {
	if err := Call(func() error { cause = context.Cause(ctx); return nil }); err != nil {
		return fmt.Errorf("%w: %w", ErrContext, err)
	}
	return Asked(orMute(cause))
}

// Asked returns an error that may be the cause of a context, or ErrContext if that can't be asked what it is: whoever
// gets it asks.
func Asked(err error) error {
	if wrong := Call(func() error { _ = errors.Is(err, ErrContext); return nil }); wrong != nil {
		return fmt.Errorf("%w: %w", ErrContext, wrong)
	}
	return err
}

// Handler is the user's log handler. A log line is worth less than what it
// is about: its panic ends here.
type Handler struct{ slog.Handler }

func (h Handler) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	_ = Call(func() error { enabled = h.Handler.Enabled(ctx, level); return nil })
	return enabled
}

func (h Handler) Handle(ctx context.Context, record slog.Record) error {
	return Call(func() error { return h.Handler.Handle(ctx, record) })
}

func (h Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	_ = Call(func() error { h.Handler = h.Handler.WithAttrs(attrs); return nil })
	return h
}

func (h Handler) WithGroup(name string) slog.Handler {
	_ = Call(func() error { h.Handler = h.Handler.WithGroup(name); return nil })
	return h
}

// Inherited is a context that has the values of another one, which comes later, and nothing else of it.
type Inherited struct {
	context.Context
	from atomic.Pointer[context.Context]
}

// From gives it the values of ctx, which has to be guarded.
func (i *Inherited) From(ctx context.Context) { i.from.Store(new(context.WithoutCancel(ctx))) }

// Value implements [context.Context].
func (i *Inherited) Value(key any) any {
	if from := i.from.Load(); from != nil {
		return (*from).Value(key)
	}
	return nil
}
