package executor_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/executortest"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

// mirrors are what a program keeps up to date with HandleLatest: a version for each id.
type mirrors struct {
	mu      sync.Mutex
	at      map[string]int
	down    bool
	wentOld int // a mirror went back to an older version
}

func (m *mirrors) set(down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = down
}

func (m *mirrors) update(_ context.Context, job executor.Job[int]) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return errBoom
	}
	if job.Payload < m.at[job.ID] {
		m.wentOld++
	}
	m.at[job.ID] = job.Payload
	return nil
}

// now is the state of an id.
func (m *mirrors) now(id string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at[id]
}

func latest(t testing.TB, x *executor.Executor, m *mirrors, cfg executor.QueueConfig[int]) *executor.Queue[int] {
	t.Helper()
	q, err := executor.HandleLatest(x, "mirrors", m.update, cfg)
	require.NoError(t, err)
	return q
}

// The story of the runbook: an outage, mirrors whose updates die, newer states, and all
// that is dead is put back. No mirror goes back to an older state, with scores of their own
// that come in any order or without, and over restarts.
func TestLatestAfterAnOutageWithRequeue(t *testing.T) {
	for _, scored := range []bool{false, true} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("scored=%v,restart=%v", scored, restart), func(t *testing.T) {
				bubble(t, func(t *testing.T) { afterAnOutage(t, scored, restart) })
			})
		}
	}
}

func afterAnOutage(t *testing.T, scored, restart bool) {
	const ids, versions = 100, 5
	r, disk := rand.New(rand.NewPCG(1, 2)), new(journal.Memory)
	m := &mirrors{at: make(map[string]int), down: true}
	cfg := executor.QueueConfig[int]{MaxRetries: 2}
	if scored {
		cfg.Defaults.Score = func(version int) float64 { return float64(version) }
	}
	var x *executor.Executor
	var q *executor.Queue[int]
	again := func() {
		if x != nil {
			stop(t, x)
		}
		x = openOn(t, disk, executor.Config{})
		q = latest(t, x, m, cfg)
		start(t, x)
	}
	again()
	want := make(map[string]int)
	send := func(v int) {
		for i := range ids {
			id := fmt.Sprint("contact-", i)
			if enqueue(t, q, id, v); v > want[id] {
				want[id] = v
			}
		}
	}
	order := []int{1, 2, 3, 4, 5}
	if scored {
		order = []int{2, 1, 4, 3, 5, 2}
	}
	for i, v := range order {
		if i == 3 { // what came so far has died
			time.Sleep(time.Hour)
			require.Equal(t, ids, stats(t, q).Dead, "one dead letter of an id at most")
			if restart {
				again()
			}
		}
		if i == len(order)-1 {
			m.set(false)
		}
		send(v)
		if r.IntN(2) == 0 {
			time.Sleep(time.Second)
		}
	}
	_, err := x.Inspect().Requeue(t.Context(), inspect.SelectQueue(q.Name()))
	require.NoError(t, err)
	time.Sleep(time.Hour)
	synctest.Wait()
	require.Zero(t, m.wentOld, "mirrors that went back")
	require.Equal(t, want, m.at)
	s := stats(t, q)
	require.Zero(t, s.Dead)
	require.Zero(t, s.Payloads)
	if restart { // an older one that is late is told from the newest that ran, too
		again()
	}
	if scored {
		rec := enqueue(t, q, "contact-1", 3)
		require.NotZero(t, rec.MergedInto, "superseded on arrival")
		require.NoError(t, q.Wait(t.Context(), rec), "the newer one is done")
		synctest.Wait()
		require.Equal(t, want, m.at)
	}
}

