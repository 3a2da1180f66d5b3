package inspect

import (
	"context"
	"fmt"

	"github.com/strandjobs/strand/executor/internal/brief"
)

// acts are the methods that count what they have done, by the names that the API, the control
// socket and the log have for them.
var acts = map[string]func(Operator, context.Context, Selection) (int, error){
	"run": Operator.RunNow, "retry": Operator.RetryNow,
	"delete": Operator.Delete, "kill-failed": Operator.KillFailed, "delete-failed": Operator.DeleteFailed,
	"delete-dead": Operator.DeleteDead, "pause": Operator.Pause, "resume": Operator.Resume,
}

// Act calls a method of an [Operator] by its name in the API: run, retry, cancel, delete, kill-failed,
// delete-failed, requeue, delete-dead, pause or resume. The reason is for cancel. What the method
// counts is Back of the result. Another name is ErrInvalidQuery; all else is as the method says.
func Act(ctx context.Context, o Operator, name string, which Selection, reason string) (did Requeued, err error) {
	switch act := acts[name]; {
	case name == "cancel":
		did.Back, err = o.Cancel(ctx, which, reason)
	case name == "requeue":
		return o.Requeue(ctx, which)
	case act != nil:
		did.Back, err = act(o, ctx, which)
	default:
		err = fmt.Errorf("%w: there is nothing called %q to do", ErrInvalidQuery, brief.Clip(name))
	}
	return did, err
}
