package postgres

import (
	"context"
	"sync"
	"time"
)

// handlers are those that run in a partition, and how they end before it is another node's.
type handlers struct {
	most time.Duration // that they are waited for
	down chan struct{} // closed when it is to be given away
	once sync.Once     // for that

	// mu guards what follows. The functions in running are called under it: they cancel
	// contexts, and what those wake is on other goroutines.
	mu      sync.Mutex
	lost    error
	moving  time.Time // since when it is to be another node's; zero: it is not
	leaving time.Time // since when it is given away
	running map[*context.CancelCauseFunc]struct{}
	group   sync.WaitGroup // of those
	awaited bool           // their end is
}

// enter notes a handler that begins; once the partition is lost none does.
func (h *handlers) enter(cancel *context.CancelCauseFunc) (ours bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost == nil {
		h.running[cancel] = struct{}{}
		h.group.Add(1)
	}
	return h.lost == nil
}

// exit notes that it has ended.
func (h *handlers) exit(cancel *context.CancelCauseFunc) (ours bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.group.Done()
	if delete(h.running, cancel); len(h.running) == 0 && !h.moving.IsZero() {
		h.giveAway()
	}
	return h.lost == nil
}

// end ends the contexts of all, and no other begins: so they hear this cause, if it is the first, and no other.
func (h *handlers) end(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost == nil {
		h.lost = cause
		for cancel := range h.running {
			(*cancel)(cause)
		}
	}
}

func (h *handlers) whyLost() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

// move is called with whether another node is to have the partition, and reports whether it is
// given away now: once no handler runs, or none has begun for as long as that is waited for.
func (h *handlers) move(away bool) (now bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !away {
		h.moving = time.Time{}
		return false
	}
	if h.moving.IsZero() {
		h.moving = time.Now()
	}
	if len(h.running) == 0 || time.Since(h.moving) >= h.most {
		return h.giveAway()
	}
	return false
}

// giveAway begins to give the partition away: it begins no job any longer, and waits for its handlers.
func (h *handlers) giveAway() (first bool) {
	h.once.Do(func() { first = true; close(h.down) })
	return first
}

// lingering is how many handlers hold up the next owner, for longer than a stop would wait.
func (h *handlers) lingering() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.awaited && (h.leaving.IsZero() || time.Since(h.leaving) < h.most) {
		return 0
	}
	return len(h.running)
}
