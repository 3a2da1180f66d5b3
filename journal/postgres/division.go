package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/internal/crash"
	"github.com/strandjobs/strand/journal/internal/format"
)

// divide says which of so many partitions an id belongs to: the remainder of a hash, so that with
// a multiple of them those of one are divided, and none has ids of two; see router. No other hash may take its
// place: nodes of two versions must agree.
func (cfg Config) divide(partitions int) executor.Splitter {
	return executor.Splitter{Nodes: partitions, Owner: func(id string) int {
		if cfg.Partition != nil {
			id = cfg.Partition(id)
		}
		h := fnv.New64a()                                      // RFC 9923
		_, _ = h.Write([]byte(id))                             // does not fail
		high, low := bits.Mul64(h.Sum64(), 0x9e3779b97f4a7c15) // its low bits heed only those of each byte
		return int((high ^ low) % uint64(partitions))
	}}
}

// probes are ids of many shapes, on which two functions Config.Partition that differ are likely
// to: names with each of some separators, twice or thrice, in upper and lower case, and what is
// odd. What a schema has of them is compared, and so new ones may be added at the end, and none
// changed.
var probes = func() (ids []string) {
	for _, between := range []string{"/", ":", "-", "_", ".", "|", "#", "@", " "} {
		for i, name := range []string{"a", "b", "A", "Tenant", "tenant", "7", "42", "é"} {
			ids = append(ids, strings.Join([]string{name, fmt.Sprint(i)}, between),
				strings.Join([]string{name, "7", "x"}, between))
		}
		ids = append(ids, between, between+"a", "a"+between)
	}
	for i := range 16 {
		ids = append(ids, fmt.Sprint(i), fmt.Sprint("order", i), fmt.Sprintf("%08X-0000-4000-8000-%012x", i*2654435761, i))
	}
	ids = append(ids, "", "\xff", "{\"tenant\":7}", strings.Repeat("long", 50), "a/"+strings.Repeat("b/", 100))
	for _, between := range []string{",", ";", "=", "::", "--", "\t", "\\", "+", "~", "$", "%", "&", "\x00", "→"} {
		ids = append(ids, "a"+between+"7", "Tenant"+between+"7"+between+"x")
	}
	return ids
}()

// noPartition stands for that of a probe for which Config.Partition panics.
const noPartition = -1

// divisionOf returns the partitions of the probes.
func divisionOf(divide executor.Splitter) []int32 {
	division := make([]int32, len(probes))
	for i, id := range probes {
		division[i] = noPartition
		_ = guarded(func() error {
			number, err := divide.OwnerOf(id)
			if err == nil {
				division[i] = int32(number)
			}
			return err
		})
	}
	return division
}

// Of several that write at a time the first counts: the others read it.
const (
	settleRead  = "SELECT division, coalesce(divider, ''), made FROM {schema}.version"
	settleWrite = "UPDATE {schema}.version SET division = $1, divider = $2 WHERE division IS NULL"
)

// settle compares the partitions that ids belong to by cfg with those that the schema was
// divided by, and returns what it has of the probes, and the statements for it. The first that
// settles it divides it; without first that is left to another call.
func (cfg Config) settle(ctx context.Context, q querier, divide executor.Splitter, first bool) (division []int32, texts texts, err error) {
	var mine [2][]int32
	select {
	case <-returned(func() { mine[0], mine[1] = divisionOf(divide), divisionOf(divide) }): // the function is the user's
	case <-ctx.Done():
		return nil, texts, context.Cause(ctx)
	}
	if i := differs(mine[0], mine[1]); i >= 0 {
		return nil, texts, fmt.Errorf("%w: Partition has id %.40q in %s and then in %s; it has to return the same each time",
			executor.ErrConfig, probes[i], named(mine[0][i]), named(mine[1][i]))
	}
	if !slices.ContainsFunc(mine[0], func(p int32) bool { return p != noPartition }) {
		return nil, texts, fmt.Errorf("%w: Partition panics for each id that was tried, as %.40q", executor.ErrConfig, probes[0])
	}
	var divider string
	var made time.Time
	read := func() error { return q.QueryRow(ctx, in(cfg.Schema, settleRead)).Scan(&division, &divider, &made) }
	if err = read(); err == nil && division == nil && first {
		if _, err = q.Exec(ctx, in(cfg.Schema, settleWrite), mine[0], cfg.Name); err == nil {
			err = read()
		}
	}
	if err == nil && division == nil && first {
		err = errors.New("its table version takes no division")
	}
	if err != nil {
		return nil, texts, fmt.Errorf("postgres: schema %q: its division is compared: %w", cfg.Schema, err)
	}
	if i := differs(division, mine[0]); i >= 0 {
		return nil, texts, fmt.Errorf("%w: schema %q was opened first by node %q, whose Config.Partition has id %.40q in %s, and that of this program in %s; "+
			"give both the same, or Repartition to 1 with the old one, and from there with the new one",
			ErrPartitions, cfg.Schema, divider, probes[i], named(division[i]), named(mine[0][i]))
	}
	return division, textsFor(cfg.Schema, made, divide.Nodes), nil
}

