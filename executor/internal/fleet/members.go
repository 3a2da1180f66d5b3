package fleet

import (
	"slices"
	"sync"
)

// Members are the partitions that a process has, and what each of them is to have.
type Members[P comparable] struct {
	// mu guards what follows.
	mu    sync.Mutex
	joins []func(P) error
	all   map[P]bool
}

// Each has each partition that joins later do something first.
func (m *Members[P]) Each(join func(P) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.joins = append(m.joins, join)
}

// Join adds a partition, which has all that is wanted then. It leaves also after an error.
func (m *Members[P]) Join(p P) error {
	m.mu.Lock()
	joins := slices.Clone(m.joins)
	if m.all == nil {
		m.all = make(map[P]bool)
	}
	m.all[p] = true
	m.mu.Unlock()
	for _, join := range joins {
		if err := join(p); err != nil {
			return err
		}
	}
	return nil
}

// Leave takes a partition out.
func (m *Members[P]) Leave(p P) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, p)
}

// Do calls f with each partition that there is. Nothing joins or leaves meanwhile.
func (m *Members[P]) Do(f func(P)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for p := range m.all {
		f(p)
	}
}
