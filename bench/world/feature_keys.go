package world

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/strandjobs/strand/executor"
)

// A call that is repeated with its key is accepted once, and so is what comes from a
// numbered source, over crashes, too; a call that wants to be the only one is.
var once = &feature{
	name: "keys",
	claims: `IdempotencyKey FromSource IfAbsent Executor.SourceOffset Executor.SetSourceOffset Executor.DeleteSourceOffset
		Advanced.IdempotencyTTL`,
	world: func(d *draw, l line) {
		if d.chance(2) {
			l.set("keyttl", d.one("10s", "1m"))
		}
	},
	config: func(w *world, cfg *executor.Config) { cfg.Advanced.IdempotencyTTL = w.conf.dur("keyttl") },
	enqueue: func(d *draw, l line) {
		switch d.IntN(4) {
		case 0:
			l.set("idem", d.one("k1", "k2", "k3", "k4"))
		case 1:
			l.set("src", "s")
			if d.cluster { // each partition has its own offset
				l.set("id", "c")
			}
			l.set("off", d.n-d.IntN(6))
		case 2:
			l.set("absent", "yes")
		}
	},
	option: func(_ *world, l line) (options []executor.Option) {
		if l.has("idem") {
			options = append(options, executor.IdempotencyKey(l.str("idem")))
		}
		if l.has("src") {
			options = append(options, executor.FromSource(l.str("src"), int64(l.num("off"))))
		}
		if l.has("absent") {
			options = append(options, executor.IfAbsent())
		}
		return options
	},
	answered: func(w *world, q *queue, l line, mine []*item, receipts []executor.Receipt, err error) {
		if l.has("idem") {
			w.onceByKey(q, l, mine, receipts, err)
		}
		if l.has("src") {
			w.onceBySource(l, err)
		}
		if l.has("absent") && w.alone(l) && w.known == w.epoch-1 && !l.has("many") {
			w.onlyOne(q, l, mine[0], err)
		}
	},
	calm: func(w *world, _ *census) {
		s := w.sources()
		if w.town != nil && s.most == never {
			return
		}
		last, found, err := w.x.SourceOffset("s")
		if err != nil || found && (last < s.least || last > s.most) || !found && s.least > never {
			w.fail("source: the offset is %d (%v, %v), and was told to be from %d to %d", last, found, err, s.least, s.most)
		}
		if found {
			s.least, s.most = last, last
		} else {
			s.least, s.most = never, never
		}
	},
	steps: []step{{"offset", 2, false, func(d *draw) line {
		return newLine("offset", "to", d.one(fmt.Sprint(max(d.n-d.IntN(9), 1)), "nothing"))
	}, func(w *world, l line) {
		ctx, cancel := w.context(l)
		defer cancel()
		w.mu.Lock()
		defer w.mu.Unlock()
		if l.str("to") == "nothing" {
			w.setOffset(never, func() error { return w.x.DeleteSourceOffset(ctx, "s") })
			return
		}
		to := int64(l.num("to"))
		w.setOffset(to, func() error { return w.x.SetSourceOffset(ctx, "s", to) })
	}}},
}

// setOffset is called with the lock, which no goroutine of the executor takes meanwhile.
func (w *world) setOffset(to int64, call func() error) {
	s := w.sources()
	was := *s
	s.least, s.most = min(s.least, to), max(s.most, to) // as long as the call is under way
	w.mu.Unlock()
	err := call()
	w.mu.Lock()
	switch {
	case err == nil:
		s.least, s.most = to, to
	case !isUnknown(err):
		*s = was
	}
}

// never is an offset below all others.
const never = -1 << 40

// source is what the last offset of a source may be.
type source struct{ least, most int64 }

func (w *world) sources() *source {
	s, _ := w.state["source"].(*source)
	if s == nil {
		s = &source{never, never}
		w.state["source"] = s
	}
	return s
}

func (w *world) onceBySource(l line, err error) {
	s, off := w.sources(), int64(l.num("off"))
	stale := (*executor.StaleError)(nil)
	switch {
	case errors.As(err, &stale):
		if off > s.most && !l.with && w.alone(l) {
			w.fail("source: offset %d is said to be stale, and the last was %d: %v", off, s.most, err)
		}
	case err == nil && !l.has("idem"):
		if off <= s.least && w.alone(l) {
			w.fail("source: offset %d was accepted, and the last was %d", off, s.least)
		}
		s.least, s.most = max(s.least, off), max(s.most, off)
	case isUnknown(err):
		s.most = max(s.most, off)
	}
}

// onceByKey: the first call counts.
func (w *world) onceByKey(q *queue, l line, mine []*item, receipts []executor.Receipt, err error) {
	keys, _ := w.state["keys"].(map[string]*item)
	if keys == nil {
		keys = make(map[string]*item)
		w.state["keys"] = keys
	}
	key := fmt.Sprint(q.name, "/", l.str("idem"))
	if w.town != nil { // each partition has its own
		key = fmt.Sprint(partitionOf(l.str("id")), "/", key)
	}
	first := keys[key]
	ttl := cmp.Or(w.conf.dur("keyttl"), 24*time.Hour)
	if first != nil && !first.answered.IsZero() && mine[0].at.Sub(first.answered) >= ttl {
		if err == nil && receipts[0].Duplicate && keys[key+"?"] == nil && w.alone(l) {
			w.fail("key: %v is said to be a duplicate of %v, whose key is forgotten after %v", l, first, ttl)
		}
		first = nil
	} else if first != nil && time.Since(first.at) >= ttl {
		delete(keys, key) // it may be known or forgotten
		keys[key+"?"], first = mine[0], nil
	}
	switch {
	case isUnknown(err):
		delete(keys, key) // it may be that of this call
		keys[key+"?"] = mine[0]
	case err != nil:
	case receipts[0].Duplicate && first == nil && keys[key+"?"] == nil && w.alone(l):
		w.fail("key: %v is said to be a duplicate, and there was none before", l)
	case receipts[0].Duplicate && first != nil && first.pos != 0 && first.sure && first.pos != receipts[0].Position:
		w.fail("key: %v is said to be a duplicate of position %d, which is not %v", l, receipts[0].Position, first)
	case !receipts[0].Duplicate && first != nil && first.sure && keys[key+"?"] == nil && w.alone(l):
		w.fail("key: %v was accepted again, after %v", mine[0], first)
	case !receipts[0].Duplicate:
		keys[key] = mine[0]
	}
}

// onlyOne: a call with IfAbsent is refused while a payload of its id waits, and only then.
func (w *world) onlyOne(q *queue, l line, mine *item, err error) {
	waiting, ended := 0, 0 // while the call waited for the backlog
	for _, i := range w.ledger.items {
		if i != mine && i.queue == q.name && i.id == l.str("id") && i.place == waits && i.seen == w.epoch-1 && !w.inHand(i) {
			waiting++
			if i.hint != "" {
				ended++
			}
		}
	}
	if other := (*executor.WaitingError)(nil); errors.As(err, &other) && waiting == 0 {
		w.fail("absent: %v was refused for %v, and nothing waits", l, err)
	}
	if err == nil && mine.state == acked && waiting > ended && !w.hasRunning(q, l.str("id")) {
		w.fail("absent: %v was accepted beside %d others", l, waiting)
	}
}

func (w *world) hasRunning(q *queue, id string) bool {
	for _, r := range w.running {
		if r.queue == q && r.id == id {
			return true
		}
	}
	return false
}
