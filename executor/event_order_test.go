package executor_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
)

// Under load, and while operators act on what waits and what runs, each id's events are
// a history that can be: nothing runs before it was accepted, a run ends before the next
// one begins, and each payload ends once.
func TestEventsOfAnIDAreInOrder(t *testing.T) {
	const ids, each = 20, 20
	x := open(t, "", executor.Config{Workers: 4, Advanced: executor.Advanced{EventBuffer: 1 << 17}})
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(1, 1))
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(n)
	}
	operate := func(queue, id string) error {
		i, which := x.Inspect(), inspect.SelectIDs(queue, id)
		var err error
		switch draw(5) {
		case 0: // of two persons who want both, the last word counts: that is another story
			if len(id) == 1 {
				_, err = i.Cancel(t.Context(), which, "not wanted")
			} else {
				_, err = i.Delete(t.Context(), which)
			}
		case 1:
			_, err = i.Pause(t.Context(), inspect.SelectIDs(queue, id))
			if err == nil {
				_, err = i.Resume(t.Context(), inspect.SelectIDs(queue, id))
			}
		case 2:
			_, err = i.KillFailed(t.Context(), which)
		case 3:
			_, err = i.DeleteFailed(t.Context(), which)
		case 4:
			_, err = i.RunNow(t.Context(), which)
		}
		return err
	}
	answer := func(ctx context.Context, queue, id string) error {
		answers := [...]error{nil, nil, nil, nil, nil, errBoom, executor.Snooze(0), executor.Discard(), executor.Cancel(nil)}
		n := draw(len(answers) + 2)
		if n < len(answers) {
			return answers[n]
		}
		assert.NoError(t, operate(queue, id)) // on itself, while it runs
		return context.Cause(ctx)
	}
	one, err := executor.Handle(x, "one", func(ctx context.Context, job executor.Job[int]) error { return answer(ctx, "one", job.ID) },
		executor.QueueConfig[int]{RetryIn: always(0), MaxRetries: 2})
	require.NoError(t, err)
	all := handle(t, x, "all", func(ctx context.Context, job executor.Merged[int]) error { return answer(ctx, "all", job.ID) },
		executor.QueueConfig[int]{RetryIn: always(0), MaxRetries: 2, DeadLetters: executor.DeadLetters[int]{OnExhausted: executor.OnExhaustedBuryAll}})
	events := x.Events(t.Context(), events.Filter{})
	start(t, x)
	var g sync.WaitGroup
	for _, q := range []*executor.Queue[int]{one, all} {
		for range 2 {
			g.Go(func() {
				for i := range ids * each / 2 {
					_, err := q.Enqueue(t.Context(), fmt.Sprint(i%ids), i)
					assert.NoError(t, err)
					if draw(4) == 0 {
						assert.NoError(t, operate([]string{"one", "all"}[draw(2)], fmt.Sprint(draw(ids))))
					}
				}
			})
		}
	}
	g.Wait()
	drained(t, one)
	drained(t, all)
	stop(t, x)

	histories := map[string]*history{}
	var number uint64
	for e, err := range events { // the executor has stopped: what is left ends
		require.NoError(t, err)
		require.Greater(t, e.Number, number)
		number = e.Number
		key := e.Queue + "/" + e.ID
		if histories[key] == nil {
			histories[key] = newHistory()
		}
		require.NoError(t, histories[key].add(e), "%s", line(e))
	}
	require.Len(t, histories, 2*ids)
	for id, h := range histories {
		require.Empty(t, h.accepted, "%s", id)
		require.Empty(t, h.doomed, "%s", id)
		require.Equal(t, each, h.ended, id)
	}
}

