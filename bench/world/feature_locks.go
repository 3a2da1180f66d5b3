package world

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/lock"
)

// lockTTL is when locks end by themselves.
const lockTTL = 20 * time.Minute

// afterLock is when a job comes back that is blocked: in more time than commits of a slow disk take, or
// there would always be one to wait for.
const afterLock = time.Minute

// Jobs of a queue lock their key, until they have succeeded or are buried; others wait
// until it is unlocked, or are not run, fail or come back later.
var locking = &feature{
	name: "locks", apart: true, claims: `Locks.OnEnqueue Locks.BlockedBy Locks.OnRun Locks.Unlock Locks.Counted Locks.TTL
		Locks.UnlockOnBurial Locks.WhenBlocked Executor.KeyLocks Inspector.LockedKeys`,
	plan: []string{"2s:ok", "2s:fail"},
	queue: func(d *draw, l line) {
		if l.has("fold") {
			return
		}
		l.set("locks", d.one("enqueue", "run", "blocked", "blocked"))
		if l.str("locks") == "blocked" && d.chance(2) {
			l.set("when", d.one("skip", "fail", "after"))
		}
		if d.chance(2) {
			l.set("uncounted", "yes")
		}
		if d.chance(2) {
			l.set("dead", "locks")
		}
	},
	enqueue: withKey,
	apply: func(_ *world, q *queue, cfg *executor.QueueConfig[payload]) {
		keys := func(_ string, p payload) []string { return []string{"lock " + keyOf("", p)} }
		locks := executor.Locks[payload]{TTL: lockTTL, Counted: !q.conf.has("uncounted"), UnlockOnBurial: !q.conf.has("dead"), Unlock: keys}
		switch q.conf.str("locks") {
		case "enqueue":
			locks.OnEnqueue = keys
		case "run":
			locks.OnRun = keys
		case "blocked":
			locks = executor.Locks[payload]{BlockedBy: keys, WhenBlocked: map[string]lock.Decision{
				"skip": {Skip: true}, "fail": {Fail: errPlanned}, "after": {After: afterLock},
			}[q.conf.str("when")]}
		default:
			return
		}
		cfg.Conditions.Locks = locks
	},
	steps: []step{{"lock", 3, false, func(d *draw) line { return newLine("lock", "key", d.one("x", "x", "y")) }, lockByHand}, {"unlock", 2, false, func(d *draw) line { return newLine("unlock", "key", d.one("x", "y", "none")) }, func(w *world, l line) {
		ctx, cancel := w.context(l)
		defer cancel()
		w.mu.Lock()
		w.unlocked(l.str("key"))
		w.mu.Unlock()
		_ = w.x.KeyLocks().Unlock(ctx, "lock "+l.str("key"))
	}}},
	began: checkBlocked,
	ended: func(w *world, r *run, err error) {
		if outcome := executor.OutcomeOf(err); r.queue.conf.has("uncounted") && (outcome == events.Done || outcome == events.Discarded) {
			for key := range r.keys() {
				w.unlocked(key)    // whoever has locked it
				if w.full.Load() { // as soon as that it is done can be written
					w.state["unlocked "+key] = time.Now().Add(time.Hour)
				}
			}
		}
	},
	calm: explainLocks,
	peek: func(w *world) { w.peekLocks() },
	lift: func(w *world) {
		w.mu.Lock()
		for _, key := range []string{"x", "y", "none", spoiled, exploding} {
			w.unlocked(key)
		}
		w.mu.Unlock()
		for _, key := range w.lockedKeys() {
			_ = w.x.KeyLocks().Unlock(context.Background(), key.Key)
		}
	},
}

// checkBlocked: what is blocked by a key does not run while a payload waits that has locked
// it when it was enqueued: one of a lane may be buried, and unlock it, because it closes a circle.
func checkBlocked(w *world, r *run) {
	if r.queue.conf.str("locks") != "blocked" {
		return
	}
	for key := range r.keys() {
		if h, ok := w.state["hand "+key].(*byHand); ok && h.epoch < w.epoch && (h.sure || h.life == w.life) {
			w.fail("locked and run: %s/%s has run although a person has locked %s in step %d", r.queue.name, r.id, key, h.epoch)
		}
	}
	w.blockedByRun(r)
	for _, i := range w.ledger.items {
		if i.place != waits || i.seen != w.epoch-1 || i.moved == w.epoch || i.state != acked || i.due.IsZero() || w.superseded(i, tried) || w.standsFor(r, i) {
			continue
		}
		q, key := w.queueOf(i.queue), keyOf("", i.value)
		if q == nil || q.conf.str("locks") != "enqueue" || q.conf.has("lane") || !r.keys()[key] || i.buried || r.began.Sub(i.at) > lockTTL-time.Second {
			continue
		}
		if by, ok := w.state["unlocked "+key].(time.Time); ok && !by.Before(i.at) {
			continue
		}
		w.fail("locked and run: %s/%s has run although %v has locked %s", r.queue.name, r.id, i, key)
	}
}

// blockedByRun: what a job has locked when it ran stays so when it fails, until it succeeds.
func (w *world) blockedByRun(r *run) {
	for _, i := range w.ledger.items {
		q, key := w.queueOf(i.queue), keyOf("", i.value)
		if q == nil || q.conf.str("locks") != "run" || q.circles(r) || !r.keys()[key] || i.calls == 0 || i.ran != w.life || i.buried || i.hurried || q.gathers() ||
			i.place != waits || i.seen != w.epoch-1 || i.moved == w.epoch || r.began.Sub(i.begun) > lockTTL-time.Second {
			continue
		}
		if by, ok := w.state["unlocked "+key].(time.Time); ok && !by.Before(i.begun) {
			continue
		}
		w.fail("locked and run: %s/%s has run although %v has locked %s when it began", r.queue.name, r.id, i, key)
	}
}

