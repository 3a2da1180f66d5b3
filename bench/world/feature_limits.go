package world

import (
	"cmp"
	"slices"
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
	name: "limits", claims: `NewLimit Conditions.Limits LimitOf.Limit LimitOf.Key
		LimitSetting.Concurrent LimitSetting.Rate LimitSetting.Per LimitSetting.Burst LimitSetting.Cluster Throttled Limit.Pause Limit.Set
		Limit.Name Inspector.Limits`,
	plan: []string{"throttled~3s", "slowed~3s", "2s:ok", "2s:ok"},
	acts: map[string]func(*world, ctx, *run, int, string) error{
		"throttled": func(w *world, _ ctx, _ *run, _ int, arg string) error {
			d, _ := time.ParseDuration(arg)
			return executor.Throttled(d, errPlanned)
		},
		"slowed": slowed,
	},
	steps: []step{{"setlimit", 3, false, func(d *draw) line {
		l := newLine("setlimit", "n", 1+d.IntN(3))
		if d.chance(4) {
			l.set("n", 0)
		}
		return l
	}, setLimit}, {"pausekey", 3, false, func(d *draw) line {
		return newLine("pausekey", "key", d.one("x", "y", "none"), "d", d.one("0s", "3s", "20s"))
	}, pauseKey}},
	world: func(d *draw, l line) {
		if d.chance(2) {
			l.set("common", "yes") // in a cluster
		}
		if d.chance(2) {
			l.set("atonce", 1+d.IntN(2))
		} else {
			l.set("rate", 1+d.IntN(3))
			if d.chance(2) {
				l.set("burst", 2+d.IntN(3))
			}
		}
		if d.chance(2) {
			l.set("overall", 1+d.IntN(3)) // of all keys
		}
	},
	queue: func(d *draw, l line) {
		if d.chance(3) {
			return
		}
		l.set("limited", d.one("yes", "overall"))
	},
	enqueue: withKey,
	begin: func(w *world, x *executor.Executor) {
		cfg := executor.LimitConfig{Concurrent: w.conf.num("atonce"), Rate: w.conf.num("rate"), Cluster: w.conf.has("common")}
		if cfg.Rate > 0 {
			cfg.Per, cfg.Burst = 10*time.Second, w.conf.num("burst")
		}
		w.mu.Lock()
		w.state["starts"], w.state["limits"] = map[string][]time.Time{}, &limits{all: cfg, until: map[string]span{}}
		w.mu.Unlock()
		w.newLimits(x)
	},
	apply: func(w *world, q *queue, cfg *executor.QueueConfig[payload]) {
		if !q.conf.has("limited") {
			return
		}
		all := []executor.LimitOf[payload]{{Limit: w.state["limit"].(*executor.Limit), Key: keyOf}}
		if overall, ok := w.state["overall"].(*executor.Limit); ok {
			all = append(all, executor.LimitOf[payload]{Limit: overall})
		}
		if q.conf.str("limited") == "overall" {
			slices.Reverse(all)
		}
		cfg.Conditions.Limits = all
	},
	began: checkLimit,
	peek:  func(w *world) { w.peekLimits() },
}

// newLimits makes the limits of an executor, as they are set.
func (w *world) newLimits(x *executor.Executor) {
	w.mu.Lock()
	delete(w.state, "overall") // that of an earlier life
	w.mu.Unlock()
	w.newLimit(x, "limit", w.state["limits"].(*limits).all)
	if n := w.conf.num("overall"); n > 0 {
		w.newLimit(x, "overall", executor.LimitConfig{Concurrent: n, Cluster: w.conf.has("common")})
	}
}

