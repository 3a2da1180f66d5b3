package look

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// What a detail has.
const (
	detailBytes    = 16 << 10
	rawBytes       = 1 << 20
	deadBesideAJob = 10_000
)

func (i *Inspector) Job(ctx context.Context, queue, id string) (inspect.JobDetail, error) {
	found, err := i.JobsByID(ctx, queue, id)
	switch {
	case err != nil:
		return inspect.JobDetail{}, err
	case len(found) == 0:
		ctx, q, err := i.Queue(ctx, queue)
		if err != nil {
			return inspect.JobDetail{}, err
		}
		s, err := q.status(ctx, id)
		return inspect.JobDetail{}, cmp.Or(err, fmt.Errorf("%w: id %q of queue %q has neither a job nor dead payloads%s",
			inspect.ErrUnknownJob, brief.Clip(id), queue, brief.Newest(s.Newest)))
	}
	return found[0], nil
}

func (i *Inspector) JobsByID(ctx context.Context, queue string, ids ...string) ([]inspect.JobDetail, error) {
	ctx, q, err := i.Queue(ctx, queue)
	if err != nil {
		return nil, err
	}
	if len(ids) > brief.PageRows {
		return nil, fmt.Errorf("%w: there are %d ids, one call takes %d at most", inspect.ErrInvalidQuery, len(ids), brief.PageRows)
	}
	all := details{q: q, of: make(map[string]*inspect.JobDetail, len(ids)), room: Room{Left: rawBytes}}
	for _, id := range ids {
		if err := engine.CheckID(id); err != nil {
			return nil, err
		}
		if all.of[id] == nil {
			all.of[id] = &inspect.JobDetail{JobInfo: inspect.JobInfo{Queue: queue, ID: id, State: inspect.JobDead}}
			all.list = append(all.list, all.of[id])
		}
	}
	for _, d := range all.list {
		seen, err := q.Detail(ctx, d.ID, brief.Most, &all.room)
		if err != nil {
			return nil, err
		}
		if seen.State != "" {
			*d = seen
			d.LastError, d.Failures = brief.Cut(d.LastError, detailBytes), cutFailures(d.Failures, detailBytes)
		}
	}
	if err := all.lookAtMorgue(ctx); err != nil {
		return nil, err
	}
	found := make([]inspect.JobDetail, 0, len(all.list))
	for _, d := range all.list {
		if d.State == inspect.JobDead && len(d.Dead) == 0 {
			continue
		}
		if d.Explanation, err = q.explainDetail(ctx, d); err == nil {
			err = i.Decode(ctx, d)
		}
		if err != nil {
			return nil, err
		}
		found = append(found, *d)
	}
	return found, nil
}

// details are those of one call, in the order of its ids.
type details struct {
	q    Queue
	list []*inspect.JobDetail
	of   map[string]*inspect.JobDetail // by id
	room Room
}

// Room is how many bytes of payloads are shown. There is room for the first in any case.
type Room struct {
	Left int
	used bool
}

// Detail shows a job, with its first n payloads of those in hand and of the others, and what it
// holds; State is "" if there is none.
func (q Queue) Detail(ctx context.Context, id string, n int, room *Room) (d inspect.JobDetail, err error) {
	var seen struct { // a call may come after its caller has gone
		shard.Detail
		ok bool
	}
	err = q.Shards.Of(id).Do(ctx, func(c *shard.Core) { seen.Detail, seen.ok = c.Detail(id, q.in.Now(), n) })
	if err != nil || !seen.ok {
		return d, q.in.Border(err)
	}
	if d.JobInfo, err = q.Info(&seen.View); err != nil {
		return d, err
	}
	d.LastError, d.Failures = seen.LastError, admin.FailuresOf(seen.History, seen.LastError)
	d.More = max(seen.Payloads-len(seen.InHand)-len(seen.Waiting), 0)
	for i, p := range slices.Concat(seen.InHand, seen.Waiting) {
		var e journal.Entry
		found, err := p.Ref.Peek(&e)
		switch {
		case err != nil:
			return d, q.in.Border(err)
		case found && i < len(seen.InHand):
			d.InHand = append(d.InHand, room.payload(&e))
		case found:
			d.Waiting = append(d.Waiting, room.payload(&e))
		}
	}
	for _, c := range q.Admission.All() {
		if h, ok := c.(admit.Holder); ok {
			h.Held(admit.Owner{Queue: q.Name, ID: id}, &d.Holdings)
		}
	}
	return d, nil
}

// payload shows a payload, whose bytes are the journal's, with these if there is room.
func (r *Room) payload(e *journal.Entry) inspect.PayloadInfo {
	p := admin.PayloadOf(e)
	if p.Clipped = r.used && p.Bytes > r.Left; p.Clipped {
		p.Raw = nil
	} else {
		p.Raw = append([]byte{}, p.Raw...)
	}
	r.used, r.Left = true, max(r.Left-max(p.Bytes, 1), 0)
	return p
}

// DeadPayload shows one of the morgue, with so much of its errors.
func (r *Room) DeadPayload(queue string, b *journal.Buried, errs int) inspect.DeadPayload {
	d := admin.DeadOf(queue, b)
	d.PayloadInfo, d.Error, d.Failures = r.payload(&b.Entry), brief.Cut(d.Error, errs), cutFailures(d.Failures, errs)
	return d
}

func cutFailures(list []inspect.Failure, errs int) []inspect.Failure {
	for i := range list {
		list[i].Error = brief.Cut(list[i].Error, errs)
	}
	return list
}