// Backlog, memory and disk of a million updates of a thousand ids, here of some, stay those of what is
// newest: the backlog has room for each id twice, one that goes and one that comes.
func TestLatestWeighsWhatTheNewestWeigh(t *testing.T) {
	ids, rounds := 100, 30
	if long() {
		ids, rounds = 1000, 1000
	}
	const size = 1000
	x := open(t, t.TempDir()+"/journal", executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 2 * ids}, WaitForRoom: true})
	q, err := executor.HandleLatest(x, "mirrors", func(context.Context, executor.Job[[]byte]) error { return nil }, executor.QueueConfig[[]byte]{})
	require.NoError(t, err)
	require.NoError(t, pauseAll(t.Context(), x))
	start(t, x)
	for round := range rounds {
		items := make([]executor.Item[[]byte], ids)
		for i := range items {
			items[i] = executor.Item[[]byte]{ID: fmt.Sprint(i), Payload: fmt.Appendf(make([]byte, 0, size), "%0*d", size, round)}
		}
		_, err := q.EnqueueMany(t.Context(), items)
		require.NoError(t, err)
	}
	require.NoError(t, x.SetSourceOffset(t.Context(), "settled", 1))
	s, own := must(x.Stats(t.Context())), stats(t, q)
	require.Equal(t, []int{ids, ids}, []int{own.Payloads, own.Jobs})
	require.EqualValues(t, ids*(rounds-1), own.Superseded)
	require.Less(t, s.Journal.LiveBytes, 2*ids*size)
	require.Less(t, s.Journal.HeldBytes, 3*ids*size)
	require.Less(t, s.Journal.Bytes, 4*ids*size, "what was superseded is taken out of the file")
	stop(t, x)
}

// What crashes at any commit leaves no older state over a newer one, and no dead letter
// beside one.
func TestLatestEveryCrash(t *testing.T) {
	executortest.EveryCrash(t, func(*testing.T) executortest.Scenario {
		m, acked := &mirrors{at: make(map[string]int), down: true}, make(map[string]int)
		var q *executor.Queue[int]
		send := func(id string, v int) error {
			_, err := q.Enqueue(context.Background(), id, v)
			if err == nil {
				acked[id] = max(acked[id], v)
			}
			return err
		}
		return executortest.Scenario{
			Setup: func(x *executor.Executor) (err error) {
				q, err = executor.HandleLatest(x, "mirrors", m.update, executor.QueueConfig[int]{MaxRetries: -1, Defaults: executor.Defaults[int]{Score: func(v int) float64 { return float64(v) }}})
				return err
			},
			Script: func(x *executortest.Executor) error {
				if err := errors.Join(send("a", 2), send("b", 2)); err != nil {
					return err
				}
				x.UntilIdle() // both die
				m.set(false)
				if err := errors.Join(send("a", 5), send("a", 3)); err != nil {
					return err
				}
				x.UntilIdle()
				if _, err := x.Inspect().Requeue(context.Background(), inspect.SelectQueue(q.Name())); err != nil {
					return err
				}
				return errors.Join(send("b", 1), send("b", 4), send("a", 4))
			},
			Check: func(t *testing.T, x *executortest.Executor) {
				m.set(false)
				_, err := x.Inspect().Requeue(context.Background(), inspect.SelectQueue(q.Name()))
				require.NoError(t, err)
				x.UntilEmpty()
				require.Zero(t, m.wentOld)
				require.Zero(t, stats(t, q).Dead)
				for id, v := range acked {
					require.GreaterOrEqual(t, m.at[id], v, id)
				}
			},
		}
	})
}

// A state that becomes older while a Requeue gathers what is dead stays out, and the answer says so.
func TestLatestRequeueSaysWhatItSkipped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := openOn(t, new(journal.Memory), executor.Config{})
		m := &mirrors{at: make(map[string]int), down: true}
		q := latest(t, x, m, executor.QueueConfig[int]{MaxRetries: -1})
		for i := range 100 {
			enqueue(t, q, fmt.Sprint(i), 1)
		}
		start(t, x)
		synctest.Wait()
		require.Len(t, morgue(t, q), 100)
		m.set(false)
		ctx := &interrupted{Context: t.Context(), at: 60, do: func() {
			enqueue(t, q, "3", 2)
			synctest.Wait()
		}}
		back, err := x.Inspect().Requeue(ctx, inspect.SelectQueue("mirrors"))
		require.NoError(t, err)
		require.Equal(t, inspect.Requeued{Back: 99, Superseded: 1}, back)
		require.Equal(t, "99 payloads are back; 1 is not, because a newer one has superseded it", back.String())
		synctest.Wait()
		require.Empty(t, morgue(t, q))
		require.Equal(t, 2, m.at["3"])
	})
}

