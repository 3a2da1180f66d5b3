package executor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/executor/internal/look"
	"github.com/strandjobs/strand/shard"
)

// ErrControlSocket is returned by Open when Config.ControlSocket is set and there can't be
// one; the text says why, and what to do.
var ErrControlSocket = errors.New("executor: no control socket")

func (c *controls) inspect(ctx context.Context, _ control.None) (control.Figures, error) {
	a := control.Figures{Journal: c.x.log.Info()}
	s, err := c.stats(ctx)
	for i := 0; i < len(s.Queues) && err == nil; i++ {
		a.Queues = append(a.Queues, control.Census{QueueStats: s.Queues[i]})
		if s.Queues[i].Registered {
			err = c.census(ctx, &a.Queues[i])
		}
	}
	return a, err
}

// stats are those of all queues that the journal knows.
func (c *controls) stats(ctx context.Context) (inspect.Stats, error) {
	s, err := c.x.Stats(ctx)
	if err == nil {
		s.Queues = append(s.Queues, c.names(s.Queues)...)
		slices.SortFunc(s.Queues, func(a, b inspect.QueueStats) int { return strings.Compare(a.Name, b.Name) })
	}
	return s, err
}

// names are the queues that the journal knows beside some, without what their shards count.
func (c *controls) names(beside []inspect.QueueStats) (list []inspect.QueueStats) {
	registered := make(map[string]bool)
	for _, q := range c.x.registered() {
		registered[q.Name] = true
	}
	for name, number := range c.x.log.Queues() {
		if slices.ContainsFunc(beside, func(q inspect.QueueStats) bool { return q.Name == name }) {
			continue
		}
		all, one := c.x.pauses.Of(name)
		list = append(list, inspect.QueueStats{Name: name, Registered: registered[name], Dead: c.x.log.Buried(number), Paused: all || one})
	}
	return list
}

// census counts the jobs of a queue as a journal at rest has them: none of them runs.
func (c *controls) census(ctx context.Context, to *control.Census) error {
	ctx, q, err := c.i.Queue(ctx, to.Name)
	if err != nil {
		return err
	}
	now := c.x.clock().UnixNano()
	var all shard.Outlook
	w := look.NewWalk(q)
	w.Want = func(v *shard.View) bool { // on one shard after the other; after an error nobody asks
		switch {
		case v.State == shard.StateHalted:
			all.Halted++
			return false
		case v.Retry >= 0:
			all.Retrying++
		default:
			all.Fresh++
		}
		if v.Due <= now {
			all.Due++
		}
		return false
	}
	if err := w.All(ctx); err != nil {
		return err
	}
	to.Jobs, to.Fresh, to.Retrying, to.Halted, to.Due = all.Fresh+all.Retrying+all.Halted, all.Fresh, all.Retrying, all.Halted, all.Due
	return nil
}

// silence is how long status waits for the shards.
const silence = 2 * time.Second

// status answers also when no shard does, or the disk does not: then a person asks.
func (c *controls) status(ctx context.Context, _ control.None) (a control.Health, _ error) {
	x := c.x
	if err := x.Err(); err != nil {
		a.Trouble = err.Error()
	}
	short, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	var err error
	if a.Stats, err = c.stats(short); err != nil {
		a.Stats = inspect.Stats{Stuck: x.watchdog.Stuck(), Journal: inspect.JournalStats{CommitAge: x.log.Stats().CommitAge}, Queues: c.names(nil)}
		a.Workers, a.Busy = x.dispatcher.Load()
		a.Paused, _ = x.pauses.Of("")
		a.Silent = err.Error()
	}
	return a, nil
}

// eventLine is one line of a stream: an event, or how many were missed before it.
type eventLine struct {
	events.Event
	Missed string `wire:",omit"` // in words
}

func (c *controls) events(ctx context.Context, request func(v any) error, send func(line any) error) error {
	var f events.Filter
	if err := request(&f); err != nil {
		return err
	}
	r, err := c.x.reader(ctx, f)
	if err == nil {
		err = send(nil) // from here on it sees all
	}
	if err != nil {
		return err
	}
	r.Each(func(e events.Event, missed error) bool {
		if missed != nil {
			err = send(eventLine{Missed: missed.Error()})
		} else {
			err = send(eventLine{Event: e})
		}
		return err == nil
	})
	return err
}

