package journal

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// What ends while it is in the log before the file alone never gets into the file.
func TestWhatEndsInTheLogStaysThere(t *testing.T) {
	f := startKillRig(t, 3)
	require.NoError(t, f.log.Close())
	cfg := Config{WALBytes: 1 << 20, Deliver: func(d *Delivery) {
		for i := range d.Len() {
			r := must(d.Read(i, new(Entry)))
			f.refs[r.Position()] = r
		}
		d.Done()
	}}
	var err error
	f.log, err = Open(f.dir, cfg)
	require.NoError(t, err)
	for i := range 100 {
		ticket, err := f.log.Append(t.Context(), []Entry{{Queue: f.queue, ID: []byte("a"), Payload: fmt.Append(nil, "marker ", i)}}, nil)
		require.NoError(t, err)
		require.NoError(t, ticket.Wait(t.Context()))
		for _, r := range f.refs {
			f.log.Record(&Change{Ended: []Ref{r}})
		}
		clear(f.refs)
		require.NoError(t, f.log.Flush(t.Context()))
	}
	require.NoError(t, f.log.Close())
	file := mustRead(t, filepath.Join(f.dir, directory.FileName))
	require.Less(t, bytes.Count(file, []byte("marker ")), 5, "the last blocks may be in it")
}

// What is large goes to the file with all that waits, and not through the log first.
func TestBulkIsNotInTheLog(t *testing.T) {
	f := startKillRig(t, 4)
	require.NoError(t, f.log.Close())
	var err error
	f.log, err = Open(f.dir, Config{WALBytes: 1 << 20})
	require.NoError(t, err)
	f.append(1, 10)
	path := filepath.Join(f.dir, directory.WALFile)
	before := mustRead(t, path)
	list := make([]Entry, 1000)
	for i := range list {
		list[i] = Entry{Queue: f.queue, ID: []byte("a"), Payload: bytes.Repeat([]byte("bulk "), 60)}
	}
	ticket, err := f.log.Append(t.Context(), list, nil)
	require.NoError(t, err)
	require.NoError(t, ticket.Wait(t.Context()))
	require.Equal(t, before, mustRead(t, path))
	require.NotContains(t, string(before), "bulk ")
	require.NoError(t, f.log.Close())
}

// versionOf is that of a journal file.
func versionOf(t *testing.T, dir string) (version byte) {
	db, err := bbolt.Open(filepath.Join(dir, directory.FileName), 0o600, &bbolt.Options{ReadOnly: true})
	require.NoError(t, err)
	require.NoError(t, db.View(func(tx *bbolt.Tx) error {
		v := tx.Bucket([]byte(format.BucketMeta)).Get([]byte(format.KeyVersion))
		require.Len(t, v, 1)
		version = v[0]
		return nil
	}))
	require.NoError(t, db.Close())
	return version
}

// A program that knows nothing of the log does not take a file for all of a journal while the
// log has more. When the journal is closed it may open it again, and a copy at any time.
func TestVersionWhileTheLogHasMore(t *testing.T) {
	f := startKillRig(t, 5)
	for range 3 {
		require.NoError(t, f.log.Close())
		require.EqualValues(t, 2, versionOf(t, f.dir))
		var err error
		f.log, err = Open(f.dir, Config{WALBytes: 64 << 10})
		require.NoError(t, err)
		f.append(1, 100)
		require.EqualValues(t, 3, versionOf(t, f.killed()))
		require.NoError(t, f.log.Compact(t.Context()))
		f.append(1, 100)
		require.EqualValues(t, 3, versionOf(t, f.killed()))
		to := filepath.Join(t.TempDir(), "copy")
		require.NoError(t, f.log.Copy(t.Context(), to))
		require.EqualValues(t, 2, versionOf(t, to))
	}
	require.NoError(t, f.log.Close())
}
