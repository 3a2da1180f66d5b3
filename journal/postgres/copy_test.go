//go:build unix

package postgres

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// A journal that goes through one partition and back has what it had, and, as the long tier asks,
// is printed by strand export as before.
func TestMoveThroughOnePartition(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t).URL()
	for name, make := range map[string]func(dir string){
		"built": func(dir string) { builtJournal(t, dir, 500) },
		"lived": func(dir string) { livedJournal(t, dir, true) },
		"empty": func(dir string) { builtJournal(t, dir, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			before, after := filepath.Join(dir, "before"), filepath.Join(dir, "after")
			make(before)
			r := newRig(t, url, 1)
			moved, err := Import(t.Context(), url, r.config(), before)
			require.NoError(t, err)
			checked, err := Check(t.Context(), url, r.config())
			require.NoError(t, err)
			require.Equal(t, moved, checked)
			back, err := Export(t.Context(), url, r.config(), after)
			require.NoError(t, err)
			require.Equal(t, moved, back)
			requireDivided(t, before, after, r.config().divide(1))
			if long() {
				require.Equal(t, printed(t, before), printed(t, after))
			}
			if name == "lived" {
				require.Equal(t, 10, moved.Buried)
				ids, beside := listed(t, after)
				require.Contains(t, fmt.Sprint(ids), "the state of id")
				require.Contains(t, fmt.Sprint(beside), "slot/7/numbers/open/")
			}
			names, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, names, 2, "no draft is left")
		})
	}
}

// Divided among partitions each id has what it had, in its order and at its positions, in the
// partition that it belongs to; what comes back goes in again as it is, or divided further.
func TestMoveThroughManyPartitions(t *testing.T) {
	third(t, 2)
	t.Parallel()
	url := pgtest.Shared(t).URL()
	tenant := func(cfg *Config) {
		cfg.Partition = func(id string) string { before, _, _ := strings.Cut(id, "/"); return before }
	}
	many := 3
	if long() {
		many = 16
	}
	for name, test := range map[string]struct {
		n    int
		make func(dir string)
		cfg  func(*Config)
	}{
		"built": {many, func(dir string) { builtJournal(t, dir, 500) }, func(*Config) {}},
		"lived": {2, func(dir string) { livedJournal(t, dir, false) }, tenant},
	} {
		t.Run(name, func(t *testing.T) {
			before := filepath.Join(t.TempDir(), "one")
			test.make(before)
			var first Moved
			for _, n := range []int{test.n, test.n, 3 * test.n} {
				after := before + "+"
				r := newRig(t, url, n)
				moved, err := Import(t.Context(), url, r.config(test.cfg), before)
				require.NoError(t, err)
				first = cmp.Or(first, moved)
				require.Equal(t, []int{n, first.Live, first.Buried, first.Queues}, []int{moved.Partitions, moved.Live, moved.Buried, moved.Queues})
				_, err = Export(t.Context(), url, r.config(), after)
				require.NoError(t, err)
				requireDivided(t, before, after, r.config(test.cfg).divide(n))
				before = after
			}
		})
	}
}

// The journals of several partitions become those of any other number, as Repartition makes them.
func TestImportJoins(t *testing.T) {
	third(t, 1)
	t.Parallel()
	url, dir := pgtest.Shared(t).URL(), t.TempDir()
	from := filepath.Join(dir, "from")
	grownJournals(t, from, 3, Config{}, rand.New(rand.NewPCG(5, 5)))
	r := newRig(t, url, 3)
	_, err := Import(t.Context(), url, r.config(), from)
	require.NoError(t, err)
	ids, keys := contents(t, r, r.config())
	other := newRig(t, url, 2)
	_, err = Import(t.Context(), url, other.config(), from)
	require.ErrorIs(t, err, ErrIndivisible)
	require.ErrorContains(t, err, `source "feed"`)
	r.repartitioned(t, 1)
	r.repartitioned(t, 4)
	again := filepath.Join(dir, "again")
	_, err = Export(t.Context(), url, r.config(), again) // with one offset of the source
	require.NoError(t, err)
	_, err = Import(t.Context(), url, other.config(), again)
	require.NoError(t, err)
	gotIDs, gotKeys := contents(t, other, other.config())
	require.Equal(t, ids, gotIDs)
	require.Equal(t, keys, gotKeys)
}

// requireDivided compares the journals in one directory with what partitions have of them.
func requireDivided(t *testing.T, before, after string, divide executor.Splitter) {
	t.Helper()
	from, err := journalsIn(before)
	require.NoError(t, err)
	to, err := journalsIn(after)
	require.NoError(t, err)
	require.Len(t, to, divide.Nodes)
	used := 0
	for i, dir := range from {
		want, beside := listed(t, dir)
		info, err := journal.Check(dir)
		require.NoError(t, err)
		got, kept := make(map[string][]string), make(map[string]int)
		for p := i; p < len(to); p += len(from) {
			ids, more := listed(t, to[p])
			for id := range ids {
				owner, err := divide.OwnerOf(id)
				require.NoError(t, err)
				require.Equal(t, p, owner, "partition of %q", id)
			}
			maps.Copy(got, ids)
			if len(ids) > 0 {
				used++
			}
			for _, text := range more {
				kept[text]++
			}
			part, err := journal.Check(to[p])
			require.NoError(t, err)
			require.Equal(t, []uint64{uint64(info.Next), info.Epoch}, []uint64{uint64(part.Next), part.Epoch})
		}
		require.Equal(t, want, got)
		require.Equal(t, slices.Sorted(slices.Values(beside)), slices.Sorted(maps.Keys(kept)))
		for text, times := range kept {
			mine := strings.HasPrefix(text, "state key") && (strings.Contains(text, "/lock/") && !strings.Contains(text, "by hand") || strings.Contains(text, "/pause/id/"))
			require.Equal(t, map[bool]int{true: 1, false: len(to) / len(from)}[mine], times, text)
		}
	}
	require.True(t, used >= 2 || divide.Nodes == 1)
}

