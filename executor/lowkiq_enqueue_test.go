package executor_test

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

type order struct {
	ID      string
	Version int
	At      time.Time
}

func TestLowkiq_L17_BulkEnqueueAndComputedFields(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		var got []string
		q := handle(t, x, "q", func(_ context.Context, job executor.Merged[order]) error {
			for _, p := range job.Payloads {
				got = append(got, fmt.Sprint(job.ID, " v", p.Value.Version, " score ", p.Score, " due ", job.Due.UTC().Format("15:04")))
			}
			return nil
		}, executor.QueueConfig[order]{
			Share: executor.Share{Shards: 1}, Merge: executor.MergeMinScore,
			Defaults: executor.Defaults[order]{
				ID:    func(o order) string { return o.ID },
				Score: func(o order) float64 { return float64(o.Version) },
				Due:   func(o order) time.Time { return o.At },
			},
		})
		start(t, x)
		day := time.Now().Truncate(24 * time.Hour).Add(24 * time.Hour)
		at := func(hour int) time.Time { return day.Add(time.Duration(hour) * time.Hour) }
		receipts, err := q.EnqueueMany(t.Context(), []executor.Item[order]{
			{Payload: order{"a", 2, at(10)}},
			{Payload: order{"a", 1, at(11)}},
			{ID: "b", Payload: order{"ignored", 3, at(10)}, Score: new(7.5), Due: at(12)},
			{Payload: order{"a", 2, at(10)}}, // equal to the first one
		})
		require.NoError(t, err)
		require.Len(t, receipts, 4)
		for i, r := range receipts[1:] {
			assert.Equal(t, receipts[0].Position+uint64(i)+1, r.Position)
		}
		assert.Equal(t, receipts[0].Position, receipts[3].MergedInto)
		enqueue(t, q, "", order{"c", 5, at(13)})
		enqueue(t, q, "d", order{"ignored", 5, at(13)}, executor.At(at(14)), executor.Score(1))
		time.Sleep(48 * time.Hour)
		settled(t, q)
		assert.Equal(t, []string{
			"a v1 score 1 due 10:00", "a v2 score 2 due 10:00", "b v3 score 7.5 due 12:00",
			"c v5 score 5 due 13:00", "d v5 score 1 due 14:00",
		}, got)
	})
}

// gobCodec is a codec of the program's own.
type gobCodec struct{}

func (gobCodec) Encode(o order) ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(o)
	return b.Bytes(), err
}

func (gobCodec) Decode(data []byte) (o order, err error) {
	err = gob.NewDecoder(bytes.NewReader(data)).Decode(&o)
	return o, err
}

func TestLowkiq_L18_SerialisationCanBeReplaced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		var orders []order
		q := handle(t, x, "gob", func(_ context.Context, job executor.Merged[order]) error {
			orders = append(orders, job.Latest())
			return executor.Cancel(errBoom)
		}, executor.QueueConfig[order]{Codec: gobCodec{}})
		var raw [][]byte
		r := handle(t, x, "raw", func(_ context.Context, job executor.Merged[[]byte]) error {
			raw = append(raw, job.Latest())
			return nil
		}, executor.QueueConfig[[]byte]{})
		start(t, x)
		enqueue(t, q, "a", order{ID: "a", Version: 3})
		enqueue(t, r, "nothing", []byte{})
		synctest.Wait()
		enqueue(t, r, "all", []byte{0, 1, 0xff})
		synctest.Wait()
		assert.Equal(t, []order{{ID: "a", Version: 3}}, orders)
		assert.Equal(t, [][]byte{{}, {0, 1, 0xff}}, raw)
		want, err := gobCodec{}.Encode(order{ID: "a", Version: 3})
		require.NoError(t, err)
		assert.Equal(t, want, morgue(t, q)[0].Raw)
	})
}

func TestLowkiq_L23_StopWaitsForWhatRuns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var steps []string
		x := open(t, "", executor.Config{Workers: 1, OnStart: func(context.Context) error {
			steps = append(steps, "OnStart")
			return nil
		}})
		q := handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
			steps = append(steps, "begin "+job.ID)
			time.Sleep(5 * time.Second)
			steps = append(steps, fmt.Sprint("end ", job.ID, " ", ctx.Err()))
			return nil
		}, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}})
		enqueue(t, q, "a", "x")
		enqueue(t, q, "b", "x")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		begin := time.Now()
		require.NoError(t, x.Run(ctx))
		assert.Equal(t, 5*time.Second, time.Since(begin))
		assert.Equal(t, []string{"OnStart", "begin a", "end a <nil>"}, steps)
	})
}

