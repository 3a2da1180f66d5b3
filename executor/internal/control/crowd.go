package control

import (
	"net"
	"net/http"
	"slices"
	"sync"
)

// crowd bounds the connections: those that have not said what they want make room for
// those that come after them.
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

// said is told of a connection with a whole request.
func (c *crowd) said(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(conn)
	c.busy[conn] = true
}

func (c *crowd) drop(conn net.Conn) {
	if i := slices.Index(c.quiet, conn); i >= 0 {
		c.quiet = slices.Delete(c.quiet, i, i+1)
	}
	delete(c.busy, conn)
}
