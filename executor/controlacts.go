package executor

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/journal"
)

func (c *controls) act(ctx context.Context, a control.Act) (control.Affected, error) {
	which, err := meant(a)
	if err != nil {
		return control.Affected{}, err
	}
	switch a.Do {
	case control.DoRun:
		return affected(c.i.RunNow(ctx, which))
	case control.DoCancel:
		return affected(c.i.Cancel(ctx, which, a.Reason))
	case control.DoDelete:
		return affected(c.i.Delete(ctx, which))
	case control.DoKillFailed:
		return affected(c.i.KillFailed(ctx, which))
	case control.DoDeleteFailed:
		return affected(c.i.DeleteFailed(ctx, which))
	case control.DoRequeue:
		back, err := c.i.Requeue(ctx, which)
		did, err := affected(back.Back, err)
		did.Superseded, did.Late, did.Unsure = back.Superseded, back.Late, back.Unsure
		return did, err
	case control.DoDeleteDead:
		return affected(c.i.DeleteDead(ctx, which))
	}
	return control.Affected{}, fmt.Errorf("%w: there is nothing called %q to do", ErrInvalidQuery, clip(a.Do))
}

// meant returns what an action is about. All has to be said: a list that came out empty
// means nothing.
func meant(a control.Act) (Selection, error) {
	said := 0
	for _, is := range [...]bool{a.All, len(a.IDs) > 0, len(a.Positions) > 0} {
		if is {
			said++
		}
	}
	which := SelectQueue(string(a.Queue))
	switch {
	case a.Do == "":
		return which, fmt.Errorf("%w: do is missing", ErrInvalidQuery)
	case which.queue == "":
		return which, fmt.Errorf("%w: queue is missing", ErrInvalidQuery)
	case said == 0:
		return which, fmt.Errorf("%w: all, ids or positions is missing: which of queue %q are meant", ErrInvalidQuery, clip(which.queue))
	case said > 1:
		return which, fmt.Errorf("%w: it has to be one of all, ids and positions of queue %q", ErrInvalidQuery, clip(which.queue))
	case len(a.IDs) > 0:
		which = SelectIDs(which.queue, texts(a.IDs)...)
	case len(a.Positions) > 0 && a.Do != control.DoRequeue && a.Do != control.DoDeleteDead:
		return which, fmt.Errorf("%w: positions are for dead payloads, not to %.20q", ErrInvalidQuery, a.Do)
	}
	for _, p := range a.Positions {
		which.of = append(which.of, journal.Position(p))
	}
	slices.Sort(which.of)
	return which, nil
}

// affected is the answer also when something went wrong after so many.
func affected(n int, err error) (control.Affected, error) {
	if err != nil && n > 0 {
		return control.Affected{N: n, Trouble: err.Error()}, nil
	}
	return control.Affected{N: n}, err
}

func (c *controls) pause(ctx context.Context, p control.Pause) (control.Affected, error) {
	queue := string(p.Queue)
	switch {
	case p.All && (queue != "" || p.IDs != nil):
		return control.Affected{}, fmt.Errorf("%w: all means the executor; queue and ids are not for it", ErrInvalidQuery)
	case p.All:
		return control.Affected{N: 1}, c.x.pause(ctx, "", p.On)
	case queue == "":
		return control.Affected{}, fmt.Errorf("%w: queue is missing; all means the executor", ErrInvalidQuery)
	case p.IDs == nil:
		return control.Affected{N: 1}, c.i.pause(ctx, queue, p.On)
	case len(p.IDs) == 0:
		return control.Affected{}, fmt.Errorf("%w: ids is empty; without it the queue is meant", ErrInvalidQuery)
	}
	return affected(c.i.pauseIDs(ctx, queue, texts(p.IDs), p.On))
}

func (c *controls) copy(ctx context.Context, to control.Copy) (control.None, error) {
	if to.To == "" {
		return control.None{}, fmt.Errorf("%w: to is missing: the directory for the copy", ErrInvalidQuery)
	}
	if !filepath.IsAbs(to.To) {
		return control.None{}, fmt.Errorf("%w: the directory for the copy is %q; it must be absolute", ErrInvalidQuery, clip(to.To))
	}
	return control.None{}, c.x.Copy(ctx, to.To)
}

func (c *controls) compact(ctx context.Context, _ control.None) (a control.Compacted, err error) {
	a.Before = c.x.log.Info().FileBytes
	err = c.x.Compact(ctx)
	a.After = c.x.log.Info().FileBytes
	return a, err
}
