package store

import (
	"path/filepath"
	"testing"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/stretchr/testify/require"
)

// A copy that begins when bbolt has made a commit, and what has waited for it still does, has
// that commit, whole.
func TestCopyWhileItIsGivenOver(t *testing.T) {
	w := startTwin(t, 1<<20)
	w.commit(&Transaction{Block: []byte("a")})
	set := func(v string) []format.Edit {
		return []format.Edit{{Bucket: format.BucketState, Key: []byte("key"), Value: []byte(v)}}
	}
	w.commit(&Transaction{Block: []byte("waits"), Changes: set("older")})
	w.commit(&Transaction{Block: []byte("waits, too"), Drop: []Dropped{{Seq: 1, Size: 1}}})
	require.Len(t, w.waiting, 2)

	w.end.Seq++
	large := &Transaction{Seq: w.end.Seq, Block: make([]byte, largeBlock+1), Changes: set("newer"), Manifest: w.end}
	w.blocks[large.Seq], w.state["key"] = large.Block, []byte("newer")
	require.NoError(t, w.Bolt.Commit(w.merged(large))) // give, but for its last step

	path := filepath.Join(t.TempDir(), directory.FileName)
	require.NoError(t, w.CopyTo(path, nil))
	p, err := directory.Open(filepath.Dir(path))
	require.NoError(t, err)
	defer p.Close()
	to, err := OpenLogged(p, -1, 0)
	require.NoError(t, err)
	w.same(to)
	end, err := ReadManifest(to)
	require.NoError(t, err)
	require.Equal(t, w.end.Seq, end.Seq)
	require.NoError(t, to.Close())
}

// Nor has a page that is read then anything older over what bbolt has.
func TestPageWhileItIsGivenOver(t *testing.T) {
	w := startTwin(t, 1<<20)
	set := func(v string) []format.Edit {
		return []format.Edit{{Bucket: format.BucketState, Key: []byte("key"), Value: []byte(v)}}
	}
	w.commit(&Transaction{Block: []byte("a")})
	w.commit(&Transaction{Block: []byte("waits"), Changes: set("older")})
	w.end.Seq++
	large := &Transaction{Seq: w.end.Seq, Block: make([]byte, largeBlock+1), Changes: set("newer"), Manifest: w.end}
	require.NoError(t, w.Bolt.Commit(w.merged(large)))
	page, err := w.Page(format.BucketState, nil)
	require.NoError(t, err)
	require.Equal(t, []format.Pair{{Key: []byte("key"), Value: []byte("newer")}}, page)
}
