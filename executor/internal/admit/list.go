package admit

import (
	"slices"

	"github.com/strandjobs/strand/executor/internal/shards"
	"github.com/strandjobs/strand/shard"
)

// List is what the jobs of one queue have to meet, in the order in which it is asked. A
// queue without conditions has no list. It does not change once jobs run.
type List struct {
	Queue  string
	Ledger *Ledger
	Graph  *Graph
	Decode func(it *shard.Item) ([]Payload, error) // what a worker has in hand
	Shards *shards.Set
	Clock  func() int64

	asked     []Condition // before a job runs
	durable   int         // those of asked up to the last whose holds have to be on disk; 0: none
	checkers  []Checker
	witnesses []Witness
	listeners []Listener
}

// Payload is a payload that a worker has in hand.
type Payload struct {
	Position uint64
	Raw      []byte
	Value    any
}

// Ask adds a condition that jobs have to meet.
func (l *List) Ask(c Condition) {
	l.asked = append(l.asked, c)
	if _, durable := c.(Durable); durable {
		l.durable = len(l.asked)
	}
	l.Keep(c)
}

// Keep adds what is not asked before a job runs, but has a part in what becomes of it.
func (l *List) Keep(c any) {
	if w, ok := c.(Witness); ok {
		l.witnesses = append(l.witnesses, w)
	}
	if h, ok := c.(Listener); ok {
		l.listeners = append(l.listeners, h)
	}
}

// Check adds what is asked of each payload before it is accepted.
func (l *List) Check(c Checker) { l.checkers = append(l.checkers, c) }

// Asked reports whether a job has to meet anything before it runs.
func (l *List) Asked() bool { return l != nil && len(l.asked) > 0 }

// Empty reports whether there is nothing in it.
func (l *List) Empty() bool { return len(l.asked)+len(l.checkers)+len(l.witnesses) == 0 }

// Durable reports whether what the first conditions give has to be on disk before the
// others are asked, and the job runs.
func (l *List) Durable() bool { return l.durable > 0 }

// Checked reports whether payloads are looked at before they are accepted.
func (l *List) Checked() bool { return l != nil && len(l.checkers) > 0 }

// CheckAll returns the first error of those that look at a payload.
func (l *List) CheckAll(id string, value any) error {
	for _, c := range l.checkers {
		if err := c.Check(id, value); err != nil {
			return err
		}
	}
	return nil
}

// All are the conditions, in their order.
func (l *List) All() []Condition {
	if l == nil {
		return nil
	}
	return l.asked
}

// Aside has a job wait nowhere.
func (l *List) Aside(by Owner, forget bool) {
	for _, c := range l.asked {
		c.Aside(by, forget)
	}
}

// Called returns the jobs whose turn has come, and which no worker has.
func (l *List) Called() (ids []string) {
	for _, c := range l.All() {
		if caller, ok := c.(Caller); ok {
			ids = append(ids, caller.Called(l.Queue)...)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(ids)))
}

// Settle records what a shard has decided, with what it means for what the jobs of a list
// held; also adds what belongs to it besides. The list may be nil.
func (b *Ledger) Settle(l *List, c *shard.Change, also func()) {
	if l == nil {
		l = new(List)
	}
	b.Do(&c.Change, func() {
		for _, w := range l.witnesses {
			w.Merging(c)
		}
		for _, held := range c.Claims {
			c.Sets = append(c.Sets, held.Held.Settle(held.Verdict, held.Over)...)
		}
		for _, w := range l.witnesses {
			w.Ending(c)
		}
		also()
	})
	for _, w := range l.listeners {
		w.Recorded(c)
	}
	for _, held := range c.Claims {
		held.Held.Release(held.Over)
	}
}

// With adds v to a list unless it is there.
func With[E comparable](list []E, v E) []E {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

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
