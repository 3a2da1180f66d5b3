package rest

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/strandjobs/strand/journal/internal/format"
)

// survivors counts the live entries.
func (r *rescue) survivors() {
	r.report.Blocks = len(r.intact)
	r.each(func(e *format.Entry) error {
		r.nameless(e.Queue)
		r.report.Live++
		return nil
	})
	for _, b := range r.buried {
		r.nameless(b.Entry.Queue)
	}
	r.report.Queues = len(r.names)
}

// nameless makes a name up for a queue if it has none. A person can start a
// queue of that name, or change it in an export.
func (r *rescue) nameless(number uint32) {
	if _, named := r.names[number]; named {
		return
	}
	name := fmt.Sprintf("lost-queue-%d", number)
	for r.queues.tree[name] != nil || r.queues.loose[name] != nil {
		name += "-"
	}
	r.lose(0, "the name of queue %d, now called %q", number, name)
	r.names[number] = name
}

// each calls f for every live entry of the intact blocks.
func (r *rescue) each(f func(*format.Entry) error) error {
	for _, seq := range r.intact {
		data, err := r.assemble(seq)
		if err != nil {
			return err
		}
		h, err := format.ParseHeader(data, seq)
		if err != nil {
			return err
		}
		err = h.Scan(data, func(_ uint32, _ int, e *format.Entry) {
			if err == nil && r.s.Live(e.Position, seq) {
				err = f(e)
			}
		}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// write makes the new journal.
func (r *rescue) write(dir string) error {
	b, err := NewBuilder(dir, r.manifest.Next, r.manifest.Epoch)
	if err != nil {
		return err
	}
	if err := r.fill(b); err != nil {
		return errors.Join(err, b.Discard())
	}
	return b.Finish()
}

func (r *rescue) fill(b *Builder) error {
	// Numbers without gaps: a new queue gets the next one.
	numbers := make(map[uint32]uint32)
	for i, old := range slices.Sorted(maps.Keys(r.names)) {
		numbers[old] = uint32(i) + 1
		if err := b.Queue(r.names[old], numbers[old]); err != nil {
			return err
		}
	}
	err := r.each(func(e *format.Entry) error {
		e.Queue = numbers[e.Queue]
		return b.Add(*e)
	})
	for i := 0; err == nil && i < len(r.buried); i++ {
		d := r.buried[i]
		d.Entry.Queue = numbers[d.Entry.Queue]
		err = b.Bury(d)
	}
	for i := 0; err == nil && i < len(r.state); i++ {
		err = b.Set(r.state[i])
	}
	return err
}
