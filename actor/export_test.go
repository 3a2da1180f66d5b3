package actor

import "github.com/asynkron/protoactor-go/actor"

// Proto lets tests listen to the event stream.
func (s *System) Proto() *actor.ActorSystem { return s.proto }
