package journal

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/pages"
	"github.com/strandjobs/strand/journal/internal/store"
)

// TestFlipsBesideTheLog flips every bit of the names, numbers and payloads
// beside the log, of the end mark, and of their keys.
func TestFlipsBesideTheLog(t *testing.T) {
	t.Parallel()
	slow(t)
	file := readFile(t, sample(t))
	flips := 0
	for _, name := range []format.Bucket{format.BucketQueues, format.BucketMorgue, format.BucketState, format.BucketMeta} {
		var keys, values [][]byte
		edit(t, file, func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte(name)).ForEach(func(k, v []byte) error {
				keys, values = append(keys, bytes.Clone(k)), append(values, bytes.Clone(v))
				return nil
			})
		})
		for i, key := range keys {
			for bit := range len(key)*8 + len(values[i])*8 {
				if !long && bit%11 != 0 { // odd: all bits of a byte get their turn
					continue
				}
				k, v := bytes.Clone(key), bytes.Clone(values[i])
				if bit < len(k)*8 {
					k[bit/8] ^= 1 << (bit % 8)
				} else {
					v[bit/8-len(k)] ^= 1 << (bit % 8)
				}
				path := filepath.Join(withFile(t, file), directory.FileName)
				db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true, NoSync: true})
				require.NoError(t, err)
				require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
					b := tx.Bucket([]byte(name))
					require.NoError(t, b.Delete(key))
					if name != format.BucketMeta {
						last, err := format.ParseManifest(tx.Bucket([]byte(format.BucketMeta)).Get(format.KeyManifest))
						require.NoError(t, err)
						require.NoError(t, store.PutManifest(tx, last)) // only the flip is wrong
					}
					return b.Put(k, v)
				}))
				require.NoError(t, db.Close())
				_, err = describe(filepath.Dir(path))
				require.Error(t, err, "bucket %s, key %x, bit %d", name, key, bit)
				if name == format.BucketState || name == format.BucketQueues {
					require.ErrorContains(t, err, fmt.Sprintf("bucket %q, key %q", name, k))
				}
				flips++
			}
		}
	}
	t.Log(flips, "flips")
}

// TestMetaPages flips every bit of both meta pages, whichever is the younger.
func TestMetaPages(t *testing.T) {
	t.Parallel()
	dir := sample(t)
	for range 2 {
		file := readFile(t, dir)
		path := filepath.Join(t.TempDir(), directory.FileName)
		for page := range 2 {
			for bit := (page*4096 + pages.PageHeader) * 8; bit < (page*4096+pages.PageHeader+pages.MetaSize)*8; bit++ {
				file[bit/8] ^= 1 << (bit % 8)
				require.NoError(t, os.WriteFile(path, file, 0o600))
				require.ErrorIs(t, pages.Check(path), ErrCorrupt, "meta page %d, bit %d", page, bit)
				file[bit/8] ^= 1 << (bit % 8)
			}
		}
		require.NoError(t, os.WriteFile(path, file, 0o600))
		require.NoError(t, pages.Check(path))
		_, err := describe(dir) // commits once: now the other page is the younger one
		require.NoError(t, err)
	}
}
