package world

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
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
		if d.chance(3) {
			l.set("idem", d.one("k1", "k2", "k3", "k4"))
		}
		if d.chance(4) {
			l.set("src", "s")
			if d.cluster { // each partition has its own offset
				l.set("id", "c")
			}
			l.set("off", d.n-d.IntN(6))
		}
		if d.chance(4) {
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
			w.onceBySource(l, receipts, err)
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
		s.keepOpen()
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
		s.least, s.most = was.least, was.most
	}
	s.keepOpen()
}

// never is an offset below all others.
const never = -1 << 40

// source is what the last offset of a source may be.
type source struct {
	least, most int64
	open        []int64 // of calls that are under way behind the steps
}

// keepOpen: what is under way may be accepted yet.
func (s *source) keepOpen() {
	for _, off := range s.open {
		s.most = max(s.most, off)
	}
}

func (w *world) sources() *source {
	s, _ := w.state["source"].(*source)
	if s == nil {
		s = &source{least: never, most: never}
		w.state["source"] = s
	}
	return s
}

func (w *world) onceBySource(l line, receipts []executor.Receipt, err error) {
	s, off := w.sources(), int64(l.num("off"))
	stale := (*executor.StaleError)(nil)
	switch {
	case errors.As(err, &stale):
		if off > s.most && !l.with && w.alone(l) {
			w.fail("source: offset %d is said to be stale, and the last was %d: %v", off, s.most, err)
		}
	case err == nil && !receipts[0].Duplicate: // else it leaves the offset as it is
		if off <= s.least && w.alone(l) {
			w.fail("source: offset %d was accepted, and the last was %d", off, s.least)
		}
		s.least, s.most = max(s.least, off), max(s.most, off)
	case isUnknown(err):
		s.most = max(s.most, off)
	}
}

// keyed are the first payloads of keys, and behind a ? one of which it is not known whether it was accepted.
func (w *world) keyed() map[string]*item {
	keys, _ := w.state["keys"].(map[string]*item)
	if keys == nil {
		keys = make(map[string]*item)
		w.state["keys"] = keys
	}
	return keys
}

// keyOfCall is the name of the key of a call in that.
func (w *world) keyOfCall(q *queue, l line) string {
	key := fmt.Sprint(q.name, "/", l.str("idem"))
	if w.town != nil { // each partition has its own
		key = fmt.Sprint(partitionOf(l.str("id")), "/", key)
	}
	return key
}

// unsureName is the name of a payload of which it is not known whether it came with a key first.
func unsureName(key string, i *item) string { return fmt.Sprint(key, "?", i.n) }

// unsureKey reports whether there is one.
func (w *world) unsureKey(key string) bool {
	for name := range w.keyed() {
		if strings.HasPrefix(name, key+"?") {
			return true
		}
	}
	return false
}

func (w *world) keyTTL() time.Duration { return cmp.Or(w.conf.dur("keyttl"), 24*time.Hour) }

// firstBefore is what came with the key of a call that is about to be made; nil: it may have been forgotten, or not
// have been accepted.
func (w *world) firstBefore(q *queue, l line, mine *item) *item {
	keys, key := w.keyed(), w.keyOfCall(q, l)
	first := keys[key]
	if first == nil || first.pos == 0 || !first.sure || w.unsureKey(key) || time.Since(first.at) >= w.keyTTL()/2 {
		keys[unsureName(key, mine)] = mine
		return nil
	}
	return first
}

// maybeFirst notes what a call with a key was told of which it is not known whether that came before. own: that its
// payload has run; true: it may have been of another one.
func (w *world) maybeFirst(a *asked, own bool, err error) bool {
	pending, buried := endOf(err)
	keys, key := w.keyed(), w.keyOfCall(a.queue, a.line)
	told := pending != nil && a.life == w.life
	refused := pending == nil && buried == nil && !isUnknown(err) && (errors.Is(err, executor.ErrDeadlock) || errors.Is(err, executor.ErrInvalidKey) ||
		errors.As(err, new(*executor.StaleError)) || errors.As(err, new(*executor.WaitingError)))
	if !own && !told && !refused {
		return true
	}
	switch first := keys[key]; {
	case refused, told && pending.Receipt.Duplicate:
	case first != nil && !first.at.Before(a.item.at):
		return false // it is not known which of them came later
	default:
		keys[key] = a.item
	}
	delete(keys, unsureName(key, a.item))
	return false
}

// onceByKey: the first call counts.
func (w *world) onceByKey(q *queue, l line, mine []*item, receipts []executor.Receipt, err error) {
	keys, key, ttl := w.keyed(), w.keyOfCall(q, l), w.keyTTL()
	first := keys[key]
	if first != nil && !first.answered.IsZero() && mine[0].at.Sub(first.answered) >= ttl {
		if err == nil && receipts[0].Duplicate && !w.unsureKey(key) && w.alone(l) {
			w.fail("key: %v is said to be a duplicate of %v, whose key is forgotten after %v", l, first, ttl)
		}
		first = nil
	} else if first != nil && time.Since(first.at) >= ttl {
		delete(keys, key) // it may be known or forgotten
		keys[key+"?"], first = mine[0], nil
	}
	late := errors.As(err, new(*executor.StaleError)) || errors.As(err, new(*executor.WaitingError))
	if late && first != nil && first.sure && !w.unsureKey(key) && w.alone(l) {
		w.fail("key: %v is a duplicate of %v, and is refused: %v", l, first, err)
	}
	switch {
	case isUnknown(err):
		delete(keys, key) // it may be that of this call
		keys[key+"?"] = mine[0]
	case err != nil:
	case receipts[0].Duplicate && first == nil && !w.unsureKey(key) && w.alone(l):
		w.fail("key: %v is said to be a duplicate, and there was none before", l)
	case receipts[0].Duplicate && first != nil && first.pos != 0 && first.sure && first.pos != receipts[0].Position:
		w.fail("key: %v is said to be a duplicate of position %d, which is not %v", l, receipts[0].Position, first)
	case !receipts[0].Duplicate && first != nil && first.sure && !w.unsureKey(key) && w.alone(l):
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
