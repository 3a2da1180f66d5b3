package postgres_test

import (
	"context"
	"log"
	"os/signal"
	"syscall"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/postgres"
)

// Each process that runs this takes its part of the partitions, and enqueues for all of them.
func Example() {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	const url = "postgres://app@db1,db2/app?target_session_attrs=read-write"
	if err := postgres.Migrate(ctx, url, postgres.Schema{}); err != nil {
		log.Fatal(err)
	}
	n, err := postgres.Open(ctx, url, postgres.Config{})
	if err != nil {
		log.Fatal(err)
	}
	mails, err := postgres.Handle(n, "mails", func(_ context.Context, job executor.Job[string]) error {
		log.Printf("to %s: %s", job.ID, job.Payload)
		return nil
	}, executor.QueueConfig[string]{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := mails.Enqueue(ctx, "ann@example.org", "welcome"); err != nil {
		log.Fatal(err)
	}
	if err := n.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