// A person acts on a job that a worker has, while a key function keeps it from its handler:
// no run has begun, so none is told as interrupted.
func TestEventsOfWhatNoHandlerWasCalledFor(t *testing.T) {
	for name, c := range map[string]struct {
		act  func(ctx context.Context, i inspect.Inspector, p uint64) (int, error)
		want string
	}{
		"pause": {func(ctx context.Context, i inspect.Inspector, _ uint64) (int, error) {
			return i.Pause(ctx, inspect.SelectIDs("q", "id"))
		}, "paused 0|resumed 0|started #1 of 2 attempt 1|done #1 of 2 attempt 1"},
		"cancel one": {func(ctx context.Context, i inspect.Inspector, p uint64) (int, error) {
			return i.Cancel(ctx, inspect.SelectIDs("q", "id").At(p), "why")
		}, "cancelled #1 attempt 1: C: why|buried #1 attempt 1: C: why|started #2 attempt 1|done #2 attempt 1"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				cfg := executor.QueueConfig[string]{}
				cfg.Conditions.Locks.BlockedBy = func(string, string) []string { time.Sleep(time.Second); return nil }
				q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error { return nil }, cfg)
				p := []uint64{enqueue(t, q, "id", "1").Position, enqueue(t, q, "id", "2").Position}
				l := follow(t, x, events.Filter{})
				start(t, x)
				time.Sleep(500 * time.Millisecond) // in the key function
				_, err := c.act(t.Context(), x.Inspect(), p[0])
				require.NoError(t, err)
				time.Sleep(time.Minute)
				_, err = x.Inspect().Resume(t.Context(), inspect.SelectIDs("q", "id"))
				require.NoError(t, err)
				time.Sleep(time.Minute)
				synctest.Wait()
				want := strings.NewReplacer("#1", fmt.Sprint(p[0]), "#2", fmt.Sprint(p[1]), "C:", executor.ErrCanceledByOperator.Error()+":").Replace(c.want)
				require.Equal(t, want, strings.ReplaceAll(strings.Join(l.take(), "|"), "q/id ", ""))
				s, err := q.Stats(t.Context())
				require.NoError(t, err)
				require.Zero(t, s.Interrupted)
				stop(t, x)
			})
		})
	}
}

// history is what has happened to an id so far: its payloads by position.
type history struct {
	accepted map[uint64]bool // and not over
	running  map[uint64]bool // of the run, and without an outcome
	doomed   map[uint64]bool // that EventBuried has to follow for
	ended    int
}

func newHistory() *history {
	return &history{accepted: map[uint64]bool{}, running: map[uint64]bool{}, doomed: map[uint64]bool{}}
}

func (h *history) add(e events.Event) error {
	switch e.Kind {
	case events.Paused, events.Resumed:
	case events.Accepted:
		h.accepted[e.Position] = true
	case events.Started:
		if len(h.running)+len(h.doomed) > 0 {
			return fmt.Errorf("%v run, %v are to be buried", h.running, h.doomed)
		}
		return move(h.accepted, e, func(p uint64) { h.running[p] = true })
	case events.Buried, events.Deleted:
		if !h.accepted[e.Position] || h.running[e.Position] && e.Kind == events.Buried {
			return fmt.Errorf("accepted are %v, running %v", h.accepted, h.running)
		}
		h.end(e.Position)
	case events.Cancelled:
		if len(h.running) == 0 { // by a person, before the handler was called
			return move(h.accepted, e, func(p uint64) { h.doomed[p] = true })
		}
		return h.verdict(e, func(p uint64) { h.doomed[p] = true })
	case events.Done, events.Discarded:
		return h.verdict(e, h.end)
	case events.Interrupted:
		if len(h.doomed) == 0 && len(h.running) == e.Payloads {
			return fmt.Errorf("no other payload of the run was to be ended")
		}
		return h.verdict(e, func(uint64) {})
	default:
		return h.verdict(e, func(p uint64) {
			if e.Kind == events.Failed && e.Attempt == 3 {
				h.doomed[p] = true
			}
		})
	}
	return nil
}

// verdict takes what an event is about out of the run.
func (h *history) verdict(e events.Event, then func(p uint64)) error {
	return move(h.running, e, func(p uint64) {
		delete(h.running, p)
		then(p)
	})
}

func (h *history) end(p uint64) {
	delete(h.accepted, p)
	delete(h.running, p)
	delete(h.doomed, p)
	h.ended++
}

// move calls f for those of some payloads that an event is about: it names the first.
func move(of map[uint64]bool, e events.Event, f func(p uint64)) error {
	about := slices.Sorted(maps.Keys(of))
	i, found := slices.BinarySearch(about, e.Position)
	if !found || len(about)-i < e.Payloads {
		return fmt.Errorf("there are %v", about)
	}
	for _, p := range about[i : i+e.Payloads] {
		f(p)
	}
	return nil
}
