//go:build unix

package postgres

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// What can't be moved, or should not be now, is refused with the reason, and nothing is
// changed or left behind.
func TestMoveRefusals(t *testing.T) {
	third(t, 1)
	t.Parallel()
	url := pgtest.Shared(t).URL()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	builtJournal(t, at("one"), 50)
	livedJournal(t, at("slots"), true)
	b, err := journal.NewBuilder(at("unknown"), 1, 1)
	require.NoError(t, err)
	require.NoError(t, b.Set(journal.Set{Key: "of/later", Value: []byte("x")}))
	require.NoError(t, b.Finish())
	require.NoError(t, os.Mkdir(at("nothing"), 0o700))
	open, err := journal.Open(at("open"), journal.Config{})
	require.NoError(t, err)
	defer open.Close()
	builtJournal(t, at("damaged"), 50)
	file, err := os.ReadFile(filepath.Join(at("damaged"), "journal.db"))
	require.NoError(t, err)
	for i := 3 << 12; i < len(file); i += 512 {
		file[i] ^= 1
	}
	require.NoError(t, os.WriteFile(filepath.Join(at("damaged"), "journal.db"), file, 0o600))

	r := newRig(t, url, 4)
	state := func(r *rig) (all string) {
		for p := range 4 {
			all += r.rows(t, p)
		}
		return all
	}
	parts := at("parts")
	full := newRig(t, url, 4)
	_, err = Import(t.Context(), url, full.config(), at("one"))
	require.NoError(t, err)
	_, err = Export(t.Context(), url, full.config(), parts)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(at("note"), 0o700))
	note := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(at("note"), partsFile), []byte(text), 0o600))
	}

	before := state(r)
	refused := func(want error, says string, dir string, change ...func(*Config)) {
		t.Helper()
		moved, err := Import(t.Context(), url, r.config(change...), dir)
		require.ErrorIs(t, err, want)
		require.ErrorContains(t, err, says)
		require.Zero(t, moved)
		require.Equal(t, before, state(r))
	}
	refused(fs.ErrNotExist, "missing", at("missing"))
	refused(journal.ErrNotJournal, "an empty directory", at("nothing"))
	_, err = Import(t.Context(), url, r.config(), at("open"))
	require.ErrorAs(t, err, new(*journal.LockedError))
	refused(journal.ErrCorrupt, "", at("damaged"))
	refused(ErrIndivisible, `slots "numbers" are one sequence`, at("slots"))
	refused(ErrIndivisible, `state key "of/later"`, at("unknown"))
	refused(executor.ErrConfig, "panic", at("one"), func(cfg *Config) { cfg.Partition = func(string) string { panic("no") } })
	refused(executor.ErrNotOwned, "belongs to", parts, func(cfg *Config) { cfg.Partition = func(id string) string { return id + "!" } })
	refused(ErrPartitions, "Config.Partitions is 3", at("one"), func(cfg *Config) { cfg.Partitions = 3 })
	refused(ErrNoSchema, "nowhere", at("one"), func(cfg *Config) { cfg.Schema = "nowhere" })
	refused(ErrUnsafe, "synchronous", at("one"), func(cfg *Config) { cfg.SingleServer = false })
	note(`{"version":2,"partitions":4}`)
	refused(journal.ErrTooNew, "version 2", at("note"))
	note(`{"version":1,"partitions":1000000000}`)
	refused(journal.ErrNotJournal, "1000000000", at("note"))
	note(`{"version":1,"partitions":4}`)
	refused(fs.ErrNotExist, "journal 0000", at("note"))
	require.NoError(t, os.WriteFile(filepath.Join(at("note"), "journal.db"), nil, 0o600))
	refused(journal.ErrNotJournal, "an executor may have made there", at("note"))
	note("{")
	refused(journal.ErrNotJournal, partsFile, at("note"))
	over, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("not now"))
	_, err = Import(over, url, r.config(), at("one"))
	require.ErrorContains(t, err, "not now")
	var none context.Context
	_, err = Import(none, url, r.config(), at("one"))
	require.ErrorIs(t, err, executor.ErrContext)

	// Into what was used.
	kept := state(full)
	_, err = Import(t.Context(), url, full.config(), at("one"))
	require.ErrorIs(t, err, ErrNotEmpty)
	require.ErrorContains(t, err, "4 partitions")
	require.Equal(t, kept, state(full))

	// Over something that is there.
	_, err = Export(t.Context(), url, full.config(), at("nothing"))
	require.ErrorIs(t, err, journal.ErrExists)

	// With calls in the inbox.
	for _, s := range []*rig{r, full} {
		s.exec(t, "INSERT INTO {schema}.inbox (partition, queue, calls, token) VALUES (0, 'q', 'x', gen_random_uuid())")
		_, err = Export(t.Context(), url, s.config(), at("none"))
		require.ErrorIs(t, err, ErrNotEmpty)
		require.ErrorContains(t, err, "the inbox has 1 rows")
	}
	_, err = Import(t.Context(), url, r.config(), at("one"))
	require.ErrorIs(t, err, ErrNotEmpty)
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range names {
		require.NotContains(t, e.Name(), ".export-")
		require.NotEqual(t, "none", e.Name())
	}
}

