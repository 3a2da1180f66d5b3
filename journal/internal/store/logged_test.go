package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// twin is a logged store and what should be in it.
type twin struct {
	*Logged
	t      testing.TB
	dir    string
	end    format.Manifest
	blocks map[uint64][]byte
	state  map[string][]byte
}

const small = 16 << 10

func startTwin(t testing.TB, bytes int) *twin {
	w := &twin{t: t, dir: t.TempDir(), end: format.FirstManifest, blocks: map[uint64][]byte{}, state: map[string][]byte{}}
	w.open(bytes)
	return w
}

// open opens what is in the directory, and commits to it as a log does.
func (w *twin) open(bytes int) {
	p, err := directory.Open(w.dir)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = p.Close() })
	w.Logged, err = OpenLogged(p, bytes, 0)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = w.Logged.Close() })
	w.same(w.Logged)
	w.end.Epoch++
	w.commit(&Transaction{})
}

// commit asks for room and commits t, with the end mark that it needs.
func (w *twin) commit(t *Transaction) {
	w.t.Helper()
	if t.Block != nil {
		w.end.Seq++
		t.Seq = w.end.Seq
	}
	if len(t.Drop) > 0 {
		w.end.Oldest = t.Drop[len(t.Drop)-1].Seq + 1
	}
	t.Manifest = w.end
	require.NoError(w.t, w.Commit(t))
	_, err := w.Room(t.weighs(), 0)
	require.NoError(w.t, err)
	if t.Block != nil {
		w.blocks[t.Seq] = bytes.Clone(t.Block)
	}
	for _, d := range t.Drop {
		delete(w.blocks, d.Seq)
	}
	for _, c := range t.Changes {
		if w.state[string(c.Key)] = c.Value; c.Value == nil {
			delete(w.state, string(c.Key))
		}
	}
	clear(t.Block) // its bytes are the caller's
}

// random commits something.
func (w *twin) random(r *rand.Rand) {
	t := &Transaction{Block: make([]byte, 1+r.IntN(3000))}
	if r.IntN(30) == 0 {
		t.Block = make([]byte, largeBlock+r.IntN(1000))
	}
	for i := range t.Block {
		t.Block[i] = byte(r.Uint32())
	}
	for seq := w.end.Oldest; seq <= w.end.Seq && r.IntN(3) > 0; seq++ {
		t.Drop = append(t.Drop, Dropped{Seq: seq, Size: len(w.blocks[seq])})
	}
	for range r.IntN(4) {
		c := format.Edit{Bucket: format.BucketState, Key: fmt.Appendf(nil, "key %03d", r.IntN(400)), Value: []byte{byte(r.Uint32())}}
		if r.IntN(3) == 0 {
			c.Value = nil
		}
		t.Changes = append(t.Changes, c)
	}
	w.commit(t)
}

// same compares all that can be read of s.
func (w *twin) same(s *Logged) {
	w.t.Helper()
	blocks := map[uint64][]byte{}
	var order []uint64
	require.NoError(w.t, s.Scan(func(seq uint64, data []byte) error {
		blocks[seq] = bytes.Clone(data)
		order = append(order, seq)
		return nil
	}))
	require.True(w.t, slices.IsSorted(order))
	require.Equal(w.t, w.blocks, blocks)
	for seq, want := range blocks {
		got, err := s.Read(seq, 0, s.chunks(len(want)))
		require.NoError(w.t, err)
		require.Equal(w.t, want, got)
		_, err = s.Read(seq, 0, s.chunks(len(want))+1)
		require.ErrorIs(w.t, err, format.ErrCorrupt)
		last, err := s.Read(seq, s.chunks(len(want))-1, 1)
		require.NoError(w.t, err)
		require.True(w.t, bytes.HasSuffix(want, last))
	}
	var keys []string
	for kv, err := range Pages(s.Page).Each(format.BucketState, nil) {
		require.NoError(w.t, err)
		keys = append(keys, string(kv.Key))
		require.Equal(w.t, w.state[string(kv.Key)], kv.Value)
		value, err := s.Get(format.BucketState, kv.Key)
		require.NoError(w.t, err)
		require.Equal(w.t, kv.Value, value)
	}
	require.Equal(w.t, slices.Sorted(maps.Keys(w.state)), keys)
	gone, err := s.Get(format.BucketState, []byte("key 400"))
	require.NoError(w.t, err)
	require.Nil(w.t, gone)
	end, err := ReadManifest(s)
	require.NoError(w.t, err)
	require.Equal(w.t, []uint64{w.end.Oldest, w.end.Seq, w.end.Epoch}, []uint64{end.Oldest, end.Seq, end.Epoch})
}

