package journal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal/internal/block"
	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
)

// evictRig is a journal on a file with entries that can be told apart.
type evictRig struct {
	*testing.T
	dir    string
	log    *Log
	failed chan error
	block  int // entries in one

	mu   sync.Mutex
	refs []Ref // in position order
}

func startEvict(t *testing.T, cfg Config) *evictRig {
	f := &evictRig{T: t, dir: filepath.Join(t.TempDir(), "j"), failed: make(chan error, 1), block: 100}
	cfg.Failed = func(err error) { f.failed <- err }
	cfg.Deliver = func(d *Delivery) {
		f.mu.Lock()
		for i := range d.Len() {
			f.refs = append(f.refs, must(d.Read(i, new(Entry))))
		}
		f.mu.Unlock()
		d.Done()
	}
	var err error
	f.log, err = Open(f.dir, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.log.Close() }) // most tests have looked at its error before
	return f
}

// evictPayload is that of the n-th entry, and no other one's.
func evictPayload(n int) []byte {
	b := fmt.Appendf(nil, "payload %d ", n)
	for r := rand.New(rand.NewPCG(uint64(n), 0)); len(b) < 300+n%700; {
		b = append(b, byte(r.Uint32()))
	}
	return b
}

// add appends n entries, in blocks of their own.
func (f *evictRig) add(n int) {
	for from := len(f.refs); n > 0; n -= f.block {
		list := make([]Entry, min(n, f.block))
		for i := range list {
			list[i] = Entry{Queue: modelQueue, ID: fmt.Append(nil, "id-", from), Due: int64(from), Payload: evictPayload(from)}
			from++
		}
		ticket, err := f.log.Append(f.Context(), list, nil)
		require.NoError(f, err)
		require.NoError(f, ticket.Wait(f.Context()))
	}
	f.settle()
}

// settle waits until the committer has done what it does after a commit.
func (f *evictRig) settle() {
	require.NoError(f, f.log.Flush(f.Context()))
	f.log.committing.Lock()
	defer f.log.committing.Unlock()
}

// check reads the n-th entry in both ways.
func (f *evictRig) check(n int) {
	require.NoError(f, f.compare(n))
}

func (f *evictRig) compare(n int) error {
	f.refs[n].Prefetch()
	var e Entry
	if err := f.refs[n].Read(&e); err != nil {
		return err
	}
	id, due, err := f.refs[n].Head()
	if err != nil {
		return err
	}
	want := fmt.Append(nil, "id-", n)
	if due != int64(n) || e.Due != due || !bytes.Equal(id, want) || !bytes.Equal(e.ID, want) || !bytes.Equal(e.Payload, evictPayload(n)) {
		return fmt.Errorf("entry %d was read as %s, %s, due %d and %d", n, id, e.ID, due, e.Due)
	}
	return nil
}

const evictBudget = 256 << 10

func TestBudget(t *testing.T) {
	f := startEvict(t, Config{MemoryBudget: evictBudget})
	f.add(3000) // about 2 MB
	stats := f.log.Stats()
	require.Less(t, stats.HeldBytes, evictBudget)
	require.Greater(t, stats.HeldBytes, evictBudget/2, "what may stay does")
	require.Zero(t, stats.ReadBacks)

	for n := range 3000 {
		f.refs[n].Prefetch()
	}
	require.Zero(t, f.log.Stats().ReadBacks, "it leaves the disk alone")
	for n := 2900; n < 3000; n++ {
		f.check(n)
	}
	require.Zero(t, f.log.Stats().ReadBacks, "the newest stay")

	var kept []Entry // is valid for as long as we like
	for n := range 3000 {
		f.check(n)
		var e Entry
		require.NoError(t, f.refs[n].Read(&e))
		kept = append(kept, e)
	}
	inOrder := f.log.Stats().ReadBacks
	// 30 blocks of 65 KB: 16, 32 and what is left of each.
	require.Less(t, inOrder, uint64(30*5))
	for range 1000 {
		f.check(rand.IntN(3000))
	}
	require.Greater(t, f.log.Stats().ReadBacks, inOrder+300, "windows are bounded, too")
	require.LessOrEqual(t, f.log.chain.Reader.Bytes, max(evictBudget/8, block.MaxWindow))

	f.log.Record(&Change{Ended: f.refs[1:]})
	f.settle()
	f.check(0)
	require.Less(t, f.log.Stats().HeldBytes, 2000)
	require.NoError(t, f.log.Close())
	for n, e := range kept {
		require.Equal(t, evictPayload(n), e.Payload)
	}
}

