package executor_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// What operators do, in any order, beside producers, failures, locks, restarts and
// crashes, against a small model of what each payload has come to.

type lot string

const (
	alive   lot = "alive"
	dead    lot = "dead"
	ended   lot = "done or discarded"
	deleted lot = "deleted"
)

type steered struct {
	id      string
	n       int
	at      uint64
	fate    lot
	running bool
	held    bool // it failed, and runs before all others of its id
	doom    lot  // by a person, while it runs
}

type steer struct {
	t    *testing.T
	r    *rand.Rand
	disk *journal.Memory
	x    *executor.Executor
	q    *executor.Queue[int]
	s    *executor.Slots[int]

	mu       sync.Mutex
	h        *rand.Rand // of handlers
	life     int
	all      []*steered
	retrying map[string]bool
	pausedX  bool
	pausedQ  bool
	paused   map[string]bool
	removing map[*steered]bool // by the call that is under way
	calm     bool              // handlers succeed
	wrong    []string
}

func (m *steer) open() {
	m.life++
	life := m.life
	m.x = openOn(m.t, m.disk, executor.Config{Workers: 3})
	var err error
	m.s, err = executor.NewSlots(m.x, "slots", executor.SlotsConfig[int]{Next: func(n int) int { return n + 1 }, MaxSteps: 3, KeepOnFailure: true, TTL: 1000 * time.Hour})
	require.NoError(m.t, err)
	key := func(_ string, n int) []string { return []string{fmt.Sprint("key ", n)} }
	m.q, err = executor.Handle(m.x, "q", func(ctx context.Context, job executor.Job[int]) error { return m.run(ctx, life, job) }, executor.QueueConfig[int]{
		MaxRetries: 1 << 20, RetryIn: func(int) time.Duration { return 3 * time.Second }, Share: executor.Share{Shards: 1 + m.r.IntN(3)},
		Conditions: executor.Conditions[int]{
			Locks:  executor.Locks[int]{OnEnqueue: key, Unlock: key},
			Unique: executor.Unique[int]{Key: func(id string, _ int) string { return id[:1] }},
			Slots:  []executor.SlotSource{m.s},
		},
	})
	require.NoError(m.t, err)
	start(m.t, m.x)
}

func (m *steer) complain(format string, args ...any) {
	m.wrong = append(m.wrong, fmt.Sprintf(format, args...))
}

