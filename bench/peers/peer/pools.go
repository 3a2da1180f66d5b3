package peer

import (
	"context"
	"errors"
	"time"

	"github.com/alitto/pond/v2"
	"github.com/panjf2000/ants/v2"
)

const (
	pondModule = "github.com/alitto/pond/v2"
	antsModule = "github.com/panjf2000/ants/v2"
	poolSize   = 16
)

// poolPeers are pools of goroutines: unordered as they are meant to be used,
// and as one pool of one worker for each shard, which is how people get jobs of
// one key in order from them.
func poolPeers() []Peer {
	p := Peer{Promise: Memory, Workers: poolSize, Bulk: 1, Producers: 2}
	plain, keyed := p, p
	plain.Order, keyed.Order = "none", "per shard"
	pondPool, pondShards, antsPool, antsShards := plain, keyed, plain, keyed
	pondPool.Name, pondPool.Module, pondPool.Holds, pondPool.Settings = "pond", pondModule, true, "one pool, Go"
	pondPool.Open = func(_ context.Context, r Room) (System, error) { return openPond(r, 1, r.Workers), nil }
	pondShards.Name, pondShards.Module, pondShards.Holds, pondShards.Settings = "pond, a pool per shard", pondModule, true, "a pool of one for each shard, Go"
	pondShards.Open = func(_ context.Context, r Room) (System, error) { return openPond(r, r.Workers, 1), nil }
	antsPool.Name, antsPool.Module, antsPool.Settings = "ants", antsModule, "one pool, Submit, which blocks while all workers are busy"
	antsPool.Open = func(_ context.Context, r Room) (System, error) { return openAnts(r, 1, r.Workers) }
	antsShards.Name, antsShards.Module, antsShards.Settings = "ants, a pool per shard", antsModule, "a pool of one for each shard, Submit, which blocks while it is busy"
	antsShards.Open = func(_ context.Context, r Room) (System, error) { return openAnts(r, r.Workers, 1) }
	return []Peer{pondPool, pondShards, antsPool, antsShards}
}

type pondSystem struct {
	pools []pond.Pool
	room  Room
}

func openPond(r Room, pools, workers int) System {
	s := &pondSystem{room: r}
	for range pools {
		s.pools = append(s.pools, pond.NewPool(workers))
	}
	return s
}

func (s *pondSystem) Enqueue(_ context.Context, items []Item) error {
	for i := range items {
		item := &items[i]
		if err := s.pools[shardOf(item.ID, len(s.pools))].Go(func() { s.room.Handle(item.ID, item.Payload) }); err != nil {
			return err
		}
	}
	return nil
}

func (s *pondSystem) Close() error {
	for _, p := range s.pools {
		p.StopAndWait()
	}
	return nil
}

type antsSystem struct {
	pools []*ants.Pool
	room  Room
}

func openAnts(r Room, pools, workers int) (System, error) {
	s := &antsSystem{room: r}
	for range pools {
		p, err := ants.NewPool(workers)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.pools = append(s.pools, p)
	}
	return s, nil
}

func (s *antsSystem) Enqueue(_ context.Context, items []Item) error {
	for i := range items {
		item := &items[i]
		if err := s.pools[shardOf(item.ID, len(s.pools))].Submit(func() { s.room.Handle(item.ID, item.Payload) }); err != nil {
			return err
		}
	}
	return nil
}

func (s *antsSystem) Close() error {
	var errs []error
	for _, p := range s.pools {
		errs = append(errs, p.ReleaseTimeout(10*time.Second))
	}
	return errors.Join(errs...)
}
