package actor

import "github.com/asynkron/protoactor-go/actor"

// Proto lets tests listen to the event stream.
func (s *System) Proto() *actor.ActorSystem {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.protoLocked()
}

// Wake is what protoactor-go calls when a message finds the mailbox idle.
func (r *Ref[M]) Wake(process func()) { r.cell.Schedule(process) }
