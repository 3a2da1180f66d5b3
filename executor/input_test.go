package executor_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

// An error may be long, and need not be text. A secret in it is for FormatError to
// take out.
func TestErrorTexts(t *testing.T) {
	for name, row := range map[string]struct{ text, kept string }{
		"long":          {strings.Repeat("x", 10<<20), strings.Repeat("x", 4<<10)},
		"cut in a rune": {strings.Repeat("x", 4<<10-1) + "é", strings.Repeat("x", 4<<10-1)},
		"no text":       {"a\xff\xfeb", "a\uFFFDb"},
		"zeros":         {"a\x00b", "a\x00b"},
		"empty":         {"", "an error without text"},
		"secret":        {"password=123", "password=***"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk := new(journal.Memory)
				x := openOn(t, disk, executor.Config{})
				p := &probe{decide: func(context.Context, seen) error { return errors.New(row.text) }}
				cfg := executor.QueueConfig[string]{DeadLetters: executor.DeadLetters[string]{
					FormatError: func(err error) string {
						return strings.ReplaceAll(err.Error(), "123", "***")
					},
				}}
				enqueue(t, handle(t, x, "q", p.handle, cfg), "a", "x")
				start(t, x)
				synctest.Wait()
				stop(t, x)
				x = openOn(t, disk, executor.Config{})
				p = &probe{}
				q := handle(t, x, "q", p.handle, cfg)
				_, err := x.Inspect().RunNow(t.Context(), inspect.SelectIDs(q.Name(), "a"))
				require.NoError(t, err)
				start(t, x)
				synctest.Wait()
				require.Equal(t, row.kept, p.seen()[0].last)
				require.True(t, utf8.ValidString(p.seen()[0].last))
				stop(t, x)
			})
		})
	}
}

// What is empty, strange or at the edge comes back as it was, also after a restart.
func TestStrangeInputComesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		type got struct {
			payload string
			isNil   bool
			score   float64
		}
		var mu sync.Mutex
		runs := map[string]got{}
		openBytes := func() (*executor.Executor, *executor.Queue[[]byte]) {
			x := openOn(t, disk, executor.Config{})
			return x, handle(t, x, "q", func(_ context.Context, job executor.Merged[[]byte]) error {
				mu.Lock()
				defer mu.Unlock()
				p := job.Payloads[0]
				runs[job.ID] = got{string(p.Value), p.Value == nil, p.Score}
				return nil
			}, executor.QueueConfig[[]byte]{})
		}
		x, q := openBytes()
		want := map[string]got{}
		n := 0
		for _, id := range []string{"\x00", "\xff\xfe", "<script>", "\u202eabc", strings.Repeat("i", executor.MaxIDBytes), " ", "é"} {
			for _, payload := range []string{"", "\x00", "null", strings.Repeat("\xff", 1<<16)} {
				for _, score := range []float64{0, math.Copysign(0, -1), math.SmallestNonzeroFloat64, -math.MaxFloat64, math.MaxFloat64} {
					id := (id + fmt.Sprint(n))
					id = id[max(0, len(id)-executor.MaxIDBytes):]
					n++
					enqueue(t, q, id, []byte(payload), executor.Score(score))
					want[id] = got{payload, false, score + 0}
				}
			}
		}
		enqueue(t, q, "nil", nil, executor.Score(1))
		want["nil"] = got{"", false, 1}
		stop(t, x)
		x, _ = openBytes()
		start(t, x)
		synctest.Wait()
		assert.Len(t, runs, len(want))
		for id, w := range want {
			require.Equal(t, w, runs[id], "%q", id)
		}
		stop(t, x)
	})
}

// 100,000 ids that would all meet in one shard under a hash without a key are spread like
// any others.
func TestIDsCannotAimAtAShard(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const shards, perShard = 16, 6250
		x := open(t, "", executor.Config{})
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{Share: executor.Share{Shards: shards}})
		var items []executor.Item[string]
		for i := 0; len(items) < shards*perShard; i++ {
			if id := fmt.Sprint(i); fnv(id)%shards == 0 {
				items = append(items, executor.Item[string]{ID: id})
			}
		}
		_, err := q.EnqueueMany(t.Context(), items)
		require.NoError(t, err)
		for i, n := range x.JobsPerShard() {
			assert.InDelta(t, perShard, n, perShard/10, "shard %d", i)
		}
		stop(t, x)
	})
}

// fnv is a hash that any producer can compute.
func fnv(s string) (h uint64) {
	h = 14695981039346656037
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// 10,000 producers, half of which have given up or are about to. Each payload runs
// if it was accepted, never if it was refused, and either way if that is unknown;
// none runs twice.
func TestProducersWhoGiveUp(t *testing.T) {
	const producers = 10_000
	x := open(t, t.TempDir()+"/journal", executor.Config{})
	p := &probe{}
	q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{})
	start(t, x)
	errs := make([]error, producers)
	var all sync.WaitGroup
	for i := range producers {
		ctx, cancel := context.WithCancel(t.Context())
		switch i % 4 {
		case 0:
			cancel()
		case 1:
			all.Go(cancel)
		}
		all.Go(func() {
			defer cancel()
			_, errs[i] = q.Enqueue(ctx, fmt.Sprint(i), "x")
		})
	}
	all.Wait()
	drained(t, q)
	runs := map[string]int{}
	for _, s := range p.seen() {
		runs[s.id]++
	}
	kinds := map[string]int{}
	for i, err := range errs {
		n := runs[fmt.Sprint(i)]
		switch {
		case err == nil:
			require.Equal(t, 1, n, "producer %d", i)
			kinds["accepted"]++
		case errors.Is(err, executor.ErrUnknown):
			require.LessOrEqual(t, n, 1, "producer %d", i)
			kinds["unknown"]++
		default:
			require.ErrorIs(t, err, context.Canceled)
			require.Zero(t, n, "producer %d", i)
			kinds["refused"]++
		}
	}
	t.Log(kinds)
	require.GreaterOrEqual(t, kinds["accepted"], producers/2)
	require.GreaterOrEqual(t, kinds["refused"], producers/4)
	stop(t, x)
}
