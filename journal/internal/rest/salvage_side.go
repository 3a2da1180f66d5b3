package rest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/strandjobs/strand/journal/internal/crash"
	"github.com/strandjobs/strand/journal/internal/format"
)

// findQueues gives each number its name. A number has one at a time, so of two
// the younger one is right: the queue was renamed.
func (r *rescue) findQueues() {
	want := r.manifest.Sides.Queues
	values, exact := r.queues.resolve(want, r.stale)
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
		reached := cmp.Compare(len(r.queues.tree[name]), len(r.queues.tree[before])) // all have one length, or none
		order := cmp.Or(reached, cmp.Compare(r.queues.seq(name, values[name]), r.queues.seq(before, values[before])))
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

// findMorgue takes the payloads that were not requeued since.
func (r *rescue) findMorgue() {
	for _, key := range slices.Sorted(maps.Keys(r.morgue)) {
		b := r.morgue[key]
		if p := b.Entry.Position; !r.settled && r.s.Latest[p] != 0 && !r.s.Ended.Has(p) {
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
	case len(r.manifests) > 0 && (r.stale || r.wreck.buried != want):
		r.lose(0, "which payloads the morgue had last; some of these may have been requeued or deleted before")
	}
}

// stateKind says what the state keys of an executor are that begin with a prefix, and
// what it means when one is missing.
type stateKind struct{ prefix, what, means string }

// stateKinds are all of them. The journal itself knows suspects only.
var stateKinds = []stateKind{
	{"mark/", "offsets of FromSource", "what came up to the lost offset may be taken twice"},
	{"key/", "idempotency keys", "a call that is repeated may be accepted a second time"},
	{"lock/", "locks", "jobs that waited for them may run at once, and what a person locked is not locked"},
	{"pause/", "pauses", "what a person has paused runs"},
	{"slot/", "values of slots", "a value that was handed out may be handed out again"},
	{crash.SuspectPrefix, "suspects", "a job that kills the process is found out later"},
	{"", "state keys", "what they stood for is forgotten"},
}

func stateKindOf(key string) stateKind {
	return stateKinds[slices.IndexFunc(stateKinds, func(k stateKind) bool { return strings.HasPrefix(key, k.prefix) })]
}

// findState takes the state keys that can be vouched for.
func (r *rescue) findState() {
	want := r.manifest.Sides.State
	values, exact := r.keys.resolve(want, r.stale)
	state := make(map[string][]byte)
	for key, v := range values {
		if value, _, err := format.Unseal(format.BucketState, []byte(key), v); err == nil && key != "" {
			state[key] = value
		}
	}
	for _, c := range r.edits {
		if c.Bucket == format.BucketState {
			state[string(c.Key)] = c.Value
		}
	}
	for _, key := range slices.Sorted(maps.Keys(state)) {
		if value := state[key]; value != nil {
			r.keep(format.Set{Key: key, Value: bytes.Clone(value)})
		}
	}
	r.report.Keys = len(r.state)
	if exact && len(r.manifests) > 0 {
		return
	}
	switch missing := int(want.Count) - len(values) - r.loseBroken(values); {
	case len(r.manifests) == 0:
		r.lose(0, "how many state keys there were; some may be missing, older, or deleted before: %s", allKinds())
	case missing > 0:
		r.lose(0, "%d state keys of which nothing is left: %s", missing, allKinds())
	case missing < 0:
		r.lose(0, "which state keys were deleted: up to %d that had been are back; locks and slots among them may hold up jobs until they are unlocked", -missing)
	default:
		r.lose(0, "the last values of some state keys, which are older ones now: %s", allKinds())
	}
}

// keep takes a state key, unless something could not be opened with it.
func (r *rescue) keep(s format.Set) {
	for _, check := range append([]func(format.Set) error{checkSuspect}, r.checks...) {
		if err := check(s); err != nil {
			r.lose(0, "state key %q: %s: %s", s.Key, reasonOf(err), stateKindOf(s.Key).means)
			return
		}
	}
	r.state = append(r.state, s)
}

// loseBroken lists the damaged values by kind. It returns of how many there is no older one.
func (r *rescue) loseBroken(values map[string][]byte) (gone int) {
	broken, older := map[stateKind][]string{}, map[stateKind]int{}
	for _, key := range slices.Sorted(maps.Keys(r.keys.broken)) {
		kind := stateKindOf(key)
		broken[kind] = append(broken[kind], key)
		if values[key] != nil {
			older[kind]++
		}
	}
	for _, kind := range stateKinds {
		n, instead := len(broken[kind]), ""
		if n == 0 {
			continue
		}
		if older[kind] > 0 {
			instead = fmt.Sprintf("; of %d there is an older value", older[kind])
		}
		gone += n - older[kind]
		r.lose(0, "%d %s, %q first%s: %s", n, kind.what, broken[kind][0], instead, kind.means)
	}
	return gone
}

// allKinds says what it means when any state key may be missing.
func allKinds() string {
	var text []string
	for _, kind := range stateKinds[:len(stateKinds)-1] {
		text = append(text, kind.what+" ("+kind.means+")")
	}
	return strings.Join(text, ", ")
}
