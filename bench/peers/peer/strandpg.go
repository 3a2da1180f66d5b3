package peer

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/postgres"
)

// strandOnPostgres is a node that owns all partitions, and callers of that node, or of
// another one in the same process, which has to go through the inbox. With one partition there
// is one log, as with bbolt.
func strandOnPostgres() []Peer {
	kind := func(name, settings string, partitions int, own bool) Peer {
		return Peer{
			Name: name, Promise: Synced, Order: "per id", Settings: settings, Workers: 5, Bulk: bulk, Producers: many,
			Holds: true, Served: true, OneLog: partitions == 1, Missing: noPostgres,
			Open: func(ctx context.Context, r Room) (System, error) {
				return openStrandOnPostgres(ctx, r, partitions, own)
			},
		}
	}
	return []Peer{
		kind("Strand, PostgreSQL", "defaults: 16 partitions, 5 workers each; a node that enqueues, through the inbox, and one that owns", 16, false),
		kind("Strand, PostgreSQL, owner", "the same with one node, past the inbox; it splits a call of many by partition", 16, true),
		kind("Strand, PostgreSQL, one log", "one partition, one node", 1, true),
	}
}

type strandOnServer struct {
	*database
	partitions  int
	owner, from *executor.Executor // the same where the owner enqueues
	q           *executor.Queue[[]byte]
}

func openStrandOnPostgres(ctx context.Context, r Room, partitions int, own bool) (System, error) {
	d, err := openDatabase(ctx, r)
	if err != nil {
		return nil, err
	}
	s := &strandOnServer{database: d, partitions: partitions}
	if err := s.start(ctx, r, own); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *strandOnServer) start(ctx context.Context, r Room, own bool) (err error) {
	if err := postgres.Migrate(ctx, s.url, postgres.Config{Partitions: s.partitions}); err != nil {
		return err
	}
	open := func() (*executor.Executor, error) {
		n, err := postgres.Open(ctx, s.url, postgres.Config{SingleServer: !r.Standby, Executor: executor.Config{Workers: r.Workers}})
		if err != nil {
			return nil, err
		}
		s.q, err = executor.Handle(n, "bench", func(_ context.Context, job executor.Job[[]byte]) error {
			r.Handle(job.ID, job.Payload)
			return nil
		}, executor.QueueConfig[[]byte]{})
		return n, err
	}
	if s.owner, err = open(); err != nil {
		return err
	}
	if err := s.owner.Start(ctx); err != nil {
		return err
	}
	if s.from = s.owner; !own {
		if s.from, err = open(); err != nil { // and so the queue is of this one
			return err
		}
	}
	return until(ctx, func() (bool, error) { return len(postgres.NodeOf(s.owner).Partitions()) == s.partitions, s.owner.Err() })
}

func (s *strandOnServer) Enqueue(ctx context.Context, items []Item) error {
	if len(items) == 1 {
		_, err := s.q.Enqueue(ctx, items[0].ID, items[0].Payload)
		return err
	}
	parts := make(map[int][]executor.Item[[]byte])
	for _, item := range items {
		part := 0
		if s.from == s.owner {
			number, err := postgres.NodeOf(s.from).PartitionOf(item.ID)
			if err != nil {
				return err
			}
			part = number
		}
		parts[part] = append(parts[part], executor.Item[[]byte]{ID: item.ID, Payload: item.Payload})
	}
	var group sync.WaitGroup
	failed := make(chan error, len(parts))
	for _, part := range parts {
		group.Go(func() {
			_, err := s.q.EnqueueMany(ctx, part)
			failed <- err
		})
	}
	group.Wait()
	var err error
	for range parts {
		err = errors.Join(err, <-failed)
	}
	return err
}

func (s *strandOnServer) EnqueueTx(ctx context.Context, item Item) error {
	return s.transact(ctx, item, func(tx pgx.Tx) error { return postgres.EnqueueTx(ctx, tx, s.q, item.ID, item.Payload) })
}

// Settle sums up what the executors of all partitions have done since they were opened.
func (s *strandOnServer) Settle(ctx context.Context, jobs int64) error {
	return until(ctx, func() (bool, error) {
		var done int64
		for _, x := range postgres.NodeOf(s.owner).Partitions() {
			stats, err := x.Stats(ctx)
			if err != nil {
				return false, err
			}
			for _, q := range stats.Queues {
				done += int64(q.Done)
			}
		}
		if done > jobs {
			return false, fmt.Errorf("%d jobs are done, and %d were enqueued", done, jobs)
		}
		return done == jobs, nil
	})
}

func (s *strandOnServer) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), windDown)
	defer cancel()
	var err error
	if s.from != nil && s.from != s.owner {
		err = s.from.Stop(ctx)
	}
	if s.owner != nil {
		err = errors.Join(err, s.owner.Stop(ctx))
	}
	return errors.Join(err, s.database.close())
}
