//go:build unix

package postgres

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// A journal that goes through one partition and back is printed by strand export as before.
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
			require.Equal(t, printed(t, before), printed(t, after))
			if name == "lived" {
				require.Equal(t, 10, moved.Buried)
				require.NotZero(t, strings.Count(printed(t, after), `"type":"state"`))
				require.Contains(t, printed(t, after), "slot/7/numbers/open/")
			}
			names, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, names, 2, "no draft is left")
		})
	}
}

// Divided among partitions each id has what it had, in its order and at its positions, in the
// partition that it belongs to; and what comes back goes in again as it is.
func TestMoveThroughManyPartitions(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t).URL()
	tenant := func(cfg *Config) {
		cfg.Partition = func(id string) string { before, _, _ := strings.Cut(id, "/"); return before }
	}
	for name, test := range map[string]struct {
		n    int
		make func(dir string)
		cfg  func(*Config)
	}{
		"built": {16, func(dir string) { builtJournal(t, dir, 1000) }, func(*Config) {}},
		"lived": {4, func(dir string) { livedJournal(t, dir, false) }, tenant},
	} {
		t.Run(name, func(t *testing.T) {
			n := test.n
			dir := t.TempDir()
			one, parts, again := filepath.Join(dir, "one"), filepath.Join(dir, "parts"), filepath.Join(dir, "again")
			test.make(one)
			r := newRig(t, url, n)
			moved, err := Import(t.Context(), url, r.config(test.cfg), one)
			require.NoError(t, err)
			_, err = Export(t.Context(), url, r.config(), parts)
			require.NoError(t, err)

			want, beside := listed(t, one)
			info, err := journal.Check(one)
			require.NoError(t, err)
			got := make(map[string][]string)
			divide, kept := r.config(test.cfg).divide(n), map[string]int{}
			used := 0
			for p := range n {
				ids, more := listed(t, filepath.Join(parts, partName(p)))
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
				part, err := journal.Check(filepath.Join(parts, partName(p)))
				require.NoError(t, err)
				require.Equal(t, []uint64{uint64(info.Next), info.Epoch}, []uint64{uint64(part.Next), part.Epoch})
			}
			require.Equal(t, want, got)
			require.GreaterOrEqual(t, used, 2)
			require.Equal(t, slices.Sorted(slices.Values(beside)), slices.Sorted(maps.Keys(kept)))
			for text, times := range kept {
				mine := strings.HasPrefix(text, `"k`) && (strings.Contains(text, "/lock/") && !strings.Contains(text, "by hand") || strings.Contains(text, "/pause/id/"))
				require.Equal(t, map[bool]int{true: 1, false: n}[mine], times, text)
			}

			s := newRig(t, url, n)
			back, err := Import(t.Context(), url, s.config(test.cfg), parts)
			require.NoError(t, err)
			require.Equal(t, []int{moved.Live, moved.Buried, moved.Queues}, []int{back.Live, back.Buried, back.Queues})
			_, err = Export(t.Context(), url, s.config(), again)
			require.NoError(t, err)
			for p := range n {
				ids, beside := listed(t, filepath.Join(parts, partName(p)))
				same, besides := listed(t, filepath.Join(again, partName(p)))
				require.Equal(t, ids, same)
				require.Equal(t, beside, besides)
			}
		})
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
