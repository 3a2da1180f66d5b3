package executor_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

// withDead makes a journal whose queue "q" has n dead payloads of a size.
func withDead(t *testing.T, n, size int) (dir string) {
	dir = filepath.Join(t.TempDir(), "journal")
	b, err := journal.NewBuilder(dir, journal.Position(n)+1, 1)
	require.NoError(t, err)
	require.NoError(t, b.Queue("q", 1))
	payload := make([]byte, size)
	for i := range n {
		binary.BigEndian.PutUint32(payload, uint32(i))
		require.NoError(t, b.Bury(journal.Buried{Reason: "no", Entry: journal.Entry{
			Kind: journal.KindEnqueued, Queue: 1, ID: fmt.Append(nil, "id-", i%100_000), Payload: payload,
			Position: journal.Position(i) + 1, Score: float64(i),
		}}))
	}
	require.NoError(t, b.Finish())
	return dir
}

// What a Requeue does to the job that waits is on disk when it returns, as what it puts back is.
func TestRequeueOfAHaltedJobIsOnDisk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		register := func(x *executor.Executor) *executor.Queue[string] {
			q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
				if job.Payload == "dies" {
					return executor.Cancel(errBoom)
				}
				return errBoom
			}, executor.QueueConfig[string]{MaxRetries: -1, DeadLetters: executor.DeadLetters[string]{OnExhausted: executor.OnExhaustedHalt}})
			require.NoError(t, err)
			return q
		}
		x := openOn(t, disk, executor.Config{})
		q := register(x)
		start(t, x)
		enqueue(t, q, "a", "dies")
		enqueue(t, q, "a", "fails")
		synctest.Wait()
		s := stats(t, q)
		require.Equal(t, []int{1, 1}, []int{s.Dead, s.Halted})
		require.NoError(t, pauseAll(t.Context(), x)) // or it fails again
		disk.BeforeCommit(func() { time.Sleep(time.Second) })
		did(t, 1)(backOf(x.Inspect().Requeue(t.Context(), inspect.SelectQueue("q"))))
		s = stats(t, register(openOn(t, disk.Crash(), executor.Config{})))
		require.Equal(t, []int{0, 0, 2}, []int{s.Dead, s.Halted, s.Payloads})
		disk.BeforeCommit(nil)
		stop(t, x)
	})
}

// livePeak returns a function that says how many bytes of heap were live at most
// since the call.
func livePeak(t *testing.T) func() int {
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	runtime.GC() // what other tests left is not counted
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	before := int64(sample[0].Value.Uint64())
	var peak atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			metrics.Read(sample)
			peak.Store(max(peak.Load(), int64(sample[0].Value.Uint64())))
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() int {
		close(stop)
		<-stopped
		return int(peak.Load() - before)
	}
}

// Many dead payloads go back within the memory budget, whatever they weigh, and no
// other call waits long.
func TestRequeueAllWithinTheBudget(t *testing.T) {
	slow(t)
	const budget, beside = 16 << 20, 32 << 20
	n := 56 // weighs more than what may be live
	if long() {
		n = 600
	}
	x := open(t, withDead(t, n, 1<<20), executor.Config{Advanced: executor.Advanced{MemoryBudget: budget}})
	var late, ran atomic.Int64
	q := handle(t, x, "q", func(_ context.Context, job executor.Merged[[]byte]) error {
		for _, p := range job.Payloads {
			assert.EqualValues(t, p.Position-1, binary.BigEndian.Uint32(p.Value))
			assert.Equal(t, float64(p.Position-1), p.Score, "in its old place")
			if p.Position > uint64(n) {
				late.Add(1)
			}
			ran.Add(1)
		}
		return nil
	}, executor.QueueConfig[[]byte]{})
	peak := livePeak(t)
	slowest := time.Duration(0)
	stop := make(chan struct{})
	others := make(chan struct{})
	go func() {
		defer close(others)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				began := time.Now()
				_, err := q.Enqueue(t.Context(), "other", binary.BigEndian.AppendUint32(nil, uint32(n+i)), executor.In(time.Hour))
				assert.NoError(t, err)
				slowest = max(slowest, time.Since(began))
			}
		}
	}()
	back, err := backOf(x.Inspect().Requeue(t.Context(), inspect.SelectQueue(q.Name())))
	close(stop)
	<-others
	require.NoError(t, err)
	require.Equal(t, n, back)
	bytes := peak()
	t.Logf("%d MiB live at most, the slowest call beside it took %v", bytes>>20, slowest)
	assert.Less(t, bytes, budget+beside)
	for _, err := range q.Morgue() {
		t.Fatalf("something is still dead, %v", err)
	}
	require.NoError(t, x.Start(t.Context()))
	require.Eventually(t, func() bool { return ran.Load() >= int64(n) }, time.Minute, time.Millisecond)
	require.Zero(t, late.Load(), "nothing else is due")
	require.NoError(t, x.Stop(t.Context()))
}

