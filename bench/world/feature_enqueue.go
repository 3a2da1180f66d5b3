package world

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cluster"
)

// Payloads are accepted: one by one, several in a commit, by their names only, with a
// context that may end. What was acknowledged is there; what was refused is not, ever.
var enqueueing = &feature{
	name: "enqueue", always: true,
	claims: `Queue.Enqueue Queue.EnqueueMany Executor.Lookup QueueConfig.Codec
		Share.Shards QueueConfig.MaxRetries QueueConfig.RetryIn Config.Workers Config.Logger Handle`,
	steps: []step{{"enqueue", 50, true, drawEnqueue, playEnqueue}},
	calm:  func(w *world, c *census) { w.noneIsHalf(c) },
}

func drawEnqueue(d *draw) line {
	d.n++
	q := d.anyQueue()
	l := newLine("enqueue", "q", q.str("name"), "id", d.id(), "n", d.n)
	if plan := d.plan(); plan != "" {
		l.set("plan", plan)
	}
	if d.chance(5) {
		l.set("many", 2+d.IntN(3))
		d.n += 4
		if d.chance(3) && !d.cluster && !q.has("computed") {
			l.set("apart", "yes")
		}
	}
	if d.chance(20) {
		l.set("ctx", d.one("1ms", "50ms", "900ms"))
	}
	if d.chance(10) && !q.has("codec") && !q.has("computed") {
		l.set("raw", "yes")
	} else if d.chance(10) {
		l.set("carried", "yes")
	}
	for _, f := range d.swarm {
		if f.enqueue != nil {
			f.enqueue(d, l)
		}
	}
	if q.has("computed") && d.chance(2) {
		l.set("computed", d.IntN(3))
	}
	switch latest := q.str("latest"); {
	case latest == "yes", latest == "mixed" && d.chance(2):
		delete(l.args, "score")
		delete(l.args, "scores")
		if l.str("meddle") == "score" {
			delete(l.args, "meddle")
		}
	case latest != "":
		l.set("score", 1+d.IntN(9))
	}
	return l
}

// valueOf is the payload that a line means.
func valueOf(q *queue, l line, n int) payload {
	v := payload{N: n, Plan: l.str("plan"), Key: l.str("key"), Fill: fill(l.num("fill")), Flap: l.has("flap")}
	if q.conf.has("merge") {
		v.N, v.V = 0, 1+l.num("v")
	}
	if q.conf.has("computed") {
		v.ID, v.Rank = l.str("id"), l.num("computed")
	}
	return v
}

func fill(n int) string { return fmt.Sprintf("%0*d", n, 0)[:n] }

func playEnqueue(w *world, l line) {
	q := w.queueOf(l.str("q"))
	if q == nil {
		return
	}
	var items []executor.Item[payload]
	w.mu.Lock()
	var mine []*item
	first := l.num("n")
	if first == 0 { // it was taken out
		first = w.ledger.number()
		w.ledger.next += l.num("many")
	}
	for n := range max(l.num("many"), 1) {
		i := &item{
			n: first + n, queue: q.name, id: l.nth(n), value: valueOf(q, l, first+n), score: q.scoreOf(q.meddled(l.of(n))),
			life: w.life, moved: w.epoch, born: w.epoch, due: time.Now().Add(q.waitOf(q.meddled(l.of(n)))), at: time.Now(), alone: w.known == w.epoch-1 && w.alone(l) && !w.hasJob(q, l.nth(n)),
		}
		items = append(items, w.itemOf(q, l, n, i.value))
		mine = append(mine, w.add(i))
		i.head = mine[0]
	}
	life := w.life
	made := &call{q, l, mine}
	w.calls = append(w.calls, made)
	w.mu.Unlock()
	var options []executor.Option
	for _, f := range w.features {
		if f.option != nil {
			options = append(options, f.option(w, l)...)
		}
	}
	ctx, cancel := w.context(l)
	defer cancel()
	receipts, err := w.enqueueApart(ctx, q, items, options, l)
	w.mu.Lock()
	defer w.mu.Unlock()
	if life == w.life {
		w.calls = slices.DeleteFunc(w.calls, func(c *call) bool { return c == made })
		w.answered(q, l, mine, receipts, err)
	}
}

