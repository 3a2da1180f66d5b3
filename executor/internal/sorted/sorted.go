// Package sorted keeps what is in line, or to come, so that the first is at hand and any can
// be taken out of the middle. It is plain data.
package sorted

import "container/heap"

// List has what comes first at index 0, and the rest in no order.
type List[T Item[T]] []T

// Item is what a List can have in it. What Place points to is the List's own, and 0 outside
// of one.
type Item[T any] interface {
	Before(T) bool
	Place() *int
}

// Put puts v in, or moves it if what it is sorted by has changed.
func (l *List[T]) Put(v T) {
	if at := *v.Place(); at > 0 {
		heap.Fix(l, at-1)
	} else {
		heap.Push(l, v)
	}
}

// Remove takes v out, if it is in it.
func (l *List[T]) Remove(v T) {
	if at := *v.Place(); at > 0 {
		heap.Remove(l, at-1)
	}
}

// Len, Less, Swap, Push and Pop are for package heap.
func (l List[T]) Len() int           { return len(l) }
func (l List[T]) Less(i, j int) bool { return l[i].Before(l[j]) }

func (l List[T]) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	*l[i].Place(), *l[j].Place() = i+1, j+1
}

// Push implements [heap.Interface].
func (l *List[T]) Push(v any) {
	*l = append(*l, v.(T))
	*v.(T).Place() = len(*l)
}

// Pop implements [heap.Interface].
func (l *List[T]) Pop() any {
	last := len(*l) - 1
	v := (*l)[last]
	clear((*l)[last:])
	*l = (*l)[:last]
	*v.Place() = 0
	return v
}
