package executor

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/strandjobs/strand/lock"
)

// barrierTwin is the barrier as one would say it: a list of holds, and a list of
// those who wait at each key. It looks at everything every time.
type barrierTwin struct {
	holds []twinHold
	lines map[string][]holder // who stands at which key, in order
	wants map[holder]request
	woken []holder // in order, since the last look
}

type twinHold struct {
	number uint64
	key    string
	by     holder
	onRun  bool
}

func (w *barrierTwin) blocked(key string, by holder) bool {
	return slices.ContainsFunc(w.holds, func(h twinHold) bool { return h.key == key && h.by != by })
}

func (w *barrierTwin) firstBlocked(r request) string {
	i := slices.IndexFunc(r.blockedBy, func(key string) bool { return w.blocked(key, r.by) })
	if i < 0 {
		return ""
	}
	return r.blockedBy[i]
}

// lock is told the number, which is the barrier's business.
func (w *barrierTwin) lock(number uint64, key string, by holder, onRun bool) {
	w.holds = append(w.holds, twinHold{number, key, by, onRun})
}

func (w *barrierTwin) setAll(b *barrier, r request) {
	for _, s := range r.set {
		if !slices.ContainsFunc(w.holds, func(h twinHold) bool { return h.onRun && h.by == r.by && h.key == s.key }) {
			number := uint64(0) // found by what it is
			for _, h := range b.ran[r.by] {
				if h.key == s.key {
					number = h.number
				}
			}
			w.lock(number, s.key, r.by, true)
		}
	}
}

// letPass is what follows when holds of key have ended.
func (w *barrierTwin) letPass(b *barrier, key string) {
	for i := 0; i < len(w.lines[key]); {
		by := w.lines[key][i]
		if w.blocked(key, by) {
			i++
			continue
		}
		w.lines[key] = slices.Delete(w.lines[key], i, i+1)
		r := w.wants[by]
		if next := w.firstBlocked(r); next != "" {
			w.lines[next] = append(w.lines[next], by)
			continue
		}
		delete(w.wants, by)
		w.setAll(b, r)
		w.woken = append(w.woken, by)
		i = 0
	}
}

func (w *barrierTwin) drop(b *barrier, number uint64) {
	i := slices.IndexFunc(w.holds, func(h twinHold) bool { return h.number == number })
	if i < 0 {
		return
	}
	key := w.holds[i].key
	w.holds = slices.Delete(w.holds, i, i+1)
	w.letPass(b, key)
}

func (w *barrierTwin) leave(by holder) {
	delete(w.wants, by)
	for key, line := range w.lines {
		w.lines[key] = slices.DeleteFunc(line, func(o holder) bool { return o == by })
	}
}

// waitsFor lists whom a request waits for: all who have locked one of its keys.
func (w *barrierTwin) waitsFor(r request) (all []holder) {
	for _, h := range w.holds {
		if h.by != r.by && slices.Contains(r.blockedBy, h.key) {
			all = append(all, h.by)
		}
	}
	return all
}

// circle reports whether a request would wait for itself, by following
// everybody until nothing new turns up.
func (w *barrierTwin) circle(r request) bool {
	reached := make(map[holder]bool)
	for _, by := range w.waitsFor(r) {
		reached[by] = true
	}
	for n := -1; n != len(reached); {
		n = len(reached)
		for _, by := range slices.Collect(maps.Keys(reached)) {
			if q, waits := w.wants[by]; waits && by != r.by {
				for _, next := range w.waitsFor(q) {
					reached[next] = true
				}
			}
		}
	}
	return reached[r.by]
}

// barrierPair drives a barrier and its twin.
type barrierPair struct {
	b     barrier
	twin  barrierTwin
	disk  map[uint64]twinHold // what the effects come to: the journal's view
	known []*hold
}

