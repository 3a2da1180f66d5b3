package keylock

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/strandjobs/strand/executor/internal/admit"
)

// pair drives key-locks and their model.
type pair struct {
	b     *locks
	model model
	disk  map[uint64]modelHold // what the effects come to: the journal's view
	known []*Lock
	woken []admit.Owner
}

// look compares everything that can be seen.
func (p *pair) look(t require.TestingT) {
	changes, wakes := p.b.drain()
	for _, h := range changes {
		if h.entry == nil {
			delete(p.disk, h.Number)
			continue
		}
		p.disk[h.Number] = modelHold{h.Number, h.Key, h.Owner, h.OnRun}
		if !slices.Contains(p.known, h) {
			p.known = append(p.known, h)
		}
	}
	p.woken = nil
	for _, wake := range wakes {
		wake()
	}
	require.Equal(t, p.model.woken, p.woken, "who was woken, in order")
	p.model.woken = nil

	disk := slices.SortedFunc(maps.Values(p.disk), func(a, b modelHold) int { return int(a.number) - int(b.number) })
	holds := slices.SortedFunc(slices.Values(p.model.holds), func(a, b modelHold) int { return int(a.number) - int(b.number) })
	require.ElementsMatch(t, holds, disk, "what is written down")
	there := 0
	for key, e := range p.b.entries {
		counts := make(map[admit.Owner]int)
		for _, h := range p.b.Locked(key) {
			require.Equal(t, key, h.Key)
			require.Contains(t, p.disk, h.Number)
			counts[h.Owner]++
			there++
		}
		require.Equal(t, len(counts), len(e.by))
		for by, n := range counts {
			require.Equal(t, n, e.by[by])
		}
		require.NotZero(t, e.locks.Len()+e.line.Len()+e.toLock+e.toPass, "an unused key is forgotten")
		called, line, _, _ := p.b.Line(key, len(p.model.waits))
		var want []string
		for _, o := range slices.SortedFunc(slices.Values(p.model.waits), func(a, b *modelWait) int { return int(a.number) - int(b.number) }) {
			if o.key == key {
				want = append(want, o.By.String())
			}
		}
		require.Equal(t, want, line, "the line at %q", key)
		for _, o := range p.model.waits {
			kept := o.called && (slices.Contains(o.BlockedBy, key) || o.locks(key))
			require.Equal(t, kept, slices.Contains(called, o.By.String()), "%q is kept for %v", key, o.By)
		}
	}
	all := make(map[admit.Owner]int)
	for _, h := range holds {
		all[h.by]++
	}
	require.Equal(t, all, p.b.held)
	for _, o := range p.model.waits {
		w := p.b.waiting[o.By]
		require.Equal(t, []any{o.number, o.called, o.key != ""}, []any{uint64(w.Turn), p.b.called[w], w.at != nil})
		keys, called := p.b.WaitsFor(o.By)
		require.Equal(t, []any{o.called, o.key != ""}, []any{called, slices.Contains(keys, o.key)})
		if o.key != "" {
			require.Equal(t, o.key, w.at.key)
			require.True(t, p.model.blocked(o.key, o.request, o.number), "%v was not woken", o.By)
		}
	}
	require.Equal(t, len(p.disk), there)
	require.Len(t, p.b.waiting, len(p.model.waits))
	for _, h := range holds {
		require.Equal(t, h.onRun || slices.ContainsFunc(holds, func(o modelHold) bool { return o.onRun && o.by == h.by && o.key == h.key }), p.b.has(h.by, h.key, 0))
	}
}

// TestKeyLocksAndTheirModel: who is blocked, in which order those who wait go on,
// which holds there are, and what a journal would know of them, is the same as if one looked at everything every time.
func TestKeyLocksAndTheirModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &pair{b: new(newLocks()), disk: make(map[uint64]modelHold)}
		key := rapid.SampledFrom([]string{"k", "l", "m"})
		by := rapid.SampledFrom([]admit.Owner{{}, job("q", "1"), job("q", "2"), job("r", "1"), job("r", "2")})
		jobs := by.Filter(func(h admit.Owner) bool { return h.Queue != "" })
		some := rapid.SliceOfNDistinct(key, 0, 3, rapid.ID)
		t.Repeat(map[string]func(*rapid.T){
			"lock": func(t *rapid.T) {
				key, by := key.Draw(t, "key"), by.Draw(t, "by")
				h := p.b.Lock(key, by, 0)
				p.model.lock(h.Number, key, by, false)
				p.model.follow(key)
			},
			"enter": func(t *rapid.T) {
				p.enter(t, jobs.Draw(t, "by"), some.Draw(t, "blocked by"), some.Draw(t, "set"), rapid.IntRange(0, 9).Draw(t, "parks") > 0)
			},
			"the called one enters": func(t *rapid.T) {
				called := slices.DeleteFunc(slices.Clone(p.model.waits), func(o *modelWait) bool { return !o.called })
				if len(called) == 0 {
					t.Skip("no job was called")
				}
				r := rapid.SampledFrom(called).Draw(t, "called").request
				var set []string
				for _, s := range r.Lock {
					set = append(set, s.Key)
				}
				p.enter(t, r.By, r.BlockedBy, set, true)
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
				p.b.Drop(h)
				p.model.drop(h.Number)
			},
			"leave": func(t *rapid.T) {
				by := jobs.Draw(t, "by")
				p.b.Leave(by, true)
				p.model.leave(by)
			},
			"reopen": func(t *rapid.T) { p.reopen(rapid.Bool().Draw(t, "renamed")) },
			"":       func(t *rapid.T) { p.look(t) },
		})
	})
}

