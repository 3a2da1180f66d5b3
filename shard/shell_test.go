package shard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/actor"
	"github.com/strandjobs/strand/journal"
)

// house is shards with a journal and workers: the least that an executor is.
type house struct {
	t       testing.TB
	system  *actor.System
	mem     *journal.Memory
	log     *journal.Log
	queue   uint32
	shards  []*Shard
	handler func(it *Item) Outcome

	mu      sync.Mutex
	home    *sync.Cond // a worker came back
	workers int
	free    []*hand
	waiting map[*Shard]bool // asked for a worker and got none
	returns int
}

// hand is a worker with a goroutine for each run.
type hand struct{ house *house }

func (w *hand) Assign(r *Run) {
	go func() {
		begin := time.Now()
		for batch := r.Next(nil, 1); len(batch) > 0; batch = r.Next(batch[:0], 1) {
			batch[0].Outcome = w.house.handler(batch[0])
			if time.Since(begin) > Quantum {
				break
			}
		}
		r.Elapsed = time.Since(begin)
		s := r.Shard
		s.Finish(r)
		w.Return()
	}()
}

func (w *hand) Return() { w.house.back(w) }

func (h *house) Offer(s *Shard, _ int64) Worker {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.free); n > 0 {
		w := h.free[n-1]
		h.free = h.free[:n-1]
		return w
	}
	h.waiting[s] = true
	return nil
}

func (h *house) back(w *hand) {
	h.mu.Lock()
	h.returns++
	for s := range h.waiting {
		delete(h.waiting, s)
		h.mu.Unlock()
		s.Grant(w) // may return it
		return
	}
	h.free = append(h.free, w)
	h.home.Broadcast()
	h.mu.Unlock()
}

// idle returns when every worker is free.
func (h *house) idle() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.free) < h.workers {
		h.home.Wait()
	}
}

func newHouse(t testing.TB, shards, workers int, cfg Config, handler func(it *Item) Outcome) *house {
	system := actor.New(actor.Config{OnFailure: func(err error) { panic(err) }}) // or all would wait for ever
	h := &house{t: t, system: system, mem: new(journal.Memory), handler: handler, workers: workers, waiting: make(map[*Shard]bool)}
	h.home = sync.NewCond(&h.mu)
	for range workers {
		h.free = append(h.free, &hand{h})
	}
	var err error
	h.log, err = journal.OpenMemory(h.mem, journal.Config{
		Deliver: func(d *journal.Delivery) { h.shards[d.Route].Deliver(d) },
	})
	require.NoError(t, err)
	h.queue, err = h.log.Queue(t.Context(), "queue")
	require.NoError(t, err)
	for i := range shards {
		s, err := New(h.system, fmt.Sprint("shard-", i), NewCore(h.queue, cfg), writing{h.log}, h, nil)
		require.NoError(t, err)
		h.shards = append(h.shards, s)
	}
	return h
}

func (h *house) put(id, payload string, due time.Time) journal.Ticket {
	e := journal.Entry{Queue: h.queue, ID: []byte(id), Payload: []byte(payload), Due: due.UnixNano()}
	if now := time.Now(); !due.Equal(now) {
		e.Accepted = now.UnixNano() // its caller asks for a time
	}
	if len(h.shards) > 1 {
		e.Route = uint32(id[0]) % uint32(len(h.shards))
	}
	ticket, err := h.log.Append(h.t.Context(), []journal.Entry{e}, nil)
	require.NoError(h.t, err)
	require.NoError(h.t, ticket.Wait(h.t.Context()))
	return ticket
}

func (h *house) counts() (n Counts) {
	for _, s := range h.shards {
		require.NoError(h.t, s.Do(h.t.Context(), func(c *Core) { n = sumOf(n, c.Counts()) }))
	}
	return n
}

// close stops everything and leaves nothing.
func (h *house) close() {
	h.idle()
	for _, s := range h.shards {
		require.NoError(h.t, s.Stop(context.Background()))
	}
	h.idle()
	require.NoError(h.t, h.log.Close())
	require.NoError(h.t, h.system.Stop(context.Background()))
}

