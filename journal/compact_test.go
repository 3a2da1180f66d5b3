package journal

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal/internal/directory"
)

// compactRig is a journal on a file whose traffic is much more than what is
// live in it.
type compactRig struct {
	*testing.T
	dir  string
	log  *Log
	next int

	mu   sync.Mutex
	live []Ref
	peak int // live bytes
}

func startCompact(t *testing.T, cfg Config) *compactRig {
	f := &compactRig{T: t, dir: filepath.Join(t.TempDir(), "j")}
	f.open(cfg)
	return f
}

func (f *compactRig) open(cfg Config) {
	cfg.Deliver = func(d *Delivery) {
		f.mu.Lock()
		for i := range d.Len() {
			f.live = append(f.live, must(d.Read(i, new(Entry))))
		}
		f.mu.Unlock()
		d.Done()
	}
	var err error
	f.log, err = Open(f.dir, cfg)
	require.NoError(f, err)
	f.live = slices.Concat(f.log.PendingPages(modelQueue)...)
}

// add appends n entries of about 1,000 bytes each.
func (f *compactRig) add(n int) {
	list := make([]Entry, n)
	for i := range list {
		f.next++
		list[i] = Entry{Queue: modelQueue, ID: fmt.Append(nil, f.next), Payload: make([]byte, 970)}
	}
	ticket, err := f.log.Append(f.Context(), list, nil)
	require.NoError(f, err)
	require.NoError(f, ticket.Wait(f.Context()))
	f.peak = max(f.peak, f.log.Stats().LiveBytes)
}

// end ends the entries from the i-th live one on, n of them.
func (f *compactRig) end(i, n int) {
	f.mu.Lock()
	ended := append([]Ref(nil), f.live[i:i+n]...)
	f.live = append(f.live[:i], f.live[i+n:]...)
	f.mu.Unlock()
	f.log.Record(&Change{Ended: ended})
	require.NoError(f, f.log.Flush(f.Context()))
}

func (f *compactRig) size() int {
	info, err := os.Stat(filepath.Join(f.dir, directory.FileName))
	require.NoError(f, err)
	return int(info.Size())
}

// found is what is live after the log was closed and opened again.
func (f *compactRig) found(cfg Config) (live map[Position]string) {
	require.NoError(f, f.log.Close())
	f.open(cfg)
	live = make(map[Position]string)
	for _, r := range f.live {
		var e Entry
		require.NoError(f, r.Read(&e))
		live[r.Position()] = string(e.ID)
	}
	return live
}

// want is what has to be live.
func (f *compactRig) want() map[Position]string {
	live := make(map[Position]string)
	for _, r := range f.live {
		var e Entry
		require.NoError(f, r.Read(&e))
		live[r.Position()] = string(e.ID)
	}
	return live
}

func TestCompact(t *testing.T) {
	f := startCompact(t, Config{})
	number, err := f.log.Queue(t.Context(), "orders")
	require.NoError(t, err)
	f.add(8000)
	f.mu.Lock()
	buried := f.live[0]
	f.live = f.live[1:]
	f.mu.Unlock()
	f.log.Record(&Change{Buried: []Burial{{Ref: buried}}, Sets: []Set{{Key: "test/a", Value: []byte("x")}}})
	f.end(0, 7900)
	want, before, stats := f.want(), f.size(), f.log.Stats()
	require.Greater(t, before, 8<<20)

	require.NoError(t, f.log.Compact(t.Context()))
	require.Less(t, f.size(), 1<<20)
	require.Equal(t, stats.Next, f.log.Stats().Next)
	f.add(1)
	want[f.live[len(f.live)-1].Position()] = fmt.Sprint(f.next)
	require.Equal(t, want, f.found(Config{}))
	require.Equal(t, map[string]uint32{"orders": number}, f.log.Queues())
	v, err := f.log.Get("test/a")
	require.NoError(t, err)
	require.Equal(t, "x", string(v))
	for b, err := range f.log.Morgue(modelQueue, 0) {
		require.NoError(t, err)
		require.Equal(t, buried.Position(), b.Entry.Position)
	}
	require.NoError(t, f.log.Close())
	require.ErrorIs(t, f.log.Compact(t.Context()), ErrClosed)
}

// A file that is too large is compacted when it is opened, one that is not is
// left alone, and so is what a crash left of an attempt.
func TestCompactAtOpen(t *testing.T) {
	f := startCompact(t, Config{})
	f.add(4000)
	f.end(0, 3900)
	want, before := f.want(), f.size()
	left := filepath.Join(f.dir, directory.NewName)
	require.NoError(t, os.WriteFile(left, []byte("half a file"), 0o600))
	require.Equal(t, want, f.found(Config{}))
	require.Equal(t, before, f.size(), "64 MiB are not too much")
	require.NoFileExists(t, left)
	require.NoError(t, os.WriteFile(left, []byte("half a file"), 0o600))
	require.Equal(t, want, f.found(Config{compactAbove: 1 << 20}))
	require.Less(t, f.size(), 1<<20)
	require.NoFileExists(t, left)
	require.NoError(t, f.log.Close())
}

