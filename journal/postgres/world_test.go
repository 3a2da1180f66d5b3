//go:build unix

package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/bench/child"
	"github.com/strandjobs/strand/bench/world"
	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cluster"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// at is where a world has its partition, which is the only one.
type at struct{ URL, Schema string }

const placeFile = "place"

// own is a store with the pool that its process has for it.
type own struct {
	*partitionStore
	pool *pgxpool.Pool
}

func (o own) Close() error {
	err := o.partitionStore.Close()
	o.pool.Close()
	return err
}

// TestLife is what a process does that TestWorlds starts: it takes the partition from the
// one that was killed, whose last commit may be under way.
func TestLife(t *testing.T) {
	p := people{errands: make(chan errand), said: make(chan said)}
	defer close(p.errands)
	go p.elsewhere()
	world.Life(t, p.open, &p)
}

// people are those who act on the executor of a world: by its Inspector, where its partition is owned, and on a node
// that owns nothing, and is not in the bubble: time stands there while its answer is waited for.
type people struct {
	at      at
	store   *partitionStore // of the executor that there is
	turn    chan struct{}   // holds a token while a node is the owner
	errands chan errand
	said    chan said
}

// deed is what is to be done, or explained.
type deed struct {
	Do     string
	Which  inspect.Selection
	Reason string
}

// errand is what the other node is to have done.
type errand struct {
	deed
	within time.Duration
}

// done has the inspector of a cluster do it, which has the queue from then on.
func (d *deed) done(ctx context.Context, front *executor.Executor) (s said) {
	_, _ = executor.Handle(front, d.Which.Queue, func(context.Context, executor.Job[int]) error { return nil }, executor.QueueConfig[int]{}) // it may have that
	if d.Do == "explain" {
		s.why, s.err = front.Inspect().Explain(ctx, d.Which.Queue, d.Which.IDs[0])
	} else {
		s.did, s.err = front.Inspect().Act(ctx, d.Do, d.Which, d.Reason)
	}
	return s
}

type said struct {
	did inspect.Requeued
	why inspect.Explanation
	err error
}

func (p *people) open(dir string, cfg journal.Config) (*journal.Log, error) {
	text, err := os.ReadFile(filepath.Join(dir, placeFile))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &p.at); err != nil {
		return nil, err
	}
	pool, err := newPool(context.Background(), p.at.URL, true, 4)
	if err != nil {
		return nil, err
	}
	epoch, err := take(context.Background(), pool, p.at.Schema, 0)
	if err != nil {
		return nil, err
	}
	// What a process wanted that was killed would be done at some time, which no world knows.
	if _, err := pool.Exec(context.Background(), in(p.at.Schema, "DELETE FROM {schema}.inbox")); err != nil {
		return nil, err
	}
	if p.store, err = openStore(context.Background(), pool, p.at.Schema, 0, epoch); err != nil {
		return nil, err
	}
	p.turn = make(chan struct{}, 1)
	return journal.OpenStore(own{p.store, pool}, cfg)
}

func (p *people) Act(ctx context.Context, x *executor.Executor, name string, which inspect.Selection, reason string) (inspect.Requeued, error) {
	if rand.IntN(3) == 0 {
		return x.Inspect().Act(ctx, name, which, reason)
	}
	s := p.ask(ctx, x, deed{name, which, reason})
	return s.did, s.err
}

func (p *people) Explain(ctx context.Context, x *executor.Executor, queue, id string) (inspect.Explanation, error) {
	if rand.IntN(3) == 0 {
		return x.Inspect().Explain(ctx, queue, id)
	}
	s := p.ask(ctx, x, deed{Do: "explain", Which: inspect.SelectIDs(queue, id)})
	return s.why, s.err
}

// ask has a deed done by way of the inbox: as the owner does it himself, or from elsewhere.
func (p *people) ask(ctx context.Context, x *executor.Executor, d deed) (s said) {
	p.turn <- struct{}{}
	defer func() { <-p.turn }()
	owner := &Node{base: context.Background(), texts: textsFor(p.at.Schema, time.Time{}, 0), log: slog.New(slog.DiscardHandler),
		longestWait: longestWait, held: make(map[int]*partition)}
	owner.lines.log, owner.asking.n, owner.outbox.n, owner.outbox.closed = owner.log, owner, owner, executor.ErrClosed
	owner.notifier.n, owner.notifier.due = owner, make(map[string]bool)
	part := newPartition(owner, 0)
	defer part.cancel(nil)
	part.x, part.store, owner.held[0] = x, p.store, part
	part.owner.Store(p.store.epoch)
	part.taker = newTaker(part)
	part.ready.Store(true)
	var taking sync.WaitGroup
	taking.Go(part.taker.run)
	defer taking.Wait()
	defer part.taker.stop()
	if rand.IntN(2) == 0 {
		front, _, err := cluster.Open(cluster.Cluster{Of: owner, Partitions: 1, PartitionOf: func(string) (int, error) { return 0, nil },
			Ask: owner.asking.ask, Stop: func(context.Context) error { return nil }}, executor.Config{Logger: owner.log})
		if s.err = err; err == nil {
			s = d.done(ctx, front)
			s.err = errors.Join(s.err, front.Stop(context.Background()))
		}
		return s
	}
	e := errand{d, time.Minute}
	if until, ok := ctx.Deadline(); ok {
		e.within = min(e.within, time.Until(until))
	}
	p.errands <- e
	for {
		over := false
		select {
		case s = <-p.said:
			over = true // but what is not known to be done is in the inbox yet
		default:
		}
		_ = part.taker.gate(context.Background(), deeds)
		part.taker.answering.Wait()
		if over {
			return s
		}
	}
}

// elsewhere is the node that owns nothing.
func (p *people) elsewhere() {
	var n *Node
	for e := range p.errands {
		var s said
		if n == nil {
			n, s.err = openNode(context.Background(), p.at.URL, Config{Schema: p.at.Schema, Partitions: 1, SingleServer: true})
		}
		if s.err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), e.within)
			s = e.done(ctx, n.front)
			cancel()
		}
		p.said <- s
	}
}

// What the worlds of bench/world promise holds on the log of a partition, too, when the
// processes that have it are killed, and when people act on any node.
func TestWorlds(t *testing.T) {
	for name, swarm := range map[string][]string{"any": nil, "people": {"operators", "pause", "merge"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.Shared(t).URL()
			first := schemas.Add(1000) - 1000
			next := atomic.Int32{}
			next.Store(first)
			world.Killed{
				From: 1, Worlds: times(3, 150), Kills: 2, Swarm: swarm, Dir: child.FastDir(),
				Prepare: func(dir string) error {
					p := at{url, fmt.Sprintf("Test %d", next.Add(1))}
					text, err := json.Marshal(p)
					if err == nil {
						err = Migrate(t.Context(), url, Config{Schema: p.Schema, Partitions: 1})
					}
					return cmp.Or(err, os.WriteFile(filepath.Join(dir, placeFile), text, 0o600))
				},
			}.Play(t)
			pool, err := newPool(t.Context(), url, true, 1)
			require.NoError(t, err)
			defer pool.Close()
			acts := 0
			for i := first + 1; i <= next.Load(); i++ {
				count := 0
				require.NoError(t, pool.QueryRow(t.Context(), in(fmt.Sprintf("Test %d", i), "SELECT count(*) FROM {schema}.taken")).Scan(&count))
				acts += count
			}
			t.Logf("%d actions came from another node", acts)
			require.True(t, acts > 0 || swarm == nil)
		})
	}
}
