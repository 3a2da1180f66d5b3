package remote

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/look"
	"github.com/strandjobs/strand/journal"
)

// What an answer over the socket has at most, beside its rows.
const (
	answerBytes    = 1 << 20 // of payloads, or one of them; and of an error
	answerPayloads = 20_000  // that are looked at to say how large jobs are
	jobPayloads    = 1000    // of these, of one job
)

func (c *Config) jobs(ctx context.Context, query inspect.JobQuery) (a control.Jobs, err error) {
	limit := query.Limit
	if limit < 1 || limit > control.MaxRows {
		return a, fmt.Errorf("%w: the limit is %d, it must be from 1 to %d", inspect.ErrInvalidQuery, limit, control.MaxRows)
	}
	ctx, q, err := c.Look.Queue(ctx, query.Queue)
	if err != nil {
		return a, err
	}
	query.Order = inspect.OrderDue
	page, err := c.Look.Page(ctx, query)
	room := answerPayloads
	for i := 0; i < len(page.Jobs) && err == nil; i++ {
		row := control.Job{JobInfo: page.Jobs[i], TotalBytes: int64(page.Jobs[i].Bytes), BytesAtLeast: page.Jobs[i].Payloads > 1}
		admin.Hide(&row.PayloadInfo)
		if row.BytesAtLeast && room > 0 {
			err = c.Look.Paced(ctx, func() (time.Duration, error) {
				began := time.Now()
				d, err := q.Detail(ctx, row.ID, min(room, jobPayloads), new(look.Room))
				room -= weigh(&row, &d)
				return time.Since(began), err
			})
		}
		a.Jobs = append(a.Jobs, row)
	}
	a.Next = page.Next
	return a, err
}

// weigh adds up the bytes of the payloads that a detail has, and returns how many those are.
func weigh(r *control.Job, d *inspect.JobDetail) int {
	all := slices.Concat(d.InHand, d.Waiting)
	r.TotalBytes, r.BytesAtLeast = 0, d.More > 0
	for _, p := range all {
		r.TotalBytes += int64(p.Bytes)
	}
	return len(all)
}

func (c *Config) job(ctx context.Context, one control.One) (a control.Whole, err error) {
	ctx, q, err := c.Look.Queue(ctx, one.Queue)
	if err == nil {
		err = engine.CheckID(one.ID)
	}
	if err != nil {
		return a, err
	}
	d, err := q.Detail(ctx, one.ID, jobPayloads, &look.Room{Left: answerBytes})
	if err != nil || d.State == "" {
		return a, err
	}
	a.JobInfo, a.Failures = d.JobInfo, d.Failures
	admin.Hide(&a.PayloadInfo)
	weigh(&a.Job, &d)
	unshown := func(p inspect.PayloadInfo) bool { return p.Raw == nil }
	a.InHand, a.Waiting = slices.DeleteFunc(d.InHand, unshown), slices.DeleteFunc(d.Waiting, unshown)
	why, err := c.Look.Explain(ctx, one.Queue, one.ID)
	a.Why = why.String()
	return a, err
}

func (c *Config) dead(ctx context.Context, query control.DeadQuery) (a control.DeadLetters, err error) {
	if ctx, err = guard.Context(ctx); err != nil {
		return a, err
	}
	number, known := c.Look.Log.Queues()[query.Queue]
	if !known {
		return a, fmt.Errorf("%w: the journal has none called %q", engine.ErrUnknownQueue, brief.Clip(query.Queue))
	}
	ids := make(map[string]bool)
	for _, id := range query.IDs {
		ids[id] = true
	}
	room, examined := look.Room{Left: answerBytes}, 0
	err = c.Look.EachDead(ctx, number, journal.Position(query.From), func(b *journal.Buried) bool {
		if examined++; examined > look.MaxExamined || len(a.Dead) == control.MaxDead {
			a.Next = uint64(b.Entry.Position)
			return false
		}
		if len(ids) > 0 && !ids[string(b.Entry.ID)] {
			return true
		}
		d := room.DeadPayload(query.Queue, b, answerBytes)
		room.Left = max(room.Left-len(d.Error)-len(b.History), 0)
		if d.Raw == nil { // it is the first of the next page
			a.Next = uint64(b.Entry.Position)
			return false
		}
		a.Dead = append(a.Dead, d)
		return true
	})
	return a, err
}
