package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/store"
)

// steadily has others append all the time, so that there is always something to
// commit. The function that it returns ends that and says how long one of them
// waited at most.
func steadily(t *testing.T, l *Log) (end func() time.Duration) {
	var slowest atomic.Int64
	var producers sync.WaitGroup
	stop := make(chan struct{})
	for i := range 16 {
		producers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				began := time.Now()
				ticket, err := l.Append(t.Context(), []Entry{{Queue: modelQueue, ID: fmt.Append(nil, i), Payload: make([]byte, 500)}}, nil)
				if err == nil {
					err = ticket.Wait(t.Context())
				}
				if !assert.NoError(t, err) {
					return
				}
				for took := int64(time.Since(began)); ; {
					if old := slowest.Load(); took <= old || slowest.CompareAndSwap(old, took) {
						break
					}
				}
			}
		})
	}
	return func() time.Duration {
		close(stop)
		producers.Wait()
		return time.Duration(slowest.Load())
	}
}

// A call that compacts waits for a commit, not for a pause in the appends; and
// those who append wait for the file to be written once, however often it is asked
// for.
func TestUpkeepAmongProducers(t *testing.T) {
	t.Parallel()
	slow(t)
	const patience = time.Minute // who starves waits for ever
	f := startCompact(t, Config{})
	f.add(1000)
	end := steadily(t, f.log)
	for i := range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		require.NoError(t, f.log.Compact(ctx))
		require.NoError(t, f.log.Copy(ctx, filepath.Join(t.TempDir(), fmt.Sprint(i))))
		cancel()
	}
	stop := make(chan struct{})
	var others sync.WaitGroup
	for range 4 {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					assert.NoError(t, f.log.Compact(t.Context()))
				}
			}
		})
	}
	before := f.log.Stats().Next
	for deadline := time.Now().Add(patience); f.log.Stats().Next < before+160; time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "no producer can append")
	}
	close(stop)
	others.Wait()
	slowest := end()
	t.Logf("the slowest append took %v", slowest)
	require.Less(t, slowest, patience)
	require.NoError(t, f.log.Close())
}

// A context that ends takes its caller out, wherever that is; nothing is changed,
// and nothing is left behind.
func TestUpkeepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	slow(t)
	f := startCompact(t, Config{})
	f.add(12_000)
	f.end(0, 100)
	dir := filepath.Join(t.TempDir(), "copy")
	calls := map[string]func(context.Context) error{
		"compact": f.log.Compact,
		"copy":    func(ctx context.Context) error { return f.log.Copy(ctx, dir) },
	}
	nothing := func() {
		left, err := os.ReadDir(filepath.Dir(dir))
		require.NoError(t, err)
		require.Empty(t, left)
		require.NoFileExists(t, filepath.Join(f.dir, directory.NewName))
	}
	for name, call := range calls {
		ctx, cancel := context.WithCancelCause(t.Context())
		f.log.upkeep.token <- struct{}{} // another call is at it
		go cancel(errors.New("enough"))
		require.ErrorContains(t, call(ctx), "enough", name)
		<-f.log.upkeep.token
		require.ErrorContains(t, call(ctx), "enough", name)
		require.ErrorIs(t, call(nil), ErrContext, name)
	}
	nothing()

	// In the midst of it.
	size := f.size()
	replaced, err := f.log.store.Compact(settled.done)
	require.ErrorIs(t, err, store.ErrGivenUp)
	require.False(t, replaced)
	require.Equal(t, size, f.size())
	require.ErrorIs(t, f.log.store.CopyTo(dir, settled.done), store.ErrGivenUp)
	require.NoError(t, os.Remove(dir))
	nothing()
	for _, call := range calls {
		require.NoError(t, call(t.Context()))
	}
	want := f.want()
	require.Equal(t, want, f.found(Config{}))
	require.NoError(t, f.log.Close())
	for name, call := range calls {
		require.ErrorIs(t, call(t.Context()), ErrClosed, name)
	}
}

