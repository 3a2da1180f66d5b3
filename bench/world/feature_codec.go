package world

import (
	"errors"
	"slices"
	"sync"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

var errCodec = errors.New("planned: it does not decode")

// plain is JSON. Each census decodes what all of those before it did: what was decoded
// once is known.
type plain struct{ executor.JSON[payload] }

// decoded are payloads by their bytes. Nobody writes into what a payload has.
var decoded struct {
	sync.Mutex
	known map[string]payload
}

func (c plain) Decode(data []byte) (payload, error) {
	decoded.Lock()
	p, again := decoded.known[string(data)]
	decoded.Unlock()
	if again {
		return p, nil
	}
	p, err := c.JSON.Decode(data)
	if err != nil {
		return p, err
	}
	decoded.Lock()
	defer decoded.Unlock()
	if decoded.known == nil || len(decoded.known) > 5000 {
		decoded.known = make(map[string]payload)
	}
	decoded.known[string(data)] = p
	return p, nil
}

// codec refuses some payloads, when they are encoded or when they are to run: those go
// to the morgue, alone.
type codec struct{ plain }

// spoiled and exploding are payloads that the codec of some lives can't read.
const (
	spoiled   = "spoiled"
	exploding = "exploding"
)

// strict does not read what codec does.
type strict struct{ codec }

func (c strict) Decode(data []byte) (payload, error) {
	p, err := c.plain.Decode(data)
	switch p.Key {
	case spoiled:
		return payload{}, errCodec
	case exploding:
		panic("planned panic of a codec")
	}
	return p, err
}

// flickering refuses some payloads now and then, for now: that spends a retry without a run.
type flickering struct {
	codec
	w *world
}

// forNow is an error that may pass.
type forNow struct{ error }

func (forNow) Temporary() bool { return true }

func (c flickering) Decode(data []byte) (payload, error) {
	p, err := c.plain.Decode(data)
	if p.Flap && !c.w.steady.Load() && c.w.decodes.Add(1)%3 == 0 {
		return payload{}, forNow{errCodec}
	}
	return p, err
}

func (c codec) Encode(p payload) ([]byte, error) {
	switch p.Key {
	case "unwritable":
		return nil, errCodec
	case "panics":
		panic("planned panic of a codec")
	}
	return c.plain.Encode(p)
}

var coding = &feature{
	name:  "codec",
	queue: func(d *draw, l line) { l.set("codec", d.one("own", "own", "strict", "flap", "flap")) },
	enqueue: func(d *draw, l line) {
		if d.chance(3) {
			l.set("flap", "yes")
		}
		if d.chance(5) {
			l.set("key", d.one("unwritable", "panics", spoiled, spoiled, exploding))
		}
	},
	apply: func(w *world, q *queue, cfg *executor.QueueConfig[payload]) {
		switch q.conf.str("codec") {
		case "own":
			cfg.Codec = codec{}
		case "strict":
			cfg.Codec = strict{}
		case "flap":
			cfg.Codec = flickering{w: w}
		}
	},
	lift: func(w *world) { w.steady.Store(true) },
	begin: func(w *world, _ *executor.Executor) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.spoilAll()
	},
	began: func(w *world, r *run) {
		for _, p := range r.parts {
			if r.queue.spoils(p.value) {
				w.fail("codec: a handler of %s/%s got %v, which its codec can't read", r.queue.name, r.id, p.value)
			}
		}
	},
	answered: func(w *world, q *queue, l line, mine []*item, _ []executor.Receipt, err error) {
		if key := l.str("key"); q.conf.has("codec") && (key == "unwritable" || key == "panics") && err == nil {
			w.fail("codec: %v was accepted, and can't be written", mine[0])
		}
	},
}

// spoils reports whether the codec of a queue can't read a payload now. It is buried when its turn comes.
func (q *queue) spoils(v payload) bool {
	return q.conf.str("codec") == "strict" && (v.Key == spoiled || v.Key == exploding)
}

// refuses reports whether the codec of a queue may refuse a payload, or what it was folded into: it may be buried then.
func (q *queue) refuses(v payload) bool {
	return q.spoils(v) || q.conf.str("codec") == "flap" && (v.Flap || q.conf.has("fold"))
}

// flaps reports whether a payload may have failed without a run, or a job with it, as its codec has refused it for a time.
func (w *world) flaps(i *item, together bool) bool {
	return i.value.Flap || together && slices.ContainsFunc(w.ledger.items, func(other *item) bool {
		return other.queue == i.queue && other.id == i.id && other.value.Flap
	})
}

// mayForget reports whether the handler may be called again behind a call that was about a payload, and not get it then.
func (w *world) mayForget(i *item) bool {
	q := w.queueOf(i.queue)
	return q.twice() && q.conf.str("codec") == "flap"
}

// spoil notes that a payload may end at any time, by no handler: its codec can't read it, or it is blocked.
func (w *world) spoil(i *item) {
	q := w.queueOf(i.queue)
	if q == nil || !q.refuses(i.value) && !q.conf.has("when") {
		return
	}
	if i.moved = w.epoch; q.refuses(i.value) || q.conf.str("when") == "fail" {
		i.doom = w.epoch
	}
}

func (w *world) spoilAll() {
	for _, i := range w.ledger.items {
		w.spoil(i)
	}
}

// unreadable is what was enqueued, of a payload that the codec did not read: the bytes are those.
func (q *queue) unreadable(p inspect.PayloadInfo) (v payload, ok bool) {
	v, err := plain{}.Decode(p.Raw)
	return v, err == nil && p.Decode != nil && !p.Clipped && q.refuses(v)
}