// While newer states come, dead letters that are put back, or deleted, never run after
// them, and the figures of the morgue are exact.
func TestLatestRequeueBesideNewer(t *testing.T) {
	bubbles(t, 30, 77, func(t *testing.T, r *rand.Rand) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		m := &mirrors{at: make(map[string]int)}
		q := latest(t, x, m, executor.QueueConfig[int]{MaxRetries: -1})
		start(t, x)
		version := 0
		for range 40 {
			m.set(r.IntN(2) == 0)
			var all sync.WaitGroup
			for range 1 + r.IntN(4) {
				version++
				v := version
				enqueue(t, q, fmt.Sprint(r.IntN(3)), v)
			}
			for range r.IntN(3) {
				all.Go(func() {
					back, err := x.Inspect().Requeue(context.Background(), inspect.SelectQueue(q.Name()))
					require.NoError(t, err)
					require.Zero(t, back.Late+back.Unsure)
				})
			}
			if r.IntN(4) == 0 {
				all.Go(func() {
					_, err := x.Inspect().DeleteDead(context.Background(), inspect.SelectQueue("mirrors"))
					require.NoError(t, err)
				})
			}
			for range r.IntN(3) {
				version++
				v := version
				id := fmt.Sprint(r.IntN(3))
				enqueue(t, q, id, v)
			}
			all.Wait()
			synctest.Wait()
		}
		m.set(false)
		_, err := x.Inspect().Requeue(context.Background(), inspect.SelectQueue(q.Name()))
		require.NoError(t, err)
		synctest.Wait()
		s := stats(t, q)
		require.Zero(t, m.wentOld)
		require.Zero(t, s.Dead)
		require.Zero(t, s.Payloads)
		stop(t, x)
		x = openOn(t, disk, executor.Config{})
		all, err := x.Stats(context.Background())
		require.NoError(t, err)
		require.Empty(t, all.Queues, "something is left")
	})
}

// Requeue of payloads that count each says which of them come after later ones.
func TestRequeueSaysWhatIsLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		handler := func(_ context.Context, job executor.Job[string]) error {
			if job.Payload == "bad" {
				return executor.Cancel(errBoom)
			}
			return nil
		}
		q, err := executor.Handle(x, "q", handler, executor.QueueConfig[string]{})
		require.NoError(t, err)
		start(t, x)
		for _, id := range []string{"a", "b", "c"} {
			enqueue(t, q, id, "bad")
		}
		synctest.Wait()
		enqueue(t, q, "a", "good")
		synctest.Wait()
		back, err := x.Inspect().Requeue(t.Context(), inspect.SelectIDs(q.Name(), "a", "b"))
		require.NoError(t, err)
		require.Equal(t, inspect.Requeued{Back: 2, Late: 1}, back)
		require.Equal(t, "2 payloads are back; 1 of them after later payloads of their ids have run", back.String())
		synctest.Wait()
		back, err = x.Inspect().Requeue(t.Context(), inspect.SelectIDs(q.Name(), "a"))
		require.NoError(t, err)
		require.Equal(t, inspect.Requeued{Back: 1}, back, "nothing was done since it died again")
		synctest.Wait()
		enqueue(t, q, "c", "good")
		synctest.Wait()
		enqueue(t, q, "c", "bad", executor.Score(1))
		synctest.Wait()
		back, err = x.Inspect().Requeue(t.Context(), inspect.SelectIDs(q.Name(), "c"))
		require.NoError(t, err)
		require.Equal(t, inspect.Requeued{Back: 2, Late: 1}, back, "the second one died when the good one was done")
		synctest.Wait()
		stop(t, x)

		x = openOn(t, disk, executor.Config{})
		q, err = executor.Handle(x, "q", handler, executor.QueueConfig[string]{})
		require.NoError(t, err)
		start(t, x)
		back, err = x.Inspect().Requeue(t.Context(), inspect.SelectQueue(q.Name()))
		require.NoError(t, err)
		require.Equal(t, inspect.Requeued{Back: 4, Unsure: 4}, back, "they died in an earlier process")
	})
}

