//go:build unix

package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// A caller's calls, one after the other, each to any of three nodes, run in their order, while
// owners step down and a fourth node comes and goes.
func TestCallersKeepTheirOrderOverNodesAndOwners(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 6, 30*time.Second) // none is lost on a busy machine
	nodes := []*testNode{c.start(c.url), c.start(c.url), c.start(c.url)}
	c.serving(nodes...)

	over := make(chan struct{})
	var moves sync.WaitGroup
	moves.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			case <-time.After(100 * time.Millisecond):
			}
			n := nodes[rand.IntN(len(nodes))]
			n.mu.Lock()
			for _, p := range n.held {
				p.giveAway()
				break
			}
			n.mu.Unlock()
		}
	})
	moves.Go(func() {
		for {
			n := c.start(c.url)
			select {
			case <-over:
			case <-time.After(300 * time.Millisecond):
			}
			assert.NoError(t, n.front.Stop(context.Background()))
			select {
			case <-over:
				return
			default:
			}
		}
	})

	const callers = 16
	calls := times(100, 1000)
	want := make(map[string]int)
	var mu sync.Mutex
	var inbox, log int
	var calling sync.WaitGroup
	for i := range callers {
		id := fmt.Sprintf("id %d", i)
		want[id] = calls
		calling.Go(func() {
			for k := 1; k <= calls; k++ {
				r, err := nodes[rand.IntN(len(nodes))].q.Enqueue(t.Context(), id, k)
				if !assert.NoError(t, err, "%s %d", id, k) {
					return
				}
				mu.Lock()
				if r.Position == 0 {
					inbox++
				} else {
					log++
				}
				mu.Unlock()
			}
		})
	}
	calling.Wait()
	close(over)
	moves.Wait()
	c.await(want)
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Zero(t, c.repeats, "all went in order")
	require.NotZero(t, inbox)
	require.NotZero(t, log)
	t.Logf("%d calls into the inbox, %d into the log", inbox, log)
	for id, n := range want {
		require.Len(t, c.ran[id], n, "each once")
	}
}
