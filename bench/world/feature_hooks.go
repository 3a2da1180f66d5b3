package world

import (
	"context"
	"runtime"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor"
)

// Hooks of a worker hear of a job that has failed for the last time, once for each payload that dies of that, and
// may panic, end their goroutine, or take time.
var hooking = &feature{
	name: "hooks",
	plan: []string{"fail", "fail", "panic", "1s:fail", "cancel"},
	queue: func(d *draw, l line) {
		l.set("hook", d.one("quiet", "panics", "exits", "slow", "slow"))
		if d.chance(3) {
			l.set("format", d.one("panics", "exits"))
		}
	},
	apply: func(w *world, q *queue, cfg *executor.QueueConfig[payload]) {
		life := w.life
		if q.conf.has("hook") {
			cfg.DeadLetters.RetriesExhausted = func(ctx context.Context, jobs []executor.Merged[payload]) {
				w.exhausted(q, life, jobs)
				defer w.listen(q)()
				w.misbehave(ctx, q.conf.str("hook"))
			}
		}
		if q.conf.has("format") {
			cfg.DeadLetters.FormatError = func(error) string {
				w.misbehave(context.Background(), q.conf.str("format"))
				return "formatted"
			}
		}
	},
	began: func(w *world, r *run) {
		for _, i := range r.items {
			if i.given == w.life && w.town == nil && !i.hurried && i.back == nil && !r.queue.gathers() && !r.queue.twice() {
				w.fail("exhausted: %v was said to have failed for the last time, and runs again", i)
			}
			i.given = 0
		}
	},
}

// misbehave does what a hook may do. Where workers never rest, none takes time.
func (w *world) misbehave(ctx context.Context, how string) {
	switch how {
	case "panics":
		panic("planned panic of a hook")
	case "exits":
		runtime.Goexit()
	case "slow":
		if w.town == nil {
			select {
			case <-time.After(2 * time.Second):
			case <-ctx.Done():
			}
		}
	}
}

// listen notes that a hook of a queue is at work, until the function that it returns is called: what it was told of, and
// what came of the same batch, is not written down before.
func (w *world) listen(q *queue) (over func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listening[q]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.listening[q]--
	}
}

// exhausted is told of jobs that have failed for the last time.
func (w *world) exhausted(q *queue, life int, jobs []executor.Merged[payload]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.lives(life) {
		return
	}
	if len(jobs) == 0 {
		w.fail("exhausted: %s is told of no job", q.name)
	}
	for _, job := range jobs {
		switch rule := q.conf.str("exhausted"); {
		case rule == "halt", rule != "all" && len(job.Payloads) != 1, len(job.Payloads) == 0:
			w.fail("exhausted: %s/%s with %d payloads, under %q", q.name, job.ID, len(job.Payloads), rule)
		case job.LastError == "", job.Attempt <= q.conf.num("retries"):
			w.fail("exhausted: %s/%s at attempt %d, with error %q", q.name, job.ID, job.Attempt, job.LastError)
		}
		for _, p := range job.Payloads {
			items, strange := w.ledger.find(q.name, job.ID, p.Position, p.Value)
			if strange != "" && w.town == nil {
				w.fail("%s, in a hook", strange)
			}
			for _, i := range items {
				w.gives(q, i)
			}
		}
	}
}

// gives notes that a payload has failed for the last time.
func (w *world) gives(q *queue, i *item) {
	if w.town == nil && !i.hurried && i.back == nil && (i.given == w.life || i.place == dead) && !q.gathers() {
		w.fail("exhausted: %v was said to be so before, or is dead", i)
	}
	i.given, i.doom, i.moved = w.life, w.epoch, w.epoch
}

// wasTold: of a payload that is dead because its handler has failed, its queue was told before.
func (w *world) wasTold(q *queue, i *item, why string) {
	failed := (strings.Contains(why, errPlanned.Error()) || strings.Contains(why, "planned panic")) && !strings.Contains(why, "decode") && !w.flaps(i, true)
	if !failed || i.place == dead || i.given != 0 || i.hurried || i.back != nil || w.town != nil || !q.conf.has("hook") || q.conf.has("changed") ||
		q.conf.str("exhausted") == "halt" || q.conf.has("when") || q.rings() || q.gathers() {
		return
	}
	w.fail("exhausted: %v is dead of %q, and nobody was told that", i, why)
}
