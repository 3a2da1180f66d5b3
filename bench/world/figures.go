package world

import (
	"context"
	"maps"
	"slices"
	"testing/synctest"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
)

// figures are those of a queue at the beginning of a life.
type figures struct {
	sum      int
	accepted int // in this life, before that
}

// sum is how many payloads a queue has had: wherever one goes, the sum stays.
func sum(q inspect.QueueStats) int {
	return q.Payloads + q.Dead + int(q.Done+q.Discarded+q.Merged+q.Deleted+q.Expired+q.SupersededDead)
}

// baseline notes the figures of a life that begins.
func (w *world) baseline() {
	synctest.Wait()
	stats, err := w.x.Stats(context.Background())
	w.hear()
	if err != nil {
		if !w.x.Killed() {
			w.fail("Stats: %v", err)
		}
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.base = make(map[string]figures)
	for _, q := range stats.Queues {
		w.base[q.Name] = figures{sum(q), w.account(q.Name).payloads[events.Accepted]}
	}
	for _, i := range w.ledger.items {
		if i.life == w.life {
			i.life = -w.life // a schedule was quicker, and may have been counted
		}
	}
}

// account is what is known of the totals of a queue in a life.
type account struct {
	payloads, runs                            map[events.Kind]int // of which events have told
	read                                      map[events.Kind]int // payloads, to a reader
	done, discarded, deleted, expired, buried bounds              // of which the ledger knows
}

// account is that of a queue in this life.
func (w *world) account(name string) *account {
	a := w.accounts[name]
	if a == nil {
		a = &account{payloads: make(map[events.Kind]int), runs: make(map[events.Kind]int), read: make(map[events.Kind]int)}
		w.accounts[name] = a
	}
	return a
}

// book notes what a census says of the end of a payload, of which it may be the first in its life: then
// that may have come in the one before.
func (w *world) book(i *item, where place) {
	a, q := w.account(i.queue), w.queueOf(i.queue)
	here := w.knew == w.life && q.late <= w.known
	a.buried.count(here && where == dead && i.place != dead, where == dead && i.place != dead || where == nowhere && i.place != dead && (i.doom > 0 || i.told == "expired" || i.told == "deleted"))
	a.buried.most += i.revived
	i.revived = 0
	if i.booked = where == nowhere; !i.booked {
		return
	}
	mine := i.hintLife == w.life
	a.done.count(i.told == "done" && mine, i.calls > 0)
	a.discarded.count(i.told == "discarded" && mine, i.calls > 0 || q.conf.has("when"))
	a.deleted.count(i.told == "deleted" && here && i.ended < w.known && !q.conf.has("keep") && !q.conf.has("when"), i.hurried)
	a.expired.count(i.told == "expired" && here, q.conf.has("keep"))
}

// totals compares each total with the events, of which none was missed, and with the ledger.
func (w *world) totals(q inspect.QueueStats) {
	a, conf := w.account(q.Name), w.queueOf(q.Name)
	if w.listening[conf] > 0 { // what a hook was told of is counted when it has returned
		return
	}
	for _, f := range []struct {
		name string
		got  uint64
		told int
	}{
		{"done", q.Done, a.payloads[events.Done]}, {"discarded", q.Discarded, a.payloads[events.Discarded]}, {"buried", q.Buried, a.payloads[events.Buried]},
		{"merged", q.Merged, a.payloads[events.Merged]}, {"failed", q.Failed, a.runs[events.Failed]}, {"snoozed", q.Snoozed, a.runs[events.Snoozed]},
		{"interrupted", q.Interrupted, a.runs[events.Interrupted]},
		{"accepted", uint64(sum(q) - w.base[q.Name].sum), a.payloads[events.Accepted] - w.base[q.Name].accepted},
	} {
		beside := f.name == "failed" && conf.conf.str("hook") == "slow" // a person has had the job away while the hook was told of it
		if int(f.got) != f.told && !(beside && int(f.got) < f.told) {
			w.fail("totals: %s has %d %s, and events have told of %d: %+v", q.Name, f.got, f.name, f.told, q)
		}
	}
	if w.reads && !maps.Equal(a.read, a.payloads) {
		w.fail("totals: a reader has heard of %v in %s, and events are %v", a.read, q.Name, a.payloads)
	}
	if conf.gathers() {
		return // one stands for several
	}
	for _, f := range []struct {
		name string
		got  uint64
		b    bounds
	}{{"done", q.Done, a.done}, {"discarded", q.Discarded, a.discarded}, {"deleted", q.Deleted, a.deleted}, {"expired", q.Expired, a.expired}, {"buried", q.Buried, a.buried}} {
		if f.b.most += w.unsaid(q.Name); !f.b.has(int(f.got)) {
			w.fail("totals: %s has %d %s, and it is %v: %+v", q.Name, f.got, f.name, f.b, q)
		}
	}
}

// unsaid is how many payloads of a queue may have been accepted, and may have ended.
func (w *world) unsaid(queue string) (n int) {
	for _, i := range w.ledger.items {
		if i.queue == queue && (i.state == tried || i.state == maybe) {
			n++
		}
	}
	return n
}

// conserving: what was accepted is what ended and what is left, in all figures alike.
var conserving = &feature{
	name: "figures", always: true,
	calm: func(w *world, c *census) {
		for _, q := range c.stats.Queues {
			if !q.Registered || c.stale {
				continue
			}
			w.conserve(c, q)
			if w.town == nil {
				w.totals(q)
			}
		}
	},
}

func (w *world) conserve(c *census, q inspect.QueueStats) {
	least, most := w.base[q.Name].sum, w.base[q.Name].sum
	for _, i := range w.ledger.items {
		switch {
		case i.queue != q.Name || i.life != w.life && i.life != -w.life:
		case i.state == acked && i.life > 0:
			least++
			most++
		case i.state != refused:
			most++
		}
	}
	if got := sum(q); got < least || got > most {
		w.fail("figures: %s has had %d payloads, and %d to %d were accepted: %+v", q.Name, got, least, most, q)
	}
	alive, gone := 0, 0
	for _, job := range c.jobs[q.Name] {
		alive += len(job.InHand) + len(job.Waiting)
		gone += len(job.Dead)
	}
	if alive != q.Payloads || gone != q.Dead {
		w.fail("figures: %s has %d payloads and %d dead ones, and Inspect shows %d and %d", q.Name, q.Payloads, q.Dead, alive, gone)
	}
}

// noneIsReady is about a moment at which nothing is left to do now: a job that is due, and
// that nothing keeps, would have run.
func (w *world) noneIsReady() {
	if !w.calm() {
		return
	}
	all, paused := w.x.Inspect().Paused()
	for _, q := range w.queues {
		if all || slices.Contains(paused, q.name) {
			continue
		}
		page, err := w.x.Inspect().Jobs(context.Background(), inspect.JobQuery{Queue: q.name, States: []inspect.JobState{inspect.JobReady}})
		if err == nil && len(page.Jobs) > 0 {
			w.fail("asleep: %s/%s is ready, and nothing runs it", q.name, page.Jobs[0].ID)
		}
		w.noneSleeps(q)
	}
}

// noneSleeps: what stands aside waits for something. All jobs are asked for: a list of those that stand
// aside leaves out shards whose figures have none.
func (w *world) noneSleeps(q *queue) {
	page, err := w.x.Inspect().Jobs(context.Background(), inspect.JobQuery{Queue: q.name, Limit: 1000})
	if err != nil {
		return
	}
	for _, job := range page.Jobs {
		if job.State != inspect.JobParked {
			continue
		}
		if e, err := w.x.Inspect().Explain(context.Background(), q.name, job.ID); err == nil && e.State == inspect.JobReady {
			w.fail("asleep: %s/%s stands aside, and waits for nothing", q.name, job.ID)
			return
		}
	}
}
