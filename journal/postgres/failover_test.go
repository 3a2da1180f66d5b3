//go:build unix

package postgres

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// load appends to a log from some goroutines, each of which numbers its calls, and keeps what
// was acknowledged.
type load struct {
	log   *journal.Log
	queue uint32
	stop  chan struct{}
	group sync.WaitGroup
	mu    sync.Mutex
	acked map[string]bool
}

const loaders = 4

func startLoad(t *testing.T, l *journal.Log) *load {
	q, err := l.Queue(t.Context(), "q")
	require.NoError(t, err)
	w := &load{log: l, queue: q, stop: make(chan struct{}), acked: make(map[string]bool)}
	for p := range loaders {
		w.group.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-w.stop:
					return
				default:
				}
				id := fmt.Sprintf("%d/%06d", p, i)
				ticket, err := l.Append(t.Context(), []journal.Entry{{Queue: q, ID: []byte(id), Payload: make([]byte, 200)}}, nil)
				if err == nil {
					err = ticket.Wait(t.Context())
				}
				if err != nil {
					t.Errorf("append %s: %v", id, err)
					return
				}
				w.mu.Lock()
				w.acked[id] = true
				w.mu.Unlock()
			}
		})
	}
	return w
}

func (w *load) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acked)
}

// await waits until so many more are acknowledged.
func (w *load) await(t *testing.T, more int) {
	t.Helper()
	from := w.count()
	require.Eventually(t, func() bool { return w.count() >= from+more }, time.Minute, time.Millisecond)
}

// check ends the load and looks at what is there: each that was acknowledged, once, in order.
func (w *load) check(t *testing.T, reopen func() *journal.Log) {
	t.Helper()
	close(w.stop)
	w.group.Wait()
	require.NoError(t, w.log.Close())
	l := reopen()
	next := make(map[string]int)
	for _, ref := range slices.Concat(l.PendingPages(w.queue)...) {
		var e journal.Entry
		require.NoError(t, ref.Read(&e))
		p := string(e.ID[:1])
		require.Equal(t, fmt.Sprintf("%s/%06d", p, next[p]), string(e.ID), "in order, and none twice")
		next[p]++
		delete(w.acked, string(e.ID))
	}
	require.Empty(t, w.acked, "acknowledged, and lost")
	require.NoError(t, l.Close())
}

// kill -9 of the server in the midst of commits, again and again: the log waits, and goes on.
func TestServerIsKilled(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	r := newRig(t, server.URL(), 1)
	open := func() *journal.Log {
		l, err := journal.OpenStore(r.own(t, r.pool, 0), journal.Config{})
		require.NoError(t, err)
		return l
	}
	w := startLoad(t, open())
	for range times(3, 50) {
		w.await(t, 100)
		server.Kill()
		server.Restart(t)
	}
	w.await(t, 100)
	w.check(t, open)
}

// SIGSTOP of the server, and connections that are cut, delay commits.
func TestServerIsStopped(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	proxy := NewProxy(t, server.Addr())
	r := newRig(t, server.URL(), 1)
	pool := r.newPool(t, proxy.URL(server.URL()))
	open := func() *journal.Log {
		s := r.own(t, pool, 0)
		s.patience = 500 * time.Millisecond
		l, err := journal.OpenStore(s, journal.Config{})
		require.NoError(t, err)
		return l
	}
	w := startLoad(t, open())
	for range times(3, 50) {
		w.await(t, 100)
		server.Freeze()
		time.Sleep(time.Second)
		server.Thaw()
		w.await(t, 100)
		proxy.Cut()
	}
	pool.Reset() // to open is one attempt, and there may be connections that were cut
	w.check(t, open)
}

