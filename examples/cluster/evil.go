//go:build unix

package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/strandjobs/strand/journal/postgres"
)

// event is something evil that was done.
type event struct {
	kind       string
	node       string // to which; empty: to all
	partitions []int  // that it owned
	at, over   time.Time
}

// errAgain is why nothing evil was done: it is tried again.
var errAgain = errors.New("the node is dead already")

// hurt sends a signal to a node, and notes what it owned.
func (c *cluster) hurt(ctx context.Context, kind string, m *member, s syscall.Signal) (*life, error) {
	l := m.life.Load()
	if l == nil {
		return nil, errAgain
	}
	stats, err := postgres.NodeOf(c.jobs).Stats(ctx)
	if err != nil {
		return nil, err
	}
	e := event{kind: kind, node: l.node}
	for _, p := range stats.Partitions {
		if p.Owner == l.node {
			e.partitions = append(e.partitions, p.Partition)
		}
	}
	if err := c.db.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&e.at); err != nil {
		return nil, err
	}
	if err := l.process.Signal(s); err != nil {
		return nil, errAgain
	}
	c.note(e)
	c.say("%s of %s, which owned %d partitions", kind, m.name, len(e.partitions))
	return l, nil
}

// anyone is a node at random.
func (c *cluster) anyone() *member { return c.members[rand.IntN(len(c.members))] }

func (c *cluster) kill(ctx context.Context) error {
	_, err := c.hurt(ctx, "kill -9", c.anyone(), syscall.SIGKILL)
	return err
}

func (c *cluster) end(ctx context.Context) error {
	_, err := c.hurt(ctx, "end", c.anyone(), syscall.SIGTERM)
	return err
}

// stop has a node stand still until its lease is over: others own what it had when it goes on.
func (c *cluster) stop(ctx context.Context) error {
	l, err := c.hurt(ctx, "stop", c.anyone(), syscall.SIGSTOP)
	if err == nil {
		time.Sleep(c.cfg.lease * 3 / 2)
		_ = l.process.Signal(syscall.SIGCONT) // unless it was killed
	}
	return err
}

// hold keeps what a node sends until its lease is over, and delivers it then: commits that come late.
func (c *cluster) hold(ctx context.Context) error {
	m := c.anyone()
	_, err := c.hurt(ctx, "hold", m, 0)
	if err == nil {
		m.proxy.hold()
		time.Sleep(c.cfg.lease * 3 / 2)
		m.proxy.release()
	}
	return err
}

// killServer kills the server, with all its processes, and starts it again.
func (c *cluster) killServer(context.Context) error {
	return c.hurtServer("kill -9 of the server", func() error {
		if err := c.server.kill(); err != nil {
			return err
		}
		return c.server.again()
	})
}

// promote has the standby take the server's place.
func (c *cluster) promote(context.Context) error {
	return c.hurtServer("promotion", func() (err error) {
		c.server, err = c.server.promote()
		return err
	})
}

// hurtServer does something to the server, if nothing else is done to it. If it does not come back there is nothing
// more to find out.
func (c *cluster) hurtServer(kind string, do func() error) error {
	c.hurting.Lock()
	defer c.hurting.Unlock()
	defer c.note(event{kind: kind, at: time.Now()})()
	c.say("%s", kind)
	err := do()
	if err != nil {
		c.giveUp(err)
	}
	return err
}

// cut cuts connections of the nodes, in the midst of what passes.
func (c *cluster) cut(context.Context) error {
	count := 0
	for _, m := range c.members {
		count += m.proxy.cut()
	}
	c.note(event{kind: "cut", at: time.Now()})
	c.say("%d connections cut", count)
	return nil
}
