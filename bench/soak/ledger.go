package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// ledger knows from the lines of all lives what must be true of locks, counters
// and slots. What it says of order, the oracle says.
type ledger struct {
	*oracle

	// pending are the payloads that are not over, by "queue id": as the journal
	// had them after the last kill, and then by the lines.
	pending found
	since   map[uint64]int  // the line in which one was accepted; 0: in an earlier life
	at      map[string]*run // that is running, by "queue id"
	unique  map[string]string

	hand     bool              // a person holds handKey
	owners   map[string]*owner // of keys that jobs lock when they run
	reserved map[uint64]*slotOf
	sold     map[string]uint64 // "queue value": who has ended with it

	listed       []string // of a list that is being told
	held, found  int      // in the last list, and in the first one of the life
	reservations int

	enough chan struct{} // closed when enough is held, or the life is over
	tell   func()
}

// owner is who has locked a key.
type owner struct {
	name    string // "queue id"
	line    int    // of the start of the run
	durable bool
}

// slotOf is the slot of a payload that is not over.
type slotOf struct {
	name, value string // "queue id", "queue value"
	running     bool
}

func newLedger() *ledger {
	return &ledger{oracle: newOracle(), pending: found{}, owners: map[string]*owner{}, reserved: map[uint64]*slotOf{}, sold: map[string]uint64{}}
}

// begin starts the account of another life.
func (l *ledger) begin() {
	l.since, l.at, l.unique = map[uint64]int{}, map[string]*run{}, map[string]string{}
	l.listed, l.found = nil, -1
	l.enough = make(chan struct{})
	l.tell = sync.OnceFunc(func() { close(l.enough) })
}

// hear takes in one line.
func (l *ledger) hear(line string) error {
	words := strings.Fields(line)
	if len(words) == 0 {
		return l.oracle.hear(line)
	}
	rest := words[1:]
	switch words[0] {
	case "h":
		l.tell()
		return nil
	case "l":
		l.hand = true
		return nil
	case "u":
		l.hand = false
		return nil
	case "k", "r":
		l.listed = append(l.listed, line)
		return nil
	case "q":
		err := l.compare(l.listed)
		if l.held = len(l.listed); l.found < 0 {
			l.found = l.held
		}
		l.listed = nil
		return err
	case "v":
		return l.slot(rest[0], rest[1], rest[2])
	case "z":
		l.tell()
	}
	var ended *run
	if words[0] == "f" {
		ended = l.runs[rest[0]]
	}
	if err := l.oracle.hear(line); err != nil {
		return err
	}
	switch words[0] {
	case "a":
		l.accepted(l.ops[rest[0]])
	case "s":
		return l.started(l.runs[rest[0]])
	case "f":
		return l.ended(ended, rest[1])
	}
	return nil
}

func (l *ledger) accepted(call *op) {
	for i, s := range call.strands {
		n := call.numbers[i]
		if it := s.items[s.index[n]]; it.ended {
			continue // faster than its call
		}
		l.since[n] = l.line
		if l.pending[s.name] == nil {
			l.pending[s.name] = map[uint64]bool{}
		}
		l.pending[s.name][n] = true
	}
	for _, o := range l.owners { // what was locked before is in the same commit or an earlier one
		o.durable = o.durable || o.line < call.intended
	}
}

// started checks a run against the keys that others have.
func (l *ledger) started(r *run) error {
	name := r.strand.name
	id := strings.TrimPrefix(name, r.queue+" ")
	l.at[name] = r
	for _, n := range r.numbers {
		key := lockKey(r.queue, id, n)
		switch {
		case locksOnRun(r.queue):
			o := l.owners[key]
			if o != nil && o.name != name {
				return fmt.Errorf("%s runs, but %s has locked %s", name, o.name, key)
			}
			if o == nil {
				l.owners[key] = &owner{name: name, line: l.line}
			}
		case r.queue == uniqueQueue:
			if other, runs := l.unique[key]; runs && other != name {
				return fmt.Errorf("%s and %s run at the same time, both with %s", name, other, key)
			}
			l.unique[key] = name
		case r.queue == waitQueue:
			if err := l.free(key, r, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// free checks that no other job has held key since before a payload that waits for it
// was enqueued.
func (l *ledger) free(key string, r *run, waits uint64) error {
	if key == handKey {
		if l.hand {
			return fmt.Errorf("%s runs, but a person has locked %s", r.strand.name, key)
		}
		return nil
	}
	s := r.strand
	asked := s.items[s.index[waits]].intended
	for name, numbers := range l.pending {
		id, counts := strings.CutPrefix(name, countQueue+" ")
		for n := range numbers {
			if counts && l.since[n] < asked && lockKey(countQueue, id, n) == key {
				return fmt.Errorf("%s runs, but payload %d of %s has locked %s", s.name, n, name, key)
			}
		}
	}
	return nil
}

func (l *ledger) ended(r *run, outcome string) error {
	name := r.strand.name
	id := strings.TrimPrefix(name, r.queue+" ")
	delete(l.at, name)
	for _, n := range r.numbers {
		key := lockKey(r.queue, id, n)
		if r.queue == uniqueQueue && l.unique[key] == name {
			delete(l.unique, key)
		}
		s := l.reserved[n]
		if s != nil {
			s.running = false
		}
		if outcome == "again" {
			if r.queue == serialQueue {
				delete(l.reserved, n)
			}
			continue
		}
		if delete(l.pending[name], n); locksOnRun(r.queue) {
			delete(l.owners, key)
		}
		if s != nil && outcome == "over" {
			if other, is := l.sold[s.value]; is && other != n {
				return fmt.Errorf("payloads %d and %d both ended with slot %s", other, n, s.value)
			}
			l.sold[s.value] = n
		}
	}
	return nil
}

// slot checks the slot of a job that has begun.
func (l *ledger) slot(queue, id, value string) error {
	l.reservations++
	name, value := queue+" "+id, queue+" "+value
	r := l.at[name]
	if r == nil {
		return fmt.Errorf("%s has a slot and does not run", name)
	}
	n := r.numbers[0]
	if mine := l.reserved[n]; mine != nil && mine.value != value {
		return fmt.Errorf("payload %d of %s runs with slot %s, and had %s reserved", n, name, value, mine.value)
	}
	if l.sold[value] == n {
		delete(l.sold, value) // its end did not survive
	}
	if other, is := l.sold[value]; is {
		return fmt.Errorf("payload %d of %s runs with slot %s, with which payload %d has ended", n, name, value, other)
	}
	for other, s := range l.reserved {
		if s.value == value && other != n && (s.running || l.pending[s.name][other]) {
			return fmt.Errorf("payload %d of %s runs with slot %s, which payload %d of %s has reserved", n, name, value, other, s.name)
		}
	}
	l.reserved[n] = &slotOf{name, value, true}
	return nil
}

// stuck names what is not over.
func (l *ledger) stuck() string {
	var names []string
	for name, numbers := range l.pending {
		if len(numbers) > 0 {
			names = append(names, fmt.Sprint(name, " ", slices.Sorted(maps.Keys(numbers))))
		}
	}
	if slices.Sort(names); len(names) > 10 {
		names = append(names[:10], fmt.Sprintf("and %d more", len(names)-10))
	}
	return "\nnot over: " + strings.Join(names, ", ")
}