// A journal that is opened has no more in memory than one that was filled, and
// what it keeps is what runs first.
func TestBudgetAtOpen(t *testing.T) {
	f := startEvict(t, Config{})
	f.add(3000)
	require.NoError(t, f.log.Close())
	l, err := Open(f.dir, Config{MemoryBudget: evictBudget})
	require.NoError(t, err)
	f.log, f.refs = l, slices.Concat(l.PendingPages(modelQueue)...)
	require.Less(t, l.Stats().HeldBytes, evictBudget)
	for n := range 100 {
		f.check(n)
	}
	require.Zero(t, l.Stats().ReadBacks)
	for n := range 3000 {
		f.check(n)
	}
	require.NotZero(t, l.Stats().ReadBacks)
	require.NoError(t, l.Close())
}

func TestNoBudget(t *testing.T) {
	f := startEvict(t, Config{MemoryBudget: -1})
	f.add(3000)
	for n := range 3000 {
		f.check(n)
	}
	stats := f.log.Stats()
	require.Greater(t, stats.HeldBytes, 1<<20)
	require.Zero(t, stats.ReadBacks)
	require.NoError(t, f.log.Close())
}

// An entry may be larger than any window.
func TestLargeEntryIsReadBack(t *testing.T) {
	f := startEvict(t, Config{MemoryBudget: 1})
	f.add(3)
	payload := bytes.Repeat([]byte("0123456789"), 100_000)
	ticket, err := f.log.Append(t.Context(), []Entry{{Queue: modelQueue, ID: []byte("small")}, {Queue: modelQueue, ID: []byte("large"), Payload: payload}}, nil)
	require.NoError(t, err)
	require.NoError(t, ticket.Wait(t.Context()))
	f.settle()
	large := f.refs[4]
	large.Bytes = 0 // as in a delivery that is read late
	for range 2 {
		var e Entry
		require.NoError(t, large.Read(&e))
		require.Equal(t, payload, e.Payload)
		id, err := large.ID()
		require.NoError(t, err)
		require.Equal(t, "large", string(id))
	}
	require.NoError(t, f.log.Close())
}

// What is carried forward may have left memory, more than once.
func TestCarryOfWhatLeftMemory(t *testing.T) {
	f := startEvict(t, Config{MemoryBudget: 1, trimSlack: 1, minCarry: 20 << 10})
	f.add(3000)
	first := f.log.chain.Blocks[0].Seq
	require.NotNil(t, f.refs[0].Block.Home.Load().Cold)
	live := map[int]bool{}
	for left := 1500; left > 20; left /= 2 {
		var ended []Ref
		for n := range 3000 {
			if (len(live) == 0 || live[n]) && n%(3000/left) != 0 {
				ended = append(ended, f.refs[n])
			}
		}
		for n := range 3000 {
			if n%(3000/left) == 0 && (left == 1500 || live[n]) {
				live[n] = true
			} else {
				delete(live, n)
			}
		}
		f.log.Record(&Change{Ended: ended})
		for range 10 {
			f.log.Record(&Change{Sets: []Set{{Key: "test", Value: []byte("x")}}}) // something to commit
			f.settle()
		}
		for n := range live {
			f.check(n)
		}
	}
	stats := f.log.Stats()
	require.Greater(t, f.log.chain.Blocks[0].Seq, first+20)
	require.LessOrEqual(t, stats.Bytes, 2*stats.LiveBytes+4<<10, "the log is trimmed all the same")
	h := f.refs[0].Block.Home.Load()
	require.NotNil(t, h.Block, "it was carried")
	require.NotNil(t, h.Block.Home.Load().Cold, "and left memory again")
	require.NoError(t, f.log.Close())
}

// lateStore does something just before it reads a block for the first time.
type lateStore struct {
	store.Store
	before func()
}

func (s *lateStore) Read(seq uint64, first, n int) ([]byte, error) {
	if before := s.before; before != nil {
		s.before = nil
		before()
	}
	return s.Store.Read(seq, first, n)
}

