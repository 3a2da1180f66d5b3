package world

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/executor/executortest"
)

// A schedule fires: no tick twice, whatever dies.
var scheduling = &feature{
	name: "cron", apart: true, claims: `cron.New cron.Config.Logger cron.Add cron.Schedule.Name cron.Schedule.Spec cron.Schedule.Queue cron.Schedule.Payload
		cron.Schedule.Missed cron.Schedule.Overlap cron.MissedSkip cron.MissedOnce cron.MissedAll cron.OverlapQueue
		cron.OverlapParallel cron.OverlapSkip cron.Cron.Start cron.Cron.Stop
		cron.Cron.Pause cron.Cron.Resume cron.Cron.TriggerNow cron.Cron.List`,
	queue: func(d *draw, l line) {
		if d.chance(2) && !d.has("merge") && !d.has("nodes") {
			l.set("cron", d.one("skip", "once", "all"))
			l.set("overlap", d.one("queue", "queue", "parallel", "skip"))
		}
	},
	steps: []step{{"schedule", 6, false, func(d *draw) line {
		what := d.one("pause", "pause", "resume", "resume", "trigger")
		return newLine("schedule", "q", d.anyQueue().str("name"), "what", what)
	}, playSchedule}},
	calm: func(w *world, c *census) {
		for _, q := range w.queues {
			w.oneTick(c, q)
		}
	},
	after: func(w *world, x *executor.Executor) error {
		for _, q := range w.queues {
			if !q.conf.has("cron") {
				continue
			}
			if err := w.schedule(x, q); err != nil {
				return err
			}
		}
		return nil
	},
	lift: func(w *world) {
		for _, q := range w.queues {
			if stop, ok := w.state["cron "+q.conf.str("name")].(func()); ok {
				stop()
			}
		}
	},
}

func (w *world) schedule(x *executor.Executor, q *queue) error {
	c, err := cron.New(x, cron.Config{Logger: slog.New(slog.NewTextHandler(w.logTo(), nil))})
	if err != nil {
		return err
	}
	name := q.conf.str("name")
	err = cron.Add(context.Background(), c, cron.Schedule[payload]{
		Name: "tick " + name, Spec: "* * * * *", Queue: q.queue,
		Overlap: overlaps[q.conf.str("overlap")],
		Missed:  map[string]cron.Missed{"skip": cron.MissedSkip, "once": cron.MissedOnce, "all": cron.MissedAll}[q.conf.str("cron")],
		Payload: func(tick time.Time) payload { return w.tick(q, tick) },
	})
	if err != nil {
		return err
	}
	stop := func() { _ = c.Stop(context.Background()) }
	executortest.AtEnd(x, stop)
	w.mu.Lock()
	w.state["cron "+name], w.state["crontab "+name] = stop, c
	w.mu.Unlock()
	return c.Start()
}

// overlaps are what a tick does beside the job of an earlier one.
var overlaps = map[string]cron.Overlap{
	"": cron.OverlapQueue, "queue": cron.OverlapQueue, "parallel": cron.OverlapParallel, "skip": cron.OverlapSkip,
}

// oneTick: under OverlapSkip no tick is enqueued while the job of an earlier one is there, unless that
// was dead by then.
func (w *world) oneTick(c *census, q *queue) {
	if q.conf.str("overlap") != "skip" || c.stale {
		return
	}
	id, some := "tick "+q.conf.str("name"), 0
	for _, i := range w.ledger.items {
		if i.queue == q.name && i.id == id && i.place == waits && i.seen == w.epoch && !i.buried && !i.revive {
			some++
		}
	}
	if some > 1 {
		w.fail("ticks: %d jobs of %s wait at a time", some, id)
	}
}

// playSchedule has a person pause a schedule, let it go on, or fire it by hand.
func playSchedule(w *world, l line) {
	ctx, cancel := w.context(l)
	defer cancel()
	w.mu.Lock()
	q := w.queueOf(l.str("q"))
	var c *cron.Cron
	if q != nil {
		c, _ = w.state["crontab "+q.conf.str("name")].(*cron.Cron)
	}
	if c == nil || !q.conf.has("cron") {
		w.mu.Unlock()
		return
	}
	name, key := "tick "+q.conf.str("name"), "paused tick "+q.conf.str("name")
	_, paused := w.state[key].(time.Time)
	life := w.life
	if l.str("what") == "resume" {
		delete(w.state, key) // it may go on from here
	}
	w.mu.Unlock()
	var err error
	switch l.str("what") {
	case "pause":
		err = c.Pause(ctx, name)
	case "resume":
		err = c.Resume(ctx, name)
	case "trigger":
		w.trigger(ctx, c, q, name)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	pause, all := l.str("what") == "pause", c.List()
	if err == nil && (len(all) != 1 || all[0].Name != name || all[0].Paused != pause) {
		w.fail("schedule: %v, and it is %+v", l, all)
	}
	if err == nil && pause && !paused && w.lives(life) {
		w.state[key] = time.Now()
	}
}

// trigger fires a schedule by hand.
func (w *world) trigger(ctx context.Context, c *cron.Cron, q *queue, name string) {
	w.mu.Lock()
	w.state["by hand "+name] = w.epoch
	w.mu.Unlock()
	_, err := c.TriggerNow(ctx, name)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state["by hand "+name] = 0
	if errors.Is(err, cron.ErrOverlap) && q.conf.str("overlap") != "skip" {
		w.fail("schedule: %s does not skip: %v", name, err)
	}
}

// tick is the payload of a tick, the same each time that it is asked for. While a schedule is paused it
// is asked for none that comes after that.
func (w *world) tick(q *queue, at time.Time) payload {
	w.mu.Lock()
	defer w.mu.Unlock()
	name, byHand := "tick "+q.conf.str("name"), w.state["by hand tick "+q.conf.str("name")] == w.epoch
	if since, paused := w.state["paused "+name].(time.Time); paused && at.After(since) && !byHand {
		w.fail("schedule: %s ticks for %v, and is paused since %v", name, at.UTC(), since.UTC())
	}
	id := name
	if q.conf.str("overlap") == "parallel" {
		id += "@" + at.UTC().Format(time.RFC3339)
		if byHand {
			id = name + "@" + at.UTC().Format("2006-01-02T15:04:05.000000000Z")
		}
	}
	key := name + at.String()
	i, known := w.state[key].(*item)
	if !known {
		n := w.ledger.number()
		i = w.add(&item{n: n, queue: q.name, id: id, value: payload{N: n}, state: maybe, moved: w.epoch, born: w.epoch})
		w.state[key] = i
	}
	if i.state != acked {
		i.life = w.life
	}
	return i.value
}
