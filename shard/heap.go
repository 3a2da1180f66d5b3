package shard

import "slices"

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

// each calls f for the values in order, until f returns false. It is for the first few:
// of n values it costs n².
func (h heap[T]) each(f func(T) bool) {
	var next []int // places whose parents f was called for, in order
	for at := 0; at < len(h); {
		if !f(h[at]) {
			return
		}
		for child := 2*at + 1; child <= 2*at+2 && child < len(h); child++ {
			i, _ := slices.BinarySearchFunc(next, child, func(a, b int) int {
				if h[a].before(h[b]) {
					return -1
				}
				return 1
			})
			next = slices.Insert(next, i, child)
		}
		if len(next) == 0 {
			return
		}
		at, next = next[0], next[1:]
	}
}