// Between where an entry was found and the reading of it, the block may be
// carried forward, and gone from the disk.
func TestReadBackOfWhatIsCarriedMeanwhile(t *testing.T) {
	late := &lateStore{Store: new(store.Memory)}
	var refs []Ref
	l := newLog(late, Config{MemoryBudget: 1, trimSlack: 1, minCarry: 1 << 20, Deliver: func(d *Delivery) {
		for i := range d.Len() {
			refs = append(refs, must(d.Read(i, new(Entry))))
		}
		d.Done()
	}}, false)
	require.NoError(t, l.boot())
	f := &evictRig{T: t, log: l}
	for i := range 10 {
		_, err := l.Append(t.Context(), []Entry{{Queue: modelQueue, ID: fmt.Append(nil, i), Payload: evictPayload(i)}}, nil)
		require.NoError(t, err)
		f.settle()
	}
	was := refs[0].Block.Home.Load().Cold
	require.NotNil(t, was)
	late.before = func() {
		l.Record(&Change{Ended: refs[1:9]})
		f.settle()
		l.Record(&Change{Sets: []Set{{Key: "test", Value: []byte("x")}}})
		f.settle()
	}
	var e Entry
	require.NoError(t, refs[0].Read(&e))
	require.Equal(t, evictPayload(0), e.Payload)
	require.Nil(t, refs[0].Block.Home.Load().Cold)
	_, err := late.Read(was.Seq, 0, 1)
	require.ErrorIs(t, err, ErrCorrupt, "it is not there any more")
	require.NoError(t, l.Close())
}

// Reading back goes on while the file is replaced, blocks are carried and the
// journal is closed.
func TestReadBackBesideEverything(t *testing.T) {
	t.Parallel()
	slow(t)
	f := startEvict(t, Config{MemoryBudget: 1, trimSlack: 1, minCarry: 100 << 10})
	f.add(2000)
	var refs, ended []Ref
	for n, r := range f.refs[:1000] {
		if n%3 == 0 { // these stay
			refs = append(refs, r)
		} else {
			ended = append(ended, r)
		}
	}
	f.log.Record(&Change{Ended: ended})
	errs := make([]error, 4)
	var readers sync.WaitGroup
	var read [4]int
	for g := range errs {
		readers.Go(func() {
			for r := rand.New(rand.NewPCG(uint64(g), 0)); errs[g] == nil; read[g]++ {
				n := r.IntN(len(refs))
				var e Entry
				if errs[g] = refs[n].Read(&e); errs[g] == nil && !bytes.Equal(e.Payload, evictPayload(3*n)) {
					errs[g] = fmt.Errorf("entry %d was read as %s", 3*n, e.ID)
				}
			}
		})
	}
	rest := f.refs[1000:]
	for round := range 10 {
		f.log.Record(&Change{Ended: rest[:100]})
		rest = rest[100:]
		if runtime.GOOS != "windows" && round%3 == 0 {
			require.NoError(t, f.log.Compact(t.Context()))
		}
		f.mu.Lock()
		from := len(f.refs)
		f.mu.Unlock()
		f.add(100)
		f.mu.Lock()
		rest = append(rest, f.refs[from:]...)
		f.mu.Unlock()
		f.settle()
	}
	for f.log.chain.Reader.Reads.Load() < 100 {
		time.Sleep(time.Millisecond)
	}
	require.NotNil(t, refs[0].Block.Home.Load().Block, "it was carried meanwhile")
	require.NoError(t, f.log.Close())
	readers.Wait()
	for g, err := range errs {
		require.ErrorIs(t, err, ErrClosed, "reader %d after %d", g, read[g])
	}
}

