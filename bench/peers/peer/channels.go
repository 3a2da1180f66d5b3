package peer

import (
	"context"
	"sync"
)

func channelPeers() []Peer {
	return []Peer{{
		Name: "channels by hand", Promise: Memory, Order: "per shard",
		Settings: "a goroutine and a channel of 1024 for each shard",
		Workers:  16, Bulk: 1, Producers: 2, Open: openChannels,
	}}
}

type channelSystem struct {
	lanes []chan Item
	done  sync.WaitGroup
}

func openChannels(_ context.Context, r Room) (System, error) {
	s := &channelSystem{lanes: make([]chan Item, r.Workers)}
	for i := range s.lanes {
		lane := make(chan Item, 1024)
		s.lanes[i] = lane
		s.done.Go(func() {
			for item := range lane {
				r.Handle(item.ID, item.Payload)
			}
		})
	}
	return s, nil
}

func (s *channelSystem) Enqueue(ctx context.Context, items []Item) error {
	for _, item := range items {
		select {
		case s.lanes[shardOf(item.ID, len(s.lanes))] <- item:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (s *channelSystem) Close() error {
	for _, lane := range s.lanes {
		close(lane)
	}
	s.done.Wait()
	return nil
}
