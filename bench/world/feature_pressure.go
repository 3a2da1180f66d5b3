package world

import (
	"errors"
	"slices"

	"github.com/strandjobs/strand/executor"
)

// The backlog is bounded, calls wait for room or are refused, and what waits need not be in
// memory.
var pressing = &feature{
	name: "pressure", apart: true, claims: `QueueConfig.MaxBacklog Config.MaxBacklog
		Config.WaitForRoom Advanced.MemoryBudget Advanced.MaxPayloadBytes`,
	world: func(d *draw, l line) {
		if d.chance(2) {
			l.set("memory", d.one("1", "300", "2000"))
		}
		if d.chance(2) {
			l.set("backlog", 3+d.IntN(6))
		}
		if d.chance(3) {
			l.set("bytes", d.one("2000", "6000"))
		}
		if d.chance(3) {
			l.set("overflow", "wait")
		}
		l.set("largest", 2000)
	},
	config: func(w *world, cfg *executor.Config) {
		cfg.Advanced.MemoryBudget, cfg.MaxBacklog.Payloads, cfg.Advanced.MaxPayloadBytes = w.conf.num("memory"), w.conf.num("backlog"), w.conf.num("largest")
		cfg.MaxBacklog.Bytes = w.conf.num("bytes")
		cfg.WaitForRoom = w.conf.has("overflow")
	},
	queue: func(d *draw, l line) {
		if d.chance(3) {
			l.set("backlog", 2+d.IntN(4))
		}
		if d.chance(3) {
			l.set("bytes", d.one("1500", "3500"))
		}
	},
	apply: func(_ *world, q *queue, cfg *executor.QueueConfig[payload]) {
		cfg.MaxBacklog.Payloads, cfg.MaxBacklog.Bytes = q.conf.num("backlog"), q.conf.num("bytes")
	},
	enqueue: func(d *draw, l line) {
		l.set("fill", d.one("1", "200", "900", "3000", "20000"))
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
		if fits && !q.gathers() && !w.conf.has("bytes") && !q.conf.has("bytes") {
			w.fail("refused without need: %v: %d payloads of the queue, %d of all: %v", l, its, all, err)
		}
	},
	calm: func(w *world, c *census) {
		for _, q := range c.stats.Queues {
			if conf := w.queueOf(q.Name); conf != nil && conf.conf.has("backlog") && q.Backlog.Payloads != q.Payloads && len(w.running) == 0 && !c.stale {
				w.fail("figures: the backlog of %s is %d, and it has %d payloads", q.Name, q.Backlog.Payloads, q.Payloads)
			}
			if most := w.bytesOf(q.Name); most > 0 && q.Backlog.Bytes > most && !w.handlersEnqueue() && !c.stale {
				w.fail("too much: the backlog of %s is %d bytes, of %d", q.Name, q.Backlog.Bytes, most)
			}
		}
	},
}

// bytesOf is how much of a queue may wait, unless it was there before, or was dead.
func (w *world) bytesOf(name string) int {
	if q := w.queueOf(name); q != nil {
		return q.conf.num("bytes")
	}
	return 0
}

// handlersEnqueue reports whether more may wait than a limit says: what handlers have enqueued,
// what came before this life, and what was dead.
func (w *world) handlersEnqueue() bool {
	return w.life > 1 || slices.ContainsFunc(w.ledger.items, func(i *item) bool { return i.n > 1_000_000 || i.buried })
}