func TestCompactWhenIdle(t *testing.T) {
	f := startCompact(t, Config{compactAbove: 1 << 20, compactAfter: time.Millisecond})
	f.add(4000)
	require.Greater(t, f.size(), 4<<20)
	want := f.want()
	for _, r := range f.live[:3900] {
		delete(want, r.Position())
	}
	f.end(0, 3900)
	require.Eventually(t, func() bool { return f.size() < 1<<20 }, time.Minute, time.Millisecond)
	require.Equal(t, want, f.found(Config{}))
	require.NoError(t, f.log.Close())
}

// What can't be compacted stays as it is and goes on.
func TestCompactFails(t *testing.T) {
	f := startCompact(t, Config{})
	f.add(100)
	inTheWay := filepath.Join(f.dir, directory.NewName)
	require.NoError(t, os.MkdirAll(filepath.Join(inTheWay, "x"), 0o700))
	require.Error(t, f.log.Compact(t.Context()))
	require.NoError(t, f.log.Err())
	f.add(1)
	want := f.want()
	require.Len(t, want, 101)
	require.NoError(t, f.log.Close())
	_, _, err := Compact(f.dir)
	require.ErrorIs(t, err, ErrNotJournal)
	_, err = Open(f.dir, Config{})
	require.ErrorIs(t, err, ErrNotJournal)
	require.NoError(t, os.RemoveAll(inTheWay))
	before, after, err := Compact(f.dir)
	require.NoError(t, err)
	require.Less(t, after, before)
	f.open(Config{})
	require.Equal(t, want, f.want())
	_, _, err = Compact(f.dir)
	require.ErrorAs(t, err, new(*LockedError))
	require.NoError(t, f.log.Close())
}

// All callers go on while a log is compacted.
func TestCompactAmongOthers(t *testing.T) {
	t.Parallel()
	slow(t)
	f := startCompact(t, Config{})
	f.log.Record(&Change{Sets: []Set{{Key: "test/a", Value: []byte("x")}}})
	require.NoError(t, f.log.Flush(t.Context()))
	stop := make(chan struct{})
	var others sync.WaitGroup
	loop := func(do func(i int)) {
		others.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					do(i)
				}
			}
		})
	}
	loop(func(int) {
		f.add(20)
		f.mu.Lock()
		n := len(f.live)
		f.mu.Unlock()
		f.end(0, max(n-50, 0))
	})
	loop(func(int) {
		v, err := f.log.Get("test/a")
		if err != nil || string(v) != "x" {
			t.Errorf("%q %v", v, err)
		}
	})
	copies := t.TempDir()
	loop(func(i int) {
		if err := f.log.Copy(t.Context(), filepath.Join(copies, fmt.Sprint(i))); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Millisecond)
	})
	for range 20 {
		require.NoError(t, f.log.Compact(t.Context()))
	}
	close(stop)
	others.Wait()
	require.Equal(t, f.want(), f.found(Config{}))
	require.NoError(t, f.log.Close())
}

// The file stays small whatever the order in which jobs end: with the traffic of
// fifty times what is live, and when nothing is live any more.
func TestFileStaysSmall(t *testing.T) {
	live, step := 500, 125
	if long {
		live, step = 20_000, 1000
	}
	cfg := Config{trimSlack: 64 << 10, compactAbove: 256 << 10}
	for name, end := range map[string]func(*compactRig){
		"first in first out": func(f *compactRig) { f.end(0, step) },
		"one delayed for a year among many": func(f *compactRig) {
			f.end(1, step)
		},
		"at random": func(f *compactRig) {
			rand.Shuffle(len(f.live), func(i, j int) { f.live[i], f.live[j] = f.live[j], f.live[i] })
			f.end(0, step)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := startCompact(t, cfg)
			for range live / step {
				f.add(step)
			}
			largest := 0
			for range 50 / oneIn * live / step {
				f.add(step)
				end(f)
				largest = max(largest, f.size())
			}
			t.Logf("%d MiB of traffic, at most %d KiB live, the file has at most %d KiB", f.next>>10, f.peak>>10, largest>>10)
			require.Less(t, largest, 2*f.peak+f.peak/4+1<<20, "the log is at most twice what is live, and the file needs room to write")
			f.end(0, len(f.live))
			require.Empty(t, f.found(cfg))
			require.Less(t, f.size(), 1<<20)
			require.NoError(t, f.log.Close())
		})
	}
}
