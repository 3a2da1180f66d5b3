// Package sorted keeps what is in line, or to come, so that the first is at hand and any can
// be taken out of the middle. It is plain data.
package sorted

import (
	"cmp"
	"container/heap"
	"slices"
)

// List has what comes first at index 0, and the rest in no order.
type List[T Item] []T

// Item is what a List can have in it: all that has a Place.
type Item interface{ at() *Place }

// Place is where an item stands in a List.
type Place struct {
	Turn  int64 // those that come before have lower ones
	index int   // from 1; 0: it stands in none
}

func (p *Place) at() *Place { return p }

// Put puts v in, or moves it if it has another Turn.
func (l *List[T]) Put(v T) {
	if i := v.at().index; i > 0 {
		heap.Fix(l, i-1)
	} else {
		heap.Push(l, v)
	}
}

// Remove takes v out, if it is in it.
func (l *List[T]) Remove(v T) {
	if i := v.at().index; i > 0 {
		heap.Remove(l, i-1)
	}
}

// First returns up to n of those that come first, in order, however long the list is.
func (l List[T]) First(n int) (first []T) {
	for next := []int{0}; len(first) < min(n, len(l)); { // below what was taken, in the heap
		i := slices.MinFunc(next, func(i, j int) int { return cmp.Compare(l[i].at().Turn, l[j].at().Turn) })
		first = append(first, l[i])
		next = slices.DeleteFunc(append(next, 2*i+1, 2*i+2), func(j int) bool { return j == i || j >= len(l) })
	}
	return first
}

// Len, Less, Swap, Push and Pop are for package heap.
func (l List[T]) Len() int           { return len(l) }
func (l List[T]) Less(i, j int) bool { return l[i].at().Turn < l[j].at().Turn }

func (l List[T]) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].at().index, l[j].at().index = i+1, j+1
}

func (l *List[T]) Push(v any) {
	*l = append(*l, v.(T))
	v.(T).at().index = len(*l)
}

func (l *List[T]) Pop() any {
	last := len(*l) - 1
	v := (*l)[last]
	clear((*l)[last:])
	*l, v.at().index = (*l)[:last], 0
	return v
}
