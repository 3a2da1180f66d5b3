package limit

// ordered is what a heap can have in it. Its place is kept with it, so that it can
// be taken out of the middle.
type ordered[T any] interface {
	before(T) bool
	place() *int
}

// heap has what comes first at index 0.
type heap[T ordered[T]] []T

func (h *heap[T]) push(v T) {
	*h = append(*h, v)
	*v.place() = len(*h) - 1
	h.up(len(*h) - 1)
}

// remove takes out what is at index i.
func (h *heap[T]) remove(i int) T {
	old := *h
	v, last := old[i], len(old)-1
	old.swap(i, last)
	var none T
	old[last] = none
	*h = old[:last]
	if i < last {
		h.fix(i)
	}
	return v
}

// fix moves what is at index i to where it belongs.
func (h *heap[T]) fix(i int) {
	if !h.up(i) {
		h.down(i)
	}
}

func (h heap[T]) up(i int) (moved bool) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h[i].before(h[parent]) {
			break
		}
		h.swap(i, parent)
		i, moved = parent, true
	}
	return moved
}

func (h heap[T]) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h[child].before(h[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}

func (h heap[T]) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	*h[i].place(), *h[j].place() = i, j
}
