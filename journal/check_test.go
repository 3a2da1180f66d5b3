package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

func TestCheck(t *testing.T) {
	dir := sample(t)
	before := tree(t, dir)
	r, err := Check(dir)
	require.NoError(t, err)
	assert.Equal(t, before, tree(t, dir), "nothing is written")
	assert.Equal(t, []int{1, 4}, []int{r.Queues, r.Buried})
	assert.Equal(t, 8, r.Live)
	assert.Equal(t, Position(37), r.Next)
	assert.Equal(t, uint64(1), r.Epoch)
	assert.Greater(t, r.Entries, r.Live)
	assert.Positive(t, r.FileBytes)

	l, err := Open(dir, Config{})
	require.NoError(t, err)
	s := l.Stats()
	assert.Equal(t, []int{s.Blocks, s.Bytes, s.LiveBytes}, []int{r.Blocks, r.Bytes, r.LiveBytes}, "as Open finds it")
	_, err = Check(dir)
	locked, ok := errors.AsType[*LockedError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, os.Getpid(), locked.PID)
	require.NoError(t, l.Close())
}

// TestCheckWithoutLock checks a journal whose LOCK file is gone.
func TestCheckWithoutLock(t *testing.T) {
	dir := withFile(t, readFile(t, sample(t)))
	before := tree(t, dir)
	_, err := Check(dir)
	require.NoError(t, err)
	assert.Equal(t, before, tree(t, dir))
}

func TestCheckDamage(t *testing.T) {
	file := readFile(t, sample(t))
	keys, values := chunks(t, file)
	last := len(keys) - 1
	values[last][format.HeaderSize+3] ^= 1
	dir := edit(t, file, func(tx *bbolt.Tx) error { return tx.Bucket([]byte(format.BucketLog)).Put(keys[last], values[last]) })
	before := tree(t, dir)
	_, err := Check(dir)
	damage, ok := errors.AsType[*CorruptError](err)
	require.True(t, ok, "%v", err)
	assert.Positive(t, damage.Block)
	assert.Equal(t, before, tree(t, dir))

	clear(file[3*4096 : 6*4096])
	_, err = Check(withFile(t, file))
	assert.ErrorIs(t, err, ErrCorrupt)
}

func TestCheckElsewhere(t *testing.T) {
	dir := t.TempDir()
	_, err := Check(dir)
	assert.ErrorIs(t, err, ErrNotJournal)
	_, err = Check(filepath.Join(dir, "nowhere"))
	assert.ErrorIs(t, err, fs.ErrNotExist)
	_, err = Check(withFile(t, []byte("text")))
	assert.ErrorIs(t, err, ErrNotJournal)
	newer := edit(t, readFile(t, sample(t)), func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(format.BucketMeta)).Put([]byte(format.KeyVersion), []byte{format.OpenVersion + 1})
	})
	_, err = Check(newer)
	assert.ErrorIs(t, err, ErrTooNew)
	assert.Empty(t, names(t, dir)[1:], "nothing is made")
}
