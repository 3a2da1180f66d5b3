//go:build unix

package postgres

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

const childMove = "STRAND_TEST_MOVE"

// TestMovingChild is the process that is killed while it moves something.
func TestMovingChild(t *testing.T) {
	with := strings.Split(os.Getenv(childMove), "|")
	if len(with) != 4 {
		t.Skip("it is a part of the test that kills a process")
	}
	cfg := single
	cfg.Schema = with[1]
	fmt.Println("begins")
	var err error
	switch with[2] {
	case "import":
		_, err = Import(t.Context(), with[0], cfg, with[3])
	case "repartition":
		_, err = Repartition(t.Context(), with[0], cfg, len(with[3]), true)
	default:
		_, err = Export(t.Context(), with[0], cfg, with[3])
	}
	require.NoError(t, err)
}

// A process that is killed in the middle has moved all or nothing: what it left is no
// obstacle to the next one.
func TestMoverIsKilled(t *testing.T) {
	third(t, 0)
	t.Parallel()
	url := pgtest.Shared(t).URL()
	dir := t.TempDir()
	from := filepath.Join(dir, "from")
	rounds, n, most := 2, 2000, 300*time.Millisecond
	if long() {
		rounds, n, most = 50, 10_000, 800*time.Millisecond
	}
	builtJournal(t, from, n)
	want, err := journal.Check(from)
	require.NoError(t, err)
	kill := func(r *rig, verb, path string, after time.Duration) {
		t.Helper()
		child := exec.Command(os.Args[0], "-test.run", "^TestMovingChild$")
		child.Env = append(os.Environ(), childMove+"="+url+"|"+r.schema+"|"+verb+"|"+path)
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		_, err = out.Read(make([]byte, 100))
		require.NoError(t, err)
		time.Sleep(after) // at a time that is not chosen
		_ = child.Process.Kill()
		_ = child.Wait()
	}
	whole, r := 0, newRig(t, url, 4)
	for range rounds {
		kill(r, "import", from, rand.N(most))
		require.Eventually(t, func() bool { // the server ends its transaction
			var held int
			require.NoError(t, r.pool.QueryRow(t.Context(), in(r.schema, "SELECT count(*) FROM (SELECT 1 FROM {schema}.lease FOR UPDATE SKIP LOCKED) l")).Scan(&held))
			return held == 4
		}, time.Minute, 10*time.Millisecond)
		moved, err := Check(t.Context(), url, r.config())
		require.NoError(t, err)
		if moved.Live == 0 {
			require.Zero(t, moved.Buried+moved.Queues+moved.Keys)
			var rows int
			require.NoError(t, r.pool.QueryRow(t.Context(), in(r.schema, "SELECT (SELECT count(*) FROM {schema}.block) + (SELECT count(*) FROM {schema}.side)")).Scan(&rows))
			require.Zero(t, rows)
			continue
		}
		require.Equal(t, []int{want.Live, want.Buried, want.Queues}, []int{moved.Live, moved.Buried, moved.Queues})
		whole++
		r = newRig(t, url, 4)
	}
	t.Logf("of %d that were killed %d had imported all", rounds, whole)
	_, err = Import(t.Context(), url, r.config(), from)
	require.NoError(t, err)

	ids, keys := contents(t, r, r.config())
	for n := 5; n < 5+rounds; n++ {
		kill(r, "repartition", strings.Repeat("x", n), rand.N(most))
		gotIDs, gotKeys := contents(t, r, r.config()) // of whichever partitions there are
		require.Equal(t, ids, gotIDs)
		require.Equal(t, keys, gotKeys)
	}
	_, err = Repartition(t.Context(), url, r.config(), 4, true)
	require.NoError(t, err)

	to := filepath.Join(dir, "to")
	kill(r, "export", to, rand.N(most/2))
	if _, err := os.Stat(to); err == nil {
		require.NoError(t, os.RemoveAll(to)) // it was done
	}
	_, err = Export(t.Context(), url, r.config(), to)
	require.NoError(t, err)
}

