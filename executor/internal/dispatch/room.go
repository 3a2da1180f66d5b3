package dispatch

import (
	"slices"
	"sync"
)

// Room is how many seats of several dispatchers may work at a time. A dispatcher that has found
// none left gets its place when one is given back, in its turn: so none starves.
type Room struct {
	asking sync.Mutex // of dispatchers

	// mu guards what follows. It comes after the locks of dispatchers.
	mu    sync.Mutex
	left  int
	short []*Dispatcher // those that have found none left
}

// NewRoom returns room for so many seats.
func NewRoom(seats int) *Room { return &Room{left: seats} }

// give gives a place back, to the dispatcher that has been short of one the longest.
func (r *Room) give() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.short) == 0 {
		r.left++
		return
	}
	d := r.short[0]
	r.short = r.short[1:]
	go d.use() // the lock of another dispatcher is held
}

// full reports whether there is no place.
func (r *Room) full() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left == 0
}

// lack notes that a dispatcher is short, unless there is a place, which it has then.
func (r *Room) lack(d *Dispatcher) (place bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left > 0 {
		r.left--
		return true
	}
	if !slices.Contains(r.short, d) {
		r.short = append(r.short, d)
	}
	return false
}

// Share has the seats of a dispatcher, which has none yet, work only while there is room.
func (d *Dispatcher) Share(r *Room) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room, d.asking = r, &r.asking
}

// place takes a place in the room for a seat. Without one the dispatcher hears of the next. mu is held.
func (d *Dispatcher) place() bool {
	if d.room == nil {
		return true
	}
	if d.places > 0 {
		d.places--
		return true
	}
	return d.room.lack(d)
}

// giveBack gives back the places that no seat has come for. mu is held.
func (d *Dispatcher) giveBack() {
	for ; d.places > 0; d.places-- {
		d.room.give()
	}
}

// use has an idle seat look for a shard, with a place that is the dispatcher's, and stands in line for
// another one while there is more to do.
func (d *Dispatcher) use() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.places++
	if d.closed || d.held || len(d.idle) == 0 || len(d.ready) == 0 {
		d.giveBack()
		return
	}
	d.take().Runs <- nil // which has room: the seat is idle
	if len(d.ready) > 1 && len(d.idle) > 0 && d.room.lack(d) {
		go d.use()
	}
}
