package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
)

func riverPeers() []Peer {
	p := Peer{Module: "github.com/riverqueue/river", Promise: Synced, Order: "none (Sequences are a paid extra)", Workers: 100, Bulk: bulk, Holds: true}
	lite, postgres, tuned := p, p, p
	lite.Name, lite.Settings = "River, SQLite FULL", "1000 workers, FetchCooldown 2 ms, FetchPollInterval 20 ms, one connection as its documents advise, WAL, synchronous FULL, InsertMany"
	lite.Producers, lite.Missing, lite.Workers, lite.Open = 16, noSQLite, 1000, openRiverSQLite
	postgres.Name, postgres.Settings = "River, PostgreSQL", "defaults of both, 100 workers, InsertManyFast"
	postgres.Producers, postgres.Missing, postgres.Served = 64, noPostgres, true
	postgres.Open = func(ctx context.Context, r Room) (System, error) { return openRiverPostgres(ctx, r, 0) }
	tuned.Name, tuned.Settings = "River, PostgreSQL, tuned", "2000 workers, FetchCooldown 2 ms, FetchPollInterval 20 ms, InsertManyFast"
	tuned.Producers, tuned.Missing, tuned.Workers, tuned.Served = 64, noPostgres, 2000, true
	tuned.Open = func(ctx context.Context, r Room) (System, error) {
		return openRiverPostgres(ctx, r, 2*time.Millisecond)
	}
	return []Peer{postgres, tuned, lite}
}

type riverArgs struct {
	ID      string `json:"id"`
	Payload []byte `json:"payload"`
}

// Kind implements river.JobArgs.
func (riverArgs) Kind() string { return "bench" }

type riverSystem[Tx any] struct {
	client *river.Client[Tx]
	many   func(context.Context, []river.InsertManyParams) error
	end    func() error
}

// openRiver has cooldown 0 for its default. The last jobs of many may wait for
// the next poll, so that one is tuned with the other.
func openRiver[Tx any](ctx context.Context, driver riverdriver.Driver[Tx], r Room, cooldown time.Duration, end func() error) (*riverSystem[Tx], error) {
	quiet := slog.New(slog.DiscardHandler)
	client, err := func() (*river.Client[Tx], error) {
		migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: quiet})
		if err != nil {
			return nil, err
		}
		if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
			return nil, err
		}
		workers := river.NewWorkers()
		river.AddWorker(workers, river.WorkFunc(func(_ context.Context, job *river.Job[riverArgs]) error {
			r.Handle(job.Args.ID, job.Args.Payload)
			return nil
		}))
		client, err := river.NewClient(driver, &river.Config{
			Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: r.Workers}}, Workers: workers,
			FetchCooldown: cooldown, FetchPollInterval: 10 * cooldown, Logger: quiet, JobTimeout: -1,
		})
		if err != nil {
			return nil, err
		}
		return client, client.Start(ctx)
	}()
	if err != nil {
		return nil, errors.Join(err, end())
	}
	insert := func(ctx context.Context, params []river.InsertManyParams) error {
		_, err := client.InsertManyFast(ctx, params)
		return err
	}
	if !driver.SupportsListener() { // SQLite has no COPY
		insert = func(ctx context.Context, params []river.InsertManyParams) error {
			_, err := client.InsertMany(ctx, params)
			return err
		}
	}
	return &riverSystem[Tx]{client, insert, end}, nil
}

func openRiverSQLite(ctx context.Context, r Room) (System, error) {
	db, err := openSQLite(r.Dir, "FULL")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	s, err := openRiver(ctx, riversqlite.New(db), r, 2*time.Millisecond, db.Close)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func openRiverPostgres(ctx context.Context, r Room, cooldown time.Duration) (System, error) {
	d, err := openDatabase(ctx, r)
	if err != nil {
		return nil, err
	}
	s, err := openRiver(ctx, riverpgxv5.New(d.pool), r, cooldown, d.close)
	if err != nil {
		return nil, err
	}
	return &riverOnServer{s, d}, nil
}

// riverOnServer is River with PostgreSQL, whose transactions are the user's, too.
type riverOnServer struct {
	*riverSystem[pgx.Tx]
	*database
}

func (s *riverOnServer) EnqueueTx(ctx context.Context, item Item) error {
	return s.transact(ctx, item, func(tx pgx.Tx) error {
		_, err := s.client.InsertTx(ctx, tx, riverArgs(item), nil)
		return err
	})
}

// Settle looks at the states of the jobs.
func (s *riverOnServer) Settle(ctx context.Context, jobs int64) error {
	return until(ctx, func() (bool, error) {
		var done int64
		err := s.alone.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE state = 'completed'").Scan(&done)
		if done > jobs {
			return false, fmt.Errorf("%d jobs are done, and %d were enqueued", done, jobs)
		}
		return done == jobs, err
	})
}

func (s *riverSystem[Tx]) Enqueue(ctx context.Context, items []Item) error {
	if len(items) == 1 {
		_, err := s.client.Insert(ctx, riverArgs(items[0]), nil)
		return err
	}
	params := make([]river.InsertManyParams, len(items))
	for i, item := range items {
		params[i].Args = riverArgs(item)
	}
	return s.many(ctx, params)
}

func (s *riverSystem[Tx]) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(s.client.Stop(ctx), s.end())
}
