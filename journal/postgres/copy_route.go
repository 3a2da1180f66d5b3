package postgres

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/internal/crash"
	"github.com/strandjobs/strand/journal/internal/format"
)

// router says which partitions get a piece of the journals of others. By remainders of one hash ids go from
// the partitions of a class, each g-th one where g is the greatest common divisor of the two numbers, to those of the
// same class. Entries, and the morgue, go by their ids. A journal that is neither divided nor joined keeps all.
type router struct {
	divide       executor.Splitter // of the least common multiple
	from, to, by int               // partitions, and their greatest common divisor
	all          []int
	one          [1]int
	highest      bool // of several offsets of a source that one counts
}

func newRouter(cfg Config, from, to int) *router {
	by := from
	for rest := to; rest > 0; {
		by, rest = rest, by%rest
	}
	r := &router{divide: cfg.divide(from / by * to), from: from, to: to, by: by}
	for i := range to / by {
		r.all = append(r.all, i)
	}
	return r
}

// at returns which partition an id is in, and which one it goes to.
func (r *router) at(id string) (from, to int, err error) {
	p, err := r.divide.OwnerOf(id)
	return p % r.from, p % r.to, err
}

// with returns, as route does, the partition that an id goes to.
func (r *router) with(id string) ([]int, int, error) {
	from, to, err := r.at(id)
	r.one[0] = to / r.by
	return r.one[:], from, err
}

// route returns the partitions of p, by their places in its class. What it returns is valid until the next call.
func (r *router) route(p *piece) ([]int, error) {
	if p.entry != nil {
		to, from, err := r.with(string(p.entry.ID))
		if err == nil && from != p.of.number {
			err = notOwned(string(p.entry.ID), from, p.of.number)
		}
		if err == nil && p.entry.Kind == format.KindEnqueued && !r.whole() {
			p.of.places[p.entry.Position] = to[0]
		}
		return to, err
	}
	if p.edit.Bucket != format.BucketState || r.whole() {
		return r.all, nil
	}
	key, value := string(p.edit.Key), p.edit.Value
	kind, _, _ := strings.Cut(key, "/")
	switch kind {
	case "mark", "key": // what a source has given is stale, and a repeated call a duplicate, wherever ids go
		return r.all, nil
	case "lock":
		l, err := parseLock(format.Set{Key: key, Value: value})
		if err != nil || !l.owned { // a person has set it
			return r.all, err
		}
		to, _, err := r.with(l.id)
		return to, err
	case "pause":
		id, is, err := pausedID(key)
		if err != nil || !is {
			return r.all, err
		}
		to, _, err := r.with(id)
		return to, err
	case strings.TrimSuffix(crash.SuspectPrefix, "/"):
		at, _, err := crash.ParseSuspicion(key, value)
		if err != nil {
			return nil, err
		}
		to, waits := p.of.places[at]
		if r.one[0] = to; !waits { // what has ended meanwhile is forgotten at the next start
			return nil, nil
		}
		return r.one[:], nil
	}
	return nil, indivisible(key)
}

func notOwned(id string, owner, here int) error {
	return fmt.Errorf("%w: %q belongs to %d, and this is %d", executor.ErrNotOwned, id, owner, here)
}

// foreign reports whether a state key pauses an id of another partition than it is in: that has no effect.
func (r *router) foreign(key string, number int) bool {
	id, is, err := pausedID(key)
	if err != nil || !is || r.whole() {
		return false
	}
	from, _, err := r.at(id)
	return err == nil && from != number
}

// pausedID returns the id that a state key pauses, if it is one of these.
func pausedID(key string) (id string, is bool, err error) {
	rest, is := strings.CutPrefix(key, "pause/id/")
	_, id, named := cutSized(rest)
	if is && !named {
		err = fmt.Errorf("postgres: pause %q: %w", key, format.Damaged("it names no id"))
	}
	return id, is, err
}

// whole reports whether journals go into partitions as they are.
func (r *router) whole() bool { return r.from == r.to }

// indivisible is the error of a state key that is neither divided nor joined.
func indivisible(key string) error {
	if rest, is := strings.CutPrefix(key, "slot/"); is {
		name, _, _ := cutSized(rest)
		return fmt.Errorf("%w: slots %q are one sequence, and several partitions would each go on from a last value of it; "+
			"only as many partitions as there are can have it", ErrIndivisible, name)
	}
	return fmt.Errorf("%w: state key %q is of no kind that this version knows; only as many partitions as there are can have it", ErrIndivisible, key)
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

// keyLock is what has to be known of a lock. Its value begins with a version, flags, a position and two
// times; queue and id of the job that has it follow, and its key.
type keyLock struct {
	at    uint64 // 0: of no payload
	rest  []byte // what follows the position
	id    string
	owned bool // a job has it, and not a person
}

func parseLock(s format.Set) (l keyLock, err error) {
	d := format.Decoder{B: s.Value}
	version, _ := d.Byte(), d.Byte() // and flags
	l.at = d.Uvarint()
	l.rest = d.B[d.Off:]
	d.Uvarint() // times
	d.Uvarint()
	queue := text(&d)
	l.id = string(text(&d))
	l.owned = len(queue) > 0 || l.id != ""
	if version != 1 || d.Err != nil || d.Off >= len(s.Value) {
		err = fmt.Errorf("postgres: lock %q: %w", s.Key, format.Damaged("a lock of %d bytes", len(s.Value)))
	}
	return l, err
}
