//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"
)

// member is one of the nodes: a process, and another one when that has died.
type member struct {
	name  string
	args  []string
	log   bool
	say   func(format string, args ...any)
	proxy *proxy               // nil: nobody hurts its connections
	life  atomic.Pointer[life] // nil: there is none now
}

// life is that of one process.
type life struct {
	node, address string // as it says of itself
	process       *os.Process
	slowUntil     atomic.Int64 // callers go elsewhere, in Unix nanoseconds
}

// pause is how long it takes until somebody starts a dead process again.
const pause = 500 * time.Millisecond

// live starts processes until ctx ends, and then ends the last in order.
func (m *member) live(ctx context.Context) {
	for ctx.Err() == nil {
		if err := m.once(ctx); err != nil && m.log {
			fmt.Fprintf(os.Stderr, "%s: %v\n", m.name, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// once runs a process to its end, which is an error only when it never began.
func (m *member) once(ctx context.Context) error {
	c := exec.CommandContext(ctx, m.args[0], m.args[1:]...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 20 * time.Second
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us
	if m.log {
		c.Stderr = os.Stderr
	}
	if _, err := c.StdinPipe(); err != nil { // it ends when we do
		return err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	l := &life{process: c.Process}
	if _, err := fmt.Fscan(out, &l.node, &l.address); err != nil {
		return fmt.Errorf("the node did not begin: %w", c.Wait()) // the server is away, say
	}
	m.say("%s is at http://%s/", m.name, l.address)
	m.life.Store(l)
	defer m.life.Store(nil)
	_ = c.Wait() // it was killed, as like as not
	return nil
}
