package main

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/executor/internal/pausekey"
	"github.com/strandjobs/strand/journal"
)

// pause writes to a journal at rest what is paused, or goes on, from the next start on.
func pause(on bool) func(context.Context, *call) error {
	return func(ctx context.Context, c *call) error {
		dir := c.Args().First()
		v, err := journal.OpenSides(dir)
		if err != nil {
			return err
		}
		sets, err := c.pauseSets(v, on)
		if err := errors.Join(err, v.Close()); err != nil {
			return err
		}
		if len(sets) > 0 {
			l, err := journal.Open(dir, journal.Config{})
			if err != nil {
				return err
			}
			l.Record(&journal.Change{Sets: sets})
			if err := errors.Join(l.Settled(ctx), l.Close()); err != nil {
				return err
			}
		}
		n := len(sets)
		if c.Args().Len() < 3 {
			n = 1 // as a process says, which does not look how it was
		}
		return c.paused(n, on)
	}
}

// pauseSets are the changes that it takes.
func (c *call) pauseSets(v *journal.View, on bool) (sets []journal.Set, err error) {
	queue := c.Args().Get(1)
	if c.Args().Len() > 1 {
		if queue == "" {
			return nil, errNoName
		}
		if err := known(slices.Collect(maps.Values(names(v))), queue); err != nil {
			return nil, err
		}
	}
	paused, ids := make(map[string]bool), 0
	for s, err := range v.Keys() {
		if err != nil {
			return nil, err
		}
		paused[s.Key] = true
		if len(s.Key) > len(pausekey.IDs(queue)) && s.Key[:len(pausekey.IDs(queue))] == pausekey.IDs(queue) {
			ids++
		}
	}
	keys := []string{pausekey.Executor}
	switch n := c.Args().Len(); {
	case n == 2:
		keys = []string{pausekey.Queue(queue)}
	case n > 2:
		keys = nil
		for _, id := range c.Args().Slice()[2:] {
			if id == "" || len(id) > pausekey.MaxIDBytes {
				return nil, usage("an id has 1 to %d bytes, and not %d", pausekey.MaxIDBytes, len(id))
			}
			if key := pausekey.IDs(queue) + id; !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	for _, key := range keys {
		if paused[key] != on {
			sets = append(sets, pausekey.Set(key, on))
		}
	}
	if on && len(keys) > 0 && c.Args().Len() > 2 && ids+len(sets) > pausekey.MaxIDs {
		return nil, usage("%d ids of queue %q would be paused, and the limit is %d; pause the queue", ids+len(sets), queue, pausekey.MaxIDs)
	}
	return sets, nil
}

var errNoName = usage("the name of the queue is empty")

// paused says what was paused, or goes on.
func (c *call) paused(n int, on bool) error {
	kind, done := "resume", "resumed"
	if on {
		kind, done = "pause", "paused"
	}
	if c.json {
		return c.row(kind, acted{done, control.Affected{N: n}})
	}
	what := "the executor is"
	switch c.Args().Len() {
	case 1:
	case 2:
		what = "queue " + show([]byte(c.Args().Get(1))) + " is"
	default:
		what = count(n, "id was", "ids were")
	}
	c.printf("%s %s\n", what, done)
	return nil
}
