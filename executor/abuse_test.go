package executor_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// rude is a value that can't even be printed.
type rude struct{}

func (rude) Error() string  { panic("Error of a rude value") }
func (rude) String() string { panic("String of a rude value") }

// noMap is nil: writing to it panics.
var noMap map[string]int

// failures are the ways in which a handler fails: each spends one retry.
var failures = []func() error{
	func() error { return errBoom },
	func() error { return fmt.Errorf("wrapped: %w", errBoom) },
	func() error { return rude{} },
	func() error { panic("a string") },
	func() error { panic(errBoom) },
	func() error { panic(rude{}) },
	func() error { panic(executor.Cancel(errBoom)) }, // a panic is no wish
	func() error { var p *probe; p.overlaps++; return nil },
	func() error { noMap["a"]++; return nil },
	func() error { panic(nil) },
	func() error { runtime.Goexit(); return nil },
	func() error { return executor.RetryAfter(0, errBoom) },
	func() error { return executor.RetryAfter(-time.Hour, nil) },
	func() error { return fmt.Errorf("wrapped: %w", executor.RetryAfter(0, errBoom)) },
}

// abused is one id: what it does in each run, and what it has done.
type abused struct {
	tries   []func() error // the last one ends it
	retries []int          // Retry that each run must see
	dead    bool           // must end in the morgue
	running atomic.Bool
	runs    int // of the one handler that runs
}

const abuseRetries = 4 // QueueConfig.MaxRetries

// fate decides about an id, and counts what must come of it.
func fate(r *rand.Rand, want *inspect.QueueStats) *abused {
	a, last, fails := new(abused), error(nil), r.IntN(abuseRetries+1)
	end := r.IntN(4)
	*[]*uint64{&want.Done, &want.Discarded, &want.Buried, &want.Buried}[end]++
	switch end {
	case 1:
		last = executor.Discard()
	case 2:
		a.dead, last = true, executor.Cancel(errBoom)
	case 3:
		a.dead, fails = true, abuseRetries+1
	}
	if last != nil && r.IntN(2) == 0 {
		last = fmt.Errorf("wrapped: %w", last)
	}
	snoozes := []error{executor.Snooze(0), fmt.Errorf("wrapped: %w", executor.Snooze(-time.Hour))}
	for retry := -1; ; {
		a.retries = append(a.retries, retry)
		switch {
		case r.IntN(4) == 0:
			a.tries = append(a.tries, func() error { return snoozes[len(a.tries)%2] })
			want.Snoozed++
		case retry+1 < fails:
			a.tries = append(a.tries, failures[r.IntN(len(failures))])
			want.Failed++
			if retry++; retry == abuseRetries {
				return a // exhausted
			}
		default:
			a.tries = append(a.tries, func() error { return last })
			return a
		}
	}
}

// Whatever handlers do, every id ends as it was decided. A job takes an eighth of a
// millisecond, most of it for the stacks of panics, so the ten million of the long
// tier take twenty minutes: -timeout 0.
func TestAbuse(t *testing.T) {
	rounds, jobs := 1, sampled(10_000)
	if long() {
		rounds, jobs = 100, 100_000
	}
	for range rounds {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { abuseHandlers(t, jobs, rand.New(rand.NewPCG(seed, 0))) })
	}
}

func abuseHandlers(t *testing.T, n int, r *rand.Rand) {
	bubble(t, func(t *testing.T) {
		var want inspect.QueueStats
		jobs := make([]*abused, n)
		for i := range jobs {
			jobs[i] = fate(r, &want)
		}
		var wrong atomic.Int64
		x := open(t, "", executor.Config{Workers: 8})
		q := handle(t, x, "q", func(_ context.Context, job executor.Merged[int]) error {
			a := jobs[job.Latest()]
			if !a.running.CompareAndSwap(false, true) || job.ID != fmt.Sprint(job.Latest()) || len(job.Payloads) != 1 ||
				a.runs >= len(a.tries) || a.retries[a.runs] != (job.Attempt-2) || (job.Attempt == 1) != (job.LastError == "") {
				wrong.Add(1)
				return executor.Discard()
			}
			try := a.tries[a.runs]
			a.runs++
			runtime.Gosched()
			defer a.running.Store(false)
			return try()
		}, executor.QueueConfig[int]{Share: executor.Share{Shards: 8}, MaxRetries: abuseRetries, RetryIn: always(time.Second)})
		start(t, x)
		for w := range 8 {
			go func() {
				for i := w; i < n; i += 8 {
					_, err := q.Enqueue(context.Background(), fmt.Sprint(i), i)
					assert.NoError(t, err)
				}
			}()
		}
		time.Sleep(time.Hour)
		synctest.Wait()

		s, err := x.Stats(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 8, s.Workers)
		assert.Zero(t, s.Busy)
		want.Name, want.Registered, want.Dead, want.Processed, want.Shards = "q", true, int(want.Buried), want.Done+want.Discarded, s.Queues[0].Shards
		assert.Equal(t, []inspect.QueueStats{want}, s.Queues)
		assert.Zero(t, wrong.Load(), "runs that overlapped, or came out of turn")
		assert.Equal(t, -1, slices.IndexFunc(jobs, func(a *abused) bool { return a.runs != len(a.tries) }), "ran too few times")
		dead := make(map[int]bool)
		for _, d := range morgue(t, q) {
			require.True(t, jobs[d.Payload].dead && d.Error != "", "id %s is dead: %q", d.ID, d.Error)
			dead[d.Payload] = true
		}
		assert.EqualValues(t, want.Buried, len(dead))
		assert.NoError(t, x.Err())
		stop(t, x)
	})
}

