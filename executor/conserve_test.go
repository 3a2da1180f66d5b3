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

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

// Whatever is enqueued, merged, replaced, parked, retried, buried, requeued and
// crashed, in any order and under any policy: after every step the keys are those
// that the surviving payloads explain, in memory and on disk, and when all is done
// nothing is locked and no slot is out.
func TestLocksAreConserved(t *testing.T) {
	bubbles(t, 15, 11, conserve)
}

// conserved is an executor with one queue, and what it ought to have locked.
type conserved struct {
	t    *testing.T
	r    *rand.Rand
	cfg  executor.QueueConfig[string]
	disk *journal.Memory

	x     *executor.Executor
	q     *executor.Queue[string]
	slots *executor.Slots[int]

	kind  map[uint64]item // all payloads that were accepted and have not ended
	locks map[oughtLock]bool
	steps []string

	mu     sync.Mutex // guards what handlers have to do with
	events []func()   // what they did, in order
	life   int        // of the executor: those of a former one are not heard
	luck   *rand.Rand // what they return; nil: success
}

type item struct {
	id, value string
	dead      bool
}

// oughtLock is a lock of a payload that there ought to be.
type oughtLock struct {
	key      string
	id       string
	position uint64
	onRun    bool
}

func conserve(t *testing.T, r *rand.Rand) {
	c := &conserved{
		t: t, r: r, luck: rand.New(rand.NewPCG(r.Uint64(), 0)), disk: new(journal.Memory),
		kind: make(map[uint64]item), locks: make(map[oughtLock]bool),
	}
	c.cfg = executor.QueueConfig[string]{
		Merge: pick(r, executor.MergeKeepAll, executor.MergeMinScore, executor.MergeKeepFirst, executor.MergeKeepLast),
		Gather: executor.Gather[string]{
			Block:       pick(r, false, true),
			MaxPayloads: r.IntN(3),
		},
		DeadLetters: executor.DeadLetters[string]{
			OnExhausted: pick(r, executor.OnExhaustedBuryOldest, executor.OnExhaustedBuryAll),
		},
		MaxRetries: 1, RetryIn: always(3 * time.Second), Share: executor.Share{Shards: 2},
		Conditions: executor.Conditions[string]{
			Locks: executor.Locks[string]{
				OnEnqueue: func(id, value string) []string { return []string{"enqueued " + id + value} },
				BlockedBy: keys("gate"),
				OnRun:     func(id, value string) []string { return []string{"ran " + id + value, "any " + id} },
				Unlock: func(id, value string) []string {
					return []string{"enqueued " + id + value, "ran " + id + value, "any " + id}
				},
				Counted: r.IntN(2) == 0, UnlockOnBurial: r.IntN(2) == 0,
			},
		},
	}
	c.open()
	for range 50 {
		c.step()
		c.check()
	}
	c.drain()
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func (c *conserved) open() {
	life := c.nextLife()
	c.x = openOn(c.t, c.disk, executor.Config{Workers: 2, Crash: executor.Crash{Limit: -1}})
	c.slots = must(executor.NewSlots(c.x, "slots", executor.SlotsConfig[int]{Next: next}))
	cfg := c.cfg
	cfg.Conditions.Slots = []executor.SlotSource{c.slots}
	c.q = handle(c.t, c.x, "q", func(ctx context.Context, job executor.Merged[string]) error {
		err := c.outcome()
		c.hear(life, func() { c.started(job) })
		time.Sleep(time.Second)
		c.hear(life, func() { c.ended(job, err) })
		return err
	}, cfg)
	start(c.t, c.x)
}

func (c *conserved) nextLife() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.life++
	return c.life
}

func (c *conserved) outcome() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.luck == nil {
		return nil
	}
	return pick(c.luck, nil, nil, errBoom, errBoom, executor.Cancel(errBoom), executor.Discard(), executor.Snooze(2*time.Second))
}

// hear takes in what a handler of a life has done.
func (c *conserved) hear(life int, event func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if life == c.life {
		c.events = append(c.events, event)
	}
}

func (c *conserved) heard() (events []func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	events, c.events = c.events, nil
	return events
}

func (c *conserved) started(job executor.Merged[string]) {
	c.steps = append(c.steps, fmt.Sprint("  starts ", job.ID, job.Payloads))
	for _, p := range job.Payloads {
		for _, key := range c.cfg.Conditions.Locks.OnRun(job.ID, p.Value) {
			c.locks[oughtLock{key, job.ID, p.Position, true}] = true
		}
	}
}

func (c *conserved) ended(job executor.Merged[string], err error) {
	c.steps = append(c.steps, fmt.Sprint("  ends ", job.ID, " ", err))
	if err != nil && err.Error() != "discarded" {
		return
	}
	for _, p := range job.Payloads {
		delete(c.kind, p.Position)
		for _, key := range c.cfg.Conditions.Locks.Unlock(job.ID, p.Value) {
			maps.DeleteFunc(c.locks, func(l oughtLock, _ bool) bool {
				return l.key == key && (l.position == p.Position || !c.cfg.Conditions.Locks.Counted)
			})
		}
	}
}

func (c *conserved) step() {
	ctx, gate := context.Background(), "gate"
	switch n := c.r.IntN(20); {
	case n < 9:
		c.enqueue(1 + c.r.IntN(3)/2)
	case n < 14:
		time.Sleep(time.Second)
	case n < 16:
		for range 3 {
			time.Sleep(time.Second)
			c.check()
		}
	case n < 17:
		if c.x.KeyLocks().Unlock(ctx, gate) != nil {
			require.NoError(c.t, c.x.KeyLocks().Lock(ctx, gate))
		}
	case n < 18:
		_, err := c.x.Inspect().Requeue(ctx, inspect.SelectIDs(c.q.Name(), pick(c.r, "a", "b")))
		require.NoError(c.t, err)
	default:
		c.crash()
	}
}

