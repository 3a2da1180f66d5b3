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
		value, _, _ := format.Unseal(format.BucketQueues, []byte(name), values[name]) // it was vouched for
		number := binary.BigEndian.Uint32(value)
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
	reached := cmp.Compare(len(r.queues.tree[a]), len(r.queues.tree[b])) // all have one length, or none
	return cmp.Or(reached, cmp.Compare(r.queues.seq(a, values[a]), r.queues.seq(b, values[b])))
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
