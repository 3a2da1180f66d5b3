package world

import (
	"time"

	"github.com/strandjobs/strand/executor"
)

// A queue computes what a call leaves out: the id, the score and the due time.
var computing = &feature{
	name: "computed", claims: "Defaults.ID Defaults.Score Defaults.Due",
	queue: func(d *draw, l line) {
		if !d.has("followups") && !d.has("cron") && !d.has("due") && !d.has("latest") && !d.has("merge") {
			l.set("computed", "yes")
		}
	},
	apply: func(w *world, q *queue, cfg *executor.QueueConfig[payload]) {
		if !q.conf.has("computed") {
			return
		}
		cfg.Defaults.ID = func(p payload) string { return p.ID }
		cfg.Defaults.Score = func(p payload) float64 { return float64(p.Rank + 1) }
		cfg.Defaults.Due = func(p payload) time.Time { return w.now().Add(waitOf(p)) }
	},
}

// waitOf is how long the function of a queue puts a payload off.
func waitOf(p payload) time.Duration {
	if p.Rank == 2 {
		return 5 * time.Second
	}
	return 0
}

// idOf is the id that a call gives, and "" where the queue computes it.
func (q *queue) idOf(l line, n int) string {
	if q.computes(l) {
		return ""
	}
	return l.nth(n)
}

// computes reports whether a queue computes what a call leaves out.
func (q *queue) computes(l line) bool { return q.conf.has("computed") && l.has("computed") }

// waitOf is how long a call puts a payload off.
func (q *queue) waitOf(l line) time.Duration {
	if q.conf.has("computed") && !l.has("in") && !l.has("at") {
		return waitOf(payload{Rank: l.num("computed")})
	}
	return max(l.dur("in"), l.dur("at"))
}
