package store

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// A file whose pages have another size than those that this system would make is one that
// was made on another system. What is written of it anew is read as it was, and goes on.
func TestPagesOfAnotherSystem(t *testing.T) {
	rest := func(w *twin) { require.NoError(w.t, errors.Join(w.Rest(), w.Close())) }
	for name, way := range map[string]func(w *twin, dir string){
		"compacted": func(w *twin, _ string) {
			_, err := w.Compact(nil)
			require.NoError(w.t, err)
			w.same(w.Logged)
			rest(w)
		},
		"compacted at rest": func(w *twin, _ string) {
			rest(w)
			b, err := ReadBolt(w.path)
			require.NoError(w.t, err)
			require.NoError(w.t, errors.Join(b.Check(), (&Logged{Bolt: b}).Rewrite(w.place), b.Close()))
			require.NoError(w.t, w.place.Rename(directory.NewName, directory.FileName))
		},
		"copied": func(w *twin, dir string) {
			require.NoError(w.t, w.CopyTo(filepath.Join(dir, directory.FileName), nil))
			rest(w)
			w.dir = dir
		},
		"copied block by block": func(w *twin, dir string) {
			require.NoError(w.t, Copy(w.Logged, filepath.Join(dir, directory.FileName)))
			rest(w)
			w.dir = dir
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &twin{t: t, dir: t.TempDir(), end: format.FirstManifest, blocks: map[uint64][]byte{}, state: map[string][]byte{}}
			w.create(1024)
			w.open(-1)
			w.commit(&Transaction{Block: bytes.Repeat([]byte{1}, 5000)})
			w.commit(&Transaction{Block: bytes.Repeat([]byte{2}, 3000)})
			way(w, t.TempDir())
			w.open(-1)
			w.commit(&Transaction{Block: bytes.Repeat([]byte{3}, 2000), Drop: []Dropped{{Seq: 1, Size: 5000}}})
			w.same(w.Logged)
			rest(w)
			w.open(-1)
		})
	}
}

// create makes an empty journal with pages of a size.
func (w *twin) create(pageSize int) {
	p, err := directory.Open(w.dir)
	require.NoError(w.t, err)
	defer p.Close()
	options := BoltOptions()
	options.PageSize = pageSize
	b, err := attachIn(p, directory.FileName, options)
	require.NoError(w.t, err)
	require.NoError(w.t, b.Db.Update(func(tx *bbolt.Tx) error {
		for _, name := range format.Buckets {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		meta := tx.Bucket([]byte(format.BucketMeta))
		return errors.Join(meta.Put([]byte(format.KeyVersion), []byte{format.FormatVersion}), PutManifest(tx, format.FirstManifest))
	}))
	require.NoError(w.t, b.Close())
}