func (c *conserved) enqueue(n int) {
	var items []executor.Item[string]
	for range n {
		items = append(items, executor.Item[string]{
			ID: pick(c.r, "a", "b"), Payload: pick(c.r, "x", "y", "z"), Score: new(float64(c.r.IntN(4))),
		})
	}
	receipts, err := c.q.EnqueueMany(context.Background(), items)
	require.NoError(c.t, err)
	for i, it := range items {
		c.steps = append(c.steps, fmt.Sprint("enqueue ", it.ID, it.Payload, *it.Score, " ", receipts[i]))
		c.kind[receipts[i].Position] = item{id: it.ID, value: it.Payload}
		for _, key := range c.cfg.Conditions.Locks.OnEnqueue(it.ID, it.Payload) {
			c.locks[oughtLock{key: key, id: it.ID, position: receipts[i].Position}] = true
		}
	}
}

// crash goes on with what is on disk.
func (c *conserved) crash() {
	image := c.disk.Crash()
	c.steps = append(c.steps, "crash")
	c.nextLife() // what the handlers say from now on is not heard
	_ = c.x.Stop(context.Background())
	c.disk = image
	c.open()
}

// check compares the keys with what survives in the journal.
func (c *conserved) check() {
	synctest.Wait()
	for _, event := range c.heard() {
		event()
	}
	waiting, dead := c.survivors()
	for position, it := range c.kind {
		switch {
		case slices.Contains(dead, position):
			if !it.dead && c.cfg.Conditions.Locks.UnlockOnBurial {
				c.forget(position)
			}
			it.dead = true
			c.kind[position] = it
		case slices.Contains(waiting, position):
			it.dead = false
			c.kind[position] = it
		}
	}
	for _, position := range slices.Sorted(maps.Keys(c.kind)) {
		if !slices.Contains(waiting, position) && !slices.Contains(dead, position) {
			c.merged(position, waiting)
		}
	}
	var want []string
	counts := make(map[string]int)
	for l := range c.locks {
		counts[l.key]++
	}
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		want = append(want, fmt.Sprint(key, " ", counts[key]))
	}
	keysOf := func(x *executor.Executor) string {
		return strings.Join(slices.DeleteFunc(locked(x), func(key string) bool { return key == "gate 1" }), ", ")
	}
	require.Equal(c.t, strings.Join(want, ", "), keysOf(c.x), "%v", c)
	again := openOn(c.t, c.disk.Crash(), executor.Config{})
	require.Equal(c.t, strings.Join(want, ", "), keysOf(again), "on disk; %v", c)
	stop(c.t, again)
}

func (c *conserved) String() string {
	l := c.cfg.Conditions.Locks
	return fmt.Sprintf("%v %v %v, %d payloads, counted %v, unlocked on burial %v:\n%s", c.cfg.Merge, c.cfg.Gather.Block, c.cfg.DeadLetters.OnExhausted,
		c.cfg.Gather.MaxPayloads, l.Counted, l.UnlockOnBurial, strings.Join(c.steps, "\n"))
}

// survivors lists the payloads that the journal has.
func (c *conserved) survivors() (waiting, dead []uint64) {
	log, err := journal.OpenMemory(c.disk.Crash(), journal.Config{})
	require.NoError(c.t, err)
	number := log.Queues()["q"]
	var e journal.Entry
	for _, page := range log.PendingPages(number) {
		for _, ref := range page {
			require.NoError(c.t, ref.Read(&e))
			if e.Kind == journal.KindEnqueued {
				waiting = append(waiting, uint64(e.Position))
			}
		}
	}
	for b, err := range log.Morgue(number, 0) {
		require.NoError(c.t, err)
		dead = append(dead, uint64(b.Entry.Position))
	}
	require.NoError(c.t, log.Close())
	return waiting, dead
}

func (c *conserved) forget(position uint64) {
	maps.DeleteFunc(c.locks, func(l oughtLock, _ bool) bool { return l.position == position })
}

// merged ends a payload that an equal one has replaced: what a run has locked for
// it goes over.
func (c *conserved) merged(position uint64, waiting []uint64) {
	it := c.kind[position]
	delete(c.kind, position)
	into := uint64(0)
	for _, other := range waiting {
		if o := c.kind[other]; o.id == it.id && o.value == it.value {
			into = other
		}
	}
	require.NotZero(c.t, into, "%d is lost: %v", position, c)
	for l := range maps.Clone(c.locks) {
		if l.position == position && l.onRun {
			l.position = into
			c.locks[l] = true
		}
	}
	c.forget(position)
}

// drain has all run to its end, what was dead included.
func (c *conserved) drain() {
	c.mu.Lock()
	c.luck = nil
	c.mu.Unlock()
	_ = c.x.KeyLocks().Unlock(context.Background(), "gate")
	for stats(c.t, c.q).Jobs > 0 || len(morgue(c.t, c.q)) > 0 {
		_, err := c.x.Inspect().Requeue(context.Background(), inspect.SelectQueue(c.q.Name()))
		require.NoError(c.t, err)
		c.check()
		time.Sleep(time.Second)
		c.check()
	}
	require.Empty(c.t, locked(c.x), "%v", c)
	require.Empty(c.t, c.slots.Snapshot().Open)
	stop(c.t, c.x)
}
