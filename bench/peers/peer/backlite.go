package peer

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/mikestefanello/backlite"
)

func backlitePeers() []Peer {
	p := Peer{
		Name: "backlite, FULL", Module: "github.com/mikestefanello/backlite", Promise: Synced, Order: "none",
		Settings: "README, 100 workers (5 do a twentieth), SQLite WAL, synchronous FULL",
		Workers:  100, Bulk: bulk, Producers: 16, Holds: true, Missing: noSQLite,
		Open: func(ctx context.Context, r Room) (System, error) { return openBacklite(ctx, r, "FULL") },
	}
	readme := p
	readme.Name, readme.Promise = "backlite, README", Buffered
	readme.Settings = "README, 100 workers (5 do a twentieth), SQLite WAL, synchronous NORMAL"
	readme.Open = func(ctx context.Context, r Room) (System, error) { return openBacklite(ctx, r, "NORMAL") }
	return []Peer{p, readme}
}

type backliteTask struct {
	ID      string
	Payload []byte
}

func (backliteTask) Config() backlite.QueueConfig {
	return backlite.QueueConfig{Name: "bench", MaxAttempts: 25, Backoff: 5 * time.Second, Timeout: time.Hour}
}

type backliteSystem struct {
	db     *sql.DB
	client *backlite.Client
}

func openBacklite(ctx context.Context, r Room, synchronous string) (System, error) {
	db, err := openSQLite(r.Dir, synchronous)
	if err != nil {
		return nil, err
	}
	client, err := backlite.NewClient(backlite.ClientConfig{DB: db, NumWorkers: r.Workers, ReleaseAfter: time.Hour})
	if err == nil {
		err = client.Install()
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	client.Register(backlite.NewQueue(func(_ context.Context, task backliteTask) error {
		r.Handle(task.ID, task.Payload)
		return nil
	}))
	client.Start(ctx)
	return &backliteSystem{db, client}, nil
}

func (s *backliteSystem) Enqueue(ctx context.Context, items []Item) error {
	tasks := make([]backlite.Task, len(items))
	for i, item := range items {
		tasks[i] = backliteTask(item)
	}
	_, err := s.client.Add(tasks...).Ctx(ctx).Save()
	return err
}

func (s *backliteSystem) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var err error
	if !s.client.Stop(ctx) {
		err = errors.New("backlite: handlers still run")
	}
	return errors.Join(err, s.db.Close())
}
