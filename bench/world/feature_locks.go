package world

import (
	"context"
	"time"

	"github.com/strandjobs/strand/executor"
)

// lockTTL is when locks end by themselves.
const lockTTL = 20 * time.Minute

// Jobs of a queue lock their key, until they have succeeded or are buried; others wait
// until it is unlocked.
var locking = &feature{
	name: "locks", claims: `QueueConfig.Locks Executor.KeyLocks KeyLocks.List KeyLocks.Unlock 
		`,
	plan: []string{"2s:ok", "2s:fail"},
	queue: func(d *draw, l line) {
		if l.has("fold") {
			return
		}
		l.set("locks", d.one("enqueue", "run", "blocked", "blocked"))
	},
	enqueue: withKey,
	apply: func(_ *world, q *queue, cfg *executor.QueueConfig[payload]) {
		keys := func(_ string, p payload) []string { return []string{"lock " + keyOf("", p)} }
		locks := executor.Locks[payload]{TTL: lockTTL, Counted: true, UnlockOnBurial: true, Unlock: keys}
		switch q.conf.str("locks") {
		case "enqueue":
			locks.OnEnqueue = keys
		case "run":
			locks.OnRun = keys
		case "blocked":
			locks = executor.Locks[payload]{BlockedBy: keys}
		default:
			return
		}
		cfg.Locks = locks
	},
	steps: []step{{"unlock", 1, false, func(d *draw) line { return newLine("unlock", "key", d.one("x", "y", "none")) }, func(w *world, l line) {
		ctx, cancel := w.context(l)
		defer cancel()
		w.mu.Lock()
		w.state["unlocked "+l.str("key")] = time.Now()
		w.mu.Unlock()
		_ = w.x.KeyLocks().Unlock(ctx, "lock "+l.str("key"))
	}}},
	began: checkBlocked,
	lift: func(w *world) {
		for _, key := range w.x.KeyLocks().List() {
			_ = w.x.KeyLocks().Unlock(context.Background(), key.Key)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, key := range []string{"x", "y", "none"} {
			w.state["unlocked "+key] = time.Now()
		}
	},
}

// checkBlocked: what is blocked by a key does not run while a payload waits that has locked
// it when it was enqueued.
func checkBlocked(w *world, r *run) {
	if r.queue.conf.str("locks") != "blocked" {
		return
	}
	for _, i := range w.ledger.items {
		if i.place != waits || i.seen != w.epoch-1 || i.moved == w.epoch || i.state != acked || i.due.IsZero() || w.superseded(i, tried) {
			continue
		}
		q, key := w.queueOf(i.queue), keyOf("", i.value)
		if q == nil || q.conf.str("locks") != "enqueue" || !r.keys()[key] || i.buried || r.began.Sub(i.at) > lockTTL-time.Second {
			continue
		}
		if by, ok := w.state["unlocked "+key].(time.Time); ok && !by.Before(i.at) {
			continue
		}
		w.fail("locked and run: %s/%s has run although %v has locked %s", r.queue.name, r.id, i, key)
	}
}
