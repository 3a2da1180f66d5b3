package limit

import "container/heap"

// ordered is what a sorted can have in it. Its place is kept with it, so that it can
// be taken out of the middle.
type ordered[T any] interface {
	before(T) bool
	place() *int
}

// sorted has what comes first at index 0.
type sorted[T ordered[T]] []T

func (l *sorted[T]) push(v T)       { heap.Push(l, v) }
func (l *sorted[T]) remove(i int) T { return heap.Remove(l, i).(T) }
func (l *sorted[T]) fix(i int)      { heap.Fix(l, i) }

// Len, Less, Swap, Push and Pop are for package heap.
func (l sorted[T]) Len() int           { return len(l) }
func (l sorted[T]) Less(i, j int) bool { return l[i].before(l[j]) }

func (l sorted[T]) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	*l[i].place(), *l[j].place() = i, j
}

func (l *sorted[T]) Push(v any) {
	*l = append(*l, v.(T))
	*v.(T).place() = len(*l) - 1
}

func (l *sorted[T]) Pop() any {
	last := len(*l) - 1
	v := (*l)[last]
	var none T
	(*l)[last] = none
	*l = (*l)[:last]
	return v
}