// Large payloads go back several in a commit, and each is read a few times, however many there are:
// with a commit for each the disk would be waited for as often as there are payloads, and with all of
// them read again for a commit it would take the square of that.
func TestLargePayloadsGoBackInFewCommits(t *testing.T) {
	const size = 1 << 20
	n := 12
	if pushed() {
		n = 48
	}
	x := open(t, withDead(t, n, size), executor.Config{})
	q := handle(t, x, "q", func(context.Context, executor.Merged[[]byte]) error { return nil }, executor.QueueConfig[[]byte]{})
	figures := func() (commits, allocated uint64) {
		s, err := x.Stats(t.Context())
		require.NoError(t, err)
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return s.Journal.Commits, m.TotalAlloc
	}
	commits, allocated := figures()
	back, err := backOf(x.Inspect().Requeue(t.Context(), inspect.SelectQueue(q.Name())))
	require.NoError(t, err)
	require.Equal(t, n, back)
	after, allocatedAfter := figures()
	require.LessOrEqual(t, after-commits, uint64(n/3+1), "three at a time, and one that may be on its way")
	require.Less(t, allocatedAfter-allocated, uint64(8*n*size), "about 4 bytes for each of a payload")
}

// A million goes back in pages, too.
func TestRequeueAMillion(t *testing.T) {
	n := 20_000
	if long() {
		n = 1_000_000
	}
	x := open(t, withDead(t, n, 10), executor.Config{Advanced: executor.Advanced{MemoryBudget: 8 << 20}})
	q := handle(t, x, "q", func(context.Context, executor.Merged[[]byte]) error { return nil }, executor.QueueConfig[[]byte]{})
	peak, began := livePeak(t), time.Now()
	back, err := backOf(x.Inspect().Requeue(t.Context(), inspect.SelectQueue(q.Name())))
	require.NoError(t, err)
	require.Equal(t, n, back)
	bytes := peak()
	t.Logf("%d went back in %v, %d MiB were live at most", n, time.Since(began), bytes>>20)
	assert.Less(t, bytes, 8<<20+16<<20+n*100)
	require.NoError(t, x.Stop(t.Context()))
}

// A call whose context ends says how far it came.
func TestRequeueEndsWithItsContext(t *testing.T) {
	const n = 5000
	disk := new(journal.Memory)
	x, err := executor.OpenOn(disk, executor.Config{})
	require.NoError(t, err)
	var good atomic.Bool
	q := handle(t, x, "q", func(context.Context, executor.Merged[int]) error {
		if good.Load() {
			return nil
		}
		return executor.Cancel(errBoom)
	}, executor.QueueConfig[int]{})
	items := make([]executor.Item[int], n)
	for i := range items {
		items[i] = executor.Item[int]{ID: fmt.Sprint(i), Payload: i}
	}
	_, err = q.EnqueueMany(t.Context(), items)
	require.NoError(t, err)
	require.NoError(t, x.Start(t.Context()))
	dead := func() int {
		s, err := q.Stats(t.Context())
		require.NoError(t, err)
		return s.Dead
	}
	require.Eventually(t, func() bool { return dead() == n }, time.Minute, time.Millisecond)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	back, err := backOf(x.Inspect().Requeue(ended, inspect.SelectQueue(q.Name())))
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, back)
	_, err = x.Inspect().Requeue(ended, inspect.SelectIDs(q.Name(), "missing"))
	require.ErrorIs(t, err, context.Canceled)
	_, err = x.Inspect().Requeue(&endsAfter{Context: t.Context(), asked: 100}, inspect.SelectIDs(q.Name(), "missing"))
	require.ErrorIs(t, err, context.Canceled, "while it looks")

	good.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	before := dead()
	disk.OnCommit(func() {
		if before-x.DeadOnDisk() >= 2000 {
			cancel()
		}
	})
	back, err = backOf(x.Inspect().Requeue(ctx, inspect.SelectQueue(q.Name())))
	disk.OnCommit(nil)
	require.True(t, errors.Is(err, context.Canceled) || errors.Is(err, executor.ErrUnknown), "%v", err)
	require.NoError(t, x.SetSourceOffset(t.Context(), "settled", 1))
	left := dead()
	require.GreaterOrEqual(t, back, 1000)
	require.LessOrEqual(t, back, n-left, "so many are back")
	require.GreaterOrEqual(t, back+1000, n-left)
	require.Greater(t, left, 0)

	rest, err := backOf(x.Inspect().Requeue(t.Context(), inspect.SelectQueue(q.Name())))
	require.NoError(t, err)
	require.Equal(t, left, rest)
	require.NoError(t, x.Stop(t.Context()))
}

// endsAfter is a context that ends after it was asked so many times.
type endsAfter struct {
	context.Context
	asked int
}

func (c *endsAfter) Err() error {
	if c.asked--; c.asked < 0 {
		return context.Canceled
	}
	return nil
}
