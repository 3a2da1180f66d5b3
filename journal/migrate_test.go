package journal

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
	"github.com/stretchr/testify/require"
)

// goldenFile is a journal in testdata.
func goldenFile(t testing.TB, name string) []byte {
	packed, err := gzip.NewReader(bytes.NewReader(mustRead(t, filepath.Join("testdata", name+".db.gz"))))
	require.NoError(t, err)
	file, err := io.ReadAll(packed)
	require.NoError(t, err)
	return file
}

// looked is what a view tells of a journal, its format left out.
func looked(t testing.TB, dir string) (text string, format int) {
	v, err := OpenView(dir)
	require.NoError(t, err)
	var b strings.Builder
	i := v.Info()
	fmt.Fprintln(&b, i.UUID, i.Next, i.Live, i.Buried, v.Queues(), v.Suspects())
	for _, queue := range slices.Sorted(maps.Keys(v.Unclaimed())) {
		for _, r := range slices.Concat(v.PendingPages(queue)...) {
			var e Entry
			require.NoError(t, r.Read(&e))
			b.WriteString(show(e))
		}
	}
	for d, err := range v.Morgue() {
		require.NoError(t, err)
		b.WriteString(showB(d))
	}
	for s, err := range v.Keys() {
		require.NoError(t, err)
		fmt.Fprintf(&b, "%q %q\n", s.Key, s.Value)
	}
	require.NoError(t, v.Close())
	return b.String(), i.Format
}

// A journal of format 1 is read as it is by calls that only look, copied and
// compacted as it is, and is one of format 2 with the same in it once it was
// opened.
func TestMigration(t *testing.T) {
	file := goldenFile(t, "v1-state")
	dir := withFile(t, file)
	want, format := looked(t, dir)
	require.Equal(t, 1, format)
	require.Contains(t, want, "suspect/")
	require.True(t, bytes.Equal(file, mustRead(t, filepath.Join(dir, directory.FileName))))

	require.NoError(t, Clone(dir, dir+"-copy"))
	_, _, err := Compact(dir + "-copy")
	require.NoError(t, err)
	got, format := looked(t, dir+"-copy")
	require.Equal(t, []any{want, 1}, []any{got, format})

	_, want, _ = strings.Cut(want, " ") // the UUID
	for _, dir := range []string{dir, dir + "-copy"} {
		l, err := Open(dir, Config{})
		require.NoError(t, err)
		_, err = Check(dir)
		require.ErrorAs(t, err, new(*LockedError))
		require.NoError(t, l.Close())
		got, format := looked(t, dir)
		_, got, _ = strings.Cut(got, " ")
		require.Equal(t, []any{want, 2}, []any{got, format})
	}
}

// After a crash while a journal is migrated there is the old one or the new one,
// whatever the disk has written of what it was told to.
func TestCrashInMigration(t *testing.T) {
	old := goldenFile(t, "v1-state")
	dir := withFile(t, old)
	want, _ := looked(t, dir)
	s, err := store.OpenBolt(must(directory.Open(dir)))
	require.NoError(t, err)
	v, err := s.Get(format.BucketMeta, format.KeyManifest)
	require.NoError(t, err)
	last, err := format.ParseManifest(v)
	require.NoError(t, err)
	require.NoError(t, s.Commit(&store.Transaction{Manifest: last}))
	require.NoError(t, s.Close())
	migrated := mustRead(t, filepath.Join(dir, directory.FileName))
	require.Len(t, migrated, len(old))

	const sector = 512
	var changed []int
	meta := -1
	for at := 0; at < len(old); at += sector {
		if bytes.Equal(old[at:at+sector], migrated[at:at+sector]) {
			continue
		}
		if at < 2*4096 {
			require.Equal(t, -1, meta, "one meta page, in one sector")
			meta = at
		} else {
			changed = append(changed, at)
		}
	}
	require.Greater(t, len(changed), 5)
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 / oneIn {
		image := bytes.Clone(old)
		for _, at := range changed { // bbolt syncs between them and the meta page
			if random.IntN(2) == 0 {
				copy(image[at:at+sector], migrated[at:at+sector])
			}
		}
		got, format := looked(t, withFile(t, image))
		require.Equal(t, []any{want, 1}, []any{got, format})
	}
	image := bytes.Clone(migrated)
	copy(image[meta:meta+sector], old[meta:meta+sector])
	_, format := looked(t, withFile(t, image))
	require.Equal(t, 1, format)
	got, format := looked(t, withFile(t, migrated))
	require.Equal(t, []any{want, 2}, []any{got, format})
	require.NoError(t, os.RemoveAll(dir))
}

// What is wrong is found before anything is written.
func TestMigrationOfDamage(t *testing.T) {
	old := goldenFile(t, "v1-state")
	broken := bytes.ReplaceAll(old, []byte("suspect/0000000000000005"), []byte("suspect/000000000000000."))
	require.NotEqual(t, old, broken)
	err := refused(t, withFile(t, broken), ErrCorrupt)
	require.ErrorContains(t, err, `"suspect/000000000000000."`)
}