func TestLowkiq_L23_LastWords(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		var words []error
		x := openOn(t, disk, executor.Config{OnFatal: func(err error) { words = append(words, err) }})
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
		time.AfterFunc(time.Hour, func() {
			disk.FailNext(errBoom)
			_, err := q.Enqueue(t.Context(), "a", "x")
			assert.ErrorIs(t, err, executor.ErrUnknown)
		})
		require.ErrorIs(t, x.Run(t.Context()), errBoom)
		require.Len(t, words, 1)
		assert.ErrorIs(t, words[0], errBoom)
		assert.ErrorIs(t, words[0], executor.ErrFailed)
	})
}

func TestLowkiq_L25_ChangingTheShardCount(t *testing.T) {
	dir := t.TempDir()
	const ids = 20
	p := &probe{decide: func(_ context.Context, s seen) error {
		if s.retry < 0 {
			return executor.RetryAfter(0, errBoom) // some state goes through the restart
		}
		return nil
	}}
	next := 0
	for _, shards := range []int{1, 7, 64, 2, 3, 1} {
		x := open(t, dir, executor.Config{Workers: 4})
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Share: executor.Share{Shards: shards}, Merge: executor.MergeKeepAll, Gather: executor.Gather[string]{MaxPayloads: 2}})
		if shards != 1 {
			start(t, x)
		}
		for range 3 * ids {
			enqueue(t, q, fmt.Sprint("id", next%ids), fmt.Sprint(next), executor.Score(float64(next)))
			next++
		}
		stop(t, x)
	}
	x := open(t, dir, executor.Config{})
	q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Share: executor.Share{Shards: 11}, Merge: executor.MergeKeepAll})
	start(t, x)
	drained(t, q)
	p.assertNoOverlap(t)
	for i := range ids {
		var want, done []string
		for v := i; v < next; v += ids {
			want = append(want, fmt.Sprint(v))
		}
		for _, s := range p.seen() {
			if s.id != fmt.Sprint("id", i) {
				continue
			}
			assert.Equal(t, want[len(done)], s.values[0], "each run begins after what is done, its first attempt, too")
			if s.retry >= 0 {
				done = append(done, s.values...)
			}
		}
		assert.Equal(t, want, done)
	}
}

// L25: what a job is goes through the change: its due time, its retries and its
// last error, what waits behind it, and what is dead. The ids spread over the new
// shards, the oldest due job still goes first, and a crash is as good as a stop.
func TestLowkiq_L25_JobsGoThroughTheChange(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk, begin := new(journal.Memory), time.Now()
		cfg := executor.QueueConfig[string]{Merge: executor.MergeKeepAll, RetryIn: always(48 * time.Hour)}
		before := &probe{decide: func(_ context.Context, s seen) error {
			if strings.HasPrefix(s.id, "dead") {
				return executor.Cancel(errBoom)
			}
			return errBoom
		}}
		const jobs = 600 // so that each of 16 shards has one, whatever the hash's seed
		for n, shards := range []int{1, 16, 5} {
			x := openOn(t, disk, executor.Config{})
			cfg.Share.Shards = shards
			q := handle(t, x, "q", before.handle, cfg)
			if n == 0 {
				start(t, x)
				for i := range jobs {
					due := i * 37 % jobs
					enqueue(t, q, fmt.Sprintf("due %02d", due), "x", executor.In(time.Hour+time.Duration(due)*time.Minute))
				}
				for i := range 5 {
					enqueue(t, q, fmt.Sprint("failed", i), "1")
					enqueue(t, q, fmt.Sprint("dead", i), "x")
				}
				synctest.Wait()
				for i := range 5 {
					enqueue(t, q, fmt.Sprint("failed", i), "2")
				}
			}
			settled(t, q)
			assert.Len(t, x.JobsPerShard(), shards)
			assert.NotContains(t, x.JobsPerShard(), 0, "%d shards", shards)
			assert.Equal(t, 5, stats(t, q).Retrying)
			assert.Len(t, morgue(t, q), 5)
			disk = disk.Crash()
			stop(t, x)
		}
		x := openOn(t, disk, executor.Config{Workers: 1})
		after := &probe{decide: pause}
		cfg.Share.Shards = 7
		q := handle(t, x, "q", after.handle, cfg)
		start(t, x)
		time.Sleep(100 * time.Hour)
		require.Len(t, after.seen(), jobs+5)
		for i, s := range after.seen()[:jobs] {
			assert.Equal(t, fmt.Sprintf("due %02d", i), s.id)
			assert.Equal(t, time.Hour+time.Duration(i)*time.Minute, s.at.Sub(begin))
		}
		for _, s := range after.seen()[jobs:] {
			assert.Equal(t, "[1 2] 0 boom", fmt.Sprintf("%v %d %s", s.values, s.retry, s.last))
			assert.InDelta(t, 48*time.Hour, s.at.Sub(begin), float64(time.Second))
		}
		n, err := backOf(x.Inspect().Requeue(t.Context(), inspect.SelectQueue(q.Name())))
		require.NoError(t, err)
		assert.Equal(t, 5, n)
		stop(t, x)
	})
}
