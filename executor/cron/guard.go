package cron

import (
	"context"
	"log/slog"
	"runtime/debug"
)

// guarded calls f, which is user code, and turns a panic into an error. When f ends
// the goroutine with Goexit, nothing can stop that, and exited is called.
func guarded(schedule string, exited func(error), f func()) (err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		e := &PayloadError{Schedule: schedule, Value: recover(), Stack: string(debug.Stack())}
		if err = e; e.Value == nil {
			exited(e)
		}
	}()
	f()
	returned = true
	return nil
}

// report logs. A line is worth less than what it is about: a panic of the user's
// handler ends here.
func (c *Cron) report(level slog.Level, message string, attrs ...slog.Attr) {
	_ = guarded("", func(error) {}, func() { c.cfg.Logger.LogAttrs(context.Background(), level, message, attrs...) })
}
