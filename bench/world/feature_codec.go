package world

import (
	"errors"
	"sync"

	"github.com/strandjobs/strand/executor"
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
	queue: func(_ *draw, l line) { l.set("codec", "own") },
	enqueue: func(d *draw, l line) {
		if d.chance(8) {
			l.set("key", d.one("unwritable", "panics"))
		}
	},
	apply: func(_ *world, q *queue, cfg *executor.QueueConfig[payload]) {
		if q.conf.has("codec") {
			cfg.Codec = codec{}
		}
	},
	answered: func(w *world, q *queue, l line, mine []*item, _ []executor.Receipt, err error) {
		if key := l.str("key"); q.conf.has("codec") && (key == "unwritable" || key == "panics") && err == nil {
			w.fail("codec: %v was accepted, and can't be written", mine[0])
		}
	},
}