// The standby takes over, again and again: what was acknowledged is there.
func TestStandbyIsPromoted(t *testing.T) {
	t.Parallel()
	primary := pgtest.Start(t)
	proxy := NewProxy(t, primary.Addr())
	r := newRig(t, primary.URL(), 1)
	pool := r.newPool(t, proxy.URL(primary.URL()))
	open := func() *journal.Log {
		l, err := journal.OpenStore(r.own(t, pool, 0), journal.Config{})
		require.NoError(t, err)
		return l
	}
	standby := primary.Standby(t)
	w := startLoad(t, open())
	for i := range times(1, 20) {
		if i > 0 {
			standby = primary.Standby(t)
		}
		w.await(t, 200)
		primary.Kill()
		standby.Promote(t)
		proxy.Target(standby.Addr())
		primary = standby
	}
	w.await(t, 100)
	w.check(t, open)
}

// A server that is told not to wait for its standby any longer says that it has committed.
// That is not taken for an answer.
func TestWaitForTheStandbyIsCancelled(t *testing.T) {
	t.Parallel()
	primary := pgtest.Start(t)
	r := newRig(t, primary.URL(), 1)
	standby := primary.Standby(t)
	s := r.own(t, r.newPool(t, primary.URL()), 0)
	require.NoError(t, s.Commit(&store.Transaction{}))
	standby.Freeze()
	done := make(chan error, 1)
	go func() { done <- s.Commit(&store.Transaction{}) }()
	for range 3 {
		require.Eventually(t, func() bool {
			var n int
			require.NoError(t, r.pool.QueryRow(t.Context(), `SELECT count(*) FROM (SELECT pg_cancel_backend(pid)
				FROM pg_stat_activity WHERE wait_event = 'SyncRep') c`).Scan(&n))
			return n > 0
		}, time.Minute, time.Millisecond)
	}
	select {
	case err := <-done:
		t.Fatalf("it returned %v, and the standby has nothing", err)
	case <-time.After(300 * time.Millisecond):
	}
	standby.Thaw()
	require.NoError(t, <-done)
	number, _, _ := r.tail(t, 0)
	require.Equal(t, int64(2), number)
}

// A standby that was not synchronous does not have what was acknowledged: that is noticed.
func TestServerThatIsBehind(t *testing.T) {
	third(t, 2)
	t.Parallel()
	primary := pgtest.Start(t)
	proxy := NewProxy(t, primary.Addr())
	r := newRig(t, primary.URL(), 1)
	s := r.own(t, r.newPool(t, proxy.URL(primary.URL())), 0)
	standby := primary.Standby(t)
	primary.SetStandbys(t, "")
	require.NoError(t, s.Commit(&store.Transaction{}))
	standby.Kill()
	require.NoError(t, s.Commit(&store.Transaction{}))
	primary.Kill()
	standby.Restart(t)
	standby.Promote(t)
	proxy.Target(standby.Addr())
	require.ErrorIs(t, s.Commit(&store.Transaction{}), ErrBehind)
}

// A server that is behind what was acknowledged, one whose place another has taken say, is
// not believed: who reads waits for one that has it.
func TestStaleServerIsNotBelieved(t *testing.T) {
	t.Parallel()
	primary := pgtest.Start(t)
	proxy := NewProxy(t, primary.Addr())
	r := newRig(t, primary.URL(), 1)
	s := r.own(t, r.newPool(t, proxy.URL(primary.URL())), 0)
	standby := primary.Standby(t)
	put := func(value string) {
		require.NoError(t, s.Commit(&store.Transaction{Changes: []format.Edit{
			{Bucket: format.BucketState, Key: []byte("k"), Value: []byte(value)}}}))
	}
	put("old")
	standby.Exec(t, "SELECT pg_wal_replay_pause()")
	put("new")
	proxy.Target(standby.Addr())
	proxy.Cut()
	type answer struct {
		value []byte
		err   error
	}
	got := make(chan answer)
	go func() {
		value, err := s.Get(format.BucketState, []byte("k"))
		got <- answer{value, err}
	}()
	select {
	case a := <-got:
		t.Fatalf("the older server was believed: %q, %v", a.value, a.err)
	case <-time.After(300 * time.Millisecond):
	}
	standby.Exec(t, "SELECT pg_wal_replay_resume()")
	a := <-got
	require.NoError(t, a.err)
	require.Equal(t, "new", string(a.value))
}
