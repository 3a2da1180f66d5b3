package peer

import (
	"context"
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"
)

func actorPeers() []Peer {
	return []Peer{{
		Name: "protoactor-go by hand", Module: "github.com/asynkron/protoactor-go", Promise: Memory, Order: "per shard",
		Settings: "an actor for each shard, its default mailbox",
		Workers:  16, Bulk: 1, Producers: 2, Holds: true, Open: openActors,
	}}
}

type actorSystem struct {
	system *actor.ActorSystem
	shards []*actor.PID
}

func openActors(_ context.Context, r Room) (System, error) {
	s := &actorSystem{system: actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(slog.DiscardHandler)
	}))}
	props := actor.PropsFromFunc(func(c actor.Context) {
		if item, is := c.Message().(*Item); is {
			r.Handle(item.ID, item.Payload)
		}
	})
	for range r.Workers {
		s.shards = append(s.shards, s.system.Root.Spawn(props))
	}
	return s, nil
}

func (s *actorSystem) Enqueue(_ context.Context, items []Item) error {
	for i := range items {
		s.system.Root.Send(s.shards[shardOf(items[i].ID, len(s.shards))], &items[i])
	}
	return nil
}

func (s *actorSystem) Close() error {
	for _, pid := range s.shards {
		if err := s.system.Root.PoisonFuture(pid).Wait(); err != nil {
			return err
		}
	}
	s.system.Shutdown()
	return nil
}
