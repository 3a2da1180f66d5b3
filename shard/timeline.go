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

func (t *timeline[T]) len() int { return t.inOrder.n + len(t.heap) }

func (t *timeline[T]) push(v T) {
	if last := t.inOrder.last(); last == nil || !v.before(*last) {
		t.inOrder.push(v)
		return
	}
	t.heap.push(v)
}

// first returns the first value in order, nil when there is none. It is valid
// until the next push or pop.
func (t *timeline[T]) first() *T {
	head := t.inOrder.first()
	if len(t.heap) > 0 && (head == nil || t.heap[0].before(*head)) {
		return &t.heap[0]
	}
	return head
}

// pop removes what first returns, which must not be nil.
func (t *timeline[T]) pop() T {
	head := t.inOrder.first()
	if len(t.heap) == 0 || (head != nil && !t.heap[0].before(*head)) {
		return t.inOrder.pop()
	}
	return t.heap.pop()
}

// all lists the values, in no particular order.
func (t *timeline[T]) all(yield func(T) bool) {
	for v := range t.inOrder.all {
		if !yield(v) {
			return
		}
	}
	for _, v := range t.heap {
		if !yield(v) {
			return
		}
	}
}

// keep drops the values for which f is false, and the room they took.
func (t *timeline[T]) keep(f func(T) bool) {
	var kept fifo[T]
	for v := range t.inOrder.all {
		if f(v) {
			kept.push(v)
		}
	}
	t.inOrder = kept
	t.heap.keep(f)
}

// fifo is a queue of chunks: it never copies what it holds, and gives back
// what it does not need.
type fifo[T any] struct {
	head, tail *chunk[T]
	n          int
}

// The first chunk of a queue is small, since most queues are short.
const smallChunk, largeChunk = 4, 256

type chunk[T any] struct {
	values   []T
	from, to int
	next     *chunk[T]
}

func (q *fifo[T]) push(v T) {
	if q.tail == nil || q.tail.to == len(q.tail.values) {
		size := smallChunk
		if q.tail != nil {
			size = min(4*len(q.tail.values), largeChunk)
		}
		c := &chunk[T]{values: make([]T, size)}
		if q.tail == nil {
			q.head = c
		} else {
			q.tail.next = c
		}
		q.tail = c
	}
	q.tail.values[q.tail.to] = v
	q.tail.to++
	q.n++
}

func (q *fifo[T]) first() *T {
	if q.n == 0 {
		return nil
	}
	return &q.head.values[q.head.from]
}

func (q *fifo[T]) last() *T {
	if q.n == 0 {
		return nil
	}
	return &q.tail.values[q.tail.to-1]
}

// all lists the values, in order.
func (q *fifo[T]) all(yield func(T) bool) {
	for c := q.head; c != nil; c = c.next {
		for _, v := range c.values[c.from:c.to] {
			if !yield(v) {
				return
			}
		}
	}
}

func (q *fifo[T]) pop() T {
	c := q.head
	v := c.values[c.from]
	clear(c.values[c.from : c.from+1]) // lets go of what v points to
	c.from++
	q.n--
	switch {
	case q.n == 0:
		c.from, c.to, c.next = 0, 0, nil // the last chunk is used again
		q.head, q.tail = c, c
	case c.from == c.to:
		q.head = c.next
	}
	return v
}

// ordered is what is kept in order.
type ordered[T any] interface{ before(T) bool }

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
	if cap(s) > largeChunk && 4*len(s) < cap(s) {
		s = append(make([]T, 0, 2*len(s)), s...) // a burst is over
	}
	*h = s
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
	var kept heap[T]
	for _, v := range *h {
		if f(v) {
			kept = append(kept, v)
		}
	}
	for i := len(kept)/2 - 1; i >= 0; i-- {
		kept.sink(i)
	}
	*h = kept
}

// inOrder lists the values, in order. It is for the first few: of n values it costs n².
func (h heap[T]) inOrder(yield func(T) bool) {
	next := []int{0}[:min(len(h), 1)] // places of which the parents were listed, in order
	for len(next) > 0 && yield(h[next[0]]) {
		at := next[0]
		next = next[1:]
		for child := 2*at + 1; child <= 2*at+2 && child < len(h); child++ {
			i, _ := slices.BinarySearchFunc(next, child, func(a, b int) int {
				if h[a].before(h[b]) {
					return -1
				}
				return 1
			})
			next = slices.Insert(next, i, child)
		}
	}
}
