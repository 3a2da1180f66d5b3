package executortest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// The guard speaks when somebody waits and nothing happens, and only then.
func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &guard{over: make(chan struct{})}
		said := make(chan string, 1)
		go g.watch("TestIt", 30*time.Second, func(message string) { said <- message })
		silent := func() {
			t.Helper()
			time.Sleep(time.Hour)
			require.Empty(t, said)
		}
		silent()
		n := 0
		g.set(func() int { n++; return n })
		silent()
		g.set(nil)
		silent()
		g.set(func() int { return 7 })
		began := time.Now()
		require.Contains(t, <-said, "executortest: TestIt: for 30s of real time")
		require.InDelta(t, 30*time.Second, time.Since(began), float64(2*time.Second))
		g.stop()
	})
	var none *guard
	none.set(nil) // of a bubble of the test's own
	none.set(nil)
}

func TestBadConfig(t *testing.T) {
	for _, cfg := range []Config{{Patience: -1}, {MaxRuns: -1}, {Executor: executor.Config{Workers: -1}}} {
		f := &refuser{TB: t}
		func() {
			defer func() { require.Equal(t, f, recover()) }()
			synctestOpen(t, f, cfg)
		}()
		require.Contains(t, f.format, "executortest: ")
	}
}

// refuser is a test that notes why it failed.
type refuser struct {
	testing.TB
	format string
}

func (r *refuser) Helper() {}

func (r *refuser) Fatalf(format string, _ ...any) {
	r.format = format
	panic(r)
}

func synctestOpen(t *testing.T, f *refuser, cfg Config) {
	var failed any
	synctest.Test(t, func(*testing.T) {
		defer func() { failed = recover() }()
		Open(f, cfg, nil)
	})
	panic(failed)
}