// look compares everything that can be seen.
func (p *barrierPair) look(t require.TestingT) {
	effects, passed := p.b.drain()
	for _, e := range effects {
		h := e.hold
		if e.dropped {
			require.Contains(t, p.disk, h.number, "ended twice, or never written")
			delete(p.disk, h.number)
			continue
		}
		p.disk[h.number] = twinHold{h.number, h.key, h.by, h.onRun}
		if !slices.Contains(p.known, h) {
			p.known = append(p.known, h)
		}
	}
	var woken []holder
	for _, w := range passed {
		woken = append(woken, w.by)
	}
	require.Equal(t, p.twin.woken, woken, "who was woken, in order")
	p.twin.woken = nil

	disk := slices.SortedFunc(maps.Values(p.disk), func(a, b twinHold) int { return int(a.number) - int(b.number) })
	holds := slices.SortedFunc(slices.Values(p.twin.holds), func(a, b twinHold) int { return int(a.number) - int(b.number) })
	require.ElementsMatch(t, holds, disk, "what is written down")
	there := 0
	for key, k := range p.b.keys {
		counts := make(map[holder]int)
		for e := k.holds.Front(); e != nil; e = e.Next() {
			h := e.Value.(*hold)
			require.Equal(t, key, h.key)
			require.Contains(t, p.disk, h.number)
			counts[h.by]++
			there++
		}
		require.Equal(t, counts, k.by)
		require.NotZero(t, k.holds.Len(), "a key that nobody has locked")
		var line []holder
		for e := k.queue.Front(); e != nil; e = e.Next() {
			w := e.Value.(*wait)
			require.Equal(t, key, w.key)
			require.Same(t, w, p.b.waits[w.by])
			line = append(line, w.by)
		}
		require.ElementsMatch(t, p.twin.lines[key], line)
		require.Equal(t, fmt.Sprint(p.twin.lines[key]), fmt.Sprint(line), "the order at %q", key)
	}
	require.Equal(t, len(p.disk), there)
	require.Len(t, p.b.waits, len(p.twin.wants))
	ran := 0
	for by, holds := range p.b.ran {
		for _, h := range holds {
			require.True(t, h.onRun && h.by == by && h.at != nil)
			ran++
		}
	}
	onRun := slices.DeleteFunc(slices.Clone(holds), func(h twinHold) bool { return !h.onRun })
	require.Equal(t, len(onRun), ran)
}

// TestBarrierAndItsTwin: who is blocked, in which order those who wait go on,
// which holds there are, what a journal would know of them, and who waits in a
// circle, is the same as if one looked at everything every time.
func TestBarrierAndItsTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &barrierPair{b: newBarrier(), disk: make(map[uint64]twinHold)}
		p.twin.lines, p.twin.wants = make(map[string][]holder), make(map[holder]request)
		key := rapid.SampledFrom([]string{"k", "l", "m"})
		by := rapid.SampledFrom([]holder{{}, {"q", "1"}, {"q", "2"}, {"r", "1"}, {"r", "2"}})
		job := by.Filter(func(h holder) bool { return h.queue != "" })
		some := rapid.SliceOfNDistinct(key, 0, 3, rapid.ID)
		t.Repeat(map[string]func(*rapid.T){
			"lock": func(t *rapid.T) {
				key, by := key.Draw(t, "key"), by.Draw(t, "by")
				h := p.b.lock(key, by, false, 0)
				p.twin.lock(h.number, key, by, false)
				waiting := p.twin.wants[by]
				p.b.recheck(by)
				if waiting.blockedBy != nil && p.twin.circle(waiting) {
					p.twin.leave(by)
					p.twin.woken = append(p.twin.woken, by)
				}
			},
			"enter and wait": func(t *rapid.T) { p.enter(t, job.Draw(t, "by"), some.Draw(t, "blocked by"), some.Draw(t, "set")) },
			"unlock": func(t *rapid.T) {
				p.unlock(t, key.Draw(t, "key"), rapid.Bool().Draw(t, "counted"), by.Draw(t, "by"))
			},
			"drop": func(t *rapid.T) {
				if len(p.known) == 0 {
					t.Skip("nothing was locked yet")
				}
				h := rapid.SampledFrom(p.known).Draw(t, "hold") // perhaps one that has ended
				p.b.drop(h)
				p.twin.drop(&p.b, h.number)
			},
			"leave": func(t *rapid.T) {
				by := job.Draw(t, "by")
				p.b.leave(by)
				p.twin.leave(by)
			},
			"reopen": func(t *rapid.T) { p.reopen(rapid.Bool().Draw(t, "renamed")) },
			"":       func(t *rapid.T) { p.look(t) },
		})
	})
}