// crashed is a copy of the directory as a crash would leave it.
func (w *twin) crashed() string {
	dir := w.t.TempDir()
	for _, name := range []string{directory.FileName, directory.WALFile} {
		b, err := os.ReadFile(filepath.Join(w.dir, name))
		if !errors.Is(err, os.ErrNotExist) {
			require.NoError(w.t, err)
			require.NoError(w.t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
		}
	}
	return dir
}

// version is that of the file in a directory.
func version(t testing.TB, dir string) byte {
	b, err := ReadBolt(filepath.Join(dir, directory.FileName))
	require.NoError(t, err)
	require.NoError(t, b.Check())
	require.NoError(t, b.Close())
	return b.Version
}

// What deletes many blocks goes to bbolt at once: all that waits is one commit there.
func TestACommitThatDeletesMuchDoesNotWait(t *testing.T) {
	w := startTwin(t, 1<<20)
	for range 2*mostDropped + 10 {
		w.commit(&Transaction{Block: []byte("block")})
	}
	for _, n := range []int{mostDropped, mostDropped + 1} {
		w.commit(&Transaction{Block: []byte("block")})
		require.NotEmpty(t, w.waiting)
		drop := &Transaction{Block: []byte("block")}
		for seq := w.end.Oldest; len(drop.Drop) < n; seq++ {
			drop.Drop = append(drop.Drop, Dropped{Seq: seq, Size: len(w.blocks[seq])})
		}
		w.commit(drop)
		require.Equal(t, n == mostDropped, len(w.waiting) > 0)
	}
	w.same(w.Logged)
}

// What was committed is read back at any time, after a crash at any time, from a copy, and
// when the file was compacted, however large the log is.
func TestLoggedIsAStore(t *testing.T) {
	for _, bytes := range []int{-1, 1, small, 1 << 20} {
		t.Run(fmt.Sprint(bytes), func(t *testing.T) {
			t.Parallel()
			w, r := startTwin(t, bytes), rand.New(rand.NewPCG(1, uint64(bytes)))
			for range 300 {
				switch r.IntN(40) {
				case 0:
					w.dir = w.crashed()
					w.open(bytes)
				case 1:
					require.NoError(t, w.Rest())
					require.Equal(t, byte(format.FormatVersion), version(t, w.crashed()))
					require.NoError(t, w.Close())
					w.open(bytes)
				case 2:
					dir := t.TempDir()
					require.NoError(t, w.CopyTo(filepath.Join(dir, directory.FileName), nil))
					require.Equal(t, byte(format.FormatVersion), version(t, dir))
					p, err := directory.Open(dir)
					require.NoError(t, err)
					s, err := OpenLogged(p, -1, 0)
					require.NoError(t, err)
					w.same(s)
					require.NoError(t, errors.Join(s.Close(), p.Close()))
				case 3:
					_, err := w.Compact(nil)
					require.NoError(t, err)
				default:
					w.random(r)
				}
				if r.IntN(5) == 0 {
					w.same(w.Logged)
				}
			}
		})
	}
}

// transactions is how many commits bbolt has made.
func (w *twin) transactions() int { return w.last() }

// Small commits are none of bbolt's. It gets what is left of them with one that is large,
// that buries, that finds no room in the log, or comes when much waits.
func TestWhatGoesToBolt(t *testing.T) {
	w := startTwin(t, small)
	block := func(n int) []byte { return bytes.Repeat([]byte{7}, n) }
	w.commit(&Transaction{Block: block(10)}) // the log stands on this one
	goes := func(name string, at bool, tr *Transaction) {
		t.Helper()
		before := w.transactions()
		w.commit(tr)
		require.Equal(t, at, w.transactions() == before+1, name)
		require.Equal(t, at, len(w.waiting) == 0, name)
	}
	require.Equal(t, byte(format.OpenVersion), version(t, w.crashed()), "an older version must not open it")
	goes("small", false, &Transaction{Block: block(100)})
	goes("a key", false, &Transaction{Block: block(100), Changes: []format.Edit{{Bucket: format.BucketState, Key: []byte("k"), Value: []byte("v")}}})
	goes("no block", true, &Transaction{})
	goes("small again", false, &Transaction{Block: block(100)})
	bury := (&format.Buried{Entry: format.Entry{Kind: format.KindEnqueued, Queue: 1, Position: 1}}).Edit()
	goes("a burial", true, &Transaction{Block: block(100), Changes: []format.Edit{bury}})
	goes("large", true, &Transaction{Block: block(largeBlock + 1)})
	for range afterLarge {
		goes("behind it", true, &Transaction{Block: block(100)})
	}
	n := 0
	for ; w.log.Fits(1100); n++ {
		goes("until it is full", false, &Transaction{Block: block(1000)})
	}
	require.Greater(t, n, 5)
	goes("full", true, &Transaction{Block: block(3000)})

	w = startTwin(t, 64<<20)
	w.commit(&Transaction{Block: block(10)})
	for n = 0; len(w.waiting) == n; n++ {
		w.commit(&Transaction{Block: block(largeBlock)})
	}
	require.InDelta(t, maxWaiting/largeBlock, n, 3)
}

// What bbolt refuses is not acknowledged first, and harms nothing that was.
func TestWhatBoltRefusesDoesNotWait(t *testing.T) {
	w := startTwin(t, 1<<20)
	w.commit(&Transaction{Block: []byte("b")})
	for n, key := range [][]byte{{}, make([]byte, bbolt.MaxKeySize+1)} {
		w.commit(&Transaction{Block: []byte("waits")})
		require.Len(t, w.waiting, 2*n+1)
		end := w.end
		end.Seq++
		set := []format.Edit{{Bucket: format.BucketState, Key: key, Value: []byte("v")}}
		require.Error(t, w.Commit(&Transaction{Seq: end.Seq, Block: []byte("refused"), Changes: set, Manifest: end}))
		w.same(w.Logged)
		w.commit(&Transaction{Block: []byte("waits, too"), Changes: []format.Edit{{Bucket: format.BucketState, Key: make([]byte, bbolt.MaxKeySize), Value: []byte("v")}}})
		require.Len(t, w.waiting, 2*n+2)
	}
	w.dir = w.crashed()
	w.open(1 << 20)
	require.NoError(t, w.Rest())
	w.same(w.Logged)
}

// A block that leaves the log while it waits never reaches bbolt, and a key that is set
// again and again does once.
func TestWhatEndsMeanwhileIsNotWritten(t *testing.T) {
	w := startTwin(t, small)
	w.commit(&Transaction{Block: []byte("in bbolt")})
	for i := range 5 {
		set := format.Edit{Bucket: format.BucketState, Key: []byte("key"), Value: []byte{byte(i)}}
		tr := &Transaction{Block: fmt.Appendf(nil, "block %d", i), Changes: []format.Edit{set}}
		tr.Drop = append(tr.Drop, Dropped{Seq: w.end.Seq, Size: 8})
		w.commit(tr)
	}
	all := w.merged(&Transaction{Manifest: w.end})
	require.Equal(t, []Dropped{{Seq: 1, Size: 8}}, all.Drop)
	require.Len(t, all.Changes, 1)
	require.NoError(t, w.Rest())
	require.NoError(t, w.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket([]byte(format.BucketLog)).Cursor()
		var seqs []uint64
		for k, _ := c.First(); k != nil; k, _ = c.Next() {
			seqs = append(seqs, binary.BigEndian.Uint64(k))
		}
		require.Equal(t, []uint64{6}, seqs)
		return nil
	}))
	w.same(w.Logged)
}

