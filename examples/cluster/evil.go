//go:build unix

package main

import (
	"context"
	"math/rand/v2"
	"syscall"
	"time"
)

// event is something evil that was done.
type event struct {
	kind       string
	node       string // to which
	partitions []int  // that it owned
	at         time.Time
}

// hurt sends a signal to a node at random, and notes what it owned.
func (c *cluster) hurt(ctx context.Context, kind string, s syscall.Signal) (*life, error) {
	m := c.members[rand.IntN(len(c.members))]
	l := m.life.Load()
	if l == nil {
		return nil, nil // it is dead already
	}
	stats, err := c.node.Stats(ctx)
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
		return nil, nil // it has died meanwhile
	}
	c.note(e)
	c.say("%s of %s, which owned %d partitions", kind, m.name, len(e.partitions))
	return l, nil
}

func (c *cluster) kill(ctx context.Context) error {
	_, err := c.hurt(ctx, "kill -9", syscall.SIGKILL)
	return err
}

func (c *cluster) end(ctx context.Context) error {
	_, err := c.hurt(ctx, "end", syscall.SIGTERM)
	return err
}

// stop has a node stand still until its lease is over: others own what it had when it goes on.
func (c *cluster) stop(ctx context.Context) error {
	l, err := c.hurt(ctx, "stop", syscall.SIGSTOP)
	if l != nil {
		time.Sleep(c.cfg.lease * 3 / 2)
		_ = l.process.Signal(syscall.SIGCONT) // unless it was killed
	}
	return err
}

// killServer kills the server, with all its processes.
func (c *cluster) killServer(ctx context.Context) error {
	var pids []int
	err := c.db.QueryRow(ctx, "SELECT array_agg(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()").Scan(&pids)
	if err != nil {
		return err
	}
	c.note(event{kind: "kill -9 of the server", at: time.Now()})
	c.say("kill -9 of the server")
	return c.server.kill(pids)
}

// cut cuts connections of the nodes, in the midst of what passes.
func (c *cluster) cut(context.Context) error {
	c.note(event{kind: "cut", at: time.Now()})
	c.say("%d connections cut", c.proxy.cut())
	return nil
}
