package postgres_test

import (
	"context"
	"errors"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/journal/postgres"
)

// Each process that runs this takes its part of the partitions, and enqueues for all of them.
func Example() {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	const url = "postgres://app@db1,db2/app?target_session_attrs=read-write"
	if err := postgres.Migrate(ctx, url, postgres.Config{}); err != nil {
		log.Fatal(err)
	}
	x, err := postgres.Open(ctx, url, postgres.Config{})
	if err != nil {
		log.Fatal(err)
	}
	mails, err := executor.Handle(x, "mails", func(_ context.Context, job executor.Job[string]) error {
		log.Printf("to %s: %s", job.ID, job.Payload)
		return nil
	}, executor.QueueConfig[string]{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := mails.Enqueue(ctx, "ann@example.org", "welcome"); err != nil {
		log.Fatal(err)
	}
	if err := x.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// Each partition has the schedule: the one that the id of a tick belongs to enqueues it. Nothing
// stops the Crons: each ends with the executor of its partition, and the next owner goes on.
func ExampleConfig_schedule() {
	ctx := context.Background()
	x, err := postgres.Open(ctx, "postgres://app@db1,db2/app", postgres.Config{Setup: func(part *executor.Executor, _ int) error {
		reports, err := executor.Handle(part, "reports", func(_ context.Context, job executor.Job[time.Time]) error {
			log.Printf("the report of %v", job.Payload)
			return nil
		}, executor.QueueConfig[time.Time]{})
		if err != nil {
			return err
		}
		c, err := cron.New(part, cron.Config{})
		if err != nil {
			return err
		}
		if err := cron.Add(ctx, c, cron.Schedule[time.Time]{
			Name: "report", Spec: "CRON_TZ=Europe/Berlin 0 4 * * *", Queue: reports,
			Missed:  cron.MissedOnce, // or a partition that moves at four loses the day
			Payload: func(tick time.Time) time.Time { return tick },
		}); err != nil {
			return err
		}
		return c.Start()
	}})
	if err != nil {
		log.Fatal(err)
	}
	if err := x.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// A handler that was paused for longer than its lease writes nothing once the next owner has.
func ExampleToken() {
	var pool *pgxpool.Pool   // of the accounts' database
	var x *executor.Executor // of postgres.Open
	_, err := executor.Handle(x, "balances", func(ctx context.Context, job executor.Job[int]) error {
		tag, err := pool.Exec(ctx, "UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2",
			job.Payload, postgres.Token(ctx), job.ID)
		if err == nil && tag.RowsAffected() == 0 {
			err = errors.New("there is no such account, or another owner was here")
		}
		return err
	}, executor.QueueConfig[int]{})
	if err != nil {
		log.Fatal(err)
	}
}
