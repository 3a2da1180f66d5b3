package world

import (
	"context"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// Failures come to an end: payloads are buried, one or all, or the id is halted; what
// failed runs alone, or with what came meanwhile.
var exhausting = &feature{
	name: "exhaust",
	claims: `DeadLetters.OnExhausted Gather.Block Gather.Pull DeadLetters.RetriesExhausted DeadLetters.FormatError
		OnExhaustedBuryOldest OnExhaustedBuryAll OnExhaustedHalt Cancel Discard Snooze RetryAfter`,
	plan: []string{"fail", "fail", "panic", "goexit", "1s:fail", "stray"},
	queue: func(d *draw, l line) {
		l.set("exhausted", d.one("oldest", "all", "halt"))
		l.set("failure", d.one("block", "merge"))
		if d.chance(2) {
			l.set("fresh", d.one("pull", "pull", "wait"))
		}
		if l.str("shape") != "handle" && d.chance(2) {
			l.set("parts", "yes")
		}
	},
	apply: func(w *world, q *queue, cfg *executor.QueueConfig[payload]) {
		cfg.DeadLetters.OnExhausted = map[string]executor.OnExhausted{
			"oldest": executor.OnExhaustedBuryOldest, "all": executor.OnExhaustedBuryAll, "halt": executor.OnExhaustedHalt,
		}[q.conf.str("exhausted")]
		cfg.Gather.Block, cfg.Gather.Pull = q.conf.str("failure") == "block", q.conf.str("fresh") == "pull"
		if cfg.DeadLetters.RetriesExhausted == nil && q.conf.has("exhausted") {
			cfg.DeadLetters.RetriesExhausted = func(context.Context, []executor.Merged[payload]) {}
		}
		if cfg.DeadLetters.FormatError == nil && q.conf.has("exhausted") {
			cfg.DeadLetters.FormatError = func(err error) string { return "formatted: " + err.Error() }
		}
	},
	lift: func(w *world) {
		w.x.Advance(5 * time.Minute)
		for range 1000 { // more often than the plans of an id have failures, and limits have them wait
			if !w.halts() {
				return
			}
			w.mu.Lock()
			for _, i := range w.ledger.items {
				i.hurried = true
			}
			w.mu.Unlock()
			for _, q := range w.queues {
				_, _ = w.x.Inspect().RunNow(context.Background(), inspect.SelectQueue(q.name))
			}
			w.x.Advance(5 * time.Minute)
		}
	},
	began: func(w *world, r *run) {
		most := max(r.queue.conf.num("retries"), r.queue.conf.num("mostretries")) + 1
		if r.attempt > most && !w.hurried(r) { // RetryNow gives one more
			w.fail("too often: %s/%s is at attempt %d of %d", r.queue.name, r.id, r.attempt, most)
		}
	},
}

// halts reports whether an id is halted, or may still be once it has run, or a limit or a key lets
// it run, or a pause is over that a clock which was set has made long.
// All of it is made due then.
func (w *world) halts() bool {
	stats, err := w.x.Stats(context.Background())
	halts := false
	for _, s := range stats.Queues {
		q := w.queueOf(s.Name)
		waits := q != nil && q.conf.str("exhausted") == "halt" && s.Jobs > 0
		halts = halts || s.Halted > 0 || waits
	}
	if err != nil || !halts {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range w.ledger.items {
		i.moved, i.again = w.epoch, retryAt{}
	}
	return true
}