// unlocked notes that all locks of a key have ended, or may have.
func (w *world) unlocked(key string) {
	w.state["unlocked "+key] = time.Now()
	delete(w.state, "hand "+key)
}

// lockOf is what a job may have locked.
type lockOf struct{ by, key string }

// explainLocks: each lock of a job is that of a payload which is there, one that waits or runs, or a
// dead one, unless its burial has unlocked its keys; and each payload that must have locked its key has.
func explainLocks(w *world, c *census) {
	if c.stale {
		return
	}
	held, may, must := make(map[lockOf]int), make(map[lockOf]int), make(map[lockOf]int)
	for _, k := range w.lockedKeys() {
		for _, l := range k.Locks {
			name, _, isJob := strings.Cut(l.By, "/")
			if isJob && w.queueOf(name) != nil {
				held[lockOf{l.By, k.Key}]++
			}
		}
		if k.MoreLocks > 0 {
			return
		}
	}
	for _, i := range w.ledger.items {
		q, key := w.queueOf(i.queue), keyOf(i.id, i.value)
		if q == nil || i.state == refused || i.told != "" {
			continue
		}
		l := lockOf{i.queue + "/" + i.id, "lock " + key}
		if i.state != acked || i.place == waits || i.place == dead && q.conf.has("dead") {
			may[l]++
		}
		if w.keepsLocked(q, i, key) {
			must[l]++
		}
	}
	for l, n := range held {
		if n > may[l] {
			w.fail("locks: %s has locked %s %d times, for %d payloads", l.by, l.key, n, may[l])
		}
	}
	for l, n := range must {
		if held[l] < n {
			w.fail("locks: %s has locked %s %d times, and %d payloads should have", l.by, l.key, held[l], n)
		}
	}
}

// keepsLocked reports whether a payload must have locked its key when it was enqueued, and nothing has
// ended that.
func (w *world) keepsLocked(q *queue, i *item, key string) bool {
	by, ok := w.state["unlocked "+key].(time.Time)
	return q.conf.str("locks") == "enqueue" && i.state == acked && i.place == waits && !i.buried && !i.revive && !q.gathers() &&
		time.Since(i.at) < lockTTL-time.Second && !(ok && !by.Before(i.at))
}

// byHand is a lock of a person. It is on disk with the next commit, and then for sure.
type byHand struct {
	epoch, life int
	sure        bool
}

// watch is a call of Watch.
type watch struct {
	key  string
	life int
	woke atomic.Bool
}

// lockByHand locks a key until a person unlocks it, and watches it.
func lockByHand(w *world, l line) {
	ctx, cancel := w.context(l)
	defer cancel()
	locks, key := w.x.KeyLocks(), "lock "+l.str("key")
	if err := locks.Lock(ctx, key); err != nil {
		return
	}
	one := &watch{key: key, life: w.life}
	_, watched := locks.Watch(key, func() { one.woke.Store(true) })
	is, err := locks.Locked(ctx, key)
	if !watched || !is || err != nil {
		if w.calm() {
			w.fail("locks: %s was locked, Watch says %v, Locked %v: %v", key, watched, is, err)
		}
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.lives(one.life) {
		return
	}
	w.state["hand "+l.str("key")] = &byHand{epoch: w.epoch, life: w.life}
	all, _ := w.state["watches"].([]*watch)
	w.state["watches"] = append(all, one)
}

// lockedKeys are all keys that are locked.
func (w *world) lockedKeys() []inspect.KeyLockStatus {
	page, more, err := w.x.Inspect().LockedKeys("", 0)
	if err != nil || more > 0 {
		w.fail("locks: LockedKeys shows %d and %d more: %v", len(page), more, err)
	}
	return page
}

// peekLocks: what is listed is locked, and who watches a key hears that it is unlocked.
func (w *world) peekLocks() {
	locked, byPerson := make(map[string]bool), make(map[string]bool)
	for _, k := range w.lockedKeys() {
		locked[k.Key] = true
		is, err := w.x.KeyLocks().Locked(context.Background(), k.Key)
		if w.calm() && (err != nil || is != (len(k.Locks) > 0)) {
			w.fail("locks: LockedKeys shows %v, and Locked says %v: %v", k, is, err)
		}
		byPerson[k.Key] = k.MoreLocks > 0 || slices.ContainsFunc(k.Locks, func(l inspect.LockHeld) bool { return l.By == "a person" })
	}
	watches, _ := w.state["watches"].([]*watch)
	for _, one := range watches {
		if one.life == w.life && !locked[one.key] && !one.woke.Load() {
			w.fail("locks: %s is unlocked, and who watches it has not heard of that", one.key)
		}
	}
	for _, key := range []string{"x", "y"} {
		h, ok := w.state["hand "+key].(*byHand)
		switch {
		case !ok:
		case byPerson["lock "+key]:
			h.sure = true
		case h.sure || h.life == w.life:
			w.fail("locks: %s was locked by hand, and is not locked", key)
		default:
			delete(w.state, "hand "+key)
		}
	}
}
