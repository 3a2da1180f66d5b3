package lane

import (
	"context"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Condition has the jobs of a queue wait for their turn in lanes that it shares.
type Condition struct {
	*Lanes
	Number uint32 // of the queue
}

// Stand gives a payload its place. Nil: the queue shares no lanes.
func (c *Condition) Stand(id string, position journal.Position) {
	if c != nil {
		c.Add(id, position, c.Number)
	}
}

// Enter implements [admit.Condition].
func (c *Condition) Enter(_ context.Context, cl *admit.Claim) (admit.Hold, error) {
	if !c.Lanes.Enter(cl.By.ID, cl.Item.Current().Ref.Position(), c.Number, cl.Wake) {
		return nil, admit.ErrWaits
	}
	return &hold{c.Lanes, cl.By.ID}, nil
}

// Aside implements [admit.Condition]: who waits for its turn keeps nobody waiting.
func (c *Condition) Aside(admit.Owner, bool) {}

// Waits implements [admit.Condition]: a job that comes after another one waits for its
// turn, whether it has been asked yet or not.
func (c *Condition) Waits(by admit.Owner) []admit.Wait {
	job, _, ok := c.Before(by.ID, c.Number)
	if !ok {
		return nil
	}
	return []admit.Wait{{For: "its turn", On: []admit.Owner{job}}}
}

// Recorded implements [admit.Listener]: it takes what has ended out of its lane. Its end is
// on record by now, so that what comes next can't be before it on disk.
func (c *Condition) Recorded(change *shard.Change) {
	positions := make([]journal.Position, 0, len(change.Ended)+len(change.Buried))
	for _, r := range change.Ended {
		positions = append(positions, r.Position())
	}
	for i := range change.Buried {
		positions = append(positions, change.Buried[i].Ref.Position())
	}
	c.Remove(positions...)
}

// hold is a lane that a running job has entered.
type hold struct {
	lanes *Lanes
	id    string
}

// Release implements [admit.Hold].
func (h *hold) Release() { h.lanes.Leave(h.id) }

// Explain implements [admit.Condition].
func (c *Condition) Explain(by admit.Owner, e *inspect.Explanation) bool {
	job, ahead, ok := c.Before(by.ID, c.Number)
	if ok {
		e.Behind, e.Ahead = job.String(), ahead
	}
	return ok
}