// A payload that has failed goes first, also where an earlier one is put back meanwhile, and
// Requeue says so; one that waits for its time does not.
func TestRequeueSaysWhatWaitsForARetry(t *testing.T) {
	for name, fails := range map[string]error{"failed": errBoom, "snoozed": executor.Snooze(time.Hour)} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				var done []string
				ends := map[string]error{"first": executor.Cancel(errBoom), "second": fails}
				q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
					err := ends[job.Payload]
					if delete(ends, job.Payload); err == nil {
						done = append(done, job.Payload)
					}
					return err
				}, executor.QueueConfig[string]{})
				require.NoError(t, err)
				start(t, x)
				enqueue(t, q, "a", "first")
				synctest.Wait()
				enqueue(t, q, "a", "second")
				synctest.Wait()
				back, err := x.Inspect().Requeue(t.Context(), inspect.SelectQueue("q"))
				require.NoError(t, err)
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				want, order := inspect.Requeued{Back: 1}, []string{"first", "second"}
				if fails == errBoom {
					want.Late, order = 1, []string{"second", "first"}
				}
				require.Equal(t, want, back)
				require.Equal(t, order, done)
			})
		})
	}
}

// A score that is the very time of acceptance is a score all the same.
func TestLatestScoreThatIsTheTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		q := latest(t, x, &mirrors{at: make(map[string]int)}, executor.QueueConfig[int]{Defaults: executor.Defaults[int]{
			Score: func(before int) float64 {
				return float64(time.Now().Add(-time.Duration(before)).UnixNano()) / 1e9
			},
		}})
		start(t, x)
		enqueue(t, q, "a", 0)
		synctest.Wait()
		require.NotZero(t, enqueue(t, q, "a", int(time.Second)).MergedInto, "it is a second older than what has run")
	})
}

// A score that nobody gave is no version. Of two payloads of which one has none the later
// one is newer: whatever became of those before QueueConfig.Defaults.Score was set, and when a call
// forgets it, while the clock is set back, too.
func TestLatestScoresBegin(t *testing.T) {
	for merge, was := range map[executor.Merge]string{executor.MergeKeepAll: "each counted", executor.MergeSupersede: "no scores"} {
		for fate, err := range map[string]error{"dead": executor.Cancel(errBoom), "in back-off": executor.RetryAfter(time.Hour, errBoom)} {
			t.Run(was+", "+fate, func(t *testing.T) { bubble(t, func(t *testing.T) { scoresBegin(t, merge, err) }) })
		}
	}
}

func scoresBegin(t *testing.T, merge executor.Merge, fate error) {
	var wall skewed
	disk := new(journal.Memory)
	x := openOn(t, disk, executor.Config{})
	q := handle(t, x, "mirrors", func(context.Context, executor.Merged[string]) error { return fate }, executor.QueueConfig[string]{Merge: merge})
	start(t, x)
	_, err := enqueueRaw(t.Context(), x, "mirrors", "a", []byte("3"))
	require.NoError(t, err)
	synctest.Wait()
	require.NotEqual(t, stats(t, q).Dead, stats(t, q).Jobs)
	stop(t, x)

	m := &mirrors{at: make(map[string]int)}
	for _, v := range []int{4, 8} {
		x = openOn(t, disk, executor.Config{})
		x.SetClock(wall.now)
		q := latest(t, x, m, executor.QueueConfig[int]{Defaults: executor.Defaults[int]{Score: func(v int) float64 { return float64(v) }}})
		start(t, x)
		rec := enqueue(t, q, "a", v)
		require.Zero(t, rec.MergedInto, v)
		require.NoError(t, q.Wait(t.Context(), rec))
		back, err := x.Inspect().Requeue(t.Context(), inspect.SelectQueue(q.Name()))
		require.NoError(t, err)
		require.Zero(t, back.Back)
		time.Sleep(2 * time.Hour)
		require.Equal(t, v, m.now("a"))
		for n := range 2 {
			_, err = enqueueRaw(t.Context(), x, "mirrors", "a", fmt.Append(nil, v+1+n))
			require.NoError(t, err)
			time.Sleep(time.Second)
			require.Equal(t, v+1+n, m.now("a"), "a call without a score")
			wall.set(-time.Hour)
		}
		require.NotZero(t, enqueue(t, q, "a", v-1).MergedInto, "older than what was done with a score")
		require.Zero(t, enqueue(t, q, "a", v+3).MergedInto)
		time.Sleep(time.Second)
		require.Equal(t, v+3, m.now("a"))
		stop(t, x)
		wall.set(0)
	}
	require.Zero(t, m.wentOld)
}

