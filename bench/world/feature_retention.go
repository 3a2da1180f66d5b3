package world

import "github.com/strandjobs/strand/executor"

// What is dead is kept for some time, or some of it.
var keeping = &feature{
	name: "retention", claims: "Retention.Age Retention.Count",
	plan:  []string{"cancel", "cancel"},
	queue: func(d *draw, l line) { l.set("keep", d.one("1", "3", "30s")) },
	apply: func(_ *world, q *queue, cfg *executor.QueueConfig[payload]) {
		cfg.DeadLetters.Retention = executor.Retention{Count: q.conf.num("keep"), Age: q.conf.dur("keep")}
	},
	calm: func(w *world, c *census) {
		for _, q := range c.stats.Queues {
			most := 1
			if w.town != nil { // each partition keeps as many
				most = partitions
			}
			if queue := w.queueOf(q.Name); queue != nil && queue.conf.num("keep") > 0 && q.Dead > most*queue.conf.num("keep") {
				w.fail("kept: %s has %d dead payloads, of %s", q.Name, q.Dead, queue.conf.str("keep"))
			}
		}
	},
}

// expired reports whether a payload may be gone because it was dead for too long. A job that
// closes a circle of lanes and keys is buried without a run, and its payloads may be gone
// before anybody has seen that.
func (w *world) expired(i *item) bool {
	q := w.queueOf(i.queue)
	return q != nil && q.conf.has("keep") && (i.doom > 0 || q.conf.has("lane") && q.conf.has("locks"))
}
