package shard

import "slices"

// timeline is a priority queue for values that mostly arrive in order: due
// times that are now, scores that are the time. Those go through a plain queue
// in constant time; only a value that is before the queue's last one goes into
// a heap.
type timeline[T ordered[T]] struct {
	inOrder fifo[T]
	heap    heap[T]
}

func (t *timeline[T]) len() int { return len(t.inOrder.values()) + len(t.heap) }

func (t *timeline[T]) push(v T) {
	if q := t.inOrder.values(); len(q) == 0 || !v.before(q[len(q)-1]) {
		t.inOrder.push(v)
		return
	}
	t.heap.push(v)
}

// first returns the first value in order, nil when there is none. It is valid
// until the next push or pop.
func (t *timeline[T]) first() *T {
	q := t.inOrder.values()
	switch {
	case len(t.heap) > 0 && (len(q) == 0 || t.heap[0].before(q[0])):
		return &t.heap[0]
	case len(q) > 0:
		return &q[0]
	}
	return nil
}

// pop removes what first returns, which must not be nil.
func (t *timeline[T]) pop() T {
	q := t.inOrder.values()
	if len(t.heap) == 0 || len(q) > 0 && !t.heap[0].before(q[0]) {
		return t.inOrder.pop()
	}
	return t.heap.pop()
}

// all lists the values, in no particular order.
func (t *timeline[T]) all(yield func(T) bool) {
	for _, part := range [...][]T{t.inOrder.values(), t.heap} {
		for _, v := range part {
			if !yield(v) {
				return
			}
		}
	}
}

// keep drops the values for which f is false, and the room they took.
func (t *timeline[T]) keep(f func(T) bool) {
	t.inOrder = fifo[T]{room: kept(t.inOrder.values(), f)}
	t.heap.keep(f)
}

// fifo is a queue. Its room is used again when half of it is free.
type fifo[T any] struct {
	room []T
	gone int // from the front
}

// values are what is in the queue, in order.
func (q *fifo[T]) values() []T { return q.room[q.gone:] }

func (q *fifo[T]) push(v T) {
	if len(q.room) == cap(q.room) {
		q.room = slices.Grow(q.room, max(len(q.room), smallest)) // to twice as much: append would copy often
	}
	q.room = append(q.room, v)
}

func (q *fifo[T]) pop() T {
	v := q.room[q.gone]
	clear(q.room[q.gone : q.gone+1]) // lets go of what v points to
	if q.gone++; 2*q.gone >= len(q.room) {
		q.room, q.gone = shrunk(slices.Delete(q.room, 0, q.gone)), 0
	}
	return v
}

// The least room that a queue has, and what any may keep of a burst.
const smallest, largest = 4, 256

// shrunk returns a slice with less room when a burst is over.
func shrunk[S ~[]T, T any](s S) S {
	if cap(s) > largest && 4*len(s) < cap(s) {
		return append(make(S, 0, 2*len(s)), s...)
	}
	return s
}

// kept returns the values for which f is true, in room of their own.
func kept[S ~[]T, T any](s S, f func(T) bool) S {
	return slices.Clone(slices.DeleteFunc(s, func(v T) bool { return !f(v) }))
}

// ordered is what is kept in order.
type ordered[T any] interface{ before(T) bool }

func compare[T ordered[T]](a, b T) int {
	if a.before(b) {
		return -1
	}
	return 1
}

// heap is a binary heap: its first value is the first in order.
type heap[T ordered[T]] []T

func (h *heap[T]) push(v T) {
	*h = append(*h, v)
	s := *h
	for i := len(s) - 1; i > 0; {
		parent := (i - 1) / 2
		if !s[i].before(s[parent]) {
			break
		}
		s[i], s[parent] = s[parent], s[i]
		i = parent
	}
}

// pop removes the first value; there is one.
func (h *heap[T]) pop() T {
	s := *h
	top, last := s[0], len(s)-1
	s[0] = s[last]
	clear(s[last:])
	s = s[:last]
	s.sink(0)
	*h = shrunk(s)
	return top
}

func (h heap[T]) sink(i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if right := child + 1; right < len(h) && h[right].before(h[child]) {
			child = right
		}
		if !h[child].before(h[i]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}

// keep drops the values for which f is false, and the room they took.
func (h *heap[T]) keep(f func(T) bool) {
	*h = kept(*h, f)
	for i := len(*h)/2 - 1; i >= 0; i-- {
		h.sink(i)
	}
}

// inOrder lists the values, in order. It is for the first few: of n values it costs n².
func (h heap[T]) inOrder(yield func(T) bool) {
	next := []int{0}[:min(len(h), 1)] // places of which the parents were listed, in order
	for len(next) > 0 && yield(h[next[0]]) {
		at := next[0]
		next = next[1:]
		for child := 2*at + 1; child <= 2*at+2 && child < len(h); child++ {
			i, _ := slices.BinarySearchFunc(next, child, func(a, b int) int { return compare(h[a], h[b]) })
			next = slices.Insert(next, i, child)
		}
	}
}