func (p *pair) enter(t *rapid.T, by admit.Owner, blockedBy, set []string, parks bool) {
	r := request{By: by, BlockedBy: blockedBy}
	for _, key := range set {
		r.Lock = append(r.Lock, setting{Key: key})
	}
	var left []string
	number := uint64(math.MaxUint64)
	o := p.model.find(by)
	var kept *request
	if o != nil {
		if o.called {
			kept = new(o.request)
		}
		number, left = o.number, p.model.stepOut(o)
	}
	want := p.model.firstBlocked(r, number, kept)
	var wake func()
	if parks {
		wake = func() { p.woken = append(p.woken, by) }
	}
	fresh, key := p.b.Enter(r, wake)
	require.Equal(t, want, key)
	switch {
	case key == "":
		n := len(p.model.holds)
		p.model.setAll(p.b, r)
		require.Len(t, fresh, len(p.model.holds)-n)
	case parks:
		require.Empty(t, fresh, "it waits, and holds nothing")
		if o == nil {
			p.model.arrived++
			o = &modelWait{number: p.model.arrived}
			p.model.waits = append(p.model.waits, o)
			slices.SortFunc(p.model.waits, func(a, b *modelWait) int { return int(a.number) - int(b.number) })
		}
		o.request, o.key = r, key
	}
	p.model.follow(left...)
	if key == "" && rapid.Bool().Draw(t, "runs") { // or waits for something else
		p.b.Leave(by, true)
		p.model.leave(by)
	}
}

// allEnd has everything that is locked end, and every job that is called run to its
// end: then no job is left in line.
func (p *pair) allEnd(t *rapid.T) {
	for range 20 {
		for _, h := range p.known {
			p.b.Drop(h)
			p.model.drop(h.Number)
		}
		p.look(t)
		for _, o := range slices.Clone(p.model.waits) {
			if o.called {
				_, key := p.b.Enter(o.request, func() {})
				require.Empty(t, key)
				left := p.model.stepOut(o)
				p.model.setAll(p.b, o.request)
				p.model.follow(left...)
				p.b.Leave(o.By, true)
				p.model.leave(o.By)
				p.look(t)
				break
			}
		}
	}
	require.Empty(t, slices.DeleteFunc(slices.Clone(p.model.waits), func(o *modelWait) bool { return o.key == "" && !o.called }))
}

func (p *pair) unlock(t *rapid.T, key string, counted bool, by admit.Owner) {
	var numbers []uint64
	own := -1
	for _, h := range p.model.holds { // oldest first
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
			return own < 0 || slices.ContainsFunc(p.model.holds, func(h modelHold) bool { return h.number == n && h.by == by })
		})
		numbers = numbers[first : first+1]
	}
	require.Equal(t, len(numbers) > 0, p.b.Unlock(key, counted, by))
	for _, n := range numbers {
		p.model.drop(n)
	}
}

// reopen makes new key-locks of what was written down. Those who waited are not
// known any more; one queue may have a new name.
func (p *pair) reopen(renamed bool) {
	p.b.drain()
	p.model.woken = nil
	p.b = new(newLocks())
	var holds []*Lock
	for _, h := range p.disk {
		holds = append(holds, &Lock{Number: h.number, Key: h.key, Owner: h.by, OnRun: h.onRun})
	}
	p.b.restoreAll(holds)
	p.known = holds
	p.model.waits, p.model.arrived = nil, 0
	if !renamed {
		return
	}
	p.b.rename("q", "r")
	for i, h := range p.model.holds {
		if h.by.Queue == "q" {
			p.model.holds[i].by.Queue = "r"
		}
	}
}

func job(queue, id string) admit.Owner { return admit.Owner{Queue: queue, ID: id} }

// A job that locks the key for which it stands in line goes on at once: those before it can't pass any more.
func TestLockWhileInLine(t *testing.T) {
	b := new(newLocks())
	woken := make(map[string]bool)
	enter := func(id string, blockedBy, set []string) {
		r := request{By: job("q", id), BlockedBy: blockedBy}
		for _, key := range set {
			r.Lock = append(r.Lock, setting{Key: key})
		}
		b.Enter(r, func() { woken[id] = true })
	}
	key := []string{"m"}
	enter("locks", nil, key)
	enter("passes", key, nil)
	enter("will lock", key, key)
	enter("waits", key, nil)
	b.Unlock("m", false, admit.Owner{})
	b.Lock("m", job("q", "waits"), 0)
	_, wakes := b.drain()
	for _, wake := range wakes {
		wake()
	}
	require.Equal(t, map[string]bool{"passes": true, "waits": true}, woken)
}