// A page is one moment, also while what waits is given over.
func TestPagesWhileItIsGivenOver(t *testing.T) {
	w := startTwin(t, small)
	set := func(i int) *Transaction {
		t := &Transaction{Block: []byte("b")}
		for _, key := range []string{"a", "b", "c"} {
			t.Changes = append(t.Changes, format.Edit{Bucket: format.BucketState, Key: []byte(key), Value: binary.BigEndian.AppendUint32(nil, uint32(i))})
		}
		return t
	}
	w.commit(set(0))
	stop, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		last := uint32(0)
		for {
			page, err := w.Page(format.BucketState, nil)
			if err == nil && len(page) != 3 {
				err = fmt.Errorf("%d keys", len(page))
			}
			for _, kv := range page {
				if n := binary.BigEndian.Uint32(kv.Value); err == nil && (n < last || n != binary.BigEndian.Uint32(page[0].Value)) {
					err = fmt.Errorf("%q is %d, after %d", kv.Key, n, last)
				}
			}
			select {
			case <-stop:
				failed <- err
				return
			default:
			}
			if err != nil {
				failed <- err
				return
			}
			last = binary.BigEndian.Uint32(page[0].Value)
		}
	}()
	for i := range 500 {
		tr := set(i + 1)
		if i%7 == 0 {
			tr.Block = make([]byte, largeBlock+1)
		}
		w.commit(tr)
	}
	close(stop)
	require.NoError(t, <-failed)
}