// bubble runs a test with one shard, two workers and virtual time. ran tells
// when each item ran.
func bubble(t *testing.T, cfg Config, f func(t *testing.T, h *house, ran *[]string)) {
	synctest.Test(t, func(t *testing.T) {
		var ran []string
		begin := time.Now()
		h := newHouse(t, 1, 2, cfg, func(it *Item) Outcome {
			ran = append(ran, fmt.Sprintf("%s at %v", it.ID, time.Since(begin)))
			return Outcome{Verdict: VerdictDone}
		})
		f(t, h, &ran)
		h.close()
		synctest.Wait()
		require.Len(t, h.free, 2, "a worker is lost")
	})
}

func TestDueJobsRunOnTime(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, h *house, ran *[]string) {
		h.put("hour", "", time.Now().Add(time.Hour))
		h.put("now", "", time.Now())
		h.put("early", "", time.Now().Add(10*time.Minute+7)) // the timer is set anew
		h.put("late", "", time.Now().Add(2*time.Hour))
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"now at 0s", "early at 10m0.000000007s", "hour at 1h0m0s", "late at 2h0m0s"}, *ran)
	})
}

func TestRunNowBeatsTheTimer(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, h *house, ran *[]string) {
		h.put("a", "", time.Now().Add(time.Hour))
		time.Sleep(time.Minute)
		require.NoError(t, h.shards[0].Do(t.Context(), func(c *Core) { c.RunNow("a", time.Now().UnixNano(), true) }))
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"a at 1m0s"}, *ran)
	})
}

// TestWallClockSetForward moves a due time under the shard's feet, as a clock
// that is set would.
func TestWallClockSetForward(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, h *house, ran *[]string) {
		h.put("a", "", time.Now().Add(time.Hour))
		time.Sleep(clockCheck / 2)
		s := h.shards[0]
		require.NoError(t, s.Do(t.Context(), func(c *Core) {
			c.enqueue(c.lanes.find([]byte("a")), time.Now().UnixNano()+1)
			s.timerAt = math.MinInt64 // it must not notice
		}))
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		require.Equal(t, []string{fmt.Sprint("a at ", clockCheck)}, *ran)
	})
}

func TestNoTimerWhileNothingIsDue(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, h *house, _ *[]string) {
		s := h.shards[0]
		h.put("a", "", time.Now())
		synctest.Wait()
		require.Nil(t, s.timer, "for what is due at once")
		h.put("a", "", time.Now().Add(time.Second))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.False(t, s.timer.Stop(), "a timer runs")
	})
}

// A timer looks at a run of several jobs, which may turn out to be slow.
func TestNoTimerForARunThatIsOver(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, h *house, ran *[]string) {
		s := h.shards[0]
		h.put("a", "", time.Now()) // it is fast: the next run may be longer
		synctest.Wait()
		due := time.Now().Add(time.Second)
		later := due.Add(time.Hour)
		h.put("b", "", due)
		h.put("c", "", due)
		h.put("d", "", later)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, *ran, 3)
		require.Equal(t, later.UnixNano(), s.timerAt)
		h.put("e", "", later)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, *ran, 5)
		require.False(t, s.timer.Stop(), "a timer runs")
	})
}

func TestWorkersOfferedForNothingComeBack(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, h *house, _ *[]string) {
		w := h.Offer(h.shards[0], 0)
		h.shards[0].Grant(w)
		synctest.Wait()
		require.Len(t, h.free, 2)
		require.Equal(t, 1, h.returns)
	})
}

func TestPendingJobsRunAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := new(journal.Memory)
		log, err := journal.OpenMemory(disk, journal.Config{})
		require.NoError(t, err)
		queue, err := log.Queue(t.Context(), "queue")
		require.NoError(t, err)
		ticket, err := log.Append(t.Context(), []journal.Entry{{Queue: queue, ID: []byte("a")}, {Queue: queue, ID: []byte("b")}}, nil)
		require.NoError(t, err)
		require.NoError(t, ticket.Wait(t.Context()))
		require.NoError(t, log.Close())

		log, err = journal.OpenMemory(disk, journal.Config{})
		require.NoError(t, err)
		var ran []string
		h := newHouse(t, 0, 1, Config{}, func(it *Item) Outcome { ran = append(ran, it.ID); return Outcome{Verdict: VerdictDone} })
		core := NewCore(queue, Config{})
		_, err = LoadAll([]*Core{core}, log.PendingPages(queue), func([]byte) int { return 0 }, func([]journal.Entry) {})
		require.NoError(t, err)
		s, err := New(h.system, "shard", core, writing{log}, h, nil)
		require.NoError(t, err)
		synctest.Wait()
		require.Empty(t, ran)
		s.Tell(func(*Core) {})
		synctest.Wait()
		require.ElementsMatch(t, []string{"a", "b"}, ran)
		h.shards = append(h.shards, s)
		h.close()
		require.NoError(t, log.Close())
	})
}

func TestStopTakesInWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := newHouse(t, 1, 1, Config{}, func(*Item) Outcome { <-release; return Outcome{Verdict: VerdictDone} })
		s := h.shards[0]
		var tickets []journal.Ticket
		go func() { // holds the actor while messages gather
			_ = s.Do(context.Background(), func(*Core) { time.Sleep(time.Hour) })
		}()
		synctest.Wait()
		for i := range 100 {
			ticket, err := h.log.Append(t.Context(), []journal.Entry{{Queue: h.queue, ID: fmt.Append(nil, i), Due: time.Now().UnixNano()}}, nil)
			require.NoError(t, err)
			tickets = append(tickets, ticket)
			synctest.Wait()
		}
		require.NoError(t, s.Stop(t.Context()))
		for _, ticket := range tickets {
			require.NoError(t, ticket.Wait(t.Context()))
		}
		require.Equal(t, 100, s.core.Counts().Payloads)

		require.ErrorIs(t, s.Do(t.Context(), func(*Core) { t.Error("called") }), ErrStopped)
		require.NoError(t, s.Stop(t.Context()), "again")
		h.put("late", "", time.Now()) // on disk for the next start
		close(release)
		h.idle()
		s.Grant(&hand{h})
		require.Len(t, h.free, 2, "a worker granted too late comes back")
		h.close()
	})
}

// TestStopWithAWakeUpQueued has the timer fire behind Stop.
func TestStopWithAWakeUpQueued(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, h *house, ran *[]string) {
		s := h.shards[0]
		h.put("a", "", time.Now().Add(time.Minute))
		h.put("b", "", time.Now().Add(time.Hour))
		go func() { _ = s.Do(context.Background(), func(*Core) { time.Sleep(5 * time.Minute) }) }()
		synctest.Wait()
		require.NoError(t, s.Stop(t.Context())) // waits behind the sleep, and the wake-up for a behind it
		require.False(t, s.timer.Stop(), "a timer runs")
	})
}

func TestDoReturnsWhenItsContextEnds(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, h *house, _ *[]string) {
		s := h.shards[0]
		go func() { _ = s.Do(context.Background(), func(*Core) { time.Sleep(time.Hour) }) }()
		synctest.Wait()
		patience := errors.New("out of patience")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, patience)
		defer cancel()
		require.ErrorIs(t, s.Do(ctx, func(*Core) {}), patience)
		require.ErrorIs(t, s.Stop(ctx), patience)
		require.NoError(t, s.Stop(t.Context()))
	})
}

func TestWorkersRunOneShardTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		h := newHouse(t, 1, 3, Config{Concurrency: 2}, func(*Item) Outcome {
			time.Sleep(time.Hour)
			return Outcome{Verdict: VerdictDone}
		})
		var entries []journal.Entry
		for _, id := range []string{"a", "b", "c", "d"} {
			entries = append(entries, journal.Entry{Queue: h.queue, ID: []byte(id), Due: begin.UnixNano()})
		}
		_, err := h.log.Append(t.Context(), entries, nil)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.Equal(t, 2, h.counts().Running)
		time.Sleep(time.Hour)
		require.Equal(t, 2, h.counts().Jobs)
		time.Sleep(time.Hour)
		require.Zero(t, h.counts().Jobs)
		h.close()
		require.Len(t, h.free, 3)
	})
}

