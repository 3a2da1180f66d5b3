package executor

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

// PanicError is the error of a job whose handler, or of a payload whose codec,
// panicked.
type PanicError struct {
	Value any
	Stack string
}

func (e *PanicError) Error() string {
	return "panic: " + text(func() string { return fmt.Sprint(e.Value) })
}

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// guarded calls f, which is user code, and turns a panic into a [PanicError]. It is
// the one place that recovers. When f ends the goroutine with Goexit, nothing can
// stop that: guarded does not return, and the deferred functions of its callers
// run.
func guarded(f func() error) (err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		// A nil value is Goexit, and then no caller sees err; or panic(nil) in a
		// program that was built with panicnil=1.
		err = &PanicError{Value: recover(), Stack: string(debug.Stack())}
	}()
	err = f()
	returned = true
	return err
}

// maxErrorText is how much of an error's text is kept with a job.
const maxErrorText = 4 << 10

// noText stands for what an error said.
const noText = "an error whose text can't be had: a method of it, or a hook, panicked or exited"

// text returns what the first of fs says that does not panic: at most 4 KiB of
// valid UTF-8.
func text(fs ...func() string) string {
	s := noText
	for _, f := range fs {
		if guarded(func() error { s = f(); return nil }) == nil {
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

// ErrContext is returned for a context that can't be asked whether it has ended: it
// is nil, or a method of it panicked.
var ErrContext = errors.New("executor: unusable context")

var errNilContext = fmt.Errorf("%w: it is nil; context.Background() is one that never ends", ErrContext)

// A context is its caller's code, which may block, panic, end the goroutine or call
// the executor back. So it is asked here only, and never under a lock or inside a
// gate. One that can't be asked counts as ended.

// guardedContext is a caller's context whose methods don't panic.
type guardedContext struct {
	context.Context
	done <-chan struct{}
}

// usable returns ctx as it may be handed on, to other goroutines, too. Enqueue does
// without it, because it costs an allocation.
func usable(ctx context.Context) (context.Context, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	c := &guardedContext{Context: ctx}
	if err := guarded(func() error { c.done = ctx.Done(); return nil }); err != nil {
		return nil, fmt.Errorf("%w: Done: %w", ErrContext, err)
	}
	return c, nil
}

func (c *guardedContext) Done() <-chan struct{} { return c.done }

func (c *guardedContext) Err() (err error) {
	if err := guarded(func() error { err = c.Context.Err(); return nil }); err != nil {
		return fmt.Errorf("%w: Err: %w", ErrContext, err)
	}
	select {
	case <-c.done:
		return orMute(err)
	default:
		return err
	}
}

func (c *guardedContext) Value(key any) (value any) {
	_ = guarded(func() error { value = c.Context.Value(key); return nil })
	return value
}

func (c *guardedContext) Deadline() (deadline time.Time, ok bool) {
	_ = guarded(func() error { deadline, ok = c.Context.Deadline(); return nil })
	return deadline, ok
}

// orMute is the error of a context that has ended.
func orMute(err error) error {
	if err == nil {
		return fmt.Errorf("%w: it has ended and gives no reason", ErrContext)
	}
	return err
}

// done returns the channel that is closed when ctx ends.
func done(ctx context.Context) (c <-chan struct{}) {
	if guarded(func() error { c = ctx.Done(); return nil }) != nil {
		over := make(chan struct{})
		close(over)
		return over
	}
	return c
}

// ended returns why ctx has ended, whose channel is closed.
func ended(ctx context.Context) error {
	var cause error
	if err := guarded(func() error { cause = context.Cause(ctx); return nil }); err != nil {
		return fmt.Errorf("%w: %w", ErrContext, err)
	}
	return orMute(cause)
}

// inherited gives the contexts of handlers their values: those of the context that
// Start was called with, and nothing else of it.
type inherited struct {
	context.Context
	from atomic.Pointer[context.Context]
}

// Value implements [context.Context].
func (i *inherited) Value(key any) any {
	if from := i.from.Load(); from != nil {
		return (*from).Value(key) // it is guarded: see Start
	}
	return nil
}

// guardedHandler is the user's log handler. A log line is worth less than what it
// is about: its panic ends here.
type guardedHandler struct{ slog.Handler }

func (h guardedHandler) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	_ = guarded(func() error { enabled = h.Handler.Enabled(ctx, level); return nil })
	return enabled
}

func (h guardedHandler) Handle(ctx context.Context, record slog.Record) error {
	return guarded(func() error { return h.Handler.Handle(ctx, record) })
}

func (h guardedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	_ = guarded(func() error { h.Handler = h.Handler.WithAttrs(attrs); return nil })
	return h
}

func (h guardedHandler) WithGroup(name string) slog.Handler {
	_ = guarded(func() error { h.Handler = h.Handler.WithGroup(name); return nil })
	return h
}
