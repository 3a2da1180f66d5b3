package peer

import (
	"context"
	"path/filepath"

	"github.com/strandjobs/strand/executor"
)

func strand() []Peer {
	p := Peer{
		Name: "Strand", Promise: Synced, Order: "per id", Settings: "defaults, 5 workers",
		Workers: 5, Bulk: bulk, Producers: many, Holds: true,
		Open: func(ctx context.Context, r Room) (System, error) {
			return openStrand(ctx, filepath.Join(r.Dir, "jobs.strand"), r, executor.DurabilitySync)
		},
	}
	async := p
	async.Name, async.Promise, async.Settings = "Strand, Async", Buffered, "defaults, 5 workers, Durability: Async"
	async.Open = func(ctx context.Context, r Room) (System, error) {
		return openStrand(ctx, filepath.Join(r.Dir, "jobs.strand"), r, executor.DurabilityAsync)
	}
	memory := p
	memory.Name, memory.Promise, memory.Settings = "Strand, in memory", Memory, "defaults, 5 workers, no directory"
	memory.Open = func(ctx context.Context, r Room) (System, error) {
		return openStrand(ctx, "", r, executor.DurabilitySync)
	}
	return []Peer{p, async, memory}
}

type strandSystem struct {
	x *executor.Executor
	q *executor.Queue[[]byte]
}

// openStrand has the default settings, but for the workers. It runs events, as most
// queues do: a call gets one payload, as with every other peer.
func openStrand(ctx context.Context, dir string, r Room, d executor.Durability) (System, error) {
	x, err := executor.Open(dir, executor.Config{Workers: r.Workers, Durability: d})
	if err != nil {
		return nil, err
	}
	q, err := executor.Handle(x, "bench", func(_ context.Context, job executor.Job[[]byte]) error {
		r.Handle(job.ID, job.Payload)
		return nil
	}, executor.QueueConfig[[]byte]{})
	if err == nil {
		err = x.Start(ctx)
	}
	if err != nil {
		_ = x.Stop(context.Background()) // the first error counts
		return nil, err
	}
	return &strandSystem{x, q}, nil
}

func (s *strandSystem) Enqueue(ctx context.Context, items []Item) error {
	if len(items) == 1 {
		_, err := s.q.Enqueue(ctx, items[0].ID, items[0].Payload)
		return err
	}
	jobs := make([]executor.Item[[]byte], len(items))
	for i, item := range items {
		jobs[i].ID, jobs[i].Payload = item.ID, item.Payload
	}
	_, err := s.q.EnqueueMany(ctx, jobs)
	return err
}

func (s *strandSystem) Close() error { return s.x.Stop(context.Background()) }
