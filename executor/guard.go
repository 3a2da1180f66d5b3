package executor

import "runtime/debug"

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
