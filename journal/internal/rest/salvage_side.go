package rest

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/strandjobs/strand/journal/internal/format"
)

// findQueues gives each number its name. A number has one at a time, so of two
// the younger one is right: the queue was renamed.
func (r *rescue) findQueues() {
	want := r.manifest.Sides.Queues
	values, exact := r.queues.resolve(want)
	r.names = make(map[uint32]string)
	unsure := false
	for _, name := range slices.Sorted(maps.Keys(values)) {
		number := r.number(name, values[name])
		before, taken := r.names[number]
		if !taken {
			r.names[number] = name
			continue
		}
		order := r.younger(name, before, values)
		if order > 0 {
			r.names[number] = name
		}
		unsure = unsure || order == 0
	}
	switch missing := int(want.Count) - len(r.names); {
	case missing > 0:
		r.lose(0, "the names of %d queues", missing)
	case unsure || len(r.queues.broken) > 0 || len(r.manifests) > 0 && !exact:
		r.lose(0, "which names the queues had last; one that was renamed may have its former name")
	}
}

// younger compares two names of one number by when they were written.
func (r *rescue) younger(a, b string, values map[string][]byte) int {
	bit := func(name string) int {
		if r.queues.tree[name] != nil {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(bit(a), bit(b)), cmp.Compare(r.queues.seq(a, values[a]), r.queues.seq(b, values[b])))
}

// number is that of a queue, of a value that was vouched for.
func (r *rescue) number(name string, v []byte) uint32 {
	value, _, _ := format.Unseal(format.BucketQueues, []byte(name), v)
	return binary.BigEndian.Uint32(value)
}

// findMorgue takes the payloads that were not requeued since.
func (r *rescue) findMorgue() {
	for _, key := range slices.Sorted(maps.Keys(r.morgue)) {
		b := r.morgue[key]
		if p := b.Entry.Position; r.s.Latest[p] != 0 && !r.s.Ended.Has(p) {
			continue // requeued since
		}
		r.s.Ended.Add(b.Entry.Position) // the block that says so may be lost
		r.manifest.Next = max(r.manifest.Next, b.Entry.Position+1)
		r.buried = append(r.buried, b)
	}
	r.report.Buried = len(r.buried)
	want := r.manifest.Sides.Morgue
	switch n := int(want.Count) - len(r.buried); {
	case n > 0:
		r.lose(0, "%d payloads in the morgue", n)
	case n < 0:
		r.lose(0, "the count of the morgue; %d of its payloads may have been requeued or deleted before", -n)
	case len(r.manifests) > 0 && r.wreck.buried != want:
		r.lose(0, "which payloads the morgue had last; some of these may have been requeued or deleted before")
	}
}