// A person deletes, or cancels, a version while its handler runs: an older one that is
// accepted after that is not meant. It runs, unless the handler of one that was canceled was done all the same.
func TestLatestAcceptedAfterDelete(t *testing.T) {
	for what, act := range map[string]func(inspect.Inspector, context.Context, inspect.Selection) (int, error){
		"delete": (inspect.Inspector).Delete,
		"cancel": func(i inspect.Inspector, ctx context.Context, which inspect.Selection) (int, error) {
			return i.Cancel(ctx, which, "")
		},
	} {
		for _, done := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, done=%v", what, done), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					x := open(t, "", executor.Config{})
					var ran shared[[]int]
					q, err := executor.HandleLatest(x, "q", func(ctx context.Context, job executor.Job[int]) error {
						if job.Payload == 5 {
							<-ctx.Done()
							time.Sleep(time.Second)
							if !done {
								return ctx.Err()
							}
						}
						ran.set(append(ran.get(), job.Payload))
						return nil
					}, executor.QueueConfig[int]{Defaults: executor.Defaults[int]{Score: func(v int) float64 { return float64(v) }}})
					require.NoError(t, err)
					start(t, x)
					enqueue(t, q, "a", 5)
					synctest.Wait()
					n, err := act(x.Inspect(), t.Context(), inspect.SelectIDs("q", "a"))
					require.NoError(t, err)
					require.Equal(t, 1, n)
					require.Zero(t, enqueue(t, q, "a", 4).MergedInto)
					time.Sleep(time.Minute)
					want := []int{4}
					switch {
					case done && what == "delete":
						want = []int{5, 4}
					case done:
						want = []int{5}
					}
					require.Equal(t, want, ran.get())
					require.Zero(t, stats(t, q).Payloads)
				})
			})
		}
	}
}

// A person who deletes an id deletes what is known of its newest version, too: what comes
// after that begins anew, also after a restart. Explain tells the version.
func TestLatestDeleteForgetsTheVersion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk, m := new(journal.Memory), &mirrors{at: make(map[string]int)}
		cfg := executor.QueueConfig[int]{
			Defaults: executor.Defaults[int]{Score: func(v int) float64 { return float64(v) }}, Gather: executor.Gather[int]{Throttle: time.Second},
		}
		x := openOn(t, disk, executor.Config{})
		q := latest(t, x, m, cfg)
		start(t, x)
		for _, id := range []string{"a", "b"} {
			enqueue(t, q, id, 1_790_000_061)
		}
		time.Sleep(time.Minute)
		require.NotZero(t, enqueue(t, q, "a", 1).MergedInto)
		require.Equal(t, "mirrors/a is unknown; newest done: score 1790000061", explain(t, x, "mirrors", "a").String())
		_, err := x.Inspect().Job(t.Context(), "mirrors", "a")
		require.ErrorIs(t, err, inspect.ErrUnknownJob)
		require.ErrorContains(t, err, `id "a" of queue "mirrors" has neither a job nor dead payloads; newest done: score 1790000061`)
		for _, which := range []inspect.Selection{inspect.SelectQueue("mirrors"), inspect.SelectIDs("mirrors", "a").At(1)} {
			n, err := x.Inspect().Delete(t.Context(), which)
			require.NoError(t, err)
			require.Zero(t, n, "no id is meant as a whole")
		}
		n, err := x.Inspect().Delete(t.Context(), inspect.SelectIDs("mirrors", "a", "c"))
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Zero(t, stats(t, q).Deleted, "no payload")
		require.Equal(t, "mirrors/a is unknown", explain(t, x, "mirrors", "a").String())
		stop(t, x)
		x = openOn(t, disk, executor.Config{})
		q = latest(t, x, m, cfg)
		start(t, x)
		for v := 1; v < 3; v++ {
			require.Zero(t, enqueue(t, q, "a", v).MergedInto)
			require.NotZero(t, enqueue(t, q, "b", v).MergedInto)
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Equal(t, map[string]int{"a": v, "b": 1_790_000_061}, m.at)
		}
		stop(t, x)
	})
}

