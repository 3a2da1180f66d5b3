package world

import (
	"cmp"
	"time"

	"github.com/strandjobs/strand/executor"
)

// What is dead is kept for some time, or some of it.
var keeping = &feature{
	name: "retention", claims: "Retention.Age Retention.Count",
	plan: []string{"cancel", "cancel"},
	queue: func(d *draw, l line) {
		if l.set("keep", d.one("1", "3", "30s")); l.str("keep") == "30s" || d.chance(2) {
			l.set("keepfor", "30s")
		}
	},
	apply: func(_ *world, q *queue, cfg *executor.QueueConfig[payload]) {
		cfg.DeadLetters.Retention = executor.Retention{Count: q.conf.num("keep"), Age: cmp.Or(q.conf.dur("keepfor"), q.conf.dur("keep"))}
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
		for _, q := range w.queues {
			for id, job := range c.jobs[q.name] {
				for _, d := range job.Dead {
					if i := w.ledger.byPos[spot{id, d.Position}]; i != nil {
						i.died = d.At
					}
				}
				for _, d := range job.Dead { // what is due goes a 64th later, and again a minute after it has found no room
					if age := time.Since(d.At); q.conf.dur("keepfor") > 0 && age > q.conf.dur("keepfor")*17/16 && w.town == nil && w.deletes() {
						w.fail("kept: a payload of %s/%s is dead since %v", q.name, id, age)
					}
				}
			}
		}
	},
}

// expired reports whether a payload may be gone because it was dead for too long. A job that
// closes a circle of lanes or keys is buried without a run, and its payloads may be gone
// before anybody has seen that.
func (w *world) expired(i *item) bool {
	q := w.queueOf(i.queue)
	return q != nil && q.conf.has("keep") && (i.doom > 0 || q.rings())
}

// deletes reports whether what was kept for too long is gone: the clock was not set, and the disk has had room for a while.
func (w *world) deletes() bool {
	room, _ := w.state["room"].(time.Time)
	return len(w.clocks()) == 0 && !w.full.Load() && !w.slow && time.Since(room) > 5*time.Minute
}

// inItsTurn: what is dead is kept as long as its queue says, or until there are so many that were accepted
// later. What died in an earlier life, under other settings perhaps, tells nothing.
func (w *world) inItsTurn(i *item, found map[*item]place) {
	q := w.queueOf(i.queue)
	if i.seen != w.known && i.born <= w.known || w.knew != w.life || w.town != nil || len(w.clocks()) > 0 || q.gathers() {
		return
	}
	wasDead := i.place == dead && i.seen == w.known
	if age := time.Since(i.died); wasDead && q.conf.num("keep") == 0 && !i.died.IsZero() && age < q.conf.dur("keepfor") {
		w.fail("kept too short: %v was dead for %v at most", i, age)
	}
	for _, other := range w.ledger.items {
		// What died after i was deleted may be older than that, if a person has taken out what is newer.
		stays := wasDead && other.place == dead && max(other.lived, other.born, other.moved) < w.known || q.taken <= w.known
		if !q.conf.has("keepfor") && stays && found[other] == dead && other.queue == i.queue && !i.guess && !other.guess && other.pos < i.pos {
			w.fail("kept: %v, which was accepted before %v, which is deleted", other, i)
		}
	}
}
