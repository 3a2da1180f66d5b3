//go:build unix

package postgres

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
		"calls.go Unix":     true, // when a payload is due, by its caller, on its way through the inbox
		"cluster.go Format": true, // when the server has made the schema, by its own clock
		"health.go Format":  true, // of Err
	}, seen)
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
	var working sync.WaitGroup
	over, end := context.WithCancel(t.Context())
	for i, n := range []*testNode{a, b, a, b} {
		working.Go(func() {
			for k := 1; over.Err() == nil; k++ {
				id := fmt.Sprint("id-", i)
				_, err := n.q.Enqueue(t.Context(), id, k)
				if err != nil { // unknown: the same again would be another payload
					return
				}
				mu.Lock()
				want[id] = k
				mu.Unlock()
			}
		})
	}
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