// lookAtMorgue looks for the dead letters of all: among the first ones, unless that is
// all that there may be of an id.
func (all *details) lookAtMorgue(ctx context.Context) error {
	if all.q.in.Log.Buried(all.q.Number) == 0 {
		return nil
	}
	examined, dead := 0, slices.ContainsFunc(all.list, func(d *inspect.JobDetail) bool { return d.State == inspect.JobDead })
	died := make(map[string]int64) // when the last one of an id did
	return all.q.in.EachDead(ctx, all.q.Number, 0, func(b *journal.Buried) bool {
		if examined++; !dead && examined > deadBesideAJob {
			for _, d := range all.list {
				d.DeadUnread = true
			}
			return false
		}
		if d := all.of[string(b.Entry.ID)]; d != nil {
			if d.State == inspect.JobDead && b.At >= died[d.ID] {
				d.Attempt, d.LastError = b.Retry+admin.FirstAttempt, brief.Cut(b.Reason, detailBytes)
				died[d.ID] = b.At
			}
			if len(d.Dead) == brief.Most {
				d.MoreDead++
			} else {
				d.Dead = append(d.Dead, all.room.DeadPayload(all.q.Name, b, detailBytes))
			}
		}
		return true
	})
}

// explainDetail is Explain for what has been looked at, and may be dead.
func (q Queue) explainDetail(ctx context.Context, d *inspect.JobDetail) (e inspect.Explanation, err error) {
	if d.State != inspect.JobDead {
		e, err = q.in.Explain(ctx, d.Queue, d.ID)
		e.LastError = brief.Cut(e.LastError, detailBytes)
		return e, err
	}
	e = inspect.Explanation{
		Queue: d.Queue, ID: d.ID, State: inspect.JobDead, Attempt: d.Attempt, LastError: d.LastError, Dead: len(d.Dead) + d.MoreDead,
	}
	e.Text = e.String()
	return e, nil
}

// Decode has the codec of its queue decode what there are bytes of, on goroutines of its own:
// it is user code, which may end one or block.
func (i *Inspector) Decode(ctx context.Context, d *inspect.JobDetail) error {
	ctx, q, err := i.Queue(ctx, d.Queue)
	if err != nil {
		return err
	}
	for _, p := range admin.PayloadsOf(d) {
		if p.Raw == nil {
			continue
		}
		result := make(chan inspect.PayloadInfo, 1)
		go q.decode(slices.Clone(p.Raw), result) // the codec may write to it
		select {
		case d := <-result:
			p.Value, p.Decode = d.Value, d.Decode
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// decode sends what a codec makes of a payload, also of one that ends the goroutine.
func (q Queue) decode(raw []byte, result chan<- inspect.PayloadInfo) {
	d := inspect.PayloadInfo{Decode: &codecError{errCodecExited, errCodecExited.Error()}}
	defer func() { result <- d }()
	if value, err := q.Decode(raw); err != nil {
		d.Decode = &codecError{err, brief.Cut(guard.Text(err.Error), detailBytes)}
	} else {
		d = inspect.PayloadInfo{Value: value}
	}
}

// codecError is an error of a codec, with its text: who shows it need not be careful.
type codecError struct {
	err  error
	text string
}

func (e *codecError) Error() string                { return e.text }
func (e *codecError) Unwrap() error                { return e.err }
func (e *codecError) MarshalText() ([]byte, error) { return []byte(e.text), nil }

var errCodecExited = errors.New("the codec ended its goroutine")

// Explain is [inspect.Inspector.Explain].
func (i *Inspector) Explain(ctx context.Context, queue, id string) (e inspect.Explanation, err error) {
	ctx, q, err := i.Queue(ctx, queue)
	if err = cmp.Or(err, engine.CheckID(id)); err != nil {
		return e, err
	}
	s, err := q.status(ctx, id)
	if err != nil {
		return e, err
	}
	e = inspect.Explanation{Queue: q.Name, ID: id, State: inspect.JobUnknown, Attempt: 1}
	defer func() { e.Text = e.String() }()
	if e.Newest = s.Newest; !s.Known {
		err = q.explainDead(ctx, &e)
		return e, err
	}
	e.Due, e.Attempt, e.LastError, e.Payloads = time.Unix(0, s.Due), s.Retry+admin.FirstAttempt, s.LastError, s.Payloads
	e.Paused = q.Pauses.Over(id, s.Paused)
	switch {
	case s.Running:
		e.State = inspect.JobRunning
	case s.Halted:
		e.State = inspect.JobHalted
	case e.Paused != nil:
		e.State = inspect.JobPaused
	case s.Parked:
		q.explainWait(&e)
	case s.Due > q.in.Now() && s.Retry >= 0:
		e.State = inspect.JobRetrying
	case s.Due > q.in.Now():
		e.State = inspect.JobScheduled
	default:
		e.State = inspect.JobReady
	}
	if e.State == inspect.JobReady {
		e.Turn = q.in.Dispatcher.Turn(q.Share, s.Runs, s.Concurrency)
	}
	return e, nil
}

func (q Queue) status(ctx context.Context, id string) (shard.Status, error) {
	var s shard.Status
	if err := q.Shards.Of(id).Do(ctx, func(c *shard.Core) { s = c.Status(id) }); err != nil {
		return shard.Status{}, q.in.Border(err) // the shard may still write to s
	}
	return s, nil
}

// explainWait says what a parked job waits for: the first of its conditions that has it in
// its line.
func (q Queue) explainWait(e *inspect.Explanation) {
	by := admit.Owner{Queue: e.Queue, ID: e.ID}
	e.State = inspect.JobWaiting
	for _, c := range q.Admission.All() {
		if c.Explain(by, e) {
			return
		}
	}
	if s := q.in.Quarantine.Holds(e.Queue, e.ID); s != nil {
		if e.State = inspect.JobSuspected; s.GivenUp() {
			e.LastError = "held until the disk has room to give it up: " + s.Reason()
		}
	}
}