// While a node is up, or its lease is not over, nothing is moved; Check may look.
func TestMoveWaitsForNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 2, time.Minute)
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	builtJournal(t, from, 10)
	n := c.start(c.url)
	c.serving(n)
	inUse := func(says string) {
		t.Helper()
		_, err := Import(t.Context(), c.url, c.config(), from)
		require.ErrorIs(t, err, ErrInUse)
		require.ErrorContains(t, err, says)
		_, err = Export(t.Context(), c.url, c.config(), to)
		require.ErrorIs(t, err, ErrInUse)
		require.ErrorContains(t, err, says)
	}
	inUse("owns partition 0")
	_, err := Check(t.Context(), c.url, c.config())
	require.NoError(t, err)
	require.NoError(t, n.front.Stop(t.Context()))
	_, err = Export(t.Context(), c.url, c.config(), to)
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(to))

	set := func(sql string) {
		_, err := (&rig{}).newPool(t, c.url).Exec(t.Context(), in(c.schema, sql))
		require.NoError(t, err)
	}
	set("INSERT INTO {schema}.node (id, name, expires) VALUES (gen_random_uuid(), 'of before', clock_timestamp() + interval '2 hours')")
	set("UPDATE {schema}.lease SET owner = gen_random_uuid(), expires = clock_timestamp() + interval '2 hours'")
	_, err = Export(t.Context(), c.url, c.config(), to)
	require.NoError(t, err, "no lease is that long: the clock was set back")
	require.NoError(t, os.RemoveAll(to))
	set("INSERT INTO {schema}.node (id, name, expires) VALUES (gen_random_uuid(), 'the idle one', clock_timestamp() + interval '1 minute')")
	inUse("the idle one is up")
}

// A process that opens the journal while it is read makes the import one of two moments.
func TestImportNoticesAProcess(t *testing.T) {
	t.Parallel()
	r := newRig(t, pgtest.Shared(t).URL(), 2)
	const entries = 50 // each of which is asked about twice
	for _, at := range []int{5, entries + 5, 2*entries - 1} {
		dir := filepath.Join(t.TempDir(), "journal")
		builtJournal(t, dir, entries)
		before, asked := r.rows(t, 0)+r.rows(t, 1), 0
		_, err := Import(t.Context(), r.url, r.config(func(cfg *Config) {
			cfg.Partition = func(id string) string {
				if asked++; asked == 2*len(probes)+at { // those come first
					l, err := journal.Open(dir, journal.Config{})
					require.NoError(t, err)
					require.NoError(t, l.Close())
				}
				return id
			}
		}), dir)
		require.ErrorAs(t, err, new(*journal.LockedError))
		require.GreaterOrEqual(t, asked, at)
		require.Equal(t, before, r.rows(t, 0)+r.rows(t, 1))
	}
}

// Nodes that start while an import is under way wait for its end, and serve what it brought.
func TestNodesWaitForAnImport(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 2, leastLease)
	m, err := newMover(t.Context(), c.url, c.config(), true)
	require.NoError(t, err)
	defer m.close()
	tx, err := m.begin(t.Context(), pgx.TxOptions{})
	require.NoError(t, err)
	_, err = m.claim(t.Context(), [][]byte{format.NewUUID(), format.NewUUID()})
	require.NoError(t, err)
	n := c.start(c.url)
	require.Eventually(t, func() bool { return n.front.Err() != nil }, time.Minute, 5*time.Millisecond) // it has tried
	require.Empty(t, n.Partitions())
	require.NoError(t, tx.Commit(t.Context()))
	c.serving(n)
}

// A node that takes a partition while it is exported makes the export one of two moments.
func TestExportNoticesAnOwner(t *testing.T) {
	t.Parallel()
	r := newRig(t, pgtest.Shared(t).URL(), 1)
	dir := t.TempDir()
	m, err := newMover(t.Context(), r.url, r.config(), false)
	require.NoError(t, err)
	defer m.close()
	err = m.survey(t.Context(), func(s *partitionStore) error {
		require.NoError(t, m.export(s, filepath.Join(dir, "part")))
		r.exec(t, "UPDATE {schema}.tail SET number = number + 1") // as a commit does
		return nil
	})
	require.ErrorIs(t, err, ErrInUse)
}

