package command

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/executor/internal/statekey"
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
		return c.paused(len(sets), on)
	}
}

func prefixFlag() []cli.Flag {
	return []cli.Flag{&cli.StringFlag{Name: "prefix", Usage: "all ids of the queue that begin with `TEXT`, those to come, too"}}
}

// pausable refuses what does not say what is to be paused.
func (c *call) pausable() error {
	prefix := c.String("prefix")
	switch {
	case c.Args().Len() > 1 && c.Args().Get(1) == "":
		return errNoName
	case c.IsSet("prefix") && (prefix == "" || len(prefix) > statekey.MaxPausedBytes):
		return usage("-prefix has 1 to %d bytes, and not %d", statekey.MaxPausedBytes, len(prefix))
	case c.IsSet("prefix") && c.Args().Len() != 2:
		return usage("-prefix is for a queue, and without ids")
	}
	return nil
}

// pauseSets are the changes that it takes.
func (c *call) pauseSets(v *journal.View, on bool) (sets []journal.Set, err error) {
	queue := c.Args().Get(1)
	if err := c.pausable(); err != nil {
		return nil, err
	}
	if queue != "" {
		if err := known(slices.Collect(maps.Values(names(v))), queue); err != nil {
			return nil, err
		}
	}
	keys, group, most, err := c.pauseKeys(queue)
	if err != nil {
		return nil, err
	}
	paused, alike := make(map[string]bool), 0
	for s, err := range v.Keys() {
		if err != nil {
			return nil, err
		}
		if paused[s.Key] = true; strings.HasPrefix(s.Key, group) {
			alike++
		}
	}
	for _, key := range keys {
		if paused[key] != on {
			sets = append(sets, statekey.Pause(key, on))
		}
	}
	if n := alike + len(sets); on && group != "" && n > most {
		return nil, usage("%d ids or prefixes of queue %q would be paused, and the limit is %d; pause the queue", n, queue, most)
	}
	return sets, nil
}

// pauseKeys are the state keys of what is meant. Those that begin with group, if it is not
// empty, are so many at most.
func (c *call) pauseKeys(queue string) (keys []string, group string, most int, err error) {
	switch ids := c.Args().Slice(); {
	case len(ids) < 2:
		keys = []string{statekey.PausedExecutor}
	case c.IsSet("prefix"):
		group, most = statekey.PausedPrefixes(queue), statekey.MaxPausedPrefixes
		keys = []string{group + c.String("prefix")}
	case len(ids) == 2:
		keys = []string{statekey.PausedQueues + queue}
	default:
		group, most = statekey.PausedIDs(queue), statekey.MaxPausedIDs
		for _, id := range ids[2:] {
			if id == "" || len(id) > statekey.MaxPausedBytes {
				return nil, "", 0, usage("an id has 1 to %d bytes, and not %d", statekey.MaxPausedBytes, len(id))
			}
			if !slices.Contains(keys, group+id) {
				keys = append(keys, group+id)
			}
		}
	}
	return keys, group, most, nil
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
	switch args := c.Args().Len(); {
	case args == 1:
	case c.IsSet("prefix"):
		what = "what begins with " + show([]byte(c.String("prefix"))) + " is"
	case args == 2:
		what = "queue " + show([]byte(c.Args().Get(1))) + " is"
	default:
		what = count(n, "id was", "ids were")
	}
	c.printf("%s %s\n", what, done)
	return nil
}