// A copy has all that was accepted before the call, waited for or not.
func TestCopyHasWhatWasPosted(t *testing.T) {
	f := startCompact(t, Config{})
	for i := range 20 {
		for range 50 {
			_, err := f.log.Post(t.Context(), []Entry{{Queue: modelQueue, ID: []byte("x"), Payload: make([]byte, 100)}}, nil)
			require.NoError(t, err)
		}
		before := f.log.Stats().Next
		dir := filepath.Join(t.TempDir(), fmt.Sprint(i))
		require.NoError(t, f.log.Copy(t.Context(), dir))
		report, err := Check(dir)
		require.NoError(t, err)
		require.GreaterOrEqual(t, report.Next, before, "copy %d", i)
	}
	require.NoError(t, f.log.Close())
}

// A call that compacts has its turn after a commit also where something more was accepted during each.
func TestUpkeepWhereACommitIsNeverTheLast(t *testing.T) {
	disk := new(store.Memory)
	l, err := OpenMemory(disk, Config{})
	require.NoError(t, err)
	post := func() {
		if _, err := l.Post(t.Context(), []Entry{{Queue: modelQueue, ID: []byte("x")}}, nil); !errors.Is(err, ErrClosed) {
			assert.NoError(t, err)
		}
	}
	disk.BeforeCommit(post)
	post()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, l.Compact(ctx))
	require.NoError(t, l.Close())
}

// held is a disk whose file is copied or compacted until that is given up, and is not closed before.
type held struct {
	*store.Memory
	began chan struct{}
	free  sync.RWMutex
}

func (h *held) wait(over <-chan struct{}) error {
	h.free.RLock()
	defer h.free.RUnlock()
	close(h.began)
	<-over
	return store.ErrGivenUp
}

func (h *held) CopyTo(_ string, over <-chan struct{}) error { return h.wait(over) }

func (h *held) Compact(over <-chan struct{}) (replaced bool, err error) { return false, h.wait(over) }

func (h *held) Close() error {
	h.free.Lock()
	defer h.free.Unlock()
	return h.Memory.Close()
}

// A log that closes waits neither for a copy nor for a compacting, and writes what was accepted meanwhile.
func TestCloseEndsUpkeep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "copy")
	for name, call := range map[string]func(*Log) error{
		"copy":    func(l *Log) error { return l.Copy(context.Background(), dir) },
		"compact": func(l *Log) error { return l.Compact(context.Background()) },
	} {
		disk := &held{Memory: new(store.Memory), began: make(chan struct{})}
		l, err := OpenStore(disk, Config{})
		require.NoError(t, err)
		said, closed := make(chan error, 1), make(chan error, 1)
		go func() { said <- call(l) }()
		<-disk.began
		ticket, err := l.Post(t.Context(), []Entry{{Queue: modelQueue, ID: []byte("x")}}, nil)
		require.NoError(t, err)
		go func() {
			unlock, err := l.CloseLocked(nil)
			closed <- errors.Join(err, unlock())
		}()
		for _, c := range []struct {
			err  chan error
			want error
		}{{closed, nil}, {said, ErrClosed}} {
			select {
			case err := <-c.err:
				require.ErrorIs(t, err, c.want, name)
			case <-time.After(5 * time.Second):
				require.Fail(t, "it waits", name)
			}
		}
		require.NoError(t, ticket.Wait(t.Context()), name)
	}
}

// A copy that waits for a commit which fails says that the log has failed: nothing about it is unknown.
func TestCopyOfALogThatFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "copy")
	synctest.Test(t, func(t *testing.T) {
		disk := new(Memory)
		l, err := OpenMemory(disk, Config{})
		require.NoError(t, err)
		disk.FailNext(errors.New("planted"))
		writes := make(chan struct{})
		disk.BeforeCommit(func() { <-writes })
		l.Record(&Change{Sets: []Set{{Key: "test/k", Value: []byte("x")}}})
		copied := make(chan error, 1)
		go func() { copied <- l.Copy(t.Context(), dir) }()
		synctest.Wait()
		close(writes)
		err = <-copied
		require.ErrorIs(t, err, ErrFailed)
		require.NotErrorIs(t, err, ErrUnknown)
		require.NoDirExists(t, dir)
		require.ErrorIs(t, l.Close(), ErrFailed)
	})
}
