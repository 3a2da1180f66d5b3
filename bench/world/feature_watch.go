package world

import (
	"context"
	"time"

	"github.com/strandjobs/strand/executor"
)

// Handlers have a time, and give signs of life.
var watching = &feature{
	name: "watch", claims: `QueueConfig.Timeout QueueConfig.HeartbeatTimeout Heartbeat Progress Stuck.After Stuck.SpareWorkers
		`,
	plan: []string{"8s:ok", "8s:fail", "beat~8s", "deaf~6s"},
	world: func(d *draw, l line) {
		if d.chance(2) {
			l.set("spare", 1)
		}
	},
	config: func(w *world, cfg *executor.Config) {
		cfg.Stuck.SpareWorkers = w.conf.num("spare")
		if w.conf.has("spare") {
			cfg.Stuck.After = time.Second
		}
	},
	queue: func(d *draw, l line) {
		switch d.IntN(3) {
		case 0:
			l.set("timeout", "2s")
		case 1:
			l.set("heartbeat", "3s")
		}
	},
	apply: func(_ *world, q *queue, cfg *executor.QueueConfig[payload]) {
		cfg.Timeout, cfg.HeartbeatTimeout = q.conf.dur("timeout"), q.conf.dur("heartbeat")
	},
	acts: map[string]func(*world, ctx, *run, int, string) error{"beat": beat, "deaf": func(_ *world, _ ctx, _ *run, at int, arg string) error {
		if d, _ := time.ParseDuration(arg); at == 0 { // several would be deaf for longer than a stop waits
			time.Sleep(d)
		}
		return nil
	}},
}

// beat works for some time, and says so each second.
func beat(_ *world, ctx context.Context, _ *run, _ int, arg string) error {
	d, _ := time.ParseDuration(arg)
	for end := time.Now().Add(d); time.Now().Before(end); {
		select {
		case <-time.After(time.Second):
			executor.Heartbeat(ctx)
			executor.Progress(ctx, 1, 2, "half")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
