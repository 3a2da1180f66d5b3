package world

import (
	"errors"

	"github.com/strandjobs/strand/executor"
)

// The backlog is bounded, calls wait for room or are refused, and what waits need not be in
// memory.
var pressing = &feature{
	name: "pressure", claims: `QueueConfig.MaxBacklog Config.MaxBacklog Config.Overflow
		Config.MemoryBudget Config.MaxPayloadBytes OverflowRefuse OverflowWait`,
	world: func(d *draw, l line) {
		if d.chance(2) {
			l.set("memory", d.one("1", "300", "2000"))
		}
		if d.chance(2) {
			l.set("backlog", 3+d.IntN(6))
		}
		if d.chance(3) {
			l.set("overflow", "wait")
		}
		l.set("largest", 2000)
	},
	config: func(w *world, cfg *executor.Config) {
		cfg.MemoryBudget, cfg.MaxBacklog, cfg.MaxPayloadBytes = w.conf.num("memory"), w.conf.num("backlog"), w.conf.num("largest")
		if w.conf.has("overflow") {
			cfg.Overflow = executor.OverflowWait
		}
	},
	queue: func(d *draw, l line) {
		if d.chance(3) {
			l.set("backlog", 2+d.IntN(4))
		}
	},
	apply: func(_ *world, q *queue, cfg *executor.QueueConfig[payload]) { cfg.MaxBacklog = q.conf.num("backlog") },
	enqueue: func(d *draw, l line) {
		l.set("fill", d.one("1", "200", "900", "3000"))
		if !l.has("ctx") {
			l.set("ctx", "3s")
		}
	},
	answered: func(w *world, q *queue, l line, mine []*item, _ []executor.Receipt, err error) {
		full := (*executor.FullError)(nil)
		if !errors.As(err, &full) || full.Disk || !w.alone(l) || w.known != w.epoch-1 {
			return
		}
		all, its := len(mine), len(mine)
		for _, i := range w.ledger.items {
			if i.place == waits && i.state == acked {
				all++
				if i.queue == q.name {
					its++
				}
			}
		}
		fits := (w.conf.num("backlog") == 0 || all <= w.conf.num("backlog")) && (q.conf.num("backlog") == 0 || its <= q.conf.num("backlog"))
		if fits && !q.gathers() {
			w.fail("refused without need: %v: %d payloads of the queue, %d of all: %v", l, its, all, err)
		}
	},
	calm: func(w *world, c *census) {
		for _, q := range c.stats.Queues {
			if conf := w.queueOf(q.Name); conf != nil && conf.conf.has("backlog") && q.Backlog.Payloads != q.Payloads && len(w.running) == 0 && !c.stale {
				w.fail("figures: the backlog of %s is %d, and it has %d payloads", q.Name, q.Backlog.Payloads, q.Payloads)
			}
		}
	},
}
