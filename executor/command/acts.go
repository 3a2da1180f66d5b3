package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/executor/internal/statekey"
	"github.com/strandjobs/strand/journal"
)

// acted is what was done.
type acted struct {
	Done string
	inspect.Requeued
}

// acts are what is done with jobs, and what becomes of those.
var acts = map[string]string{"run": "made due", "retry": "made due", "cancel": "canceled", "delete": "deleted"}

// actOnJobs does what the command is called.
func actOnJobs(ctx context.Context, c *call) error {
	queue, ids := c.Args().Get(1), c.Args().Slice()[2:]
	act := admin.Act{Do: c.Name, Queue: queue, All: c.Bool("all"), Reason: c.String("reason")}
	switch {
	case act.All == (len(ids) > 0):
		return usage("strand %s: name ids, or say -all for all jobs of queue %q", c.Name, queue)
	case c.Bool("failed") && act.Reason != "":
		return usage("-reason: what -failed takes away has its own last error")
	case queue == "":
		return errNoName
	case c.Bool("failed") && c.Name == "cancel":
		act.Do = "kill-failed"
	case c.Bool("failed"):
		act.Do = "delete-failed"
	}
	w := work{call: c, queue: queue, one: "payload", done: acts[c.Name]}
	if w.done == "made due" {
		w.one = "job"
	}
	err := w.all(ctx, act, ids)
	if err == nil {
		c.say(c.Name, acted{w.done, w.Requeued}, "%s %s\n", brief.Count(w.Back, w.one, w.one+"s"), w.done)
	}
	return err
}

// work is what a call has a process do, a part at a time, and how far it is.
type work struct {
	*call
	queue     string // "": it is known to be there
	one, done string // what is counted, and what becomes of it
	inspect.Requeued
}

// all does it, with some ids at a time; without an id, once.
func (w *work) all(ctx context.Context, act admin.Act, ids []string) error {
	for {
		n := min(len(ids), atOnce)
		act.IDs, ids = ids[:n], ids[n:]
		if err := w.do(ctx, act); err != nil || len(ids) == 0 {
			return err
		}
	}
}

// do does a part. When that goes wrong it says what was done before. Nothing is looked at before
// an action, which has its place on the socket also where others look; so it is now that an
// unknown queue is told from those that there are.
func (w *work) do(ctx context.Context, part admin.Act) error {
	did, err := control.Call[admin.Affected](ctx, w.client, control.VerbAct, part)
	if w.Requeued = w.Plus(did.Requeued); err == nil && did.Trouble != "" {
		err = errors.New(did.Trouble)
	}
	switch {
	case err == nil:
		return nil
	case w.Back > 0:
		return fmt.Errorf("%s %s, and then: %w", brief.Count(w.Back, w.one, w.one+"s"), w.done, err)
	case w.queue != "":
		if _, _, failed := queuesOf(ctx, w.client, w.queue); errors.Is(failed, errUsage) {
			return failed
		}
	}
	return err
}

// pause pauses what the arguments say, or lets it go on.
func pause(ctx context.Context, c *call) (err error) {
	n := 0
	if c.client == nil {
		n, err = c.pauseAtRest(c.Name == "pause")
	} else if err = c.pausable(); err == nil {
		args := c.Args()
		w, prefix := work{call: c, queue: args.Get(1), one: "id", done: "done"}, c.String("prefix")
		err = w.all(ctx, admin.Act{Do: c.Name, Queue: w.queue, Prefix: prefix, All: args.Len() < 3 && prefix == ""}, args.Slice()[min(args.Len(), 2):])
		n = w.Back
	}
	if err != nil {
		return err
	}
	what, now := "the executor", " is "+c.Name+"d"
	if n == 0 {
		now = map[string]string{"pause": " was paused before", "resume": " was not paused"}[c.Name]
	}
	switch args := c.Args().Len(); {
	case args == 1:
	case c.IsSet("prefix"):
		what = "what begins with " + show([]byte(c.String("prefix")))
	case args == 2:
		what = "queue " + show([]byte(c.Args().Get(1)))
	default:
		what, now = brief.Count(n, "id was ", "ids were "), c.Name+"d"
	}
	c.say(c.Name, acted{c.Name + "d", inspect.Requeued{Back: n}}, "%s%s\n", what, now)
	return nil
}

// pauseAtRest writes to a journal what is paused, or goes on, from the next start on.
func (c *call) pauseAtRest(on bool) (n int, err error) {
	dir := c.Args().First()
	v, err := journal.OpenSides(dir)
	if err != nil {
		return 0, err
	}
	sets, err := c.pauseSets(v, on)
	if err := errors.Join(err, v.Close()); err != nil || len(sets) == 0 {
		return 0, err
	}
	l, err := journal.Open(dir, journal.Config{})
	if err != nil {
		return 0, err
	}
	l.Record(&journal.Change{Sets: sets})
	return len(sets), l.Close()
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
	if err := cmp.Or(c.pausable(), known(slices.Collect(maps.Values(names(v))), queue)); err != nil {
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
	all, err := pausesOf([]*journal.View{v})
	paused := all.under(group)
	for _, name := range slices.Compact(slices.Sorted(slices.Values(of))) {
		if _, was := slices.BinarySearch(paused, name); was != on {
			sets = append(sets, statekey.Pause(group+name, on))
		}
	}
	if n := len(paused) + len(sets); on && n > most {
		return nil, usage("%d ids or prefixes of queue %q would be paused, and the limit is %d; pause the queue", n, queue, most)
	}
	return sets, err
}

// pauses are the state keys of what is paused, in order: what the next start keeps from running. What
// limits have paused is not in a journal.
type pauses []string

// pausesOf reads those of all partitions: a queue is paused in each of them, an id in its own.
func pausesOf(views []*journal.View) (all pauses, err error) {
	for _, v := range views {
		for s, err := range v.Keys(statekey.PausePrefix) {
			if err != nil {
				return nil, err
			}
			all = append(all, s.Key)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// under are the names of what is paused under some keys, statekey.PausedIDs for example.
func (p pauses) under(keys string) (names []string) {
	at, _ := slices.BinarySearch(p, keys)
	for ; at < len(p) && strings.HasPrefix(p[at], keys); at++ {
		names = append(names, p[at][len(keys):])
	}
	return names
}

// paused is what is paused of a queue.
type paused struct {
	whole         []string // "executor", "queue"
	ids, prefixes []string // in order
}

// of is what is paused of a queue, also of one that has no jobs.
func (p pauses) of(queue string) (q paused) {
	if slices.Contains(p, statekey.PausedExecutor) {
		q.whole = append(q.whole, "executor")
	}
	if slices.Contains(p, statekey.PausedQueues+queue) {
		q.whole = append(q.whole, "queue")
	}
	q.ids, q.prefixes = p.under(statekey.PausedIDs(queue)), p.under(statekey.PausedPrefixes(queue))
	return q
}

// over names what keeps a job from running, in the words of a process: see Paused of
// [inspect.Explanation].
func (p *paused) over(id string) []string {
	names := slices.Clip(p.whole)
	for n := range len(id) {
		if _, is := slices.BinarySearch(p.prefixes, id[:n+1]); is {
			names = append(names, fmt.Sprintf("prefix %q", id[:n+1]))
		}
	}
	if _, is := slices.BinarySearch(p.ids, id); is {
		names = append(names, "id")
	}
	return names
}

var errNoName = usage("the name of the queue is empty")
