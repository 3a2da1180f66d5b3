package world

import (
	"errors"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/lock"
)

// Each job that runs has a number of its own, and the number of one that has succeeded
// never comes again.
var numbering = &feature{
	name: "slots", apart: true, claims: `Conditions.Slots NewSlots Slots.Of Slots.Clear Slots.Reset Slots.Snapshot Inspector.Slots Advanced.SlotTTL
		SlotsConfig.Next SlotsConfig.TTL SlotsConfig.KeepOnFailure SlotsConfig.KeepOnBurial`,
	plan: []string{"2s:ok", "2s:fail", "clear", "1s:clear"},
	acts: map[string]func(*world, ctx, *run, int, string) error{"clear": clearSlot},
	world: func(d *draw, l line) {
		if d.chance(2) {
			l.set("slotttl", "1h")
		}
		if d.chance(2) {
			l.set("keepslots", "yes")
		}
		if d.chance(2) {
			l.set("keepburied", "yes")
		}
	},
	config: func(w *world, cfg *executor.Config) { cfg.Advanced.SlotTTL = w.conf.dur("slotttl") },
	steps:  []step{{"resetslots", 1, false, func(*draw) line { return newLine("resetslots") }, resetSlots}},
	queue: func(d *draw, l line) {
		if !d.chance(3) {
			l.set("slots", "yes")
		}
	},
	begin: func(w *world, x *executor.Executor) {
		slots, err := executor.NewSlots(x, "numbers", executor.SlotsConfig[int]{
			Next: func(n int) int { return n + 1 }, TTL: slotTTL(w),
			KeepOnFailure: w.conf.has("keepslots"), KeepOnBurial: w.conf.has("keepburied"),
		})
		if err != nil {
			w.fail("NewSlots: %v", err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.state["slots"], w.state["held"] = slots, map[int]*run{}
	},
	apply: func(w *world, q *queue, cfg *executor.QueueConfig[payload]) {
		if q.conf.has("slots") {
			cfg.Conditions.Slots = []executor.SlotSource{w.state["slots"].(*executor.Slots[int])}
		}
	},
	began: func(w *world, r *run) {
		if !r.queue.conf.has("slots") {
			for _, i := range r.items { // its queue may have had some
				i.slot, i.kept = 0, keptSlot{}
			}
			return
		}
		n, ok := w.state["slots"].(*executor.Slots[int]).Of(r.parent)
		cleared := slices.ContainsFunc(r.items, func(i *item) bool { return i.cleared == attempt{r.life, r.attempt} })
		if !ok && cleared {
			return // in an earlier call of the attempt, as of a batch that is halved
		}
		if !ok {
			w.fail("slots: %s/%s has none", r.queue.name, r.id)
			return
		}
		for _, other := range w.running {
			if other.slot == n && other.queue.conf.has("slots") {
				w.fail("slots: %d is that of %s/%s and of %s/%s", n, other.queue.name, other.id, r.queue.name, r.id)
			}
		}
		for _, i := range w.ledger.items {
			if i.slot == n && i.told == "done" {
				w.fail("slots: %d is that of %s/%s, and was that of %v", n, r.queue.name, r.id, i)
			}
		}
		r.slot = n
		w.buriedWith(r)
		for _, i := range r.items {
			if i.kept.slot != 0 && i.kept.slot != n && i.kept.by == (attempt{r.life, r.attempt - 1}) && time.Now().Before(i.kept.until) {
				w.fail("slots: %s/%s has %d, and its retry was to have %d", r.queue.name, r.id, n, i.kept.slot)
			}
			if w.moves(n) {
				i.slot = n
			}
		}
	},
	peek: func(w *world) { w.peekSlots() },
	ended: func(w *world, r *run, err error) {
		for _, i := range r.items {
			if i.kept = (keptSlot{}); err != nil {
				i.slot = 0 // it was given back
			}
			short := slotTTL(w) == 0 && r.queue.conf.dur("timeout") > 0 // then that is the TTL
			if w.takesAlong(r, i, err) && !short {
				i.tomb = keptSlot{r.slot, attempt{r.life, r.attempt}, time.Now().Add(30 * time.Minute)}
			}
			if err == errPlanned && !r.full && !short && r.queue.conf.str("shape") == "handle" && w.conf.has("keepslots") {
				i.kept = keptSlot{r.slot, attempt{r.life, r.attempt}, time.Now().Add(30 * time.Minute)} // the TTL counts from within the run
			}
		}
	},
}

// takesAlong reports whether a payload is dead now for certain, and keeps the number of its run.
func (w *world) takesAlong(r *run, i *item, err error) bool {
	whole := r.slot != 0 && !r.full && !r.cut && !i.hurried && !r.queue.gathers() && !r.queue.twice()
	return whole && w.conf.has("keepburied") && r.queue.conf.str("shape") == "handle" &&
		executor.OutcomeOf(err) == events.Cancelled
}

// buriedWith: nobody has the number of a job that was dead-lettered, nor that one when a person puts it
// back, until the TTL is over. In another life it may be one whose end was not on disk.
func (w *world) buriedWith(r *run) {
	for _, i := range w.ledger.items {
		if i.tomb.slot == r.slot && time.Now().Before(i.tomb.until) && i.tomb.by.life == r.life {
			w.fail("slots: %s/%s has %d, with which %v was buried", r.queue.name, r.id, r.slot, i)
		}
	}
}

// keptSlot is a number that a job keeps which has failed, until its retry.
type keptSlot struct {
	slot  int // 0: none
	by    attempt
	until time.Time
}

// slotTTL is what the slots say themselves; 0: the executor says it.
func slotTTL(w *world) time.Duration {
	if w.conf.has("slotttl") {
		return 0
	}
	return time.Hour
}

// clearSlot gives a slot back: others may have its number, which ends with nobody then.
func clearSlot(w *world, _ ctx, r *run, _ int, _ string) error {
	if !r.queue.conf.has("slots") {
		return nil
	}
	w.mu.Lock()
	had := r.slot
	r.slot = 0
	for _, i := range r.items {
		i.slot, i.cleared = 0, attempt{r.life, r.attempt}
	}
	slots := w.state["slots"].(*executor.Slots[int])
	w.mu.Unlock()
	err := slots.Clear(r.parent)
	if r.life == w.life && !w.x.Killed() && (had == 0) != errors.Is(err, lock.ErrLockLost) && w.x.Err() == nil {
		w.fail("slots: to clear number %d of %s/%s says %v", had, r.queue.name, r.id, err)
	}
	return err
}

// resetSlots begins the numbers anew: those of jobs that have ended come again.
func resetSlots(w *world, l line) {
	slots, ok := w.state["slots"].(*executor.Slots[int])
	if !ok {
		return
	}
	w.mu.Lock()
	for _, i := range w.ledger.items { // others may have it when its job has ended
		i.slot, i.kept, i.tomb = 0, keptSlot{}, keptSlot{}
	}
	w.mu.Unlock()
	ctx, cancel := w.context(l)
	defer cancel()
	if err := slots.Reset(ctx); err == nil {
		if s := slots.Snapshot(); s.Known {
			w.fail("slots: the last is %d at %d behind a Reset", s.Last, s.Position)
		}
	}
}

// moves reports whether the sequence goes on behind a number when its job succeeds. A job that had
// one when the numbers were reset keeps it, also over a crash and for what merges into it, and others
// have it afterwards.
func (w *world) moves(n int) bool {
	return slices.ContainsFunc(w.state["slots"].(*executor.Slots[int]).Snapshot().Open, func(h lock.SlotHeld[int]) bool {
		return h.Value == n && h.Position > 0
	})
}

// peekSlots: what is shown of the numbers agrees with what the inspector lists, and each job that runs has its own there.
func (w *world) peekSlots() {
	slots, ok := w.state["slots"].(*executor.Slots[int])
	if !ok {
		return
	}
	s := slots.Snapshot()
	held, more, err := w.x.Inspect().Slots(0)
	if err != nil || len(held)+more != len(s.Open) && w.someHaveSlots() {
		w.fail("slots: Inspect shows %d and %d more, Snapshot %d: %v", len(held), more, len(s.Open), err)
	}
	for _, r := range w.running {
		if r.slot != 0 && !slices.ContainsFunc(s.Open, func(h lock.SlotHeld[int]) bool { return h.Value == r.slot }) {
			w.fail("slots: %d of %s/%s, which runs, is not in %v", r.slot, r.queue.name, r.id, s.Open)
		}
	}
}

func (w *world) someHaveSlots() bool {
	return slices.ContainsFunc(w.queues, func(q *queue) bool { return q.conf.has("slots") })
}
