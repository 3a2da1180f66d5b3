package actor

import (
	"errors"
	"fmt"
)

var (
	// errStopped is returned when an actor is spawned in a System that was told to
	// stop.
	errStopped = errors.New("actor: system stopped")
	// errName is returned when an actor is spawned under an empty name or one that
	// is in use.
	errName = errors.New("actor: name is empty or in use")
	// errGoexit is the value of a panicError when receive ended its goroutine
	// instead of returning.
	errGoexit = errors.New("actor: receive called runtime.Goexit")
)

// panicError says that receive panicked or called runtime.Goexit: a bug in the code
// behind the actor.
type panicError struct {
	Actor string // name given to Spawn
	Value any    // what was passed to panic, or errGoexit
	Stack []byte // of the goroutine that failed, the frames of the bug included
}

// Error names the actor and the value; the stack is a field because it would flood
// a line of log.
func (e *panicError) Error() string {
	return fmt.Sprintf("actor: bug: %q panicked: %v", e.Actor, e.Value)
}

// Unwrap returns the value of the panic when it was an error.
func (e *panicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// lossError tells the caller of a Stop why it was not clean.
func lossError(failure *panicError, lost int64) error {
	return fmt.Errorf("%w; %d accepted messages lost", failure, lost)
}