// TestSlowJobsDoNotHoldOthers: what stands behind a slow job goes to another
// worker after the quantum.
func TestSlowJobsDoNotHoldOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var mu sync.Mutex
		at := make(map[string]time.Duration)
		h := newHouse(t, 1, 2, Config{Concurrency: 2}, func(it *Item) Outcome {
			mu.Lock()
			at[it.ID] = time.Since(begin)
			mu.Unlock()
			if it.ID == "0 slow" {
				time.Sleep(time.Hour)
			}
			return Outcome{Verdict: VerdictDone}
		})
		require.NoError(t, h.shards[0].Do(t.Context(), func(c *Core) { c.pace = 8 }))
		var entries []journal.Entry
		for _, id := range []string{"0 slow", "1", "2", "3"} {
			entries = append(entries, journal.Entry{Queue: h.queue, ID: []byte(id), Due: time.Now().UnixNano()})
		}
		_, err := h.log.Append(t.Context(), entries, nil)
		require.NoError(t, err)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		for _, id := range []string{"1", "2", "3"} {
			require.Equal(t, Quantum, at[id], id)
		}
		h.close()
	})
}

// TestOrderAndWorkersUnderLoad has a few workers serve many shards: no two runs
// of an id overlap, its payloads come in order, all come, no worker is lost.
func TestOrderAndWorkersUnderLoad(t *testing.T) {
	const ids, producers = 40, 4
	each := 200
	if long {
		each = 50_000
	}
	type strand struct {
		busy atomic.Bool
		last [producers]int
		n    int
	}
	strands := make(map[string]*strand)
	for i := range ids {
		strands[fmt.Sprintf("%c%d", 'a'+i%16, i)] = new(strand)
	}
	handler := func(it *Item) Outcome {
		st := strands[it.ID]
		if !assert.True(t, st.busy.CompareAndSwap(false, true), "two runs of %s", it.ID) {
			return Outcome{Verdict: VerdictDiscarded}
		}
		defer st.busy.Store(false)
		if rand.IntN(10) == 0 {
			return Outcome{Verdict: []Verdict{VerdictFailed, VerdictSnoozed, VerdictInterrupted}[rand.IntN(3)], Delay: time.Duration(rand.IntN(1000))}
		}
		var e journal.Entry
		for _, p := range it.Payloads {
			mustRead(p.Ref, &e)
			producer, n := int(e.Payload[0]), int(e.Payload[1])<<16|int(e.Payload[2])<<8|int(e.Payload[3])
			assert.Less(t, st.last[producer], n, "order of %s", it.ID)
			st.last[producer] = n
			st.n++
		}
		return Outcome{Verdict: VerdictDone}
	}
	cfg := Config{Merge: MergeKeepAll, MaxRetries: 1 << 20, MaxPayloads: 3, Concurrency: 2}
	h := newHouse(t, 16, 3, cfg, handler)
	var wg sync.WaitGroup
	for producer := range producers {
		wg.Go(func() {
			n := 0
			for range each {
				n++
				var batch []journal.Entry
				for id := range strands {
					batch = append(batch, journal.Entry{
						Queue: h.queue, ID: []byte(id), Route: uint32(id[0]) % uint32(len(h.shards)), Due: time.Now().UnixNano(),
						Payload: []byte{byte(producer), byte(n >> 16), byte(n >> 8), byte(n)},
					})
				}
				ticket, err := h.log.Append(t.Context(), batch, nil)
				assert.NoError(t, err)
				assert.NoError(t, ticket.Wait(t.Context()))
			}
		})
	}
	wg.Wait()
	require.Eventually(t, func() bool { return h.counts().Jobs == 0 }, time.Minute, 5*time.Millisecond)
	h.close()
	require.Len(t, h.free, 3, "a worker is lost")
	for id, st := range strands {
		require.Equal(t, producers*each, st.n, id)
	}
}
