package world

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor"
)

// What a handler stages is accepted once for each job that succeeds, and not otherwise,
// whatever dies in between. What it enqueues by itself is accepted as any call.
var following = &feature{
	name: "followups", claims: "Queue.FollowUp",
	plan: []string{
		"follow~q1.a", "follow~q1.b", "follow~q2.c", "2s:follow~q1.c", "enq~q1.b", "follow~q1.c+own", "follow~q2.a+bare",
		"follow~q1.a!fail", "follow~q2.b!panic", "follow~q1.c!goexit", "follow~q1.b!cancel", "follow~q2.a!discard",
		"follow~q1.a!snooze~1s", "2s:follow~q1.b!after~1s", "follow~q2.c!throttled~3s",
		"follow~q1.b+in", "2s:follow~q2.a+at", "follow~q1.c+first", "follow~q2.b+last",
		"follow~q1.b!stray", "follow~q1.a!follow~q2.b", "late~q1.a",
	},
	acts: map[string]func(*world, context.Context, *run, int, string) error{
		"follow": stageOne, "enq": enqueueWithin, "late": stageLate,
	},
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
			q := w.queueOf(f.queue)
			if q == nil || q.gathers() || q.conf.has("waslatest") || q.conf.has("when") || deleted {
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
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queueOf(name), id
}

// placed is what a follow-up may say of itself.
var placed = map[string]line{
	"in": newLine("follow", "in", "3s"), "at": newLine("follow", "at", "3s"),
	"first": newLine("follow", "score", 1), "last": newLine("follow", "score", 4_000_000_000),
}

// offspring makes an item of a payload that has no line of its own.
func (w *world) offspring(q *queue, id string, r *run, l line) *item {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := payload{N: w.ledger.number()}
	if q.conf.has("merge") {
		v = payload{V: 1}
	}
	i := w.add(&item{n: v.N, queue: q.name, id: id, value: v, score: q.scoreOf(l), life: w.life, moved: w.epoch, born: w.epoch})
	if wait := q.waitOf(l); wait > 0 {
		i.due, i.alone = time.Now().Add(wait), w.known == w.epoch-1 && !w.hasJob(q, id)
	}
	if r != nil {
		r.staged = append(r.staged, i)
	}
	return i
}

// stageOne stages a follow-up, and goes on with the act behind a !, if there is one.
func stageOne(w *world, ctx context.Context, r *run, at int, arg string) error {
	arg, then, _ := strings.Cut(arg, "!")
	arg, own, _ := strings.Cut(arg, "+")
	q, id := w.target(arg)
	if q == nil {
		return nil
	}
	l := placed[own]
	if q.conf.str("latest") == "yes" && l.has("score") { // its states have none
		l = line{}
	}
	i := w.offspring(q, id, r, l)
	err := q.on(r).queue.FollowUp(r.parent, id, i.value, append(w.inherit(r, i, own), putOff.option(w, l)...)...)
	if err == nil {
		return w.do(ctx, r, at, then)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	i.unsay(refused)
	return err
}

// inherit gives a follow-up the metadata of its job, of the last payload if there are several; a pair
// of its own replaces one of these, and metadata without pairs all of them.
func (w *world) inherit(r *run, i *item, own string) []executor.Option {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i.meta = make(map[string]string); own == "bare" {
		return []executor.Option{executor.Metadata(nil)}
	}
	maps.Copy(i.meta, r.parts[len(r.parts)-1].meta)
	if own != "own" {
		return nil
	}
	i.meta["m"] = own
	return []executor.Option{executor.Metadata(map[string]string{"m": own})}
}

// stageLate has a goroutine of a handler stage a follow-up when the handler has returned: it is refused.
func stageLate(w *world, _ context.Context, r *run, _ int, arg string) error {
	q, id := w.target(arg)
	if q == nil || q.conf.has("merge") { // it would be taken for an equal one
		return nil
	}
	i := w.offspring(q, id, nil, line{})
	to := q.on(r).queue
	w.waiters.Go(func() {
		for n, runs := 0, true; runs && n < 3600; n++ {
			time.Sleep(time.Second)
			w.mu.Lock()
			runs = slices.Contains(w.running, r)
			w.mu.Unlock()
		}
		err := to.FollowUp(r.parent, id, i.value)
		w.mu.Lock()
		defer w.mu.Unlock()
		if i.unsay(refused); err == nil {
			w.fail("follow-ups: %v was staged behind the return of its handler", i)
		}
	})
	return nil
}

func enqueueWithin(w *world, ctx context.Context, r *run, _ int, arg string) error {
	q, id := w.target(arg)
	if q == nil {
		return nil
	}
	i := w.offspring(q, id, nil, line{})
	receipt, err := q.on(r).queue.Enqueue(ctx, id, i.value)
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.life == w.life {
		w.answered(q, newLine("within"), []*item{i}, []executor.Receipt{receipt}, err)
	}
	return nil
}