// A row that was deleted and made anew begins with its first version, whatever became of the old one: its
// handler runs and is done all the same, or the process dies before that, or it is dead.
func TestLatestRowMadeAnew(t *testing.T) {
	for _, dies := range []bool{false, true} {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprintf("dies=%v, crash=%v", dies, crash), func(t *testing.T) {
				bubble(t, func(t *testing.T) { rowMadeAnew(t, dies, crash) })
			})
		}
	}
}

func rowMadeAnew(t *testing.T, dies, crash bool) {
	var ran shared[[]int]
	var lives atomic.Int32
	disk := new(journal.Memory)
	life := func() (*executor.Executor, *executor.Queue[int]) {
		x, mine := openOn(t, disk, executor.Config{}), lives.Add(1)
		q, err := executor.HandleLatest(x, "rows", func(_ context.Context, job executor.Job[int]) error {
			if job.Payload < 50 {
				if time.Sleep(time.Millisecond); mine == lives.Load() { // else the process is dead
					ran.set(append(ran.get(), job.Payload))
				}
				return nil
			}
			time.Sleep(time.Minute)
			if dies {
				return executor.Cancel(errBoom)
			}
			return nil
		}, executor.QueueConfig[int]{Defaults: executor.Defaults[int]{Score: func(v int) float64 { return float64(v) }}})
		require.NoError(t, err)
		start(t, x)
		return x, q
	}
	x, q := life()
	for _, v := range []int{40, 50} {
		enqueue(t, q, "a", v)
		time.Sleep(time.Second)
	}
	if dies {
		time.Sleep(time.Minute)
		require.Equal(t, 1, stats(t, q).Dead)
	}
	n, err := x.Inspect().Delete(t.Context(), inspect.SelectIDs("rows", "a"))
	require.NoError(t, err)
	require.Equal(t, map[bool]int{false: 2, true: 1}[dies], n, "the version that was done, and what runs")
	require.NotContains(t, explain(t, x, "rows", "a").String(), "newest done")
	require.Zero(t, enqueue(t, q, "a", 1).MergedInto)
	if crash {
		disk = disk.Crash()
		x, q = life()
	}
	for v := 2; v < 4; v++ {
		time.Sleep(2 * time.Minute)
		require.Zero(t, enqueue(t, q, "a", v).MergedInto)
	}
	requeued, err := x.Inspect().Requeue(t.Context(), inspect.SelectIDs("rows", "a"))
	require.NoError(t, err)
	require.Zero(t, requeued.Back)
	time.Sleep(2 * time.Minute)
	require.Equal(t, []int{40, 1, 2, 3}, ran.get())
	stop(t, x)
}

// Throttle bounds how often a state runs that changes all the time, whatever becomes of it.
func TestLatestRestsAfterAFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		runs := 0
		q, err := executor.HandleLatest(x, "q", func(context.Context, executor.Job[int]) error {
			if runs++; runs%2 == 0 {
				time.Sleep(100 * time.Millisecond) // a newer one comes meanwhile
			}
			return errBoom
		}, executor.QueueConfig[int]{Gather: executor.Gather[int]{Throttle: 10 * time.Second}})
		require.NoError(t, err)
		start(t, x)
		for i := range 2000 {
			enqueue(t, q, "a", i)
			time.Sleep(50 * time.Millisecond)
		}
		synctest.Wait()
		require.InDelta(t, 10, runs, 1)
	})
}

