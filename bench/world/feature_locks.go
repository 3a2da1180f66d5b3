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

// Jobs of a queue lock their keys, until they have succeeded or are buried; others wait
// until those are unlocked, or are not run, fail or come back later.
var locking = &feature{
	name: "locks", apart: true, claims: `Locks.OnEnqueue Locks.BlockedBy Locks.OnRun Locks.Unlock Locks.Counted Locks.TTL
		Locks.UnlockOnBurial Locks.WhenBlocked Executor.KeyLocks Inspector.LockedKeys`,
	plan:  []string{"2s:ok", "2s:fail"},
	queue: drawLocks,
	enqueue: func(d *draw, l line) {
		l.set("key", d.one("x", "x", "x", "y", "y", "x+y", "y+x", "x+x"))
	},
	apply: applyLocks,
	steps: []step{{"lock", 3, false, func(d *draw) line { return newLine("lock", "key", d.one("x", "x", "y")) }, lockByHand}, {"unlock", 2, false, func(d *draw) line { return newLine("unlock", "key", d.one("x", "y", "none")) }, func(w *world, l line) {
		ctx, cancel := w.context(l)
		defer cancel()
		w.mu.Lock()
		w.unlocked(l.str("key"))
		w.mu.Unlock()
		_ = w.x.KeyLocks().Unlock(ctx, "lock "+l.str("key"))
	}}},
	began: func(w *world, r *run) {
		if r.queue.twice() && slices.ContainsFunc(r.items, func(i *item) bool { return i.calls > 0 }) {
			return // it may be the second call of a run
		}
		checkBlocked(w, r)
		w.inLine(r)
	},
	ended: func(w *world, r *run, err error) {
		if outcome := executor.OutcomeOf(err); outcome != events.Done && outcome != events.Discarded {
			return
		}
		for _, p := range r.parts {
			keys := r.queue.lockKeys(p.value)
			for _, key := range keys.unlocked {
				if !r.queue.conf.has("uncounted") && (slices.Contains(keys.enqueued, key) || slices.Contains(keys.set, key)) {
					continue // it is a lock of the payload itself
				}
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
		for range 100 { // what is buried meanwhile may leave its keys locked
			w.unlockAll()
			if stats, err := w.x.Stats(context.Background()); err != nil || !slices.ContainsFunc(stats.Queues, func(s inspect.QueueStats) bool { return s.Parked > 0 }) {
				return
			}
			w.x.Advance(time.Minute)
		}
	},
}

// drawLocks draws what jobs of a queue lock and wait for: mutex is what they exclude each other by, a chain
// waits for others and has others wait.
func drawLocks(d *draw, l line) {
	if l.set("locks", d.one("enqueue", "run", "blocked", "blocked", "mutex", "mutex", "chain", "unlock")); l.has("fold") {
		l.set("locks", "blocked") // all else is refused
	}
	if d.chance(2) {
		l.set("take", d.one("first", "last"))
	}
	switch l.str("locks") {
	case "blocked":
		if d.chance(2) {
			l.set("when", d.one("skip", "fail", "after"))
		}
	case "mutex", "chain":
		if d.chance(4) {
			l.set("when", d.one("fail", "after"))
		}
	}
	if d.chance(2) {
		l.set("uncounted", "yes")
	}
	if d.chance(2) {
		l.set("dead", "locks")
	}
}

// lockKeys are keys that the functions of a queue return.
type lockKeys struct{ enqueued, awaited, set, unlocked []string }

// lockKeys are those of a payload, of which some have several.
func (q *queue) lockKeys(v payload) (k lockKeys) {
	all := slices.Compact(strings.Split(keyOf("", v), "+"))
	first, last, some := all[:1], all[len(all)-1:], all
	switch q.conf.str("take") {
	case "first":
		some = first
	case "last":
		some = last
	}
	k.unlocked = all
	switch q.conf.str("locks") {
	case "enqueue":
		k.enqueued = some
	case "run":
		k.set = some
	case "blocked":
		k.awaited, k.unlocked = some, nil
	case "mutex":
		k.awaited, k.set = some, some
	case "chain":
		k.enqueued, k.awaited = first, last
	case "unlock":
	default:
		k.unlocked = nil
	}
	return k
}

func applyLocks(_ *world, q *queue, cfg *executor.QueueConfig[payload]) {
	of := func(some func(lockKeys) []string) func(string, payload) []string {
		return func(_ string, p payload) (keys []string) {
			for _, key := range some(q.lockKeys(p)) {
				keys = append(keys, "lock "+key)
			}
			return keys
		}
	}
	enqueued, set := of(func(k lockKeys) []string { return k.enqueued }), of(func(k lockKeys) []string { return k.set })
	awaited := of(func(k lockKeys) []string { return k.awaited })
	locks := executor.Locks[payload]{Counted: !q.conf.has("uncounted"), Unlock: of(func(k lockKeys) []string { return k.unlocked })}
	switch q.conf.str("locks") {
	case "enqueue":
		locks.OnEnqueue = enqueued
	case "run":
		locks.OnRun = set
	case "blocked":
		locks = executor.Locks[payload]{BlockedBy: awaited}
	case "mutex":
		locks.BlockedBy, locks.OnRun = awaited, set
	case "chain":
		locks.OnEnqueue, locks.BlockedBy = enqueued, awaited
	case "unlock":
	default:
		return
	}
	if locks.OnEnqueue != nil || locks.OnRun != nil {
		locks.TTL, locks.UnlockOnBurial = lockTTL, !q.conf.has("dead")
	}
	locks.WhenBlocked = map[string]lock.Decision{
		"skip": {Skip: true}, "fail": {Fail: errPlanned}, "after": {After: afterLock},
	}[q.conf.str("when")]
	cfg.Conditions.Locks = locks
}

// unlockAll unlocks all keys.
func (w *world) unlockAll() {
	w.mu.Lock()
	for _, key := range []string{"x", "y", "none", spoiled, exploding} {
		w.unlocked(key)
	}
	w.mu.Unlock()
	for _, key := range w.lockedKeys() {
		_ = w.x.KeyLocks().Unlock(context.Background(), key.Key)
	}
}

// awaits are the keys that a run has waited for.
func (r *run) awaits() map[string]bool {
	keys := make(map[string]bool)
	for _, p := range r.parts {
		for _, key := range r.queue.lockKeys(p.value).awaited {
			keys[key] = true
		}
	}
	return keys
}

// checkBlocked: what is blocked by a key does not run while a payload of another job waits that has locked
// it when it was enqueued: one of a lane may be buried, and unlock it, because it closes a circle.
func checkBlocked(w *world, r *run) {
	awaited := r.awaits()
	for key := range awaited {
		if h, ok := w.state["hand "+key].(*byHand); ok && h.epoch < w.epoch && (h.sure || h.life == w.life) {
			w.fail("locked and run: %s/%s has run although a person has locked %s in step %d", r.queue.name, r.id, key, h.epoch)
		}
	}
	w.blockedByRun(r, awaited)
	for _, i := range w.ledger.items {
		q := w.queueOf(i.queue)
		if i.place != waits || i.seen != w.epoch-1 || i.moved == w.epoch || i.state != acked || i.due.IsZero() || w.superseded(i, tried) || w.standsFor(r, i) ||
			q == nil || q.conf.has("lane") || i.buried || i.given != 0 || r.began.Sub(i.at) > lockTTL-time.Second || r.isOf(i) {
			continue
		}
		for _, key := range q.lockKeys(i.value).enqueued {
			if by, ok := w.state["unlocked "+key].(time.Time); awaited[key] && !(ok && !by.Before(i.at)) {
				w.goesBefore(r, i, "locked and run: %s/%s has run although %v has locked %s", r.queue.name, r.id, i, key)
			}
		}
	}
}

// goesBefore fails, unless a payload may have closed a circle of keys since, and has been buried: that is looked
// at in the next census.
func (w *world) goesBefore(r *run, i *item, format string, args ...any) {
	if i.passed == nil && w.queueOf(i.queue).holds() && len(r.items) > 0 {
		i.passed = r.items[0]
	} else if i.passed == nil {
		w.fail(format, args...)
	}
}

// holds reports whether jobs of a queue may hold keys while they wait for others.
func (q *queue) holds() bool { return q.conf.str("locks") == "mutex" || q.conf.str("locks") == "chain" }

// isOf reports whether a payload is of the id of a run.
func (r *run) isOf(i *item) bool { return r.queue.name == i.queue && r.id == i.id }

// blockedByRun: what a job has locked when it ran stays so while it runs, and when it fails, until it succeeds.
func (w *world) blockedByRun(r *run, awaited map[string]bool) {
	for _, i := range w.ledger.items {
		q := w.queueOf(i.queue)
		runs := w.inHand(i)
		if q == nil || q.conf.has("lane") && r.queue.conf.has("lane") || r.isOf(i) || i.calls == 0 || i.ran != w.life || i.buried || i.given != 0 || i.hurried || q.gathers() ||
			!runs && (i.place != waits || i.seen != w.epoch-1 || i.moved == w.epoch) || r.began.Sub(i.begun) > lockTTL-time.Second {
			continue
		}
		for _, key := range q.lockKeys(i.value).set {
			if by, ok := w.state["unlocked "+key].(time.Time); !awaited[key] || ok && !by.Before(i.begun) {
				continue
			}
			if runs {
				w.fail("locked and run: %s/%s has run while %v runs, and has locked %s", r.queue.name, r.id, i, key)
				continue
			}
			w.goesBefore(r, i, "locked and run: %s/%s has run although %v has locked %s when it began", r.queue.name, r.id, i, key)
		}
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
	delete(w.state, "lines")
	if c.stale {
		return
	}
	held, may, must := make(map[lockOf]int), make(map[lockOf]int), make(map[lockOf]int)
	keys := w.lockedKeys()
	w.state["lines"] = keys
	for _, k := range keys {
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
		q := w.queueOf(i.queue)
		if q == nil || i.state == refused || i.told != "" {
			continue
		}
		keys := q.lockKeys(i.value)
		for _, key := range slices.Concat(keys.enqueued, keys.set) {
			if i.state != acked || i.place == waits || i.place == dead && q.conf.has("dead") {
				may[lockOf{i.queue + "/" + i.id, "lock " + key}]++
			}
		}
		for _, key := range keys.enqueued {
			if w.keepsLocked(q, i, key) {
				must[lockOf{i.queue + "/" + i.id, "lock " + key}]++
			}
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
	return i.state == acked && i.place == waits && !i.buried && !i.revive && !q.gathers() &&
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
