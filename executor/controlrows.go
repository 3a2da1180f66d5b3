package executor

import (
	"context"
	"fmt"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/journal"
)

// controls are what the strand command asks for. It shows and does nothing that the
// Inspector would not; some of it with more figures, so that the command prints what it
// prints of a journal at rest.
type controls struct {
	x *Executor
	i inspector
}

// What an answer over the socket has at most, beside its rows.
const (
	answerBytes    = 1 << 20 // of payloads, or one of them; and of an error
	answerPayloads = 20_000  // that are looked at to say how large jobs are
	jobPayloads    = 1000    // of these, of one job
)

// jobRow is a job as the strand command has it.
type jobRow struct {
	inspect.JobInfo
	Bytes        int64 // of all its payloads
	BytesAtLeast bool  `wire:",omit"` // there are more, which were not counted
}

type jobRows struct {
	Jobs []jobRow
	Next string // "": this was the last
}

func (c *controls) jobs(ctx context.Context, query inspect.JobQuery) (a jobRows, err error) {
	limit := query.Limit
	if limit < 1 || limit > control.MaxRows {
		return a, fmt.Errorf("%w: the limit is %d, it must be from 1 to %d", inspect.ErrInvalidQuery, limit, control.MaxRows)
	}
	ctx, q, err := c.i.begin(ctx, query.Queue)
	if err != nil {
		return a, err
	}
	query.Limit, query.Order = 0, inspect.OrderDue
	l, err := newJobList(q, query)
	if err != nil {
		return a, err
	}
	l.limit = limit
	page, err := l.inOrder(ctx)
	room := answerPayloads
	for i := 0; i < len(page.Jobs) && err == nil; i++ {
		row := jobRow{JobInfo: page.Jobs[i], Bytes: int64(page.Jobs[i].Bytes)}
		if n := row.Payloads; n > 1 {
			var counted int
			counted, row.Bytes, err = q.weigh(ctx, row.ID, min(room, jobPayloads))
			room, row.BytesAtLeast = room-counted, counted < n
		}
		a.Jobs = append(a.Jobs, row)
	}
	a.Next = page.Next
	return a, err
}

// weigh adds up the bytes of the first n payloads of a job, and says how many there were.
func (q *queue) weigh(ctx context.Context, id string, n int) (counted int, bytes int64, err error) {
	if n == 0 {
		return 0, 0, nil
	}
	err = q.x.inspection.pacer.Do(ctx, q.x.atWork, func() (time.Duration, error) {
		began := time.Now()
		_, payloads, err := payloadsOf(ctx, q, id, n)
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

// jobWhole is all about a job that waits or runs. State is "" when there is none.
type jobWhole struct {
	jobRow
	Failures        []inspect.Failure     `wire:",omit"`
	InHand, Waiting []inspect.PayloadInfo `wire:",omit"`
	Why             string                // it does not run, or that it does
}

func (c *controls) job(ctx context.Context, one control.One) (a jobWhole, err error) {
	ctx, q, err := c.i.begin(ctx, one.Queue)
	if err == nil {
		err = checkID(one.ID)
	}
	if err != nil {
		return a, err
	}
	d, payloads, err := payloadsOf(ctx, q, one.ID, jobPayloads)
	if err != nil || d == nil {
		return a, err
	}
	if a.JobInfo, err = q.info(&d.View); err != nil {
		return a, err
	}
	a.LastError, a.Failures = d.LastError, control.Failures(d.History, d.LastError)
	room, counted := answerBytes, 0
	for i, p := range payloads {
		var e journal.Entry
		found, err := p.Ref.Peek(&e)
		if err != nil {
			return a, border(err)
		}
		if !found {
			continue
		}
		counted, a.Bytes = counted+1, a.Bytes+int64(len(e.Payload))
		list := &a.Waiting
		if i < len(d.InHand) {
			list = &a.InHand
		}
		if p := payloadInfo(&e, &room, answerBytes); p.Raw != nil {
			*list = append(*list, p)
		}
	}
	a.BytesAtLeast = counted < d.Payloads
	why, err := q.explain(ctx, one.ID)
	a.Why = why.String()
	return a, err
}

// deadRow is a dead letter with its bytes.
type deadRow struct {
	Queue, ID string
	inspect.DeadPayload
}

type deadRows struct {
	Dead []deadRow
	Next uint64 // From of the next page; 0: this was the last
}

func (c *controls) dead(ctx context.Context, query control.DeadQuery) (a deadRows, err error) {
	if ctx, err = usable(ctx); err != nil {
		return a, err
	}
	number, known := c.x.log.Queues()[query.Queue]
	if !known {
		return a, fmt.Errorf("%w: the journal has none called %q", ErrUnknownQueue, brief.Clip(query.Queue))
	}
	ids := make(map[string]bool)
	for _, id := range query.IDs {
		ids[id] = true
	}
	if c.x.log.Buried(number) == 0 {
		return a, nil
	}
	room, examined := answerBytes, 0
	err = c.x.seeDead(ctx, number, journal.Position(query.From), func(b *journal.Buried) bool {
		if examined++; examined > maxExamined || len(a.Dead) == control.MaxDead {
			a.Next = uint64(b.Entry.Position)
			return false
		}
		if len(ids) > 0 && !ids[string(b.Entry.ID)] {
			return true
		}
		d := deadPayload(b, &room, answerBytes, answerBytes)
		room = max(room-len(d.Error)-len(b.History), 0)
		if d.Raw == nil { // it is the first of the next page
			a.Next = uint64(b.Entry.Position)
			return false
		}
		a.Dead = append(a.Dead, deadRow{query.Queue, string(b.Entry.ID), d})
		return true
	})
	return a, border(err)
}
