package store

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/stretchr/testify/require"
)

// under puts another file under the log.
func (w *twin) under(path string, flag int) {
	f, err := os.OpenFile(path, flag, 0)
	require.NoError(w.t, err)
	require.NoError(w.t, syscall.Dup3(int(f.Fd()), int(w.file.Fd()), 0))
	require.NoError(w.t, f.Close())
}

func (w *twin) next(block string) *Transaction {
	w.end.Seq++
	w.blocks[w.end.Seq] = []byte(block)
	return &Transaction{Seq: w.end.Seq, Block: []byte(block), Manifest: w.end}
}

// A log whose file finds no room leaves it to bbolt, with all that waited; any other error
// stops the log, and nothing is given over.
func TestLogThatFails(t *testing.T) {
	w := startTwin(t, small)
	w.commit(&Transaction{Block: []byte("bbolt")})
	w.commit(&Transaction{Block: []byte("waits")})
	w.under("/dev/full", os.O_WRONLY)
	before := w.transactions()
	require.NoError(t, w.Commit(w.next("on a full disk")))
	require.Empty(t, w.waiting)
	require.Equal(t, before+1, w.transactions())
	w.same(w.Logged)

	w = startTwin(t, small)
	w.commit(&Transaction{Block: []byte("bbolt")})
	w.commit(&Transaction{Block: []byte("waits")})
	w.under("/dev/null", os.O_RDONLY) // nothing can be written to it
	before = w.transactions()
	err := w.Commit(w.next("nowhere"))
	require.Error(t, err)
	require.NotErrorIs(t, err, format.ErrFull)
	require.Equal(t, before, w.transactions())
}

// While the disk gives no more, nothing waits.
func TestNothingWaitsOnAFullDisk(t *testing.T) {
	w := startTwin(t, small)
	w.commit(&Transaction{Block: []byte("bbolt")})
	w.commit(&Transaction{Block: []byte("waits")})
	require.Len(t, w.waiting, 1)
	w.space.refused = time.Now().Add(time.Hour)
	r, err := w.Room(100, 0)
	require.NoError(t, err)
	require.False(t, r.Gives)
	require.Empty(t, w.waiting)
	before := w.transactions()
	w.commit(&Transaction{Block: []byte("straight")})
	require.Equal(t, before+1, w.transactions())
	w.space.refused = time.Time{}
	_, err = w.Room(100, 0)
	require.NoError(t, err)
	w.commit(&Transaction{Block: []byte("waits again")})
	require.Len(t, w.waiting, 1)
	w.same(w.Logged)
}
