//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// The wall clock of a node decides nothing here: what it reads of its clock is compared with
// what it has read before, by the monotonic part that both have. Only what callers say is due,
// and what people read, is a time of day.
func TestWallClocksDecideNothing(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	seen := make(map[string]bool)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			of, _ := f.X.(*ast.Ident)
			ofTime := of != nil && of.Name == "time"
			wall := []string{"Unix", "UnixMilli", "UnixMicro", "UnixNano", "Format", "AppendFormat", "UTC", "Local", "In", "Round",
				"Truncate", "Date", "Clock", "Hour", "Minute", "MarshalText", "MarshalBinary", "MarshalJSON", "Parse", "ParseInLocation"}
			if slices.Contains(wall, f.Sel.Name) {
				seen[name+" "+f.Sel.Name] = true
			}
			if ofTime || slices.Contains([]string{"Add", "Sub", "Before", "After", "Reset"}, f.Sel.Name) {
				return true
			}
			for _, arg := range call.Args { // a time goes nowhere else
				if now, ok := arg.(*ast.CallExpr); ok {
					if s, ok := now.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Now" {
						t.Errorf("%s: the time is given away", set.Position(arg.Pos()))
					}
				}
			}
			return true
		})
	}
	require.Equal(t, map[string]bool{
		"calls.go Unix":    true, // when a payload is due, by its caller, on its way through the inbox
		"schema.go Format": true, // when the server has made the schema, by its own clock
		"stats.go Format":  true, // of Err
	}, seen)
}

// slowClock is a server whose clock is an hour ahead, and whose answers take a while to come back.
type slowClock struct {
	querier
	back time.Duration
}

func (s slowClock) QueryRow(context.Context, string, ...any) pgx.Row { return s }

func (s slowClock) Scan(dest ...any) error {
	*dest[0].(*time.Time) = time.Now().Add(time.Hour)
	time.Sleep(s.back)
	return nil
}

// However long an answer took, nothing is due too early by the server's clock, and what is due by
// that clock is never before its time.
func TestDueIsNeverEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &Node{now: time.Now}
		for _, back := range []time.Duration{time.Second, 10 * time.Second, 20 * time.Millisecond} {
			require.NoError(t, n.outbox.clock.read(t.Context(), slowClock{back: back}, readClock))
			at := time.Now().Add(time.Minute)
			early := n.outbox.clock.byServer(at, n.now()).Sub(at.Add(time.Hour))
			require.Zero(t, max(-early, 0), "early")
			require.LessOrEqual(t, early, min(back, time.Second))
			require.LessOrEqual(t, time.Until(n.outbox.clock.now()), time.Hour)
		}
	})
}

// When the server's clock jumps forward leases end early, again and again, under owners who are
// well: payloads keep their order, and are taken in once.
func TestServerClockJumpsForward(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 4, time.Second)
	a, b := c.start(c.url), c.start(c.url)
	c.serving(a, b)
	want := make(map[string]int)
	var mu sync.Mutex
	var begun, working sync.WaitGroup
	over, end := context.WithCancel(t.Context())
	for i, n := range []*testNode{a, b, a, b} {
		begun.Add(1)
		working.Go(func() {
			for k := 1; over.Err() == nil; k++ {
				id := fmt.Sprint("id-", i)
				_, err := n.q.Enqueue(t.Context(), id, k)
				if k == 1 {
					begun.Done()
				}
				if err != nil { // unknown: the same again would be another payload
					return
				}
				mu.Lock()
				want[id] = k
				mu.Unlock()
			}
		})
	}
	begun.Wait() // leases are as they should be
	conn := connect(t, c.url)
	for range times(12, 200) {
		for _, table := range []string{"lease", "node"} {
			_, err := conn.Exec(t.Context(), in(c.schema, "UPDATE {schema}."+table+" SET expires = expires - interval '1 hour' WHERE expires > '-infinity'"))
			require.NoError(t, err)
		}
		time.Sleep(150 * time.Millisecond) // others may take them now
	}
	end()
	working.Wait()
	require.Len(t, want, 4)
	c.await(want)
}

// Nodes whose time of day differs by hours: what is due now runs at once, at the next owner, too, and what is
// due later runs then, wherever it was enqueued, and whoever owns it.
func TestNodesWithOtherClocks(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, pgtest.Shared(t).URL(), 1, 30*time.Second)
			var busy atomic.Bool // no job is done
			busy.Store(true)
			ran := make(chan string, 100)
			node := func(ahead time.Duration) (*testNode, *executor.Queue[string]) {
				n := c.node(c.url)
				n.now = func() time.Time { return time.Now().Round(0).Add(ahead) }
				q, err := executor.Handle(n.Node.front, "clocks", func(_ context.Context, job executor.Job[string]) error {
					if busy.Load() {
						return errors.New("busy")
					}
					ran <- job.ID
					return nil
				}, executor.QueueConfig[string]{RetryIn: func(int) time.Duration { return 100 * time.Millisecond }, MaxRetries: 1000})
				require.NoError(t, err)
				return n, q
			}
			first, q := node(ahead)
			require.NoError(t, first.front.Start(t.Context()))
			c.serving(first)
			second, other := node(0)
			const later = 3 * time.Second
			began := time.Now()
			for _, of := range []struct {
				q  *executor.Queue[string]
				n  *testNode
				id string
			}{{q, first, "here"}, {other, second, "there"}} {
				_, err := of.q.Enqueue(t.Context(), of.id, "")
				require.NoError(t, err)
				_, err = of.q.Enqueue(t.Context(), of.id+" later", "", executor.At(of.n.now().Add(later)))
				require.NoError(t, err)
				_, err = of.q.EnqueueMany(t.Context(), []executor.Item[string]{{ID: of.id + " item", Due: of.n.now().Add(later)}})
				require.NoError(t, err)
			}
			require.Eventually(t, func() bool { return c.rows(first) == 0 }, time.Minute, time.Millisecond)
			require.NoError(t, first.front.Stop(t.Context()))
			busy.Store(false)
			require.NoError(t, second.front.Start(t.Context()))
			ids := map[string]bool{}
			for range 6 {
				select {
				case id := <-ran:
					ids[id] = true
					if strings.Contains(id, " ") {
						require.GreaterOrEqual(t, time.Since(began), later-100*time.Millisecond, id)
					}
				case <-time.After(time.Minute):
					t.Fatalf("stand still, but for %v", ids)
				}
			}
			require.Len(t, ids, 6)
		})
	}
}