// Room for what waits is not given to others.
func TestRoomForWhatWaits(t *testing.T) {
	w := startTwin(t, 1<<20)
	w.commit(&Transaction{Block: []byte("b")})
	for range 5 {
		w.commit(&Transaction{Block: make([]byte, 50<<10)})
	}
	room := w.room
	require.Greater(t, room, 250<<10)
	r, err := w.Room(1000, 0)
	require.NoError(t, err)
	b, err := w.Bolt.Room(1000, 0)
	require.NoError(t, err)
	require.Equal(t, b.Bytes-room, r.Bytes)
	require.Equal(t, b.Spare-room, r.Spare)
}

// What waits is promised a page for each key that it changes: there may be no two in the same.
func TestRoomForKeysThatWait(t *testing.T) {
	w := startTwin(t, 4<<20)
	set := func(i int, value []byte) format.Edit {
		return format.Edit{Bucket: format.BucketState, Key: fmt.Appendf(nil, "key %03d", i), Value: value}
	}
	large := &Transaction{Block: make([]byte, largeBlock+1)}
	for i := range 400 {
		large.Changes = append(large.Changes, set(i, make([]byte, 1000)))
	}
	w.commit(large)
	for range afterLarge {
		w.commit(&Transaction{Block: []byte("b")})
	}
	for i := range 40 {
		w.commit(&Transaction{Block: []byte("b"), Changes: []format.Edit{set(10*i, []byte("v"))}})
		w.commit(&Transaction{Block: []byte("b"), Changes: []format.Edit{set(10*i, []byte("w"))}})
	}
	require.Len(t, w.waiting, 80)
	r, err := w.Room(1000, 0)
	require.NoError(t, err)
	b, err := w.Bolt.Room(1000, 0)
	require.NoError(t, err)
	promised := b.Bytes - r.Bytes
	pages := w.Db.Stats().TxStats
	before := pages.GetPageAlloc()
	require.NoError(t, w.flush())
	pages = w.Db.Stats().TxStats
	took := int(pages.GetPageAlloc()-before) - overhead*w.pageSize
	require.Greater(t, took, 40*(w.pageSize/2), "or this proves nothing")
	require.LessOrEqual(t, took, promised)
	require.LessOrEqual(t, promised, 2*took, "a key that is set again takes no other page")
}

// What is read is the reader's: it holds no more than that in memory, and not what waits.
func TestWhatWaitsIsReadAsACopy(t *testing.T) {
	w := startTwin(t, 1<<20)
	w.commit(&Transaction{Block: []byte("b")})
	w.commit(&Transaction{Block: bytes.Repeat([]byte{7}, 50<<10)})
	require.Len(t, w.waiting, 1)
	part, err := w.Read(w.end.Seq, 1, 2)
	require.NoError(t, err)
	clear(part)
	w.same(w.Logged)
}

// A directory that is moved while it is opened is still the one whose log is read.
func TestReplayInADirectoryThatIsMoved(t *testing.T) {
	w := startTwin(t, 1<<20)
	w.commit(&Transaction{Block: []byte("b")})
	w.commit(&Transaction{Block: []byte("waits")})
	dir := w.crashed()
	p, err := directory.Open(dir)
	require.NoError(t, err)
	defer p.Close()
	require.NoError(t, os.Rename(dir, dir+".moved"))
	l, err := OpenLogged(p, 1<<20, 0)
	require.NoError(t, err)
	require.Len(t, l.waiting, 1)
	w.same(l)
	require.NoError(t, l.Close())
}

// A name that can't be removed is no reason to stop where there is to be no log.
func TestALogThatCantBeRemoved(t *testing.T) {
	w := startTwin(t, -1)
	w.after = 0
	require.NoError(t, os.Mkdir(filepath.Join(w.dir, directory.WALFile), 0o700))
	_, err := w.Room(0, 0)
	require.NoError(t, err)
	require.DirExists(t, filepath.Join(w.dir, directory.WALFile))
	w.commit(&Transaction{Block: []byte("b")})
}

func FuzzRecord(f *testing.F) {
	some := &Transaction{
		Seq: 9, Block: []byte("block"), Drop: []Dropped{{Seq: 3, Size: 400}, {Seq: 4, Size: 5}},
		Changes:  []format.Edit{{Bucket: format.BucketState, Key: []byte("a"), Value: []byte{}}, {Bucket: format.BucketQueues, Key: []byte("b")}},
		Manifest: format.Manifest{Oldest: 5, Seq: 9, Next: 77, Epoch: 3},
	}
	f.Add(some.record())
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := ParseRecord(b)
		if err != nil {
			require.ErrorIs(t, err, format.ErrCorrupt)
			return
		}
		again, err := ParseRecord(got.record())
		require.NoError(t, err)
		require.Equal(t, got, again)
	})
	got, err := ParseRecord(some.record())
	require.NoError(f, err)
	require.Equal(f, some, got)
}