// says makes a hook that returns v for the payload "bad", or calls v.
func says[T any](good T, v any) func(string) T {
	return func(payload string) (bad T) {
		if payload != "bad" {
			return good
		}
		if f, ok := v.(func()); ok {
			f()
		}
		bad, _ = v.(T)
		return bad
	}
}

// hooks is a codec and a scheduler.
type hooks struct {
	encode, decode func(string) error
	pick           func(string) int
}

func (h *hooks) Pick([]executor.Candidate) int      { return h.pick("bad") }
func (h *hooks) Encode(v string) ([]byte, error)    { return []byte(v), h.encode(v) }
func (h *hooks) Decode(data []byte) (string, error) { return string(data), h.decode(string(data)) }

// Whatever a hook does, the other ids complete. The id "bad" fails once, and
// whenever its payload can't be read; what becomes of it is at the end of each row.
func TestAbuseOfHooks(t *testing.T) {
	const done, dead, waits = "done", "dead", "waits"
	panics, exits := func() { panic(rude{}) }, func() { runtime.Goexit() }
	for _, row := range [][3]any{
		{"RetryIn", panics, done}, {"RetryIn", exits, done}, {"RetryIn", time.Duration(math.MinInt64), done}, {"RetryIn", time.Duration(math.MaxInt64), waits},
		{"FormatError", panics, done}, {"FormatError", exits, done}, {"FormatError", "", done}, {"FormatError", strings.Repeat("\xff", 1<<20), done},
		{"RetriesExhausted", panics, dead}, {"RetriesExhausted", exits, dead}, {"RetriesExhausted", nil, dead},
		{"Encode", panics, executor.ErrEncode}, {"Encode", rude{}, executor.ErrEncode},
		{"Decode", panics, dead}, {"Decode", exits, dead}, {"Decode", rude{}, dead},
		{"ID", panics, executor.ErrEncode}, {"ID", "", executor.ErrInvalidID}, {"ID", strings.Repeat("x", executor.MaxIDBytes+1), executor.ErrInvalidID},
		{"Score", panics, executor.ErrEncode}, {"Score", math.NaN(), executor.ErrInvalidItem}, {"Score", math.Inf(-1), executor.ErrInvalidItem}, {"Score", -math.MaxFloat64, done},
		{"Due", panics, executor.ErrEncode}, {"Due", time.Unix(math.MinInt64, 0), done}, {"Due", time.Unix(math.MaxInt64, 0), waits}, {"Due", time.Unix(0, math.MaxInt64), waits},
		{"Pick", panics, done}, {"Pick", exits, done}, {"Pick", math.MinInt, done}, {"Pick", math.MaxInt, done},
	} {
		t.Run(fmt.Sprintf("%v %T", row[0], row[1]), func(t *testing.T) { bubble(t, func(t *testing.T) { abuseHook(t, row[0], row[1], row[2]) }) })
	}
}

func abuseHook(t *testing.T, name, v, want any) {
	h := &hooks{encode: says[error](nil, nil), decode: says[error](nil, nil)}
	cfg, xcfg, id := executor.QueueConfig[string]{Share: executor.Share{Shards: 3}, MaxRetries: 3, Codec: h}, executor.Config{Workers: 2}, "bad"
	map[any]func(){
		"RetryIn":     func() { cfg.RetryIn = func(int) time.Duration { return says[time.Duration](0, v)("bad") } },
		"FormatError": func() { cfg.DeadLetters.FormatError = func(error) string { return says("", v)("bad") } },
		"RetriesExhausted": func() {
			cfg.MaxRetries = -1
			cfg.DeadLetters.RetriesExhausted = func(_ context.Context, jobs []executor.Merged[string]) { clear(jobs); says(0, v)("bad") }
		},
		"Encode": func() { h.encode = says[error](nil, v) },
		"Decode": func() { h.decode = says[error](nil, v) },
		"ID":     func() { cfg.Defaults.ID, id = says("good", v), "" },
		"Score":  func() { cfg.Defaults.Score = says(1.0, v) },
		"Due":    func() { cfg.Defaults.Due = says(time.Time{}, v) },
		"Pick":   func() { xcfg.Scheduler, h.pick = h, says(0, v) },
	}[name]()
	x := open(t, "", xcfg)
	p := &probe{}
	p.decide = func(_ context.Context, s seen) error {
		if s.id == "bad" && (cfg.DeadLetters.RetriesExhausted != nil || len(p.of("bad")) == 1) {
			return errBoom
		}
		return nil
	}
	q := handle(t, x, "q", p.handle, cfg)
	for i := range 20 {
		enqueue(t, q, fmt.Sprint("good", i), "fine")
	}
	_, err := q.Enqueue(t.Context(), id, "bad")
	wanted, _ := want.(error)
	require.ErrorIs(t, err, wanted)
	start(t, x)
	time.Sleep(time.Hour)
	s := stats(t, q)
	assert.Equal(t, want == "waits", s.Jobs == 1, "%+v", s)
	for range s.Jobs * 2 { // a person can make it run all the same: twice, because it may fail once
		_, err := x.Inspect().RunNow(t.Context(), inspect.SelectIDs(q.Name(), "bad"))
		require.NoError(t, err)
		synctest.Wait()
	}
	all, err := x.Stats(t.Context())
	require.NoError(t, err)
	s = all.Queues[0]
	assert.Zero(t, s.Jobs+all.Busy)
	assert.Equal(t, want == "dead", s.Buried == 1, "%+v", s)
	assert.Equal(t, want == "done" || want == "waits", s.Done == 21, "%+v", s)
	assert.GreaterOrEqual(t, s.Done, uint64(20), "the others complete")
	assert.NoError(t, x.Err())
	stop(t, x)
}
