package world

import (
	"time"

	"github.com/strandjobs/strand/executor"
)

// withKey gives a call a key, for what excludes or counts by keys.
func withKey(d *draw, l line) { l.set("key", d.one("x", "x", "y")) }

// keyOf is the key of a payload.
func keyOf(_ string, p payload) string {
	if p.Key == "" {
		return "none"
	}
	return p.Key
}

// keys are those of all payloads of a run.
func (r *run) keys() map[string]bool {
	keys := make(map[string]bool)
	for _, p := range r.parts {
		keys[keyOf(r.id, p.value)] = true
	}
	return keys
}

// Of a key so many jobs run at a time, and so many start in a span of time, over all
// queues that have the limit.
var limiting = &feature{
	name: "limits", claims: `NewLimit QueueConfig.Limits Throttled Limit.Pause 
		`,
	plan: []string{"throttled~3s", "2s:ok", "2s:ok"},
	acts: map[string]func(*world, ctx, *run, int, string) error{"throttled": func(w *world, _ ctx, _ *run, _ int, arg string) error {
		d, _ := time.ParseDuration(arg)
		return executor.Throttled(d, errPlanned)
	}},
	world: func(d *draw, l line) {
		if d.chance(2) {
			l.set("atonce", 1+d.IntN(2))
		} else {
			l.set("rate", 1+d.IntN(3))
		}
	},
	queue: func(d *draw, l line) {
		if d.chance(3) {
			return
		}
		l.set("limited", "yes")
	},
	enqueue: withKey,
	begin: func(w *world, x *executor.Executor) {
		cfg := executor.LimitConfig{Concurrent: w.conf.num("atonce"), Rate: w.conf.num("rate")}
		if cfg.Rate > 0 {
			cfg.Per = 10 * time.Second
		}
		limit, err := executor.NewLimit(x, "limit", cfg)
		if err != nil {
			w.fail("NewLimit: %v", err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.state["limit"], w.state["starts"] = limit, map[string][]time.Time{}
	},
	apply: func(w *world, q *queue, cfg *executor.QueueConfig[payload]) {
		if q.conf.has("limited") {
			cfg.Limits = []executor.LimitOf[payload]{{Limit: w.state["limit"].(*executor.Limit), Key: keyOf}}
		}
	},
	began: checkLimit,
}

// checkLimit counts what runs of a key, and what has started in the last span.
func checkLimit(w *world, r *run) {
	if !r.queue.conf.has("limited") {
		return
	}
	starts := w.state["starts"].(map[string][]time.Time)
	for key := range r.keys() {
		atOnce := 1
		for _, other := range w.running {
			if other.queue.conf.has("limited") && other.keys()[key] {
				atOnce++
			}
		}
		if most := w.conf.num("atonce"); most > 0 && atOnce > most {
			w.fail("limit: %d jobs of %s run, of %d", atOnce, key, most)
		}
		recent := 1
		for _, at := range starts[key] {
			if r.began.Sub(at) < 10*time.Second {
				recent++
			}
		}
		if most := w.conf.num("rate"); most > 0 && recent > most && r.queue.conf.str("shape") != "batch" {
			w.fail("limit: %d jobs of %s started within 10s, of %d", recent, key, most)
		}
		starts[key] = append(starts[key], r.began)
	}
}
