package actor

import (
	"errors"
	"fmt"
)

var (
	// ErrStopped is returned when an actor is spawned in a System that was told to stop.
	ErrStopped = errors.New("actor: system stopped")
	// ErrName is returned when an actor is spawned under an empty name or one that is in use.
	ErrName = errors.New("actor: name is empty or in use")
	// ErrGoexit is the value of a [PanicError] when receive ended its goroutine instead of returning.
	ErrGoexit = errors.New("actor: receive called runtime.Goexit")
)

// PanicError says that receive panicked or called runtime.Goexit: a bug in the code behind the actor.
type PanicError struct {
	Actor string // name given to Spawn
	Value any    // what was passed to panic, or [ErrGoexit]
	Stack []byte // of the goroutine that failed, the frames of the bug included
}

// Error names the actor and the value; the stack is a field because it would flood a line of log.
func (e *PanicError) Error() string {
	return fmt.Sprintf("actor: bug: %q panicked: %v", e.Actor, e.Value)
}

// Unwrap returns the value of the panic when it was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// lossError tells the caller of a Stop why it was not clean.
func lossError(failure *PanicError, lost int64) error {
	return fmt.Errorf("%w; %d accepted messages lost", failure, lost)
}
