package executor_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// Under load each id's events are a history that can be: nothing runs before it was
// accepted, a run ends before the next one begins, and each payload ends once.
func TestEventsOfAnIDAreInOrder(t *testing.T) {
	const ids, each = 20, 20
	x := open(t, "", executor.Config{Workers: 4, EventBuffer: 1 << 17})
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(1, 1))
	answer := func(context.Context, executor.Job[int]) error {
		mu.Lock()
		defer mu.Unlock()
		return [...]error{nil, nil, nil, nil, nil, errBoom, executor.Snooze(0), executor.Discard(), executor.Cancel(nil)}[r.IntN(9)]
	}
	one, err := executor.Handle(x, "one", answer, executor.QueueConfig[int]{RetryIn: always(0), MaxRetries: 2})
	require.NoError(t, err)
	all := handle(t, x, "all", func(ctx context.Context, _ executor.Merged[int]) error { return answer(ctx, executor.Job[int]{}) },
		executor.QueueConfig[int]{RetryIn: always(0), MaxRetries: 2, OnExhausted: executor.OnExhaustedBuryAll})
	events := x.Events(t.Context(), executor.EventFilter{})
	start(t, x)
	var g sync.WaitGroup
	for _, q := range []*executor.Queue[int]{one, all} {
		for range 2 {
			g.Go(func() {
				for i := range ids * each / 2 {
					_, err := q.Enqueue(t.Context(), fmt.Sprint(i%ids), i)
					assert.NoError(t, err)
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
			histories[key] = &history{accepted: map[uint64]bool{}}
		}
		require.NoError(t, histories[key].add(e), "%s", line(e))
	}
	require.Len(t, histories, 2*ids)
	for id, h := range histories {
		require.Empty(t, h.accepted, "%s", id)
		require.Equal(t, each, h.ended, id)
	}
}

// history is what has happened to an id so far.
type history struct {
	accepted map[uint64]bool // and not over
	running  int             // payloads of the run
	ended    int
	doomed   int // payloads that an event EventBuried has to follow for
}

func (h *history) add(e executor.Event) error {
	ends := 0
	switch e.Kind {
	case executor.EventAccepted:
		h.accepted[e.Position] = true
		return nil
	case executor.EventStarted:
		if h.running > 0 || !h.accepted[e.Position] || h.doomed > 0 {
			return fmt.Errorf("%d run, %d are to be buried", h.running, h.doomed)
		}
		h.running = e.Payloads
		return nil
	case executor.EventBuried:
		h.doomed--
		ends = 1
	case executor.EventDone, executor.EventDiscarded:
		ends = e.Payloads
	case executor.EventCancelled:
		h.doomed = e.Payloads
	case executor.EventFailed:
		if e.Attempt == 3 {
			h.doomed = e.Payloads
		}
	}
	if e.Kind != executor.EventBuried {
		if h.running != e.Payloads {
			return fmt.Errorf("%d payloads were running", h.running)
		}
		h.running = 0
	}
	h.ended += ends
	for _, p := range slices.Sorted(maps.Keys(h.accepted)) { // the first of them, in order
		if ends > 0 && p >= e.Position {
			delete(h.accepted, p)
			ends--
		}
	}
	return nil
}
