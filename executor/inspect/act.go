package inspect

import (
	"context"
	"fmt"

	"github.com/strandjobs/strand/executor/internal/brief"
)

// acts are the methods that count what they have done, by the names that the API, the control
// socket and the log have for them.
var acts = map[string]func(Inspector, context.Context, Selection) (int, error){
	"run": Inspector.RunNow, "retry": Inspector.RetryNow,
	"delete": Inspector.Delete, "kill-failed": Inspector.KillFailed, "delete-failed": Inspector.DeleteFailed,
	"delete-dead": Inspector.DeleteDead, "pause": Inspector.Pause, "resume": Inspector.Resume,
}

// Act calls a method of an [Inspector] by its name in the API: run, retry, cancel, delete, kill-failed,
// delete-failed, requeue, delete-dead, pause or resume. The reason is for cancel. What the method
// counts is Back of the result. Another name is ErrInvalidQuery; all else is as the method says.
func Act(ctx context.Context, in Inspector, name string, which Selection, reason string) (did Requeued, err error) {
	switch act := acts[name]; {
	case name == "cancel":
		did.Back, err = in.Cancel(ctx, which, reason)
	case name == "requeue":
		return in.Requeue(ctx, which)
	case act != nil:
		did.Back, err = act(in, ctx, which)
	default:
		err = fmt.Errorf("%w: there is nothing called %q to do", ErrInvalidQuery, brief.Clip(name))
	}
	return did, err
}
