package lock

import "iter"

// list is a doubly linked list of nodes that are part of what is linked, so that to
// stand in one costs no allocation. The zero value is empty.
type list[T any] struct {
	first, last *node[T]
	n           int
}

// node is a place in a list.
type node[T any] struct {
	value      T
	list       *list[T] // nil: in none
	next, prev *node[T]
}

// push puts a node that is in no list at the end.
func (l *list[T]) push(at *node[T]) {
	at.list, at.prev = l, l.last
	if l.last != nil {
		l.last.next = at
	} else {
		l.first = at
	}
	l.last = at
	l.n++
}

// remove takes a node out, wherever it stands; it does nothing when the node is not
// in l.
func (l *list[T]) remove(at *node[T]) {
	if at.list != l {
		return
	}
	if at.prev != nil {
		at.prev.next = at.next
	} else {
		l.first = at.next
	}
	if at.next != nil {
		at.next.prev = at.prev
	} else {
		l.last = at.prev
	}
	at.list, at.next, at.prev = nil, nil, nil
	l.n--
}

// all goes through the values. The loop may take out the one that it was given.
func (l *list[T]) all() iter.Seq[T] {
	return func(yield func(T) bool) {
		for at := l.first; at != nil; {
			next := at.next
			if !yield(at.value) {
				return
			}
			at = next
		}
	}
}

// watchers are functions to be called once at the next occasion, in the order in
// which they came.
type watchers struct{ list[func()] }

func (w *watchers) add(wake func()) *node[func()] {
	if wake == nil {
		wake = func() {}
	}
	at := &node[func()]{value: wake}
	w.push(at)
	return at
}

// take moves all of them to the wakes of one taker.
func (w *watchers) take(all *wakes) {
	for at := w.first; at != nil; at = w.first {
		w.remove(at)
		all.add(at.value)
	}
}