// differs returns the first probe in which two divisions do, or -1.
func differs(a, b []int32) int {
	for i := range min(len(a), len(b), len(probes)) {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

func named(partition int32) string {
	if partition == noPartition {
		return "none (it panics)"
	}
	return fmt.Sprint("partition ", partition)
}

// errRemade is what a node says when the schema is no longer the one that it has opened.
var errRemade = fmt.Errorf("%w: the schema was made anew, migrated, or divided in another way while this node had it open; open it again", ErrPartitions)

// router says which partitions get a piece of the journals of others. By remainders of one hash ids go from
// the partitions of a class, each g-th one where g is the greatest common divisor of the two numbers, to those of the
// same class. Entries, and the morgue, go by their ids. A journal that is neither divided nor joined keeps all.
type router struct {
	divide       executor.Splitter // of the least common multiple
	from, to, by int               // partitions, and their greatest common divisor
	highest      bool              // of several offsets of a source that one counts
}

func newRouter(cfg Config, from, to int) *router {
	by := from
	for rest := to; rest > 0; {
		by, rest = rest, by%rest
	}
	return &router{divide: cfg.divide(from / by * to), from: from, to: to, by: by}
}

// at returns which partition an id is in, and which one it goes to.
func (r *router) at(id string) (from, to int, err error) {
	p, err := r.divide.OwnerOf(id)
	return p % r.from, p % r.to, err
}

// route calls do with each partition that gets p, by its place in the class of p.
func (r *router) route(p *piece, do func(place int) error) error {
	if p.entry != nil {
		from, to, err := r.at(string(p.entry.ID))
		if err == nil && from != p.of.number {
			err = notOwned(string(p.entry.ID), from, p.of.number)
		}
		if err != nil {
			return err
		}
		if p.entry.Kind == format.KindEnqueued && !r.whole() {
			p.of.places[p.entry.Position] = to / r.by
		}
		return do(to / r.by)
	}
	var id string
	var one bool
	var err error
	if key := string(p.edit.Key); p.edit.Bucket == format.BucketState && !r.whole() {
		if strings.HasPrefix(key, crash.SuspectPrefix) {
			at, _, err := crash.ParseSuspicion(key, p.edit.Value)
			if place, waits := p.of.places[at]; err == nil && waits {
				return do(place)
			}
			return err // what has ended meanwhile is forgotten at the next start
		}
		id, one, err = idOf(key, p.edit.Value)
	}
	if one && err == nil {
		var to int
		if _, to, err = r.at(id); err == nil {
			err = do(to / r.by)
		}
		return err
	}
	for place := 0; place < r.to/r.by && err == nil; place++ {
		err = do(place)
	}
	return err
}

// idOf returns the id that a state key goes with, if it is one of these.
func idOf(key string, value []byte) (id string, is bool, err error) {
	switch kind, _, _ := strings.Cut(key, "/"); kind {
	case "mark", "key": // what a source has given is stale, and a repeated call a duplicate, wherever ids go
		return "", false, nil
	case "lock":
		l, err := parseLock(format.Set{Key: key, Value: value})
		return l.id, l.owned, err // or a person has set it
	case "pause":
		return pausedID(key)
	}
	return "", false, indivisible(key)
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

// cutSized splits "LENGTH/NAME/REST".
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
