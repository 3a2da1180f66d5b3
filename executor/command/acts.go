package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/executor/internal/statekey"
	"github.com/strandjobs/strand/journal"
)

func allFlag() []cli.Flag {
	return []cli.Flag{&cli.BoolFlag{Name: "all", Usage: "all jobs of the queue, without naming an id"}}
}

func removalFlags() []cli.Flag {
	return append(allFlag(), &cli.BoolFlag{Name: "failed", Usage: "only what waits for a retry, or is halted; what runs is left alone"})
}

func cancelFlags() []cli.Flag {
	return append(removalFlags(), &cli.StringFlag{Name: "reason", Usage: "`TEXT` that their last error will have; not with -failed"})
}

// acted is what was done.
type acted struct {
	Done string
	admin.Affected
}

// acts does something with jobs.
func acts(verb string) func(context.Context, *live) error {
	return func(ctx context.Context, l *live) error {
		queue, ids := l.Args().Get(1), l.Args().Slice()[2:]
		act := admin.Act{Do: verb, Queue: queue, All: l.Bool("all"), Reason: l.String("reason")}
		switch {
		case act.All == (len(ids) > 0):
			return usage("strand %s: name ids, or say -all for all jobs of queue %q", verb, queue)
		case l.Bool("failed") && act.Reason != "":
			return usage("-reason: what -failed takes away has its own last error")
		case l.Bool("failed") && verb == "cancel":
			act.Do = "kill-failed"
		case l.Bool("failed"):
			act.Do = "delete-failed"
		}
		if queue == "" {
			return errNoName
		}
		one, many, done := "payload", "payloads", map[string]string{"run": "made due", "retry": "made due", "cancel": "canceled", "delete": "deleted"}[verb]
		if verb == "run" || verb == "retry" {
			one, many = "job", "jobs"
		}
		w := work{l: l, queue: queue, one: one, done: done}
		for _, act.IDs = range inPieces(ids) {
			if err := w.do(ctx, act); err != nil {
				return err
			}
		}
		if l.json {
			l.row(verb, acted{done, admin.Affected{N: w.N}})
		} else {
			l.printf("%s %s\n", brief.Count(w.N, one, many), done)
		}
		return nil
	}
}

// inPieces are some ids at a time; without an id, none once.
func inPieces(ids []string) [][]string {
	if len(ids) == 0 {
		return [][]string{nil}
	}
	return slices.Collect(slices.Chunk(ids, atOnce))
}

// work is what a call has a process do, a part at a time, and how far it is.
type work struct {
	l         *live
	queue     string // "": it is known to be there
	one, done string // what is counted, and what becomes of it
	admin.Affected
}

// do does a part. When that goes wrong it says what was done before. Nothing is looked at before
// an action, which has its place on the socket also where others look; so it is now that an
// unknown queue is told from those that there are.
func (w *work) do(ctx context.Context, part admin.Act) error {
	did, err := ask[admin.Affected](ctx, w.l, control.VerbAct, part)
	if w.Add(did); err == nil && did.Trouble != "" {
		err = errors.New(did.Trouble)
	}
	switch {
	case err == nil:
		return nil
	case w.N > 0:
		return fmt.Errorf("%s %s, and then: %w", brief.Count(w.N, w.one, w.one+"s"), w.done, err)
	case w.queue != "":
		if _, failed := w.l.of(ctx, w.queue); errors.Is(failed, errUsage) {
			return failed
		}
	}
	return err
}

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
			if err := l.Close(); err != nil {
				return err
			}
		}
		return c.paused(len(sets), on)
	}
}

// pauses pauses the executor, a queue or ids, or lets them go on.
func pauses(on bool) func(context.Context, *live) error {
	return func(ctx context.Context, l *live) error {
		queue := l.Args().Get(1)
		if err := l.pausable(); err != nil {
			return err
		}
		w, act := work{l: l, queue: queue, one: "id", done: "done"}, admin.Act{Do: "resume", Queue: queue, Prefix: l.String("prefix")}
		if on {
			act.Do = "pause"
		}
		for _, act.IDs = range inPieces(l.Args().Slice()[min(l.Args().Len(), 2):]) {
			act.All = act.IDs == nil && act.Prefix == ""
			if err := w.do(ctx, act); err != nil {
				return err
			}
		}
		return l.paused(w.N, on)
	}
}

func prefixFlag() []cli.Flag {
	return []cli.Flag{&cli.StringFlag{Name: "prefix", Usage: "all ids of the queue that begin with `TEXT`, those to come, too"}}
}

// pausable refuses what does not say what is to be paused.
func (c *call) pausable() error {
	args, prefix := c.Args().Slice(), c.String("prefix")
	switch {
	case len(args) > 1 && args[1] == "":
		return errNoName
	case c.IsSet("prefix") && (prefix == "" || len(prefix) > statekey.MaxPausedBytes):
		return usage("-prefix has 1 to %d bytes, and not %d", statekey.MaxPausedBytes, len(prefix))
	case c.IsSet("prefix") && len(args) != 2:
		return usage("-prefix is for a queue, and without ids")
	}
	for _, id := range args[min(len(args), 2):] {
		if id == "" || len(id) > statekey.MaxPausedBytes {
			return usage("an id has 1 to %d bytes, and not %d", statekey.MaxPausedBytes, len(id))
		}
	}
	return nil
}

// pauseSets are the changes that it takes: none for what is so already.
func (c *call) pauseSets(v *journal.View, on bool) (sets []journal.Set, err error) {
	args, queue := c.Args().Slice(), c.Args().Get(1)
	if err := c.pausable(); err != nil {
		return nil, err
	}
	if err := known(slices.Collect(maps.Values(names(v))), queue); err != nil {
		return nil, err
	}
	group, of, most := statekey.PausedExecutor, []string{""}, math.MaxInt
	switch {
	case len(args) < 2:
	case c.IsSet("prefix"):
		group, of, most = statekey.PausedPrefixes(queue), []string{c.String("prefix")}, statekey.MaxPausedPrefixes
	case len(args) == 2:
		group, of = statekey.PausedQueues, args[1:]
	default:
		group, of, most = statekey.PausedIDs(queue), args[2:], statekey.MaxPausedIDs
	}
	paused := make(map[string]bool) // of the group
	for s, err := range v.Keys() {
		if err != nil {
			return nil, err
		}
		if name, alike := strings.CutPrefix(s.Key, group); alike {
			paused[name] = true
		}
	}
	n := len(paused)
	for _, name := range of {
		if paused[name] != on {
			paused[name], sets = on, append(sets, statekey.Pause(group+name, on))
		}
	}
	if n += len(sets); on && n > most {
		return nil, usage("%d ids or prefixes of queue %q would be paused, and the limit is %d; pause the queue", n, queue, most)
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
		c.row(kind, acted{done, admin.Affected{N: n}})
		return nil
	}
	what := "the executor is"
	switch args := c.Args().Len(); {
	case args == 1:
	case c.IsSet("prefix"):
		what = "what begins with " + show([]byte(c.String("prefix"))) + " is"
	case args == 2:
		what = "queue " + show([]byte(c.Args().Get(1))) + " is"
	default:
		what = brief.Count(n, "id was", "ids were")
	}
	c.printf("%s %s\n", what, done)
	return nil
}