func (c *controls) act(ctx context.Context, a control.Act) (control.Affected, error) {
	which, err := meant(a)
	if err != nil {
		return control.Affected{}, err
	}
	switch a.Do {
	case control.DoCancel:
		return affected(c.i.Cancel(ctx, which, a.Reason))
	case control.DoRequeue:
		back, err := c.i.Requeue(ctx, which)
		did, err := affected(back.Back, err)
		did.Requeued = back
		return did, err
	}
	do := map[string]func(context.Context, inspect.Selection) (int, error){
		control.DoRun: c.i.RunNow, control.DoRetry: c.i.RetryNow, control.DoDelete: c.i.Delete, control.DoDeleteDead: c.i.DeleteDead,
		control.DoKillFailed: c.i.KillFailed, control.DoDeleteFailed: c.i.DeleteFailed,
	}[a.Do]
	if do != nil {
		return affected(do(ctx, which))
	}
	return control.Affected{}, fmt.Errorf("%w: there is nothing called %q to do", inspect.ErrInvalidQuery, brief.Clip(a.Do))
}

// meant returns what an action is about. All has to be said: a list that came out empty
// means nothing.
func meant(a control.Act) (inspect.Selection, error) {
	said := 0
	for _, is := range [...]bool{a.All, len(a.IDs) > 0, len(a.Positions) > 0} {
		if is {
			said++
		}
	}
	which := inspect.SelectQueue(a.Queue)
	switch {
	case a.Do == "":
		return which, fmt.Errorf("%w: do is missing", inspect.ErrInvalidQuery)
	case a.Queue == "":
		return which, fmt.Errorf("%w: queue is missing", inspect.ErrInvalidQuery)
	case said == 0:
		return which, fmt.Errorf("%w: all, ids or positions is missing: which of queue %q are meant", inspect.ErrInvalidQuery, brief.Clip(a.Queue))
	case said > 1:
		return which, fmt.Errorf("%w: it has to be one of all, ids and positions of queue %q", inspect.ErrInvalidQuery, brief.Clip(a.Queue))
	case len(a.IDs) > 0:
		which = inspect.SelectIDs(a.Queue, a.IDs...)
	case len(a.Positions) > 0 && a.Do != control.DoRequeue && a.Do != control.DoDeleteDead:
		return which, fmt.Errorf("%w: positions are for dead payloads, not to %.20q", inspect.ErrInvalidQuery, a.Do)
	}
	if len(a.Positions) > 0 {
		which = which.At(a.Positions...)
	}
	return which, nil
}

// affected is the answer also when something went wrong after so many.
func affected(n int, err error) (control.Affected, error) {
	if err != nil && n > 0 {
		return control.Affected{N: n, Trouble: err.Error()}, nil
	}
	return control.Affected{N: n}, err
}

func (c *controls) pause(ctx context.Context, p control.Pause) (a control.Affected, err error) {
	which := inspect.SelectPrefix(p.Queue, p.Prefix)
	switch {
	case p.All && (p.Queue != "" || p.IDs != nil || p.Prefix != ""):
		return a, fmt.Errorf("%w: all means the executor; queue, ids and prefix are not for it", inspect.ErrInvalidQuery)
	case p.All:
		return affected(c.i.PauseAll(ctx, "", p.On))
	case p.Queue == "":
		return a, fmt.Errorf("%w: queue is missing; all means the executor", inspect.ErrInvalidQuery)
	case p.IDs != nil && (len(p.IDs) == 0 || p.Prefix != ""):
		return a, fmt.Errorf("%w: ids is empty, or beside prefix; without both the queue is meant", inspect.ErrInvalidQuery)
	case p.IDs != nil:
		which = inspect.SelectIDs(p.Queue, p.IDs...)
	}
	return affected(c.i.SetPaused(ctx, which, p.On))
}

func (c *controls) copy(ctx context.Context, to control.Copy) (control.None, error) {
	if to.To == "" {
		return control.None{}, fmt.Errorf("%w: to is missing: the directory for the copy", inspect.ErrInvalidQuery)
	}
	if !filepath.IsAbs(to.To) {
		return control.None{}, fmt.Errorf("%w: the directory for the copy is %q; it must be absolute", inspect.ErrInvalidQuery, brief.Clip(to.To))
	}
	return control.None{}, c.x.Copy(ctx, to.To)
}

func (c *controls) compact(ctx context.Context, _ control.None) (a control.Compacted, err error) {
	a.Before = c.x.log.Info().FileBytes
	err = c.x.Compact(ctx)
	a.After = c.x.log.Info().FileBytes
	return a, err
}
