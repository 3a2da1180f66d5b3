package lock

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// model is a table as simple as it can be: all requests ever made, in the order of
// arrival, and a rule that is applied until nothing changes: a waiter whose keys
// are not held, and not waited for by an earlier one, is granted.
type model struct {
	now      time.Duration
	requests []*request
}

type request struct {
	keys  []string
	ttl   time.Duration
	end   time.Duration // while held; 0 = none
	phase phase
	place *Place
	wakes int
}

type phase int

const (
	isWaiting phase = iota
	isHeld
	isOver
)

func (w *model) settle() {
	for i, r := range w.requests {
		if r.phase == isHeld && r.end > 0 && r.end <= w.now {
			r.phase = isOver
		}
		if r.phase == isWaiting && !slices.ContainsFunc(w.requests, func(x *request) bool {
			return x.phase == isHeld && (x.end == 0 || x.end > w.now) && shares(x, r)
		}) && !slices.ContainsFunc(w.requests[:i], func(x *request) bool { return x.phase == isWaiting && shares(x, r) }) {
			r.phase, r.end = isHeld, 0
			if r.ttl > 0 {
				r.end = w.now + r.ttl
			}
			w.settle()
			return
		}
	}
}

func shares(a, b *request) bool {
	return slices.ContainsFunc(a.keys, func(k string) bool { return slices.Contains(b.keys, k) })
}

// bubbleTB keeps rapid from asking for the deadline of the test, which a bubble
// does not allow.
type bubbleTB struct{ testing.TB }

func TestTableIsLikeItsModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(bubbleTB{t}, func(rt *rapid.T) {
			table, w := new(Table), &model{}
			keys := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 1, 3, rapid.ID)
			ttl := rapid.SampledFrom([]time.Duration{0, time.Second, 2 * time.Second, 5 * time.Second})
			some := func() *request {
				if len(w.requests) == 0 {
					rt.Skip("no request yet")
				}
				return w.requests[len(w.requests)-1-rapid.IntRange(0, min(len(w.requests)-1, 9)).Draw(rt, "which")]
			}
			rt.Repeat(map[string]func(*rapid.T){
				"queue": func(rt *rapid.T) {
					r := &request{keys: keys.Draw(rt, "keys"), ttl: ttl.Draw(rt, "ttl")}
					var err error
					r.place, err = table.Queue(Options{TTL: r.ttl}, func() { r.wakes++ }, r.keys...)
					if err != nil {
						rt.Fatal(err)
					}
					w.requests = append(w.requests, r)
				},
				"try": func(rt *rapid.T) {
					r := &request{keys: keys.Draw(rt, "keys")}
					free := !slices.ContainsFunc(w.requests, func(x *request) bool { return x.phase != isOver && shares(x, r) })
					l, err := table.TryAcquire(Options{}, r.keys...)
					if (err == nil) != free {
						rt.Fatalf("try %v: %v, free: %v", r.keys, err, free)
					}
					if free {
						if err := l.Unlock(); err != nil {
							rt.Fatal(err)
						}
					}
				},
				"unlock": func(rt *rapid.T) {
					r := some()
					l, _ := r.place.Lease()
					if (l.Unlock() == nil) != (r.phase == isHeld) {
						rt.Fatalf("unlock in phase %v", r.phase)
					}
					if r.phase == isHeld {
						r.phase = isOver
					}
				},
				"extend": func(rt *rapid.T) {
					r, d := some(), rapid.SampledFrom([]time.Duration{time.Second, 4 * time.Second}).Draw(rt, "by")
					l, _ := r.place.Lease()
					if (l.Extend(d) == nil) != (r.phase == isHeld) {
						rt.Fatalf("extend in phase %v", r.phase)
					}
					r.end = w.now + d
				},
				"cancel": func(rt *rapid.T) {
					r := some()
					if r.place.Cancel() != (r.phase == isWaiting) {
						rt.Fatalf("cancel in phase %v", r.phase)
					}
					r.phase = isOver
				},
				"sleep": func(rt *rapid.T) {
					d := time.Duration(rapid.IntRange(1, 3).Draw(rt, "s")) * time.Second
					for range d / time.Second { // the model grants at the instant of each end
						time.Sleep(time.Second)
						synctest.Wait()
						w.now += time.Second
						w.settle()
					}
				},
				"": func(rt *rapid.T) {
					w.settle()
					w.compare(rt)
					if err := table.check(); err != nil {
						rt.Fatal(err)
					}
				},
			})
		})
	})
}

func (w *model) compare(rt *rapid.T) {
	last := map[string]uint64{}
	for i, r := range w.requests {
		l, granted := r.place.Lease()
		if granted && r.wakes > 1 || !granted && r.wakes > 0 && r.phase == isWaiting {
			rt.Fatalf("request %d: %d wakes", i, r.wakes)
		}
		if l.Held() != (r.phase == isHeld) {
			rt.Fatalf("request %d %v: held %v, model in phase %v", i, r.keys, l.Held(), r.phase)
		}
		for _, key := range r.keys {
			if granted && l.Token() <= last[key] {
				rt.Fatalf("request %d: token %d of %q after %d", i, l.Token(), key, last[key])
			}
			last[key] = max(last[key], l.Token())
		}
	}
}

// check looks for broken invariants.
func (t *Table) check() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	idle := 0
	for key, e := range t.entries {
		wide := 0
		before := time.Duration(0)
		for at := e.line.first; at != nil; at = at.next {
			p := at.value
			if len(p.spots) > 1 {
				wide++
			}
			if p.spots == nil || p.ready() {
				return fmt.Errorf("%q: place at %v, ready %v, waits", key, p.spots, p.ready())
			}
			if p.since < before {
				return fmt.Errorf("%q: out of line", key)
			}
			before = p.since
		}
		if wide != e.wide {
			return fmt.Errorf("%q: wide %d, counted %d", key, e.wide, wide)
		}
		if e.lease != nil && (e.lease.end != nil || !slices.Contains(e.lease.entries, e)) {
			return fmt.Errorf("%q: holder does not hold", key)
		}
		if e.idle.list != nil {
			idle++
		}
		if (e.idle.list != nil) != (e.free() && e.changed == nil) {
			return fmt.Errorf("%q: idle %v", key, e.idle.list != nil)
		}
	}
	if idle != t.idle.n || idle > maxIdle {
		return fmt.Errorf("idle: %d in the list, %d counted", t.idle.n, idle)
	}
	for i, r := range t.ends {
		if r.index != i+1 || i > 0 && t.ends[(i-1)/2].rings > r.rings {
			return fmt.Errorf("heap is broken at %d", i)
		}
	}
	if on := len(t.ends) > 0; t.timer.on != on || on && t.timer.armed > t.ends[0].rings {
		return fmt.Errorf("timer on %v at %v with %d ends", t.timer.on, t.timer.armed, len(t.ends))
	}
	return nil
}