// Configurations that make no sense with it are refused.
func TestLatestConfig(t *testing.T) {
	x := open(t, "", executor.Config{})
	m := &mirrors{at: make(map[string]int)}
	for _, cfg := range []executor.QueueConfig[int]{
		{Merge: executor.MergeKeepLast}, {Merge: executor.MergeKeepAll}, {Gather: executor.Gather[int]{Block: true}}, {Gather: executor.Gather[int]{Pull: true}}, {Gather: executor.Gather[int]{FreshDue: executor.FreshDuePush}},
		{Gather: executor.Gather[int]{Fold: func(int, int) (int, error) { return 0, nil }}},
	} {
		_, err := executor.HandleLatest(x, "q", m.update, cfg)
		require.ErrorIs(t, err, executor.ErrConfig, "%+v", cfg.Merge)
	}
	for name, gather := range map[string]executor.Gather[int]{
		"Fold": {Fold: func(int, int) (int, error) { return 0, nil }}, "MaxPayloads is 7": {MaxPayloads: 7}, "MaxPayloads is -1": {MaxPayloads: -1},
	} {
		cfg := executor.QueueConfig[int]{Merge: executor.MergeSupersede, Gather: gather}
		_, err := executor.HandleMerged(x, "q", func(context.Context, executor.Merged[int]) error { return nil }, cfg)
		require.ErrorIs(t, err, executor.ErrConfig)
		require.ErrorContains(t, err, name)
		_, err = executor.HandleBatch(x, "q", func(context.Context, []executor.Merged[int]) error { return nil }, cfg)
		require.ErrorIs(t, err, executor.ErrConfig)
	}
}

// Who waits for a state that a newer one supersedes gets the end of the newer one.
func TestLatestWaitAndDo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		block := make(chan struct{})
		q, err := executor.HandleResult(x, "q", func(_ context.Context, job executor.Job[int]) (int, error) {
			if job.Payload == 1 {
				<-block
				return 0, errBoom
			}
			return job.Payload * 10, nil
		}, executor.QueueConfig[int]{Merge: executor.MergeSupersede, Defaults: executor.Defaults[int]{Score: func(v int) float64 { return float64(v) }}})
		require.NoError(t, err)
		start(t, x)
		var all sync.WaitGroup
		results := make([]int, 4)
		for i := 1; i <= 3; i++ {
			all.Go(func() {
				var err error
				results[i], err = q.Do(context.Background(), "a", i)
				require.NoError(t, err)
			})
			synctest.Wait()
		}
		close(block)
		all.Wait()
		require.Equal(t, []int{0, 30, 30, 30}, results, "one that fails gives way to the newest, and its callers share the result")
		_, err = q.Do(context.Background(), "a", 2)
		require.ErrorIs(t, err, executor.ErrNoResult)
		require.False(t, errors.As(err, new(*executor.PendingError)))
	})
}

// Once the executor has stopped it can't be said how the newer state ended: that is pending, and no error of the journal.
func TestLatestDoWhileTheExecutorStops(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		accepted := func() {}
		q := answers(t, x, "q", twice, executor.QueueConfig[int]{
			Merge: executor.MergeSupersede, Defaults: executor.Defaults[int]{Score: func(v int) float64 { return float64(v) }},
			Middleware: []executor.Middleware{{Enqueue: func(ctx context.Context, _ *executor.EnqueueCall, next func(context.Context) error) error {
				defer func() { accepted() }()
				return next(ctx)
			}}},
		})
		start(t, x)
		_, err := q.Do(context.Background(), "a", 2)
		require.NoError(t, err)
		accepted = func() { stop(t, x) }
		_, err = q.Do(context.Background(), "a", 1)
		require.ErrorIs(t, err, executor.ErrClosed)
		require.ErrorAs(t, err, new(*executor.PendingError))
	})
}

