package control

import (
	"net"
	"net/http"
	"slices"
	"sync"
)

// crowd bounds the connections: those for which nothing is done make room for those that
// come after them. Fewer calls are worked on than there may be connections.
type crowd struct {
	most int

	mu    sync.Mutex
	quiet []net.Conn // that no call is on, the oldest first
	busy  map[net.Conn]bool
}

func newCrowd(most int) *crowd { return &crowd{most: most, busy: make(map[net.Conn]bool)} }

// note is told what becomes of connections.
func (c *crowd) note(conn net.Conn, state http.ConnState) {
	if leaves := c.move(conn, state); leaves != nil {
		_ = leaves.Close() // it may have gone by itself
	}
}

// move returns the connection that has to leave, if there are too many.
func (c *crowd) move(conn net.Conn, state http.ConnState) (leaves net.Conn) {
	if state == http.StateActive {
		return nil // there is the head of a request, and maybe no more
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(conn)
	if state == http.StateNew || state == http.StateIdle {
		c.quiet = append(c.quiet, conn)
		if len(c.quiet)+len(c.busy) > c.most {
			leaves = c.quiet[0]
			c.quiet = c.quiet[1:]
		}
	}
	return leaves
}

// at is told of a connection with a call that is worked on, and returns what says that it
// is over: a client that does not read its answer makes room as one that says nothing.
func (c *crowd) at(conn net.Conn) (over func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(conn)
	c.busy[conn] = true
	return func() { c.note(conn, http.StateIdle) }
}

func (c *crowd) drop(conn net.Conn) {
	if i := slices.Index(c.quiet, conn); i >= 0 {
		c.quiet = slices.Delete(c.quiet, i, i+1)
	}
	delete(c.busy, conn)
}
