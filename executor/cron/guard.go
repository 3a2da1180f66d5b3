package cron

import (
	"fmt"
	"runtime/debug"
)

// guarded calls f, which is user code, and turns a panic into an error. When f
// ends the goroutine with Goexit, nothing can stop that, and exited is called.
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

// text prints a value of the user's, whose methods may panic in turn.
func text(value any) (s string) {
	defer func() {
		if recover() != nil {
			s = fmt.Sprintf("%T", value)
		}
	}()
	return fmt.Sprint(value)
}
