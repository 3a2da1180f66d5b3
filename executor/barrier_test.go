package executor

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/strandjobs/strand/lock"
)

// barrierPair drives a barrier and its twin.
type barrierPair struct {
	b     barrier
	twin  barrierTwin
	disk  map[uint64]twinHold // what the effects come to: the journal's view
	known []*hold
	woken []holder
}

// look compares everything that can be seen.
func (p *barrierPair) look(t require.TestingT) {
	effects, wakes := p.b.drain()
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
	p.woken = nil
	for _, wake := range wakes {
		wake()
	}
	require.Equal(t, p.twin.woken, p.woken, "who was woken, in order")
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
		require.NotZero(t, k.holds.Len()+k.line.Len()+k.toLock+k.toPass, "a key that nobody wants")
		var line []holder
		for e := k.line.Front(); e != nil; e = e.Next() {
			line = append(line, e.Value.(*wait).by)
		}
		var want []holder
		for _, o := range slices.SortedFunc(slices.Values(p.twin.waits), func(a, b *twinWait) int { return int(a.number) - int(b.number) }) {
			if o.key == key {
				want = append(want, o.by)
			}
		}
		require.Equal(t, want, line, "the line at %q", key)
	}
	for _, o := range p.twin.waits {
		w := p.b.waits[o.by]
		require.Equal(t, []any{o.number, o.called, o.key != ""}, []any{w.number, w.called, w.at != nil})
		if o.key != "" {
			require.Equal(t, o.key, w.key)
			require.True(t, p.twin.blocked(o.key, o.request, o.number), "nobody has woken %v", o.by)
		}
	}
	require.Equal(t, len(p.disk), there)
	require.Len(t, p.b.waits, len(p.twin.waits))
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
		key := rapid.SampledFrom([]string{"k", "l", "m"})
		by := rapid.SampledFrom([]holder{{}, {"q", "1"}, {"q", "2"}, {"r", "1"}, {"r", "2"}})
		job := by.Filter(func(h holder) bool { return h.queue != "" })
		some := rapid.SliceOfNDistinct(key, 0, 3, rapid.ID)
		t.Repeat(map[string]func(*rapid.T){
			"lock": func(t *rapid.T) {
				key, by := key.Draw(t, "key"), by.Draw(t, "by")
				h := p.b.lock(key, by, false, 0)
				p.twin.lock(h.number, key, by, false)
				p.b.recheck(by)
				if o := p.twin.find(by); o != nil && o.key != "" && p.twin.circle(o.request) {
					left := p.twin.stepOut(o)
					p.twin.follow(left...)
					p.twin.woken = append(p.twin.woken, by)
				}
			},
			"enter": func(t *rapid.T) {
				p.enter(t, job.Draw(t, "by"), some.Draw(t, "blocked by"), some.Draw(t, "set"), rapid.IntRange(0, 9).Draw(t, "parks") > 0)
			},
			"the called one enters": func(t *rapid.T) {
				called := slices.DeleteFunc(slices.Clone(p.twin.waits), func(o *twinWait) bool { return !o.called })
				if len(called) == 0 {
					t.Skip("nobody was called")
				}
				r := rapid.SampledFrom(called).Draw(t, "called").request
				var set []string
				for _, s := range r.set {
					set = append(set, s.key)
				}
				p.enter(t, r.by, r.blockedBy, set, true)
			},
			"all end": func(t *rapid.T) { p.allEnd(t) },
			"unlock": func(t *rapid.T) {
				p.unlock(t, key.Draw(t, "key"), rapid.Bool().Draw(t, "counted"), by.Draw(t, "by"))
			},
			"drop": func(t *rapid.T) {
				if len(p.known) == 0 {
					t.Skip("nothing was locked yet")
				}
				h := rapid.SampledFrom(p.known).Draw(t, "hold") // perhaps one that has ended
				p.b.drop(h)
				p.twin.drop(h.number)
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

func (p *barrierPair) enter(t *rapid.T, by holder, blockedBy, set []string, parks bool) {
	r := request{by: by, blockedBy: blockedBy}
	for _, key := range set {
		r.set = append(r.set, setting{key: key})
	}
	var left []string
	number := uint64(math.MaxUint64)
	o := p.twin.find(by)
	var kept *request
	if o != nil {
		if o.called {
			kept = new(o.request)
		}
		number, left = o.number, p.twin.stepOut(o)
	}
	want := p.twin.firstBlocked(r, number, kept)
	var waker func() func()
	if parks {
		waker = func() func() { return func() { p.woken = append(p.woken, by) } }
	}
	fresh, key, err := p.b.enter(r, waker)
	require.Equal(t, want, key)
	switch {
	case key == "":
		require.NoError(t, err)
		n := len(p.twin.holds)
		p.twin.setAll(&p.b, r)
		require.Len(t, fresh, len(p.twin.holds)-n)
	case !parks:
		require.NoError(t, err)
	case p.twin.circle(r):
		require.ErrorIs(t, err, lock.ErrDeadlock)
		p.check(t, r, err.(*lock.DeadlockError).Circle)
	default:
		require.NoError(t, err)
		require.Empty(t, fresh, "it waits, and holds nothing")
		if o == nil {
			p.twin.arrived++
			o = &twinWait{number: p.twin.arrived}
			p.twin.waits = append(p.twin.waits, o)
			slices.SortFunc(p.twin.waits, func(a, b *twinWait) int { return int(a.number) - int(b.number) })
		}
		o.request, o.key = r, key
	}
	p.twin.follow(left...)
	if key == "" && rapid.Bool().Draw(t, "runs") { // or waits for something else
		p.b.leave(by)
		p.twin.leave(by)
	}
}

// allEnd has everything that is locked end, and whoever is called run to its end:
// then nobody is left who stands in line.
func (p *barrierPair) allEnd(t *rapid.T) {
	for range 20 {
		for _, h := range p.known {
			p.b.drop(h)
			p.twin.drop(h.number)
		}
		p.look(t)
		for _, o := range slices.Clone(p.twin.waits) {
			if o.called {
				_, key, err := p.b.enter(o.request, func() func() { return func() {} })
				require.True(t, key == "" && err == nil)
				left := p.twin.stepOut(o)
				p.twin.setAll(&p.b, o.request)
				p.twin.follow(left...)
				p.b.leave(o.by)
				p.twin.leave(o.by)
				p.look(t)
				break
			}
		}
	}
	require.Empty(t, slices.DeleteFunc(slices.Clone(p.twin.waits), func(o *twinWait) bool { return o.key == "" && !o.called }))
}

// check follows a circle hop by hop: each waits for a key that the next has.
func (p *barrierPair) check(t *rapid.T, r request, circle []lock.Hop) {
	require.Equal(t, r.by.String(), circle[0].Owner)
	for i, hop := range circle {
		require.Equal(t, circle[(i+1)%len(circle)].Owner, hop.Holder)
		require.True(t, slices.ContainsFunc(p.twin.holds, func(h twinHold) bool { return h.key == hop.Key && h.by.String() == hop.Holder }))
		waits := r
		for _, o := range p.twin.waits {
			if i > 0 && o.by.String() == hop.Owner {
				waits = o.request
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
		p.twin.drop(n)
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
	p.twin.waits, p.twin.arrived = nil, 0
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
