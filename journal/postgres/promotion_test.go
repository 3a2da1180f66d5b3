//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// Nodes go on when the server dies and its synchronous standby takes its place, again and again:
// what was acknowledged runs, in order, whichever node it was enqueued at.
func TestNodesOutliveTheirServer(t *testing.T) {
	third(t, 0)
	t.Parallel()
	primary := pgtest.Start(t)
	proxy := NewProxy(t, primary.Addr())
	c := newCluster(t, primary.URL(), 4, time.Second)
	standby := primary.Standby(t)
	needed := func(cfg *Config) { cfg.SingleServer = false }
	nodes := []*testNode{c.start(proxy.URL(c.url), needed), c.start(proxy.URL(c.url), needed), c.node(proxy.URL(c.url), needed)}
	c.serving(nodes[:2]...)

	const callers = 6
	want := make(map[string]int)
	var mu sync.Mutex // of want
	var total atomic.Int64
	calling, end := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			life, k := 0, 1
			for calling.Err() == nil {
				id := fmt.Sprintf("id %d, %d", i, life)
				_, err := nodes[(i+k)%len(nodes)].q.Enqueue(t.Context(), id, k)
				if errors.Is(err, executor.ErrUnknown) { // the owner has lost its lease meanwhile
					life, k = life+1, 1
					continue
				}
				if !assert.NoError(t, err) {
					return
				}
				mu.Lock()
				want[id] = k
				mu.Unlock()
				k++
				total.Add(1)
			}
		})
	}
	await := func(more int64) {
		from := total.Load()
		require.Eventually(t, func() bool { return total.Load() >= from+more }, time.Minute, time.Millisecond)
	}
	for i := range times(1, 20) {
		if i > 0 {
			standby = primary.Standby(t)
		}
		await(100)
		primary.Kill()
		standby.Promote(t)
		proxy.Target(standby.Addr())
		primary = standby
	}
	await(100)
	end()
	all.Wait()
	c.await(want)
	c.mu.Lock()
	defer c.mu.Unlock()
	t.Logf("%d calls, %d outcomes unknown, %d repeats", total.Load(), len(want)-callers, c.repeats)
}