// A log that can't read something back stops, and says which block it was. What
// is on disk stays as it is.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	slow(t)
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not allow that")
	}
	flip := func(f *evictRig, before int) {
		path := filepath.Join(f.dir, directory.FileName)
		b, err := os.ReadFile(path)
		require.NoError(f, err)
		at := bytes.LastIndex(b, evictPayload(50)[:100])
		require.Positive(f, at)
		at -= before
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		require.NoError(f, err)
		_, err = file.WriteAt([]byte{b[at] ^ 4}, int64(at))
		require.NoError(f, errors.Join(err, file.Close()))
	}
	for name, test := range map[string]struct {
		damage func(f *evictRig)
		block  bool // the error names it
	}{
		"payload": {func(f *evictRig) { flip(f, 0) }, true},
		"id":      {func(f *evictRig) { flip(f, len("50")+2) }, true},
		"chunk": {func(f *evictRig) {
			s := f.log.store.(*store.Logged)
			tx, err := s.Db.Begin(true)
			require.NoError(f, err)
			b := tx.Bucket([]byte(format.BucketLog))
			for i := range 200 {
				require.NoError(f, b.Delete(store.ChunkKey(new([format.ChunkKeySize]byte), f.refs[50].Block.Seq, i)))
			}
			require.NoError(f, tx.Commit())
		}, true},
		"file": {func(f *evictRig) { require.NoError(f, os.Truncate(filepath.Join(f.dir, directory.FileName), 8192)) }, false},
	} {
		for how, use := range map[string]func(f *evictRig) error{
			"read": func(f *evictRig) error { return f.refs[50].Read(new(Entry)) },
			"id":   func(f *evictRig) error { _, err := f.refs[50].ID(); return err },
			"bury": func(f *evictRig) error {
				f.log.Record(&Change{Ended: f.refs[:1], Buried: []Burial{{Ref: f.refs[50]}}})
				return nil
			},
			"carry": func(f *evictRig) error {
				f.log.Record(&Change{Ended: f.refs[300:]})
				f.log.Record(&Change{Ended: f.refs[100:300]}) // another commit
				return nil
			},
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				f := startEvict(t, Config{MemoryBudget: 1, trimSlack: 1, minCarry: 1 << 20})
				f.add(1000)
				test.damage(f)
				before, err := os.ReadFile(filepath.Join(f.dir, directory.FileName))
				require.NoError(t, err)
				if err := use(f); err != nil {
					require.ErrorIs(t, err, ErrFailed)
					require.ErrorIs(t, err, ErrCorrupt)
					if test.block {
						require.ErrorContains(t, err, fmt.Sprint("block ", f.refs[50].Block.Seq))
					}
				} else if how != "bury" && how != "carry" {
					t.Fatal("read")
				}
				latched := <-f.failed
				require.ErrorIs(t, latched, ErrFailed)
				require.ErrorIs(t, latched, ErrCorrupt)
				_, err = f.log.Append(t.Context(), []Entry{{Queue: modelQueue, ID: []byte("late")}}, nil)
				require.ErrorIs(t, err, ErrFailed)
				f.log.Record(&Change{Ended: f.refs[:1]})
				require.ErrorIs(t, f.log.Close(), ErrCorrupt)
				if how == "carry" {
					return // a commit before it may have come through
				}
				after, err := os.ReadFile(filepath.Join(f.dir, directory.FileName))
				require.NoError(t, err)
				require.True(t, bytes.Equal(before, after), "what is on disk stays as it is")
				_, err = Open(f.dir, Config{})
				require.Error(t, err)
			})
		}
	}
}

// A disk that fails for a moment costs the process, and no entry.
func TestUnreadableForAMoment(t *testing.T) {
	disk := new(Memory)
	var refs []Ref
	cfg := frugal(Config{Deliver: func(d *Delivery) {
		for i := range d.Len() {
			refs = append(refs, must(d.Read(i, new(Entry))))
		}
		d.Done()
	}})
	l, err := OpenMemory(disk, cfg)
	require.NoError(t, err)
	for i := range 10 {
		_, err := l.Append(t.Context(), []Entry{{Queue: modelQueue, ID: fmt.Append(nil, i), Payload: evictPayload(i)}}, nil)
		require.NoError(t, err)
		require.NoError(t, l.Flush(t.Context()))
	}
	(&evictRig{T: t, log: l}).settle()
	broken := errors.New("the disk does not answer")
	disk.FailReads(broken)
	require.ErrorIs(t, refs[3].Read(new(Entry)), broken)
	disk.FailReads(nil)
	l.Record(&Change{Ended: refs[:2], Buried: []Burial{{Ref: refs[3]}}})
	require.ErrorIs(t, l.Close(), broken)

	l, err = OpenMemory(disk, cfg)
	require.NoError(t, err)
	pending := slices.Concat(l.PendingPages(modelQueue)...)
	require.Len(t, pending, 10)
	for i, r := range pending {
		var e Entry
		require.NoError(t, r.Read(&e))
		require.Equal(t, evictPayload(i), e.Payload)
	}
	require.NoError(t, l.Close())
}