// run is the handler: what it is called with, the model must allow.
func (m *steer) run(ctx context.Context, life int, job executor.Job[int]) error {
	m.mu.Lock()
	p := m.all[job.Payload]
	if life != m.life {
		m.mu.Unlock()
		return nil // of a process that is dead
	}
	switch {
	case p.fate != alive && m.removing[p]:
		p.fate, p.doom = alive, p.fate // what was removed before it has let it run, and it is removed as one that runs
	case p.fate != alive:
		m.complain("%v runs, which is %s", job.Payload, p.fate)
	case m.pausedX || m.pausedQ || m.paused[p.id]:
		m.complain("%v runs, which is paused", job.Payload)
	}
	for _, o := range m.all {
		if o.id == p.id && o.fate == alive && (o.running || o != p && !p.held && (o.held || o.at < p.at)) {
			m.complain("%v runs before %v of its id", job.Payload, o.n)
		}
	}
	p.running = true
	what, takes := m.h.IntN(6), time.Duration(m.h.IntN(3000))*time.Millisecond
	if m.calm {
		what = 0
	}
	m.mu.Unlock()

	select {
	case <-time.After(takes):
	case <-ctx.Done():
		what = 6
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if life != m.life {
		return nil
	}
	p.running = false
	if p.doom != "" && what != 0 && what != 4 {
		p.fate, p.doom, p.held = p.doom, "", false
		m.retrying[p.id] = false
		return errBoom
	}
	p.doom = ""
	switch what {
	case 1, 2:
		p.held, m.retrying[p.id] = true, true
		return errBoom
	case 3:
		return executor.Snooze(2 * time.Second)
	case 5:
		p.fate, p.held, m.retrying[p.id] = dead, false, false
		return executor.Cancel(errBoom)
	case 6:
		m.complain("the context of %v ended: %v", p.n, context.Cause(ctx))
	}
	p.fate, p.held, m.retrying[p.id] = ended, false, false
	if what == 4 {
		return executor.Discard()
	}
	return nil
}

// which draws a selection, and what it means in the model.
func (m *steer) which() (executor.Selection, func(*steered) bool) {
	ids := m.ids()
	switch m.r.IntN(4) {
	case 0:
		return executor.SelectQueue("q"), func(*steered) bool { return true }
	case 1:
		prefix := []string{"a", "b", "a1"}[m.r.IntN(3)]
		return executor.SelectJobs("q", executor.JobFilter{IDPrefix: prefix}), func(p *steered) bool { return strings.HasPrefix(p.id, prefix) }
	case 2:
		var at []uint64
		for _, p := range m.all {
			if m.r.IntN(2) == 0 {
				at = append(at, p.at)
			}
		}
		return executor.SelectPayloads("q", ids[0], at...), func(p *steered) bool { return p.id == ids[0] && slices.Contains(at, p.at) }
	}
	return executor.SelectIDs("q", ids...), func(p *steered) bool { return slices.Contains(ids, p.id) }
}

func (m *steer) ids() (ids []string) {
	for range 1 + m.r.IntN(2) {
		ids = append(ids, fmt.Sprintf("%c%d", 'a'+m.r.IntN(2), m.r.IntN(3)))
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// remove is Cancel, Delete, KillFailed and DeleteFailed.
func (m *steer) remove(act func(context.Context, executor.Selection) (int, error), to lot, failed bool) {
	s, means := m.which()
	m.mu.Lock()
	want := 0
	for _, p := range m.all {
		if p.fate != alive || !means(p) || failed && (p.running || !p.held || !m.retrying[p.id]) {
			continue
		}
		if want++; p.running {
			p.doom = to
			continue
		}
		m.removing[p] = true
		if p.fate = to; p.held {
			p.held, m.retrying[p.id] = false, false
		}
	}
	m.mu.Unlock()
	did(m.t, want)(act(m.t.Context(), s))
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.removing)
}

func (m *steer) requeue() {
	s, means := m.which()
	want := 0
	m.mu.Lock()
	for _, p := range m.all {
		if p.fate == dead && means(p) {
			want++
			p.fate = alive
			if !m.runs(p.id) {
				m.retrying[p.id] = false
			}
		}
	}
	m.mu.Unlock()
	did(m.t, want)(backOf(m.x.Inspect().Requeue(m.t.Context(), s)))
}

func (m *steer) runs(id string) bool {
	return slices.ContainsFunc(m.all, func(p *steered) bool { return p.id == id && p.running })
}

func (m *steer) deleteDead() {
	s, means := m.which()
	want := 0
	m.mu.Lock()
	for _, p := range m.all {
		if p.fate == dead && means(p) {
			want++
			p.fate = deleted
		}
	}
	m.mu.Unlock()
	did(m.t, want)(m.x.Inspect().DeleteDead(m.t.Context(), s))
}

func (m *steer) runNow() {
	ids := m.ids()
	want := 0
	m.mu.Lock()
	for _, id := range ids {
		if !m.runs(id) && slices.ContainsFunc(m.all, func(p *steered) bool { return p.id == id && p.fate == alive }) {
			want++
			m.retrying[id] = false
		}
	}
	m.mu.Unlock()
	did(m.t, want)(m.x.Inspect().RunNow(m.t.Context(), executor.SelectIDs("q", ids...)))
}

func (m *steer) pause() {
	on := m.r.IntN(2) == 0
	set := func(flag *bool, pause, resume func(context.Context) error) {
		if !on {
			m.mu.Lock()
			*flag = false // before: it may run at once
			m.mu.Unlock()
			require.NoError(m.t, resume(m.t.Context()))
			return
		}
		require.NoError(m.t, pause(m.t.Context()))
		m.mu.Lock()
		*flag = true
		m.mu.Unlock()
	}
	switch m.r.IntN(4) {
	case 0:
		set(&m.pausedX, m.x.Pause, m.x.Resume)
	case 1:
		set(&m.pausedQ, m.q.Pause, m.q.Resume)
	default:
		for _, id := range m.ids() {
			flag, want := m.paused[id], 0
			if flag != on {
				want = 1
			}
			set(&flag, func(ctx context.Context) error {
				did(m.t, want)(m.x.Inspect().Pause(ctx, executor.SelectIDs(m.q.Name(), id)))
				return nil
			}, func(ctx context.Context) error {
				delete(m.paused, id)
				did(m.t, want)(m.x.Inspect().Resume(ctx, executor.SelectIDs(m.q.Name(), id)))
				return nil
			})
			m.mu.Lock()
			if m.paused[id] = flag; !flag {
				delete(m.paused, id)
			}
			m.mu.Unlock()
		}
	}
}

// restart stops and starts again, or takes what is on the disk of a process that dies.
func (m *steer) restart(crash bool) {
	synctest.Wait()
	if !crash {
		stop(m.t, m.x) // it waits for handlers
	} else {
		m.disk = m.disk.Crash()
		m.mu.Lock()
		m.life++
		m.mu.Unlock()
		stop(m.t, m.x)
		m.mu.Lock()
		for _, p := range m.all {
			p.running, p.doom = false, ""
		}
		m.mu.Unlock()
	}
	m.open()
}

func (m *steer) enqueue() {
	for _, id := range m.ids() {
		var options []executor.Option
		if m.r.IntN(4) == 0 {
			options = append(options, executor.In(time.Duration(m.r.IntN(5))*time.Second))
		}
		m.mu.Lock() // it may run before the call is back
		p := &steered{id: id, n: len(m.all), fate: alive, at: 1 << 62}
		m.all = append(m.all, p)
		m.mu.Unlock()
		at := enqueue(m.t, m.q, id, p.n, options...).Position
		m.mu.Lock()
		p.at = at
		m.mu.Unlock()
	}
}

func (m *steer) step() {
	i := m.x.Inspect()
	switch n := m.r.IntN(20); n {
	case 0:
		m.remove(func(ctx context.Context, s executor.Selection) (int, error) { return i.Cancel(ctx, s, "why not") }, dead, false)
	case 1:
		m.remove(i.Delete, deleted, false)
	case 2:
		m.remove(i.KillFailed, dead, true)
	case 3:
		m.remove(i.DeleteFailed, deleted, true)
	case 4:
		m.requeue()
	case 5:
		m.deleteDead()
	case 6:
		m.runNow()
	case 7, 8, 9:
		m.pause()
	case 10:
		m.restart(m.r.IntN(2) == 0)
	case 11, 12, 13:
		time.Sleep(time.Duration(m.r.IntN(4000)) * time.Millisecond)
	default:
		m.enqueue()
	}
}

// check holds the executor against the model, while nothing happens but time.
func (m *steer) check() {
	m.t.Helper()
	time.Sleep(2 * time.Millisecond) // what is handed out and has not begun goes back
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	require.Empty(m.t, m.wrong)
	counts, keys, runs := map[lot]int{}, []string(nil), 0
	for _, p := range m.all {
		counts[p.fate]++
		if p.fate == alive || p.fate == dead {
			keys = append(keys, fmt.Sprint("key ", p.n))
		}
		if p.running {
			runs++
		}
	}
	s, err := m.q.Stats(m.t.Context())
	require.NoError(m.t, err)
	require.Equal(m.t, []int{counts[alive], counts[dead], runs, len(m.paused)}, []int{s.Payloads, s.Dead, s.Running, s.PausedIDs}, "waiting, dead, running, paused")
	var locked []string
	for _, k := range m.x.KeyLocks().List() {
		locked = append(locked, k.Key)
	}
	require.ElementsMatch(m.t, keys, locked, "keys")
}

func TestRandomSteering(t *testing.T) {
	bubbles(t, 20, 14, func(t *testing.T, r *rand.Rand) {
		m := &steer{t: t, r: r, h: rand.New(rand.NewPCG(r.Uint64(), 1)), disk: new(journal.Memory), retrying: map[string]bool{}, paused: map[string]bool{}, removing: map[*steered]bool{}}
		m.open()
		m.enqueue()
		for range 50 {
			m.check()
			m.step()
		}
		m.check()
		m.mu.Lock()
		m.calm, m.pausedX, m.pausedQ = true, false, false
		ids := []string{}
		for id := range m.paused {
			ids = append(ids, id)
		}
		clear(m.paused)
		m.mu.Unlock()
		require.NoError(t, m.x.Resume(t.Context()))
		require.NoError(t, m.q.Resume(t.Context()))
		did(t, len(ids))(m.x.Inspect().Resume(t.Context(), executor.SelectIDs(m.q.Name(), ids...)))
		time.Sleep(time.Hour)
		m.check()
		for _, p := range m.all {
			require.NotEqual(t, alive, p.fate, "%d of %s is left", p.n, p.id)
			if p.fate == dead {
				p.fate = deleted
			}
		}
		_, err := m.x.Inspect().DeleteDead(t.Context(), executor.SelectQueue("q"))
		require.NoError(t, err)
		m.check()
		require.Empty(t, m.s.Snapshot().Open)
	})
}