func (p *barrierPair) enter(t *rapid.T, by holder, blockedBy, set []string) {
	r := request{by: by, blockedBy: blockedBy}
	for _, key := range set {
		r.set = append(r.set, setting{key: key})
	}
	stood := ""
	for key, line := range p.twin.lines {
		if slices.Contains(line, by) && slices.Contains(blockedBy, key) && p.twin.blocked(key, by) {
			stood = key // it keeps its place
		}
	}
	if stood == "" {
		p.twin.leave(by)
	}
	want := p.twin.firstBlocked(r)
	if stood != "" {
		want = stood
	}
	fresh, key := p.b.enter(r)
	require.Equal(t, want, key)
	if key == "" {
		n := len(p.twin.holds)
		p.twin.setAll(&p.b, r)
		require.Len(t, fresh, len(p.twin.holds)-n)
		return
	}
	require.Empty(t, fresh)
	err := p.b.wait(r, key, func() {})
	if p.twin.circle(r) {
		p.twin.leave(by)
		require.ErrorIs(t, err, lock.ErrDeadlock)
		p.check(t, r, err.(*lock.DeadlockError).Circle)
		return
	}
	require.NoError(t, err)
	p.twin.wants[by] = r
	if stood == "" {
		p.twin.lines[key] = append(p.twin.lines[key], by)
	}
}

// check follows a circle hop by hop: each waits for a key that the next has.
func (p *barrierPair) check(t *rapid.T, r request, circle []lock.Hop) {
	require.Equal(t, r.by.String(), circle[0].Owner)
	for i, hop := range circle {
		require.Equal(t, circle[(i+1)%len(circle)].Owner, hop.Holder)
		require.True(t, slices.ContainsFunc(p.twin.holds, func(h twinHold) bool { return h.key == hop.Key && h.by.String() == hop.Holder }))
		waits := r
		for by, q := range p.twin.wants {
			if i > 0 && by.String() == hop.Owner {
				waits = q
			}
		}
		require.Contains(t, waits.blockedBy, hop.Key)
	}
}

func (p *barrierPair) unlock(t *rapid.T, key string, counted bool, by holder) {
	var numbers []uint64
	own := -1
	for _, h := range p.twin.holds { // oldest first
		if h.key == key {
			if h.by == by && own < 0 {
				own = len(numbers)
			}
			numbers = append(numbers, h.number)
		}
	}
	slices.Sort(numbers)
	if counted && len(numbers) > 0 {
		first := slices.IndexFunc(numbers, func(n uint64) bool {
			return own < 0 || slices.ContainsFunc(p.twin.holds, func(h twinHold) bool { return h.number == n && h.by == by })
		})
		numbers = numbers[first : first+1]
	}
	require.Equal(t, len(numbers) > 0, p.b.unlock(key, counted, by))
	for _, n := range numbers {
		p.twin.drop(&p.b, n)
	}
}

// reopen makes a new barrier of what was written down. Those who waited are not
// known any more; one queue may have a new name.
func (p *barrierPair) reopen(renamed bool) {
	p.b.drain()
	p.twin.woken = nil
	p.b = newBarrier()
	var holds []*hold
	for _, h := range p.disk {
		holds = append(holds, &hold{number: h.number, key: h.key, by: h.by, onRun: h.onRun})
	}
	p.b.restore(holds)
	p.known = holds
	p.twin.lines, p.twin.wants = make(map[string][]holder), make(map[holder]request)
	if !renamed {
		return
	}
	for _, h := range holds {
		if h.by.queue == "q" {
			p.b.reassign(h, holder{"r", h.by.id})
		}
	}
	for i, h := range p.twin.holds {
		if h.by.queue == "q" {
			p.twin.holds[i].by.queue = "r"
		}
	}
}
