package lock

import "slices"

// entry is one key of a table.
//
// Invariant: while holder is nil, the head of the queue does not count this key as missing; every other place in the
// queue does, and while holder is set the head does too.
type entry struct {
	key        string
	holder     *record
	head, tail *spot
	wide       int           // waiting places in the queue that also wait elsewhere (see deadlock.go)
	changed    chan struct{} // closed at the next change of holder; nil = nobody watches
	own        record        // the record of every lease on this key alone
	one        [1]*entry     // backing array of own.entries
	next, prev *entry        // in Table.idle
	idle       bool
}

// free reports whether somebody new may take the key.
func (e *entry) free() bool { return e.holder == nil && e.head == nil }

func (e *entry) setHolder(r *record) {
	e.holder = r
	if e.changed != nil {
		close(e.changed)
		e.changed = nil
	}
}

// addLocked returns a new entry in the map. It must be given a holder, a waiter or a watcher before leave.
func (t *Table) addLocked(key string) *entry {
	e := &entry{key: key}
	e.one[0] = e
	e.own = record{table: t, entries: e.one[:]}
	if t.entries == nil {
		t.entries = make(map[string]*entry)
	}
	t.entries[key] = e
	return e
}

func (t *Table) entryLocked(key string) *entry {
	if e := t.entries[key]; e != nil {
		return e
	}
	return t.addLocked(key)
}

// recordLocked returns the record for a lease on keys.
func (t *Table) recordLocked(keys []string) *record {
	if len(keys) == 1 {
		return &t.entryLocked(keys[0]).own
	}
	r := &record{table: t, entries: make([]*entry, len(keys))}
	for i, key := range keys {
		r.entries[i] = t.entryLocked(key)
	}
	return r
}

// usedLocked takes e out of the idle list.
func (t *Table) usedLocked(e *entry) {
	if e.idle {
		t.idle.remove(e)
		e.idle = false
	}
}

// retireLocked puts an entry that nobody needs into the idle list, and forgets the oldest one above maxIdle.
// An entry is never used again for another key: old leases may still point to its record.
func (t *Table) retireLocked(e *entry) {
	if e.holder != nil || e.head != nil || e.changed != nil || e.idle {
		return
	}
	e.idle = true
	t.idle.push(e)
	if t.idle.n > maxIdle {
		oldest := t.idle.first
		t.usedLocked(oldest)
		delete(t.entries, oldest.key)
	}
}

// entryList is a doubly linked list of idle entries.
type entryList struct {
	first, last *entry
	n           int
}

func (l *entryList) push(e *entry) {
	e.prev = l.last
	if l.last == nil {
		l.first = e
	} else {
		l.last.next = e
	}
	l.last = e
	l.n++
}

func (l *entryList) remove(e *entry) {
	if e.prev == nil {
		l.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
	l.n--
}

// spot is where a place stands in the queue of one key.
type spot struct {
	place      *Place
	entry      *entry
	next, prev *spot
}

// join puts s at the end of its queue and reports whether its key is ready for it at once.
func (s *spot) join() bool {
	e := s.entry
	s.prev = e.tail
	if e.tail == nil {
		e.head = s
	} else {
		e.tail.next = s
	}
	e.tail = s
	if len(s.place.spots) > 1 {
		e.wide++
	}
	return s.prev == nil && e.holder == nil
}

// part takes s out of its queue, wherever it stands, and reports whether its key was ready for it.
func (s *spot) part() bool {
	e := s.entry
	ready := s.prev == nil && e.holder == nil
	if s.prev == nil {
		e.head = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		e.tail = s.prev
	} else {
		s.next.prev = s.prev
	}
	s.prev, s.next = nil, nil
	if len(s.place.spots) > 1 {
		e.wide--
	}
	return ready
}

// waitsLocked keeps the index of waiting places by owner; anonymous owners are not in it.
func (t *Table) waitsLocked(p *Place) {
	if p.opt.Owner == "" {
		return
	}
	if t.waiting == nil {
		t.waiting = make(map[string][]*Place)
	}
	t.waiting[p.opt.Owner] = append(t.waiting[p.opt.Owner], p)
}

func (t *Table) waitsNoMoreLocked(p *Place) {
	if p.opt.Owner == "" {
		return
	}
	places := t.waiting[p.opt.Owner]
	if i := slices.Index(places, p); i >= 0 {
		places[i] = places[len(places)-1]
		places[len(places)-1] = nil
		places = places[:len(places)-1]
	}
	if len(places) == 0 {
		delete(t.waiting, p.opt.Owner)
		return
	}
	t.waiting[p.opt.Owner] = places
}
