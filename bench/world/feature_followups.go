package world

import (
	"context"
	"slices"
	"strings"

	"github.com/strandjobs/strand/executor"
)

// What a handler stages is accepted once for each job that succeeds, and not otherwise,
// whatever dies in between. What it enqueues by itself is accepted as any call.
var following = &feature{
	name: "followups", claims: "Queue.FollowUp",
	plan: []string{"follow~q1.a", "follow~q1.b", "follow~q2.c", "2s:follow~q1.c", "enq~q1.b"},
	acts: map[string]func(*world, context.Context, *run, int, string) error{"follow": stageOne, "enq": enqueueWithin},
	ended: func(w *world, r *run, err error) {
		for _, i := range r.staged {
			if err != nil {
				i.unsay(refused)
			} else {
				i.unsay(maybe)
			}
		}
		if err == nil && len(r.staged) > 0 {
			for _, i := range r.items {
				i.fruit = append(i.fruit, r)
			}
		}
	},
	died: func(_ *world, r *run) {
		for _, i := range r.staged {
			i.unsay(refused)
		}
	},
	calm: func(w *world, _ *census) {
		for _, i := range w.ledger.items {
			if len(i.fruit) > 0 {
				w.fruits(i)
			}
		}
	},
}

// fruits: of all runs of a payload that have returned nil, one has follow-ups. If the last one for
// which it was done has staged none, because it said what failed of the others, there may be none.
// Nor may there be any if they found no room, and a newer state came before it was done again.
func (w *world) fruits(i *item) {
	some := 0
	for _, r := range i.fruit {
		accepted := 0
		for _, f := range r.staged {
			if f.state == acked {
				accepted++
			}
			deleted := f.state == maybe && f.hint == "deleted" // by a person, perhaps before anybody has seen it
			if w.queueOf(f.queue) == nil || w.queueOf(f.queue).gathers() || deleted {
				return
			}
		}
		if accepted > 0 {
			some++
		}
		if accepted > 0 && accepted < len(r.staged) && !w.at.with {
			w.fail("follow-ups: %d of %d of %v were accepted: %v", accepted, len(r.staged), i, r.staged)
		}
	}
	missing := some == 0 && i.told == "done" && i.hintLife == w.term(i.id) && !w.at.with && w.known == w.epoch && slices.Contains(i.fruit, i.last) && !w.expired(i) &&
		!(i.last.refused() && w.superseded(i, tried))
	if some > 1 || missing {
		w.fail("follow-ups: those of %d runs of %v were accepted", some, i)
	}
}

// target finds the queue and id of an argument such as q1.a.
func (w *world) target(arg string) (*queue, string) {
	name, id, _ := strings.Cut(arg, ".")
	return w.queueOf(name), id
}

// staged makes an item of a payload that has no line of its own.
func (w *world) offspring(q *queue, id string, r *run) *item {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := payload{N: w.ledger.number()}
	if q.conf.has("merge") {
		v = payload{V: 1}
	}
	i := w.add(&item{n: v.N, queue: q.name, id: id, value: v, score: q.scoreOf(line{}), life: w.life, moved: w.epoch, born: w.epoch})
	if r != nil {
		r.staged = append(r.staged, i)
	}
	return i
}

func stageOne(w *world, _ context.Context, r *run, _ int, arg string) error {
	q, id := w.target(arg)
	if q == nil {
		return nil
	}
	i := w.offspring(q, id, r)
	if err := q.on(r).queue.FollowUp(r.parent, id, i.value); err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		i.unsay(refused)
		return err
	}
	return nil
}

func enqueueWithin(w *world, ctx context.Context, r *run, _ int, arg string) error {
	q, id := w.target(arg)
	if q == nil {
		return nil
	}
	i := w.offspring(q, id, nil)
	receipt, err := q.on(r).queue.Enqueue(ctx, id, i.value)
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.life == w.life {
		w.answered(q, newLine("within"), []*item{i}, []executor.Receipt{receipt}, err)
	}
	return nil
}
