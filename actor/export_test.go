package actor

import "github.com/asynkron/protoactor-go/actor"

// What tests tell failures apart by; the callers of this package pass them on as
// they are.
var ErrStopped, ErrName, ErrGoexit = errStopped, errName, errGoexit

type PanicError = panicError

// Err returns the first failure of any actor, nil as long as there is none.
func (s *System) Err() error {
	if failure := s.failure.Load(); failure != nil {
		return failure
	}
	return nil
}

// Proto lets tests listen to the event stream.
func Proto() *actor.ActorSystem { return shared() }

// InProcess is what protoactor-go knows an actor by.
func (s *System) InProcess(name string) string { return s.inProcess(name) }

// Wake is what protoactor-go calls when a message finds the mailbox idle.
func (r *Ref[M]) Wake(process func()) { r.cell.Schedule(process) }
