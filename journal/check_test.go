package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/strandjobs/strand/journal/internal/crash"
	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/rest"
	"github.com/strandjobs/strand/journal/internal/store"
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

// A suspect that makes no sense is damage to who looks as to who opens the journal, also while it waits in the log.
func TestCheckSuspects(t *testing.T) {
	f := startWAL(t, 64<<10)
	for range 3 {
		f.add(10)
	}
	before := filesIn(t, f.dir)
	ticket, err := f.log.Append(t.Context(), []Entry{{Queue: f.queue, ID: []byte("a")}}, func(Position) []Set {
		return []Set{{Key: crash.SuspectPrefix + "x", Value: []byte("y")}}
	})
	require.NoError(t, err)
	require.NoError(t, ticket.Wait(t.Context()))
	files := filesIn(t, f.dir)
	require.Equal(t, before[directory.FileName], files[directory.FileName])
	dir := withFiles(t, files)
	refused(t, dir, ErrCorrupt)
	for _, err := range []error{errOf(Check(dir)), errOf(OpenView(dir)), errOf(OpenSides(dir)), Clone(dir, dir+"-copy")} {
		require.ErrorIs(t, err, ErrCorrupt)
	}
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

// growing has a block more each time it is scanned, as a file that another process writes to may.
type growing struct {
	store.Store
	scans int
}

func (g *growing) Scan(block func(seq uint64, data []byte) error) error {
	var newest uint64
	var last []byte
	err := g.Store.Scan(func(seq uint64, data []byte) error {
		newest, last = seq, data
		return block(seq, data)
	})
	if g.scans++; g.scans > 1 && err == nil {
		err = block(newest+1, last)
	}
	return err
}

// A look at what changes meanwhile is an error, which who looks may blame on the other process.
func TestALookAtWhatGrows(t *testing.T) {
	f := startWAL(t, -1)
	f.add(10)
	f.add(10)
	require.NoError(t, f.log.Close())
	file, err := store.OpenLogged(must(directory.Open(f.dir)), -1, 0)
	require.NoError(t, err)
	defer file.Close()
	grows := &growing{Store: file}
	_, err = rest.ViewOf(grows, 0)
	require.ErrorIs(t, err, ErrCorrupt)
	require.Equal(t, 2, grows.scans)
}
