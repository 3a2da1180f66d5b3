package admin

import (
	"context"
	"fmt"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/brief"
)

// Actor is Act of an [inspect.Inspector]. It has the methods of an [inspect.Inspector] that act.
type Actor func(ctx context.Context, name string, which inspect.Selection, reason string) (inspect.Requeued, error)

func (a Actor) count(ctx context.Context, name string, which inspect.Selection, reason string) (int, error) {
	did, err := a(ctx, name, which, reason)
	return did.Back, err
}

func (a Actor) RunNow(ctx context.Context, s inspect.Selection) (int, error) {
	return a.count(ctx, "run", s, "")
}
func (a Actor) RetryNow(ctx context.Context, s inspect.Selection) (int, error) {
	return a.count(ctx, "retry", s, "")
}
func (a Actor) Delete(ctx context.Context, s inspect.Selection) (int, error) {
	return a.count(ctx, "delete", s, "")
}
func (a Actor) KillFailed(ctx context.Context, s inspect.Selection) (int, error) {
	return a.count(ctx, "kill-failed", s, "")
}
func (a Actor) DeleteFailed(ctx context.Context, s inspect.Selection) (int, error) {
	return a.count(ctx, "delete-failed", s, "")
}
func (a Actor) DeleteDead(ctx context.Context, s inspect.Selection) (int, error) {
	return a.count(ctx, "delete-dead", s, "")
}
func (a Actor) Pause(ctx context.Context, s inspect.Selection) (int, error) {
	return a.count(ctx, "pause", s, "")
}
func (a Actor) Resume(ctx context.Context, s inspect.Selection) (int, error) {
	return a.count(ctx, "resume", s, "")
}
func (a Actor) Cancel(ctx context.Context, s inspect.Selection, reason string) (int, error) {
	return a.count(ctx, "cancel", s, reason)
}

func (a Actor) Requeue(ctx context.Context, which inspect.Selection) (inspect.Requeued, error) {
	return a(ctx, "requeue", which, "")
}

// Affected is how many an action has affected.
type Affected struct {
	inspect.Requeued
	Of      string `wire:",omit"` // what was counted: payload, job, id, prefix, queue, executor, key, schedule
	Trouble string `wire:",omit"` // it went wrong after them
}

// Act asks for an action over the control socket. Of a queue it has to say which are meant,
// and in one way: All, IDs, Prefix, or of dead letters Positions. To pause and to resume All
// without a queue is the executor.
type Act struct {
	Do        string   `wire:",must"`
	Queue     string   `wire:",omit"`
	All       bool     `wire:",omit"`
	IDs       []string `wire:",omit"`
	Prefix    string   `wire:",omit"`
	Positions []uint64 `wire:",omit"`
	Reason    string   `wire:",omit"` // to cancel
}

// Selection returns what is meant. A list that came out empty means nothing.
func (a *Act) Selection() (inspect.Selection, error) {
	said := 0
	for _, is := range [...]bool{a.All, len(a.IDs) > 0, a.Prefix != "", len(a.Positions) > 0} {
		if is {
			said++
		}
	}
	which := inspect.SelectPrefix(a.Queue, a.Prefix)
	switch queue := brief.Clip(a.Queue); {
	case a.Do == "":
		return which, fmt.Errorf("%w: do is missing", inspect.ErrInvalidQuery)
	case a.Queue == "" && a.All && said == 1 && (a.Do == "pause" || a.Do == "resume"):
		return inspect.SelectExecutor(), nil
	case a.Queue == "":
		return which, fmt.Errorf("%w: queue is missing; to pause the executor, all is said without one", inspect.ErrInvalidQuery)
	case said == 0:
		return which, fmt.Errorf("%w: all, ids, prefix or positions is missing: which of queue %q are meant", inspect.ErrInvalidQuery, queue)
	case said > 1:
		return which, fmt.Errorf("%w: it has to be one of all, ids, prefix and positions of queue %q", inspect.ErrInvalidQuery, queue)
	case len(a.IDs) > 0:
		return inspect.SelectIDs(a.Queue, a.IDs...), nil
	case len(a.Positions) == 0:
		return which, nil
	case a.Do != "requeue" && a.Do != "delete-dead":
		return which, fmt.Errorf("%w: positions are for dead payloads, not to %.20q", inspect.ErrInvalidQuery, a.Do)
	}
	return which.At(a.Positions...), nil
}
