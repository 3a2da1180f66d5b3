package world

import (
	"errors"

	"github.com/strandjobs/strand/executor"
)

var errCodec = errors.New("planned: it does not decode")

// codec refuses some payloads, when they are encoded or when they are to run: those go
// to the morgue, alone.
type codec struct{ executor.JSON[payload] }

func (c codec) Encode(p payload) ([]byte, error) {
	switch p.Key {
	case "unwritable":
		return nil, errCodec
	case "panics":
		panic("planned panic of a codec")
	}
	return c.JSON.Encode(p)
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