// A newer state need not have the keys of the one whose place it takes: it does not wait for them.
func TestLatestWaitsForNoKeyOfAnOlderState(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		m := &mirrors{at: make(map[string]int)}
		q := latest(t, x, m, executor.QueueConfig[int]{Conditions: executor.Conditions[int]{
			Locks: executor.Locks[int]{BlockedBy: func(_ string, n int) []string { return []string{fmt.Sprint("key ", n)} }},
		}})
		start(t, x)
		require.NoError(t, x.KeyLocks().Lock(t.Context(), "key 1"))
		enqueue(t, q, "a", 1)
		synctest.Wait()
		require.Zero(t, m.now("a"), "it is blocked")
		enqueue(t, q, "a", 2)
		synctest.Wait()
		require.Equal(t, 2, m.now("a"))
		stop(t, x)
	})
}

// A canceled state that gave way has not used its slot, whoever of its payloads that was said of.
func TestLatestGivesTheSlotOfACanceledStateBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		goOn := make(chan struct{})
		s := new(sold)
		s.decide = func(_ context.Context, job executor.Merged[string], _ int) error {
			if job.Latest() != "old" {
				return nil
			}
			<-goOn
			return executor.PayloadErrors{job.Payloads[0].Position: executor.Cancel(errBoom)}
		}
		q := s.shop(t, x, executor.SlotsConfig[int]{}, executor.QueueConfig[string]{Merge: executor.MergeSupersede})
		start(t, x)
		for _, payload := range []string{"old", "new"} {
			enqueue(t, q, "a", payload)
			synctest.Wait()
		}
		close(goOn)
		synctest.Wait()
		require.Equal(t, []string{"a 1", "a 1"}, s.log())
		s.last(t, 1, true)
		stop(t, x)
	})
}

// That an id is halted, or a payload went to the morgue, is told of no state that gave way to a newer one, and of one
// that did not.
func TestLatestTellsOnlyWhatIsSo(t *testing.T) {
	for name, c := range map[string]struct {
		policy executor.OnExhausted
		end    error
		line   string
		told   string
	}{
		"halt":       {executor.OnExhaustedHalt, errBoom, `msg="job is halted: its id runs again after RunNow" queue=q id=a attempt=1 error=boom`, "q/a halted 1 attempt 1: boom"},
		"bury":       {executor.OnExhaustedBuryOldest, errBoom, `msg="job went to the morgue" payloads=1 queue=q id=a position=1 error=boom`, "q/a buried 1 attempt 1: boom"},
		"bury all":   {executor.OnExhaustedBuryAll, errBoom, `msg="job went to the morgue" payloads=1 queue=q id=a position=1 error=boom`, "q/a buried 1 attempt 1: boom"},
		"it cancels": {executor.OnExhaustedHalt, executor.Cancel(errBoom), `msg="job went to the morgue" payloads=1 queue=q id=a position=1 error="cancelled: boom"`, "q/a buried 1 attempt 1: cancelled: boom"},
	} {
		for _, gaveWay := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", gave way: ", gaveWay), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					var log diary
					x := open(t, "", executor.Config{Logger: log.logger()})
					goOn := make(chan struct{})
					q, err := executor.HandleLatest(x, "q", func(_ context.Context, job executor.Job[int]) error {
						if job.Payload == 1 {
							<-goOn
							return c.end
						}
						return nil
					}, executor.QueueConfig[int]{MaxRetries: -1, DeadLetters: executor.DeadLetters[int]{OnExhausted: c.policy}})
					require.NoError(t, err)
					told := follow(t, x, events.Filter{Kinds: []events.Kind{events.Halted, events.Buried}})
					start(t, x)
					enqueue(t, q, "a", 1)
					synctest.Wait()
					lines, tells := []string{c.line}, []string{c.told}
					if gaveWay {
						enqueue(t, q, "a", 2)
						lines, tells = []string{""}, nil
					}
					close(goOn)
					synctest.Wait()
					require.Equal(t, lines, log.take())
					require.ElementsMatch(t, tells, told.take())
					if s := stats(t, q); gaveWay {
						require.EqualValues(t, []int{0, 0, 0, 1}, []int{s.Halted, s.Dead, s.Jobs, int(s.Done)})
					}
					stop(t, x)
				})
			})
		}
	}
}
