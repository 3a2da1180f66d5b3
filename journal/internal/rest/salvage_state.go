package rest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/strandjobs/strand/journal/internal/crash"
	"github.com/strandjobs/strand/journal/internal/format"
)

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
	values, exact := r.keys.resolve(want)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value, _, err := format.Unseal(format.BucketState, []byte(key), values[key])
		if err == nil && key != "" {
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