func (w *world) newLimit(x *executor.Executor, name string, cfg executor.LimitConfig) {
	limit, err := executor.NewLimit(x, name, cfg)
	if err != nil {
		w.fail("NewLimit: %v", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state[name] = limit
}

// eachLimit calls f with the limit of each node, and what keys are called there.
func (w *world) eachLimit(f func(limit *executor.Limit, on string)) {
	limit, ok := w.state["limit"].(*executor.Limit)
	switch {
	case w.town == nil && ok:
		f(limit, "")
	case w.town != nil:
		for _, n := range w.town.nodes {
			f(n.limit, n.name())
		}
	}
}

// limits are what was set in this life.
type limits struct {
	all   executor.LimitConfig
	until map[string]span // pauses that handlers have asked for
	epoch int             // of the last change
	at    time.Time
	ended time.Time // when a person last had a key wait, or wait no more
}

// common reports whether the limit is that of all nodes; it is lenient where they have to hear of something.
func (w *world) common() bool { return w.town != nil && w.conf.has("common") }

// heardIn is how long that takes, at most. A node that has no answer asks again a second later.
func (w *world) heardIn() time.Duration {
	if w.conf.has("deaf") {
		return 5 * time.Second
	}
	return 3 * time.Second
}

// setLimit changes the limit.
func setLimit(w *world, l line) {
	s, ok := w.state["limits"].(*limits)
	if !ok {
		return
	}
	cfg := executor.LimitConfig{Concurrent: l.num("n")}
	if w.conf.num("rate") > 0 {
		cfg = executor.LimitConfig{Rate: l.num("n"), Per: 10 * time.Second, Burst: w.conf.num("burst")}
	}
	if l.num("n") == 0 {
		cfg = executor.LimitConfig{}
	}
	cfg.Cluster = w.conf.has("common")
	w.mu.Lock()
	s.epoch, s.at = w.epoch, time.Now()
	w.mu.Unlock()
	s.all = cfg
	w.eachLimit(func(limit *executor.Limit, _ string) {
		if err := limit.Set(cfg); err != nil {
			w.fail("limit: %v: %v", l, err)
		}
	})
}

// pauseKey has no job of a key start for some time, or lets them start again.
func pauseKey(w *world, l line) {
	key := cmp.Or(l.str("key"), "none")
	w.eachLimit(func(limit *executor.Limit, on string) {
		w.mu.Lock()
		w.state["limits"].(*limits).ended = time.Now()
		w.state["limits"].(*limits).until[on+key] = span{time.Now(), time.Now().Add(l.dur("d"))}
		w.mu.Unlock()
		if err := limit.Pause(key, l.dur("d")); err != nil {
			w.fail("limit: %v: %v", l, err)
		}
	})
}

// slowed pauses the keys of a job in its limit.
func slowed(w *world, _ ctx, r *run, _ int, arg string) error {
	d, _ := time.ParseDuration(arg)
	if !r.queue.conf.has("limited") {
		return errPlanned
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	counts := !r.queue.twice() && !w.full.Load() && w.counts(r)
	if counts && !r.queue.conf.has("parts") && r.queue.conf.str("shape") != "batch" {
		s := w.state["limits"].(*limits)
		for key := range r.keys() {
			key = r.node().name() + key
			if end := time.Now().Add(d); end.After(s.until[key].to) { // a shorter pause ends none
				s.until[key] = span{time.Now(), end}
			}
		}
	}
	limit := w.state["limit"].(*executor.Limit)
	if n := r.node(); n != nil {
		limit = n.limit
	}
	return executor.Throttled(d, errPlanned, limit)
}

// peekLimits: a limit says what was set, and counts what runs.
func (w *world) peekLimits() {
	limit, ok := w.state["limit"].(*executor.Limit)
	if !ok {
		return
	}
	s := w.state["limits"].(*limits)
	all := w.x.Inspect().Limits()
	if len(all) != 1+min(w.conf.num("overall"), 1) || all[0].Limit != limit.Name() || limit.Name() != "limit" {
		w.fail("limit: there are %v", all)
		return
	}
	stats, running := all[0], 0
	for _, k := range append(w.x.Inspect().Limits("x", "y")[0].Keys, stats.Keys...) {
		if set := s.all; k.Config.Concurrent != set.Concurrent || k.Config.Rate != set.Rate {
			w.fail("limit: %s has %+v, and was given %+v", k.Key, k.Config, set)
		}
	}
	for _, k := range stats.Keys {
		running += k.Running
	}
	if stats.Config.Concurrent != s.all.Concurrent || stats.Config.Rate != s.all.Rate || stats.Running != running {
		w.fail("limit: %+v, and %d jobs run of its keys; it was given %+v", stats, running, s.all)
	}
}

// limited counts what runs of a key, or of all, beside a run that has begun and with it.
func (w *world) limited(r *run, key string) (n int) {
	for _, other := range w.running {
		if other.queue.conf.has("limited") && (w.common() || other.node() == r.node()) && (key == "" || other.keys()[key]) {
			n++
		}
	}
	return n + 1
}

// checkLimit counts what runs of a key, and what has started in the last span.
func checkLimit(w *world, r *run) {
	if !r.queue.conf.has("limited") {
		return
	}
	starts, s := w.state["starts"].(map[string][]time.Time), w.state["limits"].(*limits)
	settled := w.epoch > s.epoch
	if w.common() {
		settled = time.Since(s.at) > w.heardIn()
	}
	if most, all := w.conf.num("overall"), w.limited(r, ""); most > 0 && all > most {
		w.fail("limit: %d jobs run, of %d overall", all, most)
	}
	for key := range r.keys() {
		atOnce, cfg := w.limited(r, key), s.all
		if cfg.Concurrent > 0 && atOnce > cfg.Concurrent && settled {
			w.fail("limit: %d jobs of %s run, of %d", atOnce, key, cfg.Concurrent)
		}
		again := r.queue.conf.str("shape") == "batch" || r.queue.twice() // the halves of a batch have begun with it
		recent, on := 1, r.node().name()+key
		if w.common() {
			on = key
		}
		for _, at := range starts[on] {
			if r.began.Sub(at) < 10*time.Second {
				recent++
			}
		}
		if most := cfg.Rate + max(cfg.Burst, 1) - 1; cfg.Rate > 0 && recent > most && !again && r.began.Sub(s.at) > 10*time.Second {
			w.fail("limit: %d jobs of %s started within 10s, of %d", recent, key, most)
		}
		if starts[on] = append(starts[on], r.began); again && r.items[0].calls > 0 {
			starts[on] = starts[on][:len(starts[on])-1]
		}
		if p := s.until[r.node().name()+key]; !(w.common() && p.from.Sub(s.ended) < w.heardIn()) && r.began.After(p.from) && r.began.Before(p.to) && !again {
			w.fail("limit: %s/%s begins %v before the end of a pause of %s", r.queue.name, r.id, p.to.Sub(r.began), key)
		}
	}
}
