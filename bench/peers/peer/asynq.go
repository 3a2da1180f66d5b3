package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"log"
	"path/filepath"
	"time"

	"github.com/hibiken/asynq"
)

func asynqPeers() []Peer {
	p := Peer{
		Name: "asynq, appendfsync always", Module: "github.com/hibiken/asynq", Promise: Synced, Order: "none",
		Settings: "32 workers; where throughput counts, TaskCheckInterval 10 ms; else defaults; Redis on loopback, AOF, appendfsync always",
		Workers:  32, Bulk: 1, Producers: many, Holds: true, Missing: noRedis,
		Open: func(ctx context.Context, r Room) (System, error) { return openAsynq(ctx, r, "always") },
	}
	second := p
	second.Name, second.Promise = "asynq, appendfsync everysec", Second
	second.Settings = "32 workers; where throughput counts, TaskCheckInterval 10 ms; else defaults; Redis on loopback, AOF, appendfsync everysec"
	second.Open = func(ctx context.Context, r Room) (System, error) { return openAsynq(ctx, r, "everysec") }
	return []Peer{p, second}
}

type asynqSystem struct {
	client *asynq.Client
	server *asynq.Server
	redis  *process
}

func openAsynq(ctx context.Context, r Room, appendfsync string) (System, error) {
	redis, address, err := startRedis(ctx, filepath.Join(r.Dir, "redis"), appendfsync)
	if err != nil {
		return nil, err
	}
	// When it finds its queue empty, it looks again after half a second to one
	// and a half by default: longer than a measurement.
	check := 10 * time.Millisecond
	if r.Lonely {
		check = 0 // the default
	}
	where := asynq.RedisClientOpt{Addr: address, PoolSize: many}
	s := &asynqSystem{asynq.NewClient(where), asynq.NewServer(where, asynq.Config{
		Concurrency: r.Workers, TaskCheckInterval: check, Logger: silent{}, ShutdownTimeout: 5 * time.Second,
	}), redis}
	err = s.server.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		data := task.Payload()
		length, n := binary.Uvarint(data)
		r.Handle(string(data[n:n+int(length)]), data[n+int(length):])
		return nil
	}))
	if err != nil {
		return nil, errors.Join(err, s.client.Close(), redis.stop())
	}
	return s, nil
}

func (s *asynqSystem) Enqueue(ctx context.Context, items []Item) error {
	for _, item := range items {
		data := binary.AppendUvarint(make([]byte, 0, 2+len(item.ID)+len(item.Payload)), uint64(len(item.ID)))
		data = append(append(data, item.ID...), item.Payload...)
		if _, err := s.client.EnqueueContext(ctx, asynq.NewTask("bench", data)); err != nil {
			return err
		}
	}
	return nil
}

func (s *asynqSystem) Close() error {
	s.server.Shutdown()
	return errors.Join(s.client.Close(), s.redis.stop())
}

// silent is a logger that says nothing, and ends the process where asynq wants
// it to.
type silent struct{}

func (silent) Debug(...any)      {}
func (silent) Info(...any)       {}
func (silent) Warn(...any)       {}
func (silent) Error(...any)      {}
func (silent) Fatal(args ...any) { log.Fatal(args...) }