// Until the commit, after which nothing can go wrong any more, others see the schema as it was.
func TestImportIsOneTransaction(t *testing.T) {
	t.Parallel()
	r := newRig(t, pgtest.Shared(t).URL(), 2)
	dir := filepath.Join(t.TempDir(), "journal")
	builtJournal(t, dir, 300)
	before := r.rows(t, 0) + r.rows(t, 1)
	m, err := newMover(t.Context(), r.url, r.config(), true)
	require.NoError(t, err)
	defer m.close()
	tx, err := m.begin(t.Context(), pgx.TxOptions{})
	require.NoError(t, err)
	require.NoError(t, m.fill(t.Context(), dir, []string{dir}, [][]byte{format.NewUUID(), format.NewUUID()}))
	require.Positive(t, m.moved.Live)
	require.Equal(t, before, r.rows(t, 0)+r.rows(t, 1))
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, before, r.rows(t, 0)+r.rows(t, 1))
	again, err := Import(t.Context(), r.url, r.config(), dir)
	require.NoError(t, err)
	require.Equal(t, m.moved, again)
}

// A connection that is cut anywhere leaves all or nothing, and Import says which: also when
// the answer of the commit is lost.
func TestImportOverABadLine(t *testing.T) {
	third(t, 0)
	t.Parallel()
	server := pgtest.Shared(t)
	dir := filepath.Join(t.TempDir(), "journal")
	builtJournal(t, dir, 300)
	proxy := NewProxy(t, server.Addr())
	r := newRig(t, server.URL(), 2)
	done, cut := false, 0
	for at := int64(600); !done; at = at*3/2 + 1 {
		proxy.CutAfter(at)
		_, err := Import(t.Context(), proxy.URL(server.URL()), r.config(), dir)
		proxy.Heal()
		moved, broken := Check(t.Context(), r.url, r.config())
		require.NoError(t, broken)
		require.Equal(t, err == nil, moved.Live > 0, "%v", err)
		if done = err == nil; !done {
			cut++
		}
	}
	require.Greater(t, cut, 5)

	// Only the answer of the commit is lost.
	s := newRig(t, server.URL(), 2)
	m, err := newMover(t.Context(), proxy.URL(server.URL()), s.config(), true)
	require.NoError(t, err)
	defer m.close()
	tx, err := m.conn.Begin(t.Context())
	require.NoError(t, err)
	uuid := []byte("of this import..")
	require.NoError(t, m.exec(t.Context(), "UPDATE {schema}.tail SET uuid = $1 WHERE partition = 0", uuid))
	proxy.CutAnswer()
	require.NoError(t, m.commit(t.Context(), tx, uuid))
	// And here the commit did not get there.
	m.conn.Release()
	m.conn, err = m.pool.Acquire(t.Context())
	require.NoError(t, err)
	tx, err = m.conn.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, m.exec(t.Context(), "UPDATE {schema}.tail SET uuid = 'another' WHERE partition = 0"))
	proxy.CutAfter(1)
	require.Error(t, m.commit(t.Context(), tx, []byte("another")))
}

// Of many jobs only what says where they are is in memory.
func TestMoveOfManyJobs(t *testing.T) {
	if !long() {
		t.Skip("it moves a GB: less would fit into memory as it is")
	}
	url := pgtest.Shared(t).URL() // not beside others: the peak is the process's
	const n, size = 100_000, 10_000
	dir := t.TempDir()
	from := filepath.Join(dir, "from")
	b, err := journal.NewBuilder(from, journal.Position(n+1), 1)
	require.NoError(t, err)
	require.NoError(t, b.Queue("q", 1))
	payload := make([]byte, size)
	for i := range n {
		require.NoError(t, b.Add(journal.Entry{
			Kind: journal.KindEnqueued, Queue: 1, Position: journal.Position(i + 1), ID: fmt.Append(nil, "id ", i%997), Due: 1e18, Payload: payload,
		}))
	}
	require.NoError(t, b.Finish())
	r := newRig(t, url, 16)
	var peak atomic.Uint64
	over, watched := make(chan struct{}), make(chan struct{})
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before := m.HeapAlloc
	go func() {
		defer close(watched)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				peak.Store(max(peak.Load(), m.HeapAlloc))
			}
		}
	}()
	began := time.Now()
	moved, err := Import(t.Context(), url, r.config(), from)
	require.NoError(t, err)
	require.Equal(t, n, moved.Live)
	imported := time.Since(began)
	_, err = Export(t.Context(), url, r.config(), filepath.Join(dir, "to"))
	require.NoError(t, err)
	close(over)
	<-watched
	t.Logf("%d jobs of %d bytes: imported in %v, exported in %v; %d MiB of memory at most", n, size,
		imported.Round(time.Millisecond), (time.Since(began) - imported).Round(time.Millisecond), (int64(peak.Load())-int64(before))>>20)
	require.Less(t, peak.Load(), before+256<<20)
}