// More partitions take over from fewer whose nodes have run: positions, what a source has given,
// what was called with a key and what is paused are as they were, wherever the ids go.
func TestMorePartitions(t *testing.T) {
	third(t, 0)
	t.Parallel()
	const few, many, ids = 2, 6, 40
	c := newCluster(t, pgtest.Shared(t).URL(), few, defaultLease)
	want := make(map[string]int)
	enqueue := func(n *testNode, payload int, opts ...func(id string) executor.Option) (all []executor.Receipt) {
		for i := range ids {
			id := fmt.Sprint("id ", i)
			var given []executor.Option
			for _, opt := range opts {
				given = append(given, opt(id))
			}
			r, err := n.q.Enqueue(t.Context(), id, payload, given...)
			require.NoError(t, err)
			want[id], all = payload, append(all, r)
		}
		return all
	}
	key := func(id string) executor.Option { return executor.IdempotencyKey("of " + id) }
	n := c.start(c.url)
	c.serving(n)
	enqueue(n, 1)
	c.await(want)
	for p, x := range n.Partitions() {
		_, err := x.Inspect().Pause(t.Context(), inspect.SelectExecutor())
		require.NoError(t, err)
		require.NoError(t, x.SetSourceOffset(t.Context(), "feed", int64(p)+10))
	}
	first, from := enqueue(n, 2, key), n
	enqueue(n, 3)
	require.NoError(t, n.front.Stop(t.Context()))
	dir := filepath.Join(t.TempDir(), "parts")
	_, err := Export(t.Context(), c.url, c.config(), dir)
	require.NoError(t, err)

	c.schema, c.partitions = newRig(t, c.url, many).schema, many
	moved, err := Import(t.Context(), c.url, c.config(), dir)
	require.NoError(t, err)
	require.Equal(t, []int{many, 1, 2 * ids}, []int{moved.Partitions, moved.Queues, moved.Live})
	remote := c.node(c.url)
	enqueue(remote, 4) // in the inbox, before there is an owner
	n = c.start(c.url)
	c.serving(n)
	for p, x := range n.Partitions() {
		offset, _, err := x.SourceOffset("feed")
		require.NoError(t, err)
		require.Equal(t, int64(p%few)+10, offset)
	}
	for i, r := range enqueue(n, 2, key) {
		require.True(t, r.Duplicate)
		require.Equal(t, first[i].Position, r.Position)
		before, _ := from.PartitionOf(r.ID)
		after, err := n.PartitionOf(r.ID)
		require.NoError(t, err)
		require.Equal(t, before, after%few)
	}
	enqueue(n, 5)
	c.mu.Lock()
	require.Len(t, c.positions, ids, "what was paused waits")
	c.mu.Unlock()
	for _, x := range n.Partitions() {
		_, err := x.Inspect().Resume(t.Context(), inspect.SelectExecutor())
		require.NoError(t, err)
	}
	c.await(want)
	require.Zero(t, c.repeats)
}

// Which partition an id belongs to is the same in each version, follows from that of fewer, and
// has even shares of ids that are alike, too.
func TestPartitionsDivide(t *testing.T) {
	of := func(n int, id string) int {
		p, err := Config{}.divide(n).OwnerOf(id)
		require.NoError(t, err)
		return p
	}
	for id, want := range map[string][3]int{"": {7, 39, 1383}, "a": {10, 10, 3146}, "order 7": {5, 37, 661}, "\xff": {4, 4, 340}} {
		require.Equal(t, want, [3]int{of(16, id), of(48, id), of(4096, id)}, "%q", id)
	}
	for _, form := range []string{"%d", "%016b", "tenant-1/job-%d", "%[1]d%[1]d", "%08d000"} {
		const n, each = 16, 500
		shares := make([]int, n)
		for i := range n * each {
			id := fmt.Sprintf(form, i)
			shares[of(n, id)]++
			require.Equal(t, of(n, id), of(3*n, id)%n)
		}
		require.Greater(t, slices.Min(shares), each*3/4, form)
		require.Less(t, slices.Max(shares), each*5/4, form)
	}
}

// What was imported runs: in order per id, once, before what is enqueued later.
func TestImportedJobsRun(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 4, defaultLease)
	dir := filepath.Join(t.TempDir(), "journal")
	x, err := executor.Open(dir, c.config().Executor)
	require.NoError(t, err)
	q, err := executor.Handle(x, "q", func(context.Context, executor.Job[int]) error { return nil }, executor.QueueConfig[int]{})
	require.NoError(t, err)
	const ids, each = 20, 5
	for i := range ids * each {
		_, err := q.Enqueue(t.Context(), fmt.Sprint("id ", i%ids), i/ids+1)
		require.NoError(t, err)
	}
	require.NoError(t, x.Stop(t.Context()))
	moved, err := Import(t.Context(), c.url, c.config(), dir)
	require.NoError(t, err)
	require.Equal(t, Moved{Partitions: 4, Queues: 1, Live: ids * each}, moved)
	n := c.start(c.url)
	want := make(map[string]int)
	for i := range ids {
		want[fmt.Sprint("id ", i)] = each + 1
		_, err := n.q.Enqueue(t.Context(), fmt.Sprint("id ", i), each+1)
		require.NoError(t, err)
	}
	c.await(want)
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Empty(t, c.wrong)
	require.Zero(t, c.repeats)
}
