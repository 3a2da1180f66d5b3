package executor

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// What an answer over the socket has at most, beside its rows.
const (
	answerBytes    = 1 << 20 // of payloads; or one of them
	answerPayloads = 20_000  // that are looked at to say how large jobs are
	jobPayloads    = 1000    // of these, of one job
)

func (c *controls) jobs(ctx context.Context, query control.JobsQuery) (control.JobsPage, error) {
	if query.Limit < 1 || query.Limit > control.MaxRows {
		return control.JobsPage{}, fmt.Errorf("%w: the limit is %d, it must be from 1 to %d", ErrInvalidQuery, query.Limit, control.MaxRows)
	}
	ctx, q, err := c.i.begin(ctx, string(query.Queue))
	if err != nil {
		return control.JobsPage{}, err
	}
	states := []JobState{JobReady, JobScheduled, JobRetrying, JobParked, JobRunning}
	if query.Halted {
		states = []JobState{JobHalted}
	}
	l, err := newJobList(q, JobQuery{Queue: q.name, States: states, Order: OrderDue, Cursor: query.Cursor})
	if err != nil {
		return control.JobsPage{}, err
	}
	l.Limit = query.Limit
	page, err := l.inOrder(ctx)
	if err != nil {
		return control.JobsPage{}, err
	}
	a := control.JobsPage{Next: page.Next, Jobs: make([]control.Job, 0, len(page.Jobs))}
	room := answerPayloads
	for i := range page.Jobs {
		info := &page.Jobs[i]
		row := control.Job{
			ID: []byte(info.ID), State: string(info.State), Due: info.Due.UnixNano(), Attempt: info.Attempt,
			LastError: []byte(info.LastError), Payloads: info.Payloads, Bytes: int64(info.Bytes),
		}
		if info.Payloads > 1 {
			var counted int
			if counted, row.Bytes, err = q.weigh(ctx, info.ID, min(room, jobPayloads)); err != nil {
				return control.JobsPage{}, err
			}
			room -= counted
			row.AtLeast = counted < info.Payloads
		}
		a.Jobs = append(a.Jobs, row)
	}
	return a, nil
}

// weigh adds up the bytes of the first n payloads of a job, and says how many there were.
func (q *queue) weigh(ctx context.Context, id string, n int) (counted int, bytes int64, err error) {
	if n == 0 {
		return 0, 0, nil
	}
	err = q.x.inspection.pacer.Do(ctx, q.x.atWork, func() (time.Duration, error) {
		began := time.Now()
		_, payloads, err := q.payloadsOf(ctx, id, n)
		for _, p := range payloads {
			var e journal.Entry
			found, broken := p.Ref.Peek(&e)
			if broken != nil {
				return 0, border(broken)
			}
			if found {
				counted, bytes = counted+1, bytes+int64(len(e.Payload))
			}
		}
		return time.Since(began), err
	})
	return counted, bytes, err
}

// payloadsOf shows a job with its first n payloads, in the order in which they run; nil
// if there is none.
func (q *queue) payloadsOf(ctx context.Context, id string, n int) (*shard.Detail, []shard.Payload, error) {
	var seen struct { // a call may come after its caller has gone
		shard.Detail
		ok bool
	}
	err := q.actors[q.route([]byte(id))-q.first].Do(ctx, func(c *shard.Core) {
		seen.Detail, seen.ok = c.Detail(id, time.Now().UnixNano(), n)
	})
	if err != nil || !seen.ok {
		return nil, nil, border(err)
	}
	all := slices.Concat(seen.InHand, seen.Waiting)
	return &seen.Detail, all[:min(n, len(all))], nil
}

func (c *controls) job(ctx context.Context, one control.One) (control.Detail, error) {
	ctx, q, err := c.i.begin(ctx, string(one.Queue))
	if err == nil {
		err = checkID(string(one.ID))
	}
	if err != nil {
		return control.Detail{}, err
	}
	d, payloads, err := q.payloadsOf(ctx, string(one.ID), jobPayloads)
	if err != nil || d == nil {
		return control.Detail{}, err
	}
	a := control.Detail{History: d.History}
	a.Job = control.Job{
		ID: one.ID, State: string(stateOf(d.State)), Due: d.Due, Attempt: d.Retry + firstAttempt, LastError: []byte(d.LastError), Payloads: d.Payloads,
	}
	room := answerBytes
	for _, p := range payloads {
		var e journal.Entry
		found, err := p.Ref.Peek(&e)
		if err != nil {
			return control.Detail{}, border(err)
		}
		if found {
			a.List = append(a.List, wirePayload(&e, &room))
			a.Bytes += int64(len(e.Payload))
		}
	}
	a.AtLeast = len(a.List) < d.Payloads
	why, err := q.explain(ctx, string(one.ID))
	a.Why = why.String()
	return a, err
}

// wirePayload is a payload of which the bytes are sent while there is room for them; there
// is for the first.
func wirePayload(e *journal.Entry, room *int) control.Payload {
	p := control.Payload{
		Position: uint64(e.Position), Score: math.Float64bits(e.Score), Accepted: e.AcceptedAt(), Restored: e.Restored, Size: len(e.Payload),
	}
	size := len(e.Payload) + len(e.Metadata) + 1
	if p.Unsent = *room < answerBytes && *room < size; !p.Unsent {
		p.Payload, p.Metadata = slices.Clone(e.Payload), slices.Clone(e.Metadata)
	}
	*room = max(*room-size, 0)
	return p
}

func (c *controls) dead(ctx context.Context, query control.DeadQuery) (control.DeadPage, error) {
	ctx, err := usable(ctx)
	if err != nil {
		return control.DeadPage{}, err
	}
	number, known := c.x.log.Queues()[string(query.Queue)]
	if !known {
		return control.DeadPage{}, fmt.Errorf("%w: the journal has none called %q", ErrUnknownQueue, clip(string(query.Queue)))
	}
	ids := make(map[string]bool)
	for _, id := range query.IDs {
		ids[string(id)] = true
	}
	a, room, examined := control.DeadPage{}, answerBytes, 0
	if c.x.log.Buried(number) == 0 {
		return a, nil
	}
	err = c.x.seeDead(ctx, number, journal.Position(query.From), func(b *journal.Buried) bool {
		if examined++; examined > maxExamined || len(a.Dead) == control.MaxDead {
			a.Next = uint64(b.Entry.Position)
			return false
		}
		if len(ids) > 0 && !ids[string(b.Entry.ID)] {
			return true
		}
		d := control.Dead{
			Payload: wirePayload(&b.Entry, &room), ID: slices.Clone(b.Entry.ID), Due: b.Entry.Due, Retry: b.Retry, Reason: []byte(b.Reason),
			At: b.At, History: slices.Clone(b.History),
		}
		room = max(room-len(d.Reason)-len(d.History), 0)
		if d.Unsent { // it is the first of the next page
			a.Next = uint64(b.Entry.Position)
			return false
		}
		a.Dead = append(a.Dead, d)
		return true
	})
	return a, border(err)
}
