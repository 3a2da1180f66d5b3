package admit

import "container/heap"

// Sorted has what comes first at index 0, and the rest in no order. What is in it knows its
// place, so that it can be taken out of the middle.
type Sorted[T Sortable[T]] []T

// Sortable is what a Sorted can have in it. Where it keeps its place is 0 outside of one.
type Sortable[T any] interface {
	Before(T) bool
	Place() *int
}

// Put puts v in, or moves it if what it is sorted by has changed.
func (l *Sorted[T]) Put(v T) {
	if at := *v.Place(); at > 0 {
		heap.Fix(l, at-1)
	} else {
		heap.Push(l, v)
	}
}

// Remove takes v out, if it is in it.
func (l *Sorted[T]) Remove(v T) {
	if at := *v.Place(); at > 0 {
		heap.Remove(l, at-1)
	}
}

// Len, Less, Swap, Push and Pop are for package heap.
func (l Sorted[T]) Len() int           { return len(l) }
func (l Sorted[T]) Less(i, j int) bool { return l[i].Before(l[j]) }

func (l Sorted[T]) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	*l[i].Place(), *l[j].Place() = i+1, j+1
}

// Push implements [heap.Interface].
func (l *Sorted[T]) Push(v any) {
	*l = append(*l, v.(T))
	*v.(T).Place() = len(*l)
}

// Pop implements [heap.Interface].
func (l *Sorted[T]) Pop() any {
	last := len(*l) - 1
	v := (*l)[last]
	clear((*l)[last:])
	*l = (*l)[:last]
	*v.Place() = 0
	return v
}
