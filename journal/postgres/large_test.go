//go:build unix

package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// Large payloads go through the inbox and run, and no lease is lost meanwhile: they are renewed on
// connections of their own. The long tier says what becomes of the largest: where the machine has
// more to do than it can, copying 256 MiB may keep the process from renewing in time.
func TestLargePayloadsThroughTheInbox(t *testing.T) {
	third(t, 2)
	t.Parallel()
	server := pgtest.Start(t)
	c := newCluster(t, server.URL(), 4, defaultLease)
	ran := make(chan int, 100)
	node := func() (*Node, *executor.Queue[[]byte]) {
		cfg := c.config()
		cfg.Executor.Advanced.MaxPayloadBytes = callBytes
		n, err := openNode(t.Context(), c.url, cfg)
		require.NoError(t, err)
		t.Cleanup(n.kill)
		q, err := executor.Handle(n.front, "q", func(_ context.Context, job executor.Job[[]byte]) error {
			ran <- len(job.Payload)
			return nil
		}, executor.QueueConfig[[]byte]{})
		require.NoError(t, err)
		return n, q
	}
	_, q := node()
	owner, _ := node()
	require.NoError(t, owner.front.Start(t.Context()))
	c.serving(&testNode{Node: owner})
	sizes := []int{8 << 20, 16 << 20}
	if long() {
		sizes = append(sizes, 64<<20, 128<<20, callBytes)
	}
	for i, size := range sizes {
		began := time.Now()
		r, err := q.Enqueue(t.Context(), fmt.Sprint("id ", i), make([]byte, size))
		require.NoError(t, err)
		require.Zero(t, r.Position, "it is in the inbox")
		accepted := time.Since(began)
		for got := 0; got != size; { // others may come again
			got = <-ran
		}
		t.Logf("%d MiB: accepted after %v, ran after %v, leases lost: %d", size>>20, accepted, time.Since(began), cmpStats(t, owner).Lost)
	}
}
