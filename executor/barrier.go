package executor

import (
	"cmp"
	"container/list"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
)

// barrier says which jobs have to wait for which keys. It is plain data: no clock,
// no goroutine, no journal. Times are Unix nanoseconds.
//
// A key is locked while it has holds. Each hold knows for whom it was set, so
// that nobody is blocked by itself, a retry does not lock twice, and what comes
// back after a crash is what was there. Who waits for keys is the business of
// [wait].
type barrier struct {
	keys    map[string]*barrierKey
	ran     map[holder][]*hold // set by jobs that ran, in no order
	waits   map[holder]*wait
	last    uint64 // number of the newest hold
	arrived uint64 // number of the newest wait
	now     int64  // set by whoever calls

	// What the calls since the last drain brought about, in order.
	effects []effect
	wakes   []func()
}

// holder is a job, or with an empty queue a person.
type holder struct{ queue, id string }

// String names a job for people and for the lock table: two jobs never have one
// name, and nothing in it moves the cursor of a terminal.
func (h holder) String() string {
	if h.queue == "" {
		return "a person"
	}
	queue, id := plain(h.queue), plain(h.id)
	if queue == h.queue && strings.ContainsAny(queue, `/"`) {
		queue = strconv.Quote(queue)
	}
	if id == h.id && strings.HasPrefix(id, `"`) {
		id = strconv.Quote(id)
	}
	return queue + "/" + id
}

// hold is one lock of a key.
type hold struct {
	number       uint64 // identifies it for ever
	key          string
	by           holder
	onRun        bool          // set by a job that ran, rather than by an enqueue or a person
	since, until int64         // until 0: for ever
	at           *list.Element // nil: it has ended
	place        int           // in barrier.ran
	timer        *time.Timer   // of its end; for locks

	// position of the payload that it belongs to, 0 if that is the job as a whole,
	// a person, or not known yet; gone: it has ended. Guarded by locks.binding.
	position journal.Position
	gone     bool
}

type effect struct {
	hold    *hold
	dropped bool
}

type barrierKey struct {
	holds list.List      // of *hold, oldest first
	by    map[holder]int // how many of them are whose

	line list.List // of *wait, by number: first come, first served
	// How many of those who were called are to lock the key, and how many are to
	// find it unlocked.
	toLock, toPass int
	watchers       list.List // of func(), see [Keys.Watch]
}

// request is what a job wants before it runs.
type request struct {
	by        holder
	blockedBy []string  // none of them may be locked by somebody else
	set       []setting // what it locks then, in the same instant
	ttl       int64     // of what it locks; 0: for ever
}

func (r *request) locks(key string) bool {
	return slices.ContainsFunc(r.set, func(s setting) bool { return s.key == key })
}

// setting is a key that a job locks when it runs, for one of its payloads if the
// position is not 0.
type setting struct {
	key      string
	position journal.Position
}

func newBarrier() barrier {
	return barrier{keys: make(map[string]*barrierKey), ran: make(map[holder][]*hold), waits: make(map[holder]*wait)}
}

// lock adds a hold.
func (b *barrier) lock(key string, by holder, onRun bool, ttl int64) *hold {
	b.last++
	h := &hold{number: b.last, key: key, by: by, onRun: onRun, since: b.now}
	if ttl > 0 {
		h.until = b.now + min(ttl, math.MaxInt64-b.now)
	}
	b.add(h)
	b.effects = append(b.effects, effect{hold: h})
	return h
}

func (b *barrier) add(h *hold) {
	k := b.key(h.key)
	h.at = k.holds.PushBack(h)
	k.by[h.by]++
	b.addRan(h)
}

// key returns a key, which callNext forgets when nothing is left of it.
func (b *barrier) key(name string) *barrierKey {
	k := b.keys[name]
	if k == nil {
		k = &barrierKey{by: make(map[holder]int)}
		b.keys[name] = k
	}
	return k
}

func (b *barrier) addRan(h *hold) {
	if h.onRun {
		h.place = len(b.ran[h.by])
		b.ran[h.by] = append(b.ran[h.by], h)
	}
}

// dropRan moves the last one to its place: a job may have many payloads, each
// with a hold.
func (b *barrier) dropRan(h *hold) {
	if !h.onRun {
		return
	}
	ran := b.ran[h.by]
	last := len(ran) - 1
	ran[h.place] = ran[last]
	ran[h.place].place = h.place
	ran[last] = nil
	if b.ran[h.by] = ran[:last]; last == 0 {
		delete(b.ran, h.by)
	}
}

