package world

import (
	"context"
	"log/slog"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/executor/executortest"
)

// A schedule fires: no tick twice, whatever dies.
var scheduling = &feature{
	name: "cron", apart: true, claims: `cron.New cron.Config.Logger cron.Add cron.Schedule.Name cron.Schedule.Spec cron.Schedule.Queue cron.Schedule.Payload
		cron.Schedule.Missed cron.Schedule.Overlap cron.MissedSkip cron.MissedOnce cron.MissedAll cron.OverlapQueue cron.Cron.Start cron.Cron.Stop`,
	queue: func(d *draw, l line) {
		if d.chance(2) && !d.has("merge") && !d.has("nodes") {
			l.set("cron", d.one("skip", "once", "all"))
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
		Overlap: cron.OverlapQueue,
		Missed:  map[string]cron.Missed{"skip": cron.MissedSkip, "once": cron.MissedOnce, "all": cron.MissedAll}[q.conf.str("cron")],
		Payload: func(tick time.Time) payload { return w.tick(q, tick) },
	})
	if err != nil {
		return err
	}
	stop := func() { _ = c.Stop(context.Background()) }
	executortest.AtEnd(x, stop)
	w.mu.Lock()
	w.state["cron "+name] = stop
	w.mu.Unlock()
	return c.Start()
}

// tick is the payload of a tick, the same each time that it is asked for.
func (w *world) tick(q *queue, at time.Time) payload {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := "tick " + q.conf.str("name") + at.String()
	i, known := w.state[key].(*item)
	if !known {
		n := w.ledger.number()
		i = w.add(&item{n: n, queue: q.name, id: "tick " + q.conf.str("name"), value: payload{N: n}, state: maybe, moved: w.epoch, born: w.epoch})
		w.state[key] = i
	}
	if i.state != acked {
		i.life = w.life
	}
	return i.value
}
