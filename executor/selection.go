package executor

import (
	"context"
	"slices"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Selection says which jobs of a queue, or which of its dead letters, a person means:
// [SelectIDs], [SelectPrefix], [SelectPayloads], [SelectJobs] and [SelectQueue]
// make one. It never includes what is accepted after the call that gets it, but for
// [Inspector.Pause]. The zero Selection names no
// queue, which is ErrUnknownQueue.
type Selection struct {
	queue  string
	ids    map[string]bool    // nil: any
	of     []journal.Position // in ascending order; nil: any
	filter JobFilter
	states []JobState // none: any
	wanted stateSet   // of states
	before int64      // Unix ns, of filter.OlderThan
}

// SelectIDs selects all that some ids of a queue have. Without an id it selects
// nothing.
func SelectIDs(queue string, ids ...string) Selection {
	s := Selection{queue: queue, ids: make(map[string]bool, len(ids))}
	for _, id := range ids {
		s.ids[id] = true
	}
	return s
}

// SelectPayloads selects the payloads of an id that were accepted at some positions, as
// Receipt, Payload and Dead have them. Without a position it selects nothing.
func SelectPayloads(queue, id string, positions ...uint64) Selection {
	s := SelectIDs(queue, id)
	s.of = make([]journal.Position, 0, len(positions))
	for _, p := range positions {
		s.of = append(s.of, journal.Position(p))
	}
	slices.Sort(s.of)
	return s
}

// SelectJobs means the jobs of a queue that a filter picks and that are in one of some
// states, which are those of lists, or [JobFresh]: see [JobRetrying]. Without a state, any.
func SelectJobs(queue string, filter JobFilter, states ...JobState) Selection {
	return Selection{queue: queue, filter: filter, states: states}
}

// SelectPrefix selects the ids of a queue that begin so, byte by byte: those of a tenant,
// for example. It has at most MaxIDBytes; an empty one is [SelectQueue].
func SelectPrefix(queue, prefix string) Selection {
	return Selection{queue: queue, filter: JobFilter{IDPrefix: prefix}}
}

// SelectQueue selects all that a queue has.
func SelectQueue(queue string) Selection { return Selection{queue: queue} }

// check returns an error for a selection that makes no sense.
func (s *Selection) check() error {
	if err := s.filter.check(); err != nil {
		return err
	}
	var err error
	if s.wanted, err = statesOf(s.states); err != nil {
		return err
	}
	for id := range s.ids {
		if err := checkID(id); err != nil {
			return err
		}
	}
	return nil
}

func (s *Selection) oldEnough(accepted int64) bool {
	return s.filter.OlderThan == 0 || accepted < s.before
}

// meansJob reports whether a job is meant. It is called on the shard of the job, and
// may read what has left memory.
func (s *Selection) meansJob(c *shard.Core, v *shard.View) bool {
	if !s.wanted.has(v) {
		return false
	}
	c.Identify(v)
	if !s.filter.means(v.ID, v.LastError, v.Retry >= 0) {
		return false
	}
	if s.filter.OlderThan == 0 {
		return true
	}
	var e journal.Entry
	found, err := v.First.Peek(&e)
	return err == nil && found && s.oldEnough(e.AcceptedAt())
}

// selected returns the queue of a selection, whether it makes sense, and the context
// as it may be used.
func (i *Inspector) selected(ctx context.Context, s *Selection) (*queue, context.Context, error) {
	if i == nil || i.x == nil {
		return nil, nil, errNoInspector
	}
	q, err := i.x.lookup(s.queue)
	if err != nil {
		return nil, nil, err
	}
	if ctx, err = q.x.mayChange(ctx); err != nil {
		return nil, nil, err
	}
	s.before = q.x.clock().UnixNano() - int64(s.filter.OlderThan)
	return q, ctx, s.check()
}

// placesAtOnce is how many places for jobs a visit to a shard looks at.
const placesAtOnce = 200

// act calls f for each job that is meant, on its shard, and adds up what it returns.
// It visits shards for a few jobs at a time, and waits until what f has changed is on
// disk.
func (q *queue) act(ctx context.Context, s *Selection, f func(c *shard.Core, now int64, id string) int) (n int, err error) {
	if s.ids != nil {
		ids := make([]string, 0, len(s.ids))
		for id := range s.ids {
			ids = append(ids, id)
		}
		n, err = q.shards.VisitIDs(ctx, ids, func(c *shard.Core, some []string) (n int, err error) {
			now := q.x.clock().UnixNano()
			for _, id := range some {
				n += f(c, now, id)
			}
			return n, nil
		})
	} else {
		n, err = q.actOnAll(ctx, s, f)
	}
	q.x.endRemoved()
	if err == nil {
		err = q.shards.Pass(ctx) // a shard writes down what a call has changed after the call
	}
	return n, q.x.written(ctx, err)
}

func (q *queue) actOnAll(ctx context.Context, s *Selection, f func(c *shard.Core, now int64, id string) int) (n int, err error) {
	for i := range q.shards.All {
		for after, more := shard.Cursor(0), true; more; {
			if err := context.Cause(ctx); err != nil {
				return n, err
			}
			type place struct {
				cursor shard.Cursor
				more   bool
			}
			places := make(chan place, 1)
			from := after
			did, err := q.shards.Visit(ctx, i, func(c *shard.Core) (n int, err error) {
				now := q.x.clock().UnixNano()
				last, more := c.Scan(from, placesAtOnce, now, func(v *shard.View) {
					if s.meansJob(c, v) {
						n += f(c, now, v.ID)
					}
				})
				places <- place{last, more}
				return n, nil
			})
			if n += did; err != nil {
				return n, err
			}
			p := <-places
			after, more = p.cursor, p.more
		}
	}
	return n, nil
}