// enqueue makes the call.
func (w *world) enqueue(ctx context.Context, q *queue, items []executor.Item[payload], options []executor.Option, l line) ([]executor.Receipt, error) {
	switch {
	case l.has("carried"):
		return w.carry(ctx, q, items, options)
	case l.has("many") && l.has("raw"):
		var raw []executor.Item[[]byte]
		for _, i := range items {
			raw = append(raw, executor.Item[[]byte]{ID: i.ID, Payload: i.Payload.raw(), Score: i.Score, Due: i.Due, Metadata: i.Metadata})
		}
		bytes, err := w.x.Lookup(q.name)
		if err != nil {
			return nil, err
		}
		return bytes.EnqueueMany(ctx, raw, options...)
	case l.has("many"):
		return q.queue.EnqueueMany(ctx, items, options...)
	case l.has("raw"):
		bytes, err := w.x.Lookup(q.name)
		if err != nil {
			return nil, err
		}
		r, err := bytes.Enqueue(ctx, items[0].ID, items[0].Payload.raw(), options...)
		return []executor.Receipt{r}, err
	}
	r, err := q.queue.Enqueue(ctx, items[0].ID, items[0].Payload, options...)
	return []executor.Receipt{r}, err
}

// carry makes the call as a program does that has been handed it by another one.
func (w *world) carry(ctx context.Context, q *queue, items []executor.Item[payload], options []executor.Option) ([]executor.Receipt, error) {
	filled, rest, err := cluster.Carry(q.queue, items, options...)
	if err != nil {
		return nil, err
	}
	if options, err = cluster.Carried(rest); err != nil {
		return nil, err
	}
	bytes, err := w.x.Lookup(q.name)
	if err != nil {
		return nil, err
	}
	return bytes.EnqueueMany(ctx, filled, options...)
}

// raw is how the codec of all queues writes a payload.
func (p payload) raw() []byte {
	raw, _ := executor.JSON[payload]{}.Encode(p)
	return raw
}

// answered notes what the caller was told.
func (w *world) answered(q *queue, l line, mine []*item, receipts []executor.Receipt, err error) {
	for _, i := range mine {
		i.said = w.epoch
	}
	switch {
	case errors.Is(err, executor.ErrUnknown):
		for _, i := range mine {
			i.unsay(maybe)
		}
	case err != nil:
		for _, i := range mine {
			if w.unguess(i); i.state == acked {
				w.fail("refused and accepted all the same: %v: %v", i, err)
			}
			i.unsay(refused)
		}
	default:
		for n, r := range receipts {
			w.receipt(q, mine[n], r)
		}
	}
	for _, f := range w.features {
		if f.answered != nil {
			f.answered(w, q, l, mine, receipts, err)
		}
	}
}

// noneIsHalf: all payloads of a call are accepted, or none is, whoever was told. What may have ended
// before anybody has seen it tells nothing.
func (w *world) noneIsHalf(c *census) {
	if c.stale || w.town != nil {
		return
	}
	for _, i := range w.ledger.items {
		if i.head == nil || i.state != maybe {
			continue
		}
		q := w.queueOf(i.queue)
		if q == nil || q.gathers() || q.conf.has("keep") || q.conf.has("when") || i.hint != "" || i.forgot || i.doom > 0 {
			continue
		}
		for _, other := range w.ledger.items {
			if other.head == i.head && other.state == acked && other.place != nowhere && other.seen == w.epoch {
				w.fail("half: %v was accepted, and %v of the same call was not", other, i)
			}
		}
	}
}

// hasJob reports whether the last census has seen payloads of an id that wait or run.
func (w *world) hasJob(q *queue, id string) bool {
	for _, i := range w.ledger.items {
		if i.queue == q.name && i.id == id && i.place == waits {
			return true
		}
	}
	return false
}

func (i *item) unsay(k known) {
	if i.state == tried {
		i.state = k
	}
}

// receipt notes what an accepted call was told of one payload.
func (w *world) receipt(q *queue, i *item, r executor.Receipt) {
	if r.Duplicate {
		i.unsay(refused)
		return
	}
	switch other := w.ledger.byPos[spot{i.id, r.Position}]; {
	case other == i:
	case other == nil:
		w.unguess(i)
	case other.guess && same(i.value, other.value):
		w.swap(i, other)
	default:
		w.fail("doubled: position %d is that of %v and %v", r.Position, i, other)
	}
	w.accepted(i, r.Position, r.Durable)
	if !r.Durable && !q.conf.has("async") && !w.conf.has("gone") {
		w.fail("not durable: the receipt of %v under DurabilitySync", i)
	}
	if r.MergedInto != 0 {
		i.hint, i.hintLife = "merged", 0
		if !q.conf.has("merge") && !q.conf.has("latest") {
			w.fail("merged although each counts: %v", i)
		}
	}
}

// scoreOf is where a payload stands in its id: those that have no score stand for the time.
func (q *queue) scoreOf(l line) float64 {
	switch {
	case l.has("score"):
		return float64(l.num("score"))
	case q.conf.has("computed"):
		return float64(l.num("computed") + 1)
	}
	return plainScore
}
