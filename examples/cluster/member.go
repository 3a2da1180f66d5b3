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
	name      string
	builds    [][]string // programs, with their arguments, of which each life has the next
	lives     int
	deployed  atomic.Bool // from now on each life has the first
	log       bool
	say       func(format string, args ...any)
	cancelled func(node string)
	proxy     *proxy               // nil: nobody hurts its connections
	life      atomic.Pointer[life] // nil: there is none now
}

// life is that of one process.
type life struct {
	node, address string // as it says of itself
	other         bool   // it has not the first build
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
	build := m.lives % len(m.builds)
	if m.deployed.Load() {
		build = 0
	}
	args := m.builds[build]
	c := exec.CommandContext(ctx, args[0], args[1:]...)
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
	l := &life{process: c.Process, other: build > 0}
	if _, err := fmt.Fscan(out, &l.node, &l.address); err != nil {
		return fmt.Errorf("the node did not begin: %w", c.Wait()) // the server is away, say
	}
	m.say("%s is at http://%s/, with %s", m.name, l.address, args[0])
	m.lives++
	m.life.Store(l)
	defer m.life.Store(nil)
	if m.deployed.Load() {
		m.deploy() // it has begun meanwhile
	}
	for word := ""; ; m.cancelled(l.node) {
		if _, err := fmt.Fscan(out, &word); err != nil {
			break
		}
	}
	_ = c.Wait() // it was killed, as like as not
	return nil
}

// deploy ends a process of another build than the first in order, and has the next ones be of the first.
func (m *member) deploy() {
	m.deployed.Store(true)
	if l := m.life.Load(); l != nil && l.other {
		_ = l.process.Signal(syscall.SIGTERM) // it may have ended
	}
}
