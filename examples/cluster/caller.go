//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/strandjobs/strand/journal/postgres"
)

// caller counts for some ids, one call after the other.
type caller struct {
	path     string // of the queue, at a node; empty: numbers
	ids      []string
	accepted []atomic.Int64 // the last number of each id
	doubtful atomic.Int64   // calls that were made again: it is not known whether they were accepted
}

// patience is how long a caller waits for an answer.
const patience = 2 * time.Second

// newCaller makes one of a run, whose name is in its ids: at -url there may be jobs of an earlier one.
func newCaller(path, run string, number, ids int) *caller {
	c := &caller{path: path, accepted: make([]atomic.Int64, ids)}
	for i := range ids {
		c.ids = append(c.ids, fmt.Sprintf("%s-%d-%d", run, number, i))
	}
	return c
}

// count counts until ctx ends.
func (c *caller) count(ctx context.Context, all *cluster) {
	for {
		i := rand.IntN(len(c.ids))
		next := c.accepted[i].Load() + 1
		for {
			if ctx.Err() != nil {
				return
			}
			var err error
			if c.path == "" && rand.IntN(8) == 0 {
				err = all.transact(ctx, c.ids[i], next)
			} else {
				err = all.anyone().put(ctx, c.path, c.ids[i], next)
			}
			if err == nil {
				break
			}
			if !errors.Is(err, errAway) {
				c.doubtful.Add(1)
			}
		}
		c.accepted[i].Store(next)
		time.Sleep(rand.N(20 * time.Millisecond))
	}
}

// transact has a number accepted with a transaction that writes something else, too. Some are rolled back before, half
// of them to a savepoint only: a number below zero must not run.
func (c *cluster) transact(ctx context.Context, id string, number int64) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	write := func(tx pgx.Tx, number int64) error {
		if _, err := tx.Exec(ctx, "INSERT INTO cluster.bill (id, number) VALUES ($1, $2)", id, number); err != nil {
			return err
		}
		return postgres.EnqueueTx(ctx, tx, c.numbers, id, int(number))
	}
	regret := func(tx pgx.Tx) error { return cmp.Or(write(tx, -number), errRolledBack) }
	within := rand.IntN(2) == 0
	if !within {
		if err := c.regretted(pgx.BeginFunc(ctx, c.db, regret)); err != nil {
			return err
		}
	}
	return pgx.BeginFunc(ctx, c.db, func(tx pgx.Tx) error {
		if within {
			if err := c.regretted(pgx.BeginFunc(ctx, tx, regret)); err != nil {
				return err
			}
		}
		return write(tx, number)
	})
}

// regretted counts a transaction that was rolled back as it should be.
func (c *cluster) regretted(err error) error {
	if !errors.Is(err, errRolledBack) {
		return err
	}
	c.rolledBack.Add(1)
	return nil
}

// errRolledBack is why a transaction is rolled back.
var errRolledBack = errors.New("rolled back")

// errAway is returned when a node was not called.
var errAway = errors.New("the node is away")

// put takes a number to a node, if it has the queue.
func (m *member) put(ctx context.Context, path, id string, number int64) error {
	l := m.life.Load()
	if l == nil || l.other && path != "" || time.Now().UnixNano() < l.slowUntil.Load() { // as a load balancer does
		time.Sleep(time.Millisecond)
		return errAway
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	at := fmt.Sprintf("http://%s%s/%s/%d", l.address, path, id, number)
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, at, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		l.slowUntil.Store(time.Now().Add(patience / 4).UnixNano())
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	text, _ := io.ReadAll(answer.Body) // of an error
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", answer.Status, text)
	}
	return nil
}
