package executor

import "runtime/debug"

// guarded calls f, which is user code, and turns a panic into a [PanicError].
// It is the one place that recovers. When f ends the goroutine with Goexit,
// nothing can stop that: guarded does not return, and the deferred functions
// of its callers run.
func guarded(f func() error) (err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: string(debug.Stack())}
		}
	}()
	err = f()
	returned = true
	return err
}