// An owner from before, whose lease was over, commits nothing to what was imported.
func TestImportFencesTheOwnerBefore(t *testing.T) {
	t.Parallel()
	r := newRig(t, pgtest.Shared(t).URL(), 1)
	dir := filepath.Join(t.TempDir(), "journal")
	builtJournal(t, dir, 20)
	old := r.own(t, r.pool, 0)
	_, err := Import(t.Context(), r.url, r.config(), dir)
	require.NoError(t, err)
	before := r.rows(t, 0)
	_, err = journal.OpenStore(old, journal.Config{})
	require.ErrorIs(t, err, errFenced)
	require.Equal(t, strings.Split(before, "\n")[1:], strings.Split(r.rows(t, 0), "\n")[1:])
}

// Any difference between two sides is found, whichever it is.
func TestMoveFindsDifferences(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	entry := func(change func(*journal.Entry)) journal.Entry {
		e := journal.Entry{Kind: journal.KindEnqueued, Queue: 1, Position: 5, ID: []byte("id"), Due: 1e18, Score: 7, Payload: []byte("payload")}
		change(&e)
		return e
	}
	state := journal.Entry{Kind: journal.KindState, Queue: 1, Position: 6, ID: []byte("id"), Due: 1e18, Retry: 2, Failed: []journal.Position{5}}
	dead := journal.Buried{Entry: journal.Entry{Kind: journal.KindEnqueued, Queue: 1, Position: 7, ID: []byte("id"), Due: 1e18}, Retry: 1, Reason: "r", At: 3}
	type has struct {
		queue string
		live  []journal.Entry
		dead  []journal.Buried
		keys  []journal.Set
		next  journal.Position
		epoch uint64
	}
	base := func() has {
		return has{"q", []journal.Entry{entry(func(*journal.Entry) {}), state}, []journal.Buried{dead}, []journal.Set{{Key: "mark/a", Value: []byte("12345678")}}, 100, 1}
	}
	open := func(name string, c has) *journal.View {
		b, err := journal.NewBuilder(filepath.Join(dir, name), c.next, c.epoch)
		require.NoError(t, err)
		require.NoError(t, b.Queue(c.queue, 1))
		for _, e := range c.live {
			require.NoError(t, b.Add(e))
		}
		for _, d := range c.dead {
			require.NoError(t, b.Bury(d))
		}
		for _, s := range c.keys {
			require.NoError(t, b.Set(s))
		}
		require.NoError(t, b.Finish())
		v, err := journal.OpenView(filepath.Join(dir, name))
		require.NoError(t, err)
		t.Cleanup(func() { _ = v.Close() })
		return v
	}
	changes := map[string]func(*has){
		"nothing":       nil,
		"next":          func(c *has) { c.next++ },
		"epoch":         func(c *has) { c.epoch++ },
		"queue":         func(c *has) { c.queue = "p" },
		"payload":       func(c *has) { c.live[0].Payload = []byte("paylosd") },
		"id":            func(c *has) { c.live[0].ID = []byte("ie") },
		"position":      func(c *has) { c.live[0].Position = 4 },
		"order":         func(c *has) { c.live[0].Position = 60 },
		"due":           func(c *has) { c.live[0].Due++ },
		"score":         func(c *has) { c.live[0].Score = 8 },
		"restored":      func(c *has) { c.live[0].Restored = true },
		"metadata":      func(c *has) { c.live[0].Metadata = journal.NewMetadata(map[string]string{"a": "b"}) },
		"accepted":      func(c *has) { c.live[0].Accepted = 1e17 },
		"retry":         func(c *has) { c.live[1].Retry = 3 },
		"halted":        func(c *has) { c.live[1].Halted = true },
		"failed":        func(c *has) { c.live[1].Failed = nil },
		"error":         func(c *has) { c.live[1].Error = []byte("e") },
		"one less":      func(c *has) { c.live = c.live[:1] },
		"one more":      func(c *has) { c.live = append(c.live, entry(func(e *journal.Entry) { e.Position = 8 })) },
		"dead, reason":  func(c *has) { c.dead[0].Reason = "s" },
		"dead, payload": func(c *has) { c.dead[0].Entry.Payload = []byte("x") },
		"dead, retry":   func(c *has) { c.dead[0].Retry = 2 },
		"none dead":     func(c *has) { c.dead = nil },
		"no key":        func(c *has) { c.keys = nil }, // the last piece
		"key":           func(c *has) { c.keys[0].Key = "mark/b" },
		"value":         func(c *has) { c.keys[0].Value = []byte("12345679") },
		"one key more":  func(c *has) { c.keys = append(c.keys, journal.Set{Key: "mark/z", Value: []byte("12345678")}) },
	}
	for name, change := range changes {
		c := base()
		if change != nil {
			change(&c)
		}
		one, other := open(name+" 1", base()), open(name+" 2", c)
		m := &tally{told: time.Now(), queues: make(map[string]bool)}
		err := m.compare(t.Context(), name, alone(other), []*journal.View{one})
		if change == nil {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, errDiffers, name)
	}
}
