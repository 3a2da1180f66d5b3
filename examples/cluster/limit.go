//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/strandjobs/strand/executor"
)

// concurrent is how many jobs of the queue extra may run at a time, on all nodes together.
const concurrent = 2

// handleExtra registers the queue extra: as numbers, under a limit of the cluster.
func handleExtra(x *executor.Executor, c *counting) (*executor.Queue[int], error) {
	limit, err := executor.NewLimit(x, "extra", executor.LimitConfig{Concurrent: concurrent, Cluster: true})
	if err != nil {
		return nil, err
	}
	cfg := numbersConfig
	cfg.Conditions.Limits = []executor.LimitOf[int]{{Limit: limit}}
	return executor.Handle(x, "extra", watched(c.runSlowly), cfg)
}

// runSlowly is run, and a while. It writes down a span in which it ran for certain, by the server's clock, while its
// node had the lease: what runs on without one is not kept by the limit. The server says when it has begun and how long
// the lease is at least, and this node how long it has taken since the answer. So it does not matter how late the
// answer comes, or what is written here arrives.
func (c *counting) runSlowly(ctx context.Context, job executor.Job[int]) error {
	partition, err := c.partitionOf(job.ID)
	if err != nil {
		return err
	}
	var began, expires time.Time
	err = c.db.QueryRow(ctx, `SELECT clock_timestamp(), expires FROM strand.lease
		WHERE partition = $1 AND owner = $2 AND expires > clock_timestamp()`, partition, c.node).Scan(&began, &expires)
	if err = cmp.Or(err, ctx.Err()); err != nil { // the lease may be a later one of the node, with another run
		return err
	}
	answered := time.Now()
	err = c.run(ctx, job)
	select {
	case <-ctx.Done():
		return errors.Join(err, ctx.Err())
	case <-time.After(rand.N(40 * time.Millisecond)):
	}
	_, failed := c.db.Exec(ctx, "INSERT INTO cluster.span VALUES ($1, least($1::timestamptz + $2::interval, $3))",
		began, time.Since(answered), expires)
	return errors.Join(err, failed)
}
