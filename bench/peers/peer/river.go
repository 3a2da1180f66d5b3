package peer

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
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
	postgres.Producers, postgres.Missing = 64, noPostgres
	postgres.Open = func(ctx context.Context, r Room) (System, error) { return openRiverPostgres(ctx, r, 0) }
	tuned.Name, tuned.Settings = "River, PostgreSQL, tuned", "2000 workers, FetchCooldown 2 ms, FetchPollInterval 20 ms, InsertManyFast"
	tuned.Producers, tuned.Missing, tuned.Workers = 64, noPostgres, 2000
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
	close  func() error
}

// openRiver has cooldown 0 for its default. The last jobs of many may wait for
// the next poll, so that one is tuned with the other.
func openRiver[Tx any](ctx context.Context, driver riverdriver.Driver[Tx], r Room, cooldown time.Duration, end func() error) (System, error) {
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
	return openRiver(ctx, riversqlite.New(db), r, 2*time.Millisecond, db.Close)
}

func openRiverPostgres(ctx context.Context, r Room, cooldown time.Duration) (System, error) {
	server, url, err := startPostgres(ctx, filepath.Join(r.Dir, "postgres"))
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.New(ctx, url+"&pool_max_conns=32")
	if err == nil {
		err = ready(ctx, pool)
	}
	if err != nil {
		return nil, errors.Join(err, server.stop())
	}
	return openRiver(ctx, riverpgxv5.New(pool), r, cooldown, func() error { pool.Close(); return server.stop() })
}

// ready waits until a server that accepts connections also answers.
func ready(ctx context.Context, pool *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, startUp)
	defer cancel()
	for {
		err := pool.Ping(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
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
	return errors.Join(s.client.Stop(ctx), s.close())
}
