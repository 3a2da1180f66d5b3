package postgres

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/internal/crash"
	"github.com/strandjobs/strand/journal/internal/format"
)

// router says which of its partitions get a piece of a journal that is divided. Entries and
// the morgue go by their ids. Of the state keys:
//
//	lock/      with the job that has it; one that a person has set: to all
//	pause/     of an id with it; of a queue, or of all: to all
//	suspect/   with the payload at its position
//	key/       to all: a repeated call is a duplicate, wherever its id goes
//	mark/      to all: what a source has given is stale, wherever its ids go
//	slot/      nowhere: a sequence has one last value, and the partitions would each go on from it
//
// A partition's journal that is not divided keeps them all.
type router struct {
	divide   executor.Splitter
	from, of int // the journal is that of partition from, of so many
	all      []int
	suspects map[format.Position]int // where their payloads went; 0 until they have been seen
	one      [1]int
}

func newRouter(divide executor.Splitter, from, of int) *router {
	r := &router{divide: divide, from: from, of: of, suspects: make(map[format.Position]int)}
	for i := range divide.Nodes / of {
		r.all = append(r.all, i)
	}
	return r
}

// route returns the partitions of p. What it returns is valid until the next call.
func (r *router) route(p *piece) ([]int, error) {
	if p.entry != nil {
		to, owner, err := r.to(string(p.entry.ID))
		if err == nil && owner != r.from {
			err = fmt.Errorf("%w: %q belongs to %d, and this is %d", executor.ErrNotOwned, p.entry.ID, owner, r.from)
		}
		if err == nil && p.live() {
			if _, suspect := r.suspects[p.entry.Position]; suspect {
				r.suspects[p.entry.Position] = to[0]
			}
		}
		return to, err
	}
	if p.edit.Bucket != format.BucketState || len(r.all) == 1 {
		return r.all, nil
	}
	key, value := string(p.edit.Key), p.edit.Value
	kind, rest, _ := strings.Cut(key, "/")
	switch kind {
	case "mark", "key":
		return r.all, nil
	case "lock":
		id, owned, ok := lockOwner(value)
		switch {
		case !ok:
			return nil, fmt.Errorf("postgres: lock %q: %w", key, &journal.CorruptError{Reason: fmt.Sprintf("a lock of %d bytes", len(value))})
		case !owned:
			return r.all, nil
		}
		to, _, err := r.to(id)
		return to, err
	case "pause":
		rest, isID := strings.CutPrefix(rest, "id/")
		if !isID {
			return r.all, nil
		}
		_, id, ok := cutSized(rest)
		if !ok {
			return nil, fmt.Errorf("postgres: pause %q: %w", key, &journal.CorruptError{Reason: "it names no id"})
		}
		to, _, err := r.to(id) // of any id: a partition pauses those of others, too, to no effect
		return to, err
	case strings.TrimSuffix(crash.SuspectPrefix, "/"):
		at, _, err := crash.ParseSuspicion(key, value)
		if err != nil {
			return nil, err
		}
		r.one[0] = r.suspects[at] // what has ended meanwhile is nobody's, and is forgotten at the next start
		return r.one[:], nil
	case "slot":
		name, _, _ := cutSized(rest)
		return nil, fmt.Errorf("%w: slots %q are one sequence, and %d partitions would each go on from its last value; "+
			"import into a schema of %d partitions", ErrIndivisible, name, len(r.all), r.of)
	}
	return nil, fmt.Errorf("%w: state key %q is of no kind that this version knows; import into a schema of %d partitions",
		ErrIndivisible, key, r.of)
}

// to returns where an id goes, and whose journal it should be in.
func (r *router) to(id string) (to []int, owner int, err error) {
	p, err := r.divide.OwnerOf(id)
	r.one[0] = p / r.of
	return r.one[:], p % r.of, err
}

// checkIntake returns an error for an offset of the inbox that an owner could not count on from:
// a source of the same name that the journal had for itself.
func checkIntake(p *piece) error {
	const most = 1 << 62
	if !isIntake(p.edit.Bucket, p.edit.Key) {
		return nil
	}
	if v := p.edit.Value; len(v) != 8 || binary.BigEndian.Uint64(v) > most {
		return fmt.Errorf("%w: the offset of the source %q is %x, and that name is this package's own; "+
			"delete the offset with DeleteSourceOffset", ErrIndivisible, inboxSource, v)
	}
	return nil
}

// cutSized takes apart the length of a name, the name, and what follows, with a slash after
// each of the two.
func cutSized(s string) (name, rest string, ok bool) {
	size, s, ok := strings.Cut(s, "/")
	n, err := strconv.Atoi(size)
	if !ok || err != nil || n < 0 || n >= len(s) || s[n] != '/' {
		return s, "", false
	}
	return s[:n], s[n+1:], true
}

// lockOwner returns the id of the job that has a lock; not owned: a person has. The value
// begins with a version, flags, a position and two times; queue and id of the job follow.
func lockOwner(v []byte) (_ string, owned, ok bool) {
	d := format.Decoder{B: v}
	version, _ := d.Byte(), d.Byte() // and flags
	for range 3 {                    // a position and two times
		d.Uvarint()
	}
	queue, id := text(&d), string(text(&d))
	return id, len(queue) > 0 || id != "", version == 1 && d.Err == nil && d.Off < len(v)
}