// drop ends a hold and calls who waited for that. A hold that has ended already
// is left alone.
func (b *barrier) drop(h *hold) {
	if h.at == nil {
		return
	}
	k := b.keys[h.key]
	k.holds.Remove(h.at)
	h.at = nil
	if k.by[h.by]--; k.by[h.by] == 0 {
		delete(k.by, h.by)
	}
	b.dropRan(h)
	b.effects = append(b.effects, effect{h, true})
	for k.holds.Len() == 0 && k.watchers.Len() > 0 {
		b.wakes = append(b.wakes, k.watchers.Remove(k.watchers.Front()).(func()))
	}
	b.callNext(h.key)
}

// reassign makes a hold somebody else's. Nobody waits yet.
func (b *barrier) reassign(h *hold, by holder) {
	k := b.keys[h.key]
	if k.by[h.by]--; k.by[h.by] == 0 {
		delete(k.by, h.by)
	}
	k.by[by]++
	b.dropRan(h)
	h.by = by
	b.addRan(h)
	b.effects = append(b.effects, effect{hold: h})
}

// set locks what a request asks for. What its job has locked before, in a run
// that failed, it has still.
func (b *barrier) set(r request) (fresh []*hold) {
	var earlier map[setting]bool // nil in a first run
	if ran := b.ran[r.by]; len(ran) > 0 {
		earlier = make(map[setting]bool, len(ran))
		for _, h := range ran {
			earlier[setting{h.key, h.position}] = true
		}
	}
	for _, s := range r.set {
		if !earlier[s] && !earlier[setting{key: s.key}] {
			h := b.lock(s.key, r.by, true, r.ttl)
			h.position = s.position
			fresh = append(fresh, h)
		}
	}
	return fresh
}

// has reports whether a job has locked a key in an earlier run, for the payload
// or as a whole.
func (b *barrier) has(by holder, s setting) bool {
	return slices.ContainsFunc(b.ran[by], func(h *hold) bool {
		return h.key == s.key && (h.position == s.position || h.position == 0)
	})
}

// ofJob returns the holds that a job has set for none of its payloads.
func (b *barrier) ofJob(by holder) (whole []*hold) {
	for _, h := range b.ran[by] {
		if h.position == 0 {
			whole = append(whole, h)
		}
	}
	return whole
}

// unlock ends the holds of a key: one of them if they are counted, preferably
// one of by, or else the oldest; or all. It reports whether the key was locked.
func (b *barrier) unlock(key string, counted bool, by holder) bool {
	k := b.keys[key]
	if k == nil || k.holds.Len() == 0 {
		return false
	}
	if counted {
		b.drop(k.pick(by))
		return true
	}
	// Those who wait may lock it again at once; that is theirs.
	var all []*hold
	for e := k.holds.Front(); e != nil; e = e.Next() {
		all = append(all, e.Value.(*hold))
	}
	for _, h := range all {
		b.drop(h)
	}
	return true
}

func (k *barrierKey) pick(by holder) *hold {
	e := k.holds.Front()
	if k.by[by] > 0 {
		for e.Value.(*hold).by != by {
			e = e.Next()
		}
	}
	return e.Value.(*hold)
}

// lockedError says who has a key that blocks a job.
func (b *barrier) lockedError(key string, by holder) error {
	err := &lock.LockedError{Key: key}
	for e := b.keys[key].holds.Front(); e != nil; e = e.Next() {
		if h := e.Value.(*hold); h.by != by {
			err.Holder = h.held()
			break
		}
	}
	return err
}

// held shows a hold to people. Its number takes the place of a token.
func (h *hold) held() lock.Held {
	held := lock.Held{Keys: []string{h.key}, Owner: h.by.String(), Token: h.number, Since: time.Unix(0, h.since)}
	if h.until != 0 {
		held.Until, held.TTL = time.Unix(0, h.until), time.Duration(h.until-h.since)
	}
	return held
}

// drain returns what has happened since the last one, and whom to wake.
func (b *barrier) drain() (effects []effect, wakes []func()) {
	effects, wakes = b.effects, b.wakes
	b.effects, b.wakes = nil, nil
	return effects, wakes
}

// restore brings holds back that were written down, in the order of their age.
func (b *barrier) restore(holds []*hold) {
	slices.SortFunc(holds, func(a, b *hold) int { return cmp.Compare(a.number, b.number) })
	for _, h := range holds {
		b.add(h)
		b.last = max(b.last, h.number)
	}
}
