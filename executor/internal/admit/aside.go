package admit

import (
	"github.com/strandjobs/strand/shard"
)

// Wake has a job ask again that waits. One that is not going to come, because it is halted,
// put off or gone, lets others have its turn.
func (l *List) Wake(id string) {
	l.Shards.Of(id).Tell(func(c *shard.Core) {
		c.Let(id, shard.HoldWait)
		if l.StepAside(c, id); !c.Paused(id) {
			if job := c.Status(id); !job.Known || !job.Running && (job.Halted || job.Due > l.Clock()) {
				l.Aside(Owner{Queue: l.Queue, ID: id}, false)
			}
		}
	})
}

// StepAside has a job that is paused wait for nothing else: its turn would keep others
// waiting until it goes on. Then it asks again, behind them. It is called on its shard. The
// list may be nil.
func (l *List) StepAside(c *shard.Core, id string) {
	if l.Asked() && c.Paused(id) && !c.Status(id).Running {
		l.Aside(Owner{Queue: l.Queue, ID: id}, true)
		c.Let(id, shard.HoldWait)
	}
}

// StepAsideAll is StepAside for all jobs whose turn it is.
func (l *List) StepAsideAll() {
	for _, id := range l.Called() {
		l.Shards.Of(id).Tell(func(c *shard.Core) { l.StepAside(c, id) })
	}
}
