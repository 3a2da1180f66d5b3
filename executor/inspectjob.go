package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/executor/internal/dispatch"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// What a detail has.
const (
	detailBytes    = 16 << 10
	rawBytes       = 1 << 20
	deadBesideAJob = 10_000
)

func (i inspector) Job(ctx context.Context, queue, id string) (inspect.JobDetail, error) {
	found, err := i.JobsByID(ctx, queue, id)
	switch {
	case err != nil:
		return inspect.JobDetail{}, err
	case len(found) == 0:
		ctx, q, err := i.begin(ctx, queue)
		if err != nil {
			return inspect.JobDetail{}, err
		}
		s, err := q.status(ctx, id)
		return inspect.JobDetail{}, cmp.Or(err, fmt.Errorf("%w: id %q of queue %q has neither a job nor dead payloads%s",
			inspect.ErrUnknownJob, brief.Clip(id), queue, brief.Newest(s.Newest)))
	}
	return found[0], nil
}

func (i inspector) JobsByID(ctx context.Context, queue string, ids ...string) ([]inspect.JobDetail, error) {
	ctx, q, err := i.begin(ctx, queue)
	if err != nil {
		return nil, err
	}
	if len(ids) > inspect.DefaultListLimit {
		return nil, fmt.Errorf("%w: there are %d ids, one call takes %d at most", inspect.ErrInvalidQuery, len(ids), inspect.DefaultListLimit)
	}
	all, room := details{q: q, of: make(map[string]*detail, len(ids))}, rawBytes
	for _, id := range ids {
		if err := checkID(id); err != nil {
			return nil, err
		}
		if all.of[id] != nil {
			continue
		}
		d := &detail{q: q, room: &room}
		d.Queue, d.ID, d.State = queue, id, inspect.JobDead
		all.list, all.of[id] = append(all.list, d), d
	}
	for _, d := range all.list {
		if err := d.lookAtJob(ctx); err != nil {
			return nil, err
		}
	}
	if err := all.lookAtMorgue(ctx); err != nil {
		return nil, err
	}
	var found []inspect.JobDetail
	for _, d := range all.list {
		if d.State == inspect.JobDead && len(d.Dead) == 0 {
			continue
		}
		if err := d.explain(ctx); err != nil {
			return nil, err
		}
		if err := d.decodeAll(ctx); err != nil {
			return nil, err
		}
		found = append(found, d.JobDetail)
	}
	return found, nil
}

// details are those of one call, in the order of its ids.
type details struct {
	q    *queue
	list []*detail
	of   map[string]*detail // by id
}

// detail is a JobDetail that is being made.
type detail struct {
	inspect.JobDetail
	q    *queue
	room *int // bytes of payloads that the details of the call may still have
}

func (d *detail) lookAtJob(ctx context.Context) error {
	q, id := d.q, d.ID
	seen, _, err := payloadsOf(ctx, q, id, inspect.MaxListed)
	if err != nil || seen == nil {
		return err
	}
	if d.JobInfo, err = q.info(&seen.View); err != nil {
		return err
	}
	d.LastError = brief.Cut(seen.LastError, detailBytes)
	d.Failures = cutFailures(control.Failures(seen.History, seen.LastError), detailBytes)
	d.More = max(seen.Payloads-len(seen.InHand)-len(seen.Waiting), 0)
	for _, list := range [...]struct {
		from []shard.Payload
		to   *[]inspect.PayloadInfo
	}{{seen.InHand, &d.InHand}, {seen.Waiting, &d.Waiting}} {
		for _, p := range list.from {
			var e journal.Entry
			found, err := p.Ref.Peek(&e)
			if err != nil {
				return border(err)
			}
			if found {
				*list.to = append(*list.to, payloadInfo(&e, d.room, rawBytes))
			}
		}
	}
	for _, c := range q.admission.All() {
		c.Held(holder{Queue: q.name, ID: id}, &d.Holds)
	}
	return nil
}

// payloadsOf shows a job with its first n payloads, in the order in which they run; nil
// if there is none.
func payloadsOf(ctx context.Context, q *queue, id string, n int) (*shard.Detail, []shard.Payload, error) {
	var seen struct { // a call may come after its caller has gone
		shard.Detail
		ok bool
	}
	err := q.shards.Of(id).Do(ctx, func(c *shard.Core) {
		seen.Detail, seen.ok = c.Detail(id, q.x.clock().UnixNano(), n)
	})
	if err != nil || !seen.ok {
		return nil, nil, border(err)
	}
	all := slices.Concat(seen.InHand, seen.Waiting)
	return &seen.Detail, all[:min(n, len(all))], nil
}

// payloadInfo shows a payload, whose bytes are the journal's. They are shown while there is room
// for them, of which most is all; there is for the first.
func payloadInfo(e *journal.Entry, room *int, most int) inspect.PayloadInfo {
	p := inspect.PayloadInfo{
		Position: uint64(e.Position), Score: e.Score, EnqueuedAt: time.Unix(0, e.AcceptedAt()), Metadata: metadataOf(e),
		Bytes: len(e.Payload), Restored: e.Restored,
	}
	if *room == most || p.Bytes <= *room {
		p.Raw = append([]byte{}, e.Payload...)
	}
	*room = max(*room-max(p.Bytes, 1), 0)
	return p
}

// deadPayload shows one of the morgue, with so much of its errors.
func deadPayload(b *journal.Buried, room *int, most, errs int) inspect.DeadPayload {
	return inspect.DeadPayload{
		PayloadInfo: payloadInfo(&b.Entry, room, most), Attempt: b.Retry + firstAttempt, Error: brief.Cut(b.Reason, errs),
		At: time.Unix(0, b.At), Failures: cutFailures(control.Failures(b.History, b.Reason), errs),
	}
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
	if all.q.x.log.Buried(all.q.number) == 0 {
		return nil
	}
	examined, dead := 0, slices.ContainsFunc(all.list, func(d *detail) bool { return d.State == inspect.JobDead })
	return all.q.x.seeDead(ctx, all.q.number, 0, func(b *journal.Buried) bool {
		if examined++; !dead && examined > deadBesideAJob {
			for _, d := range all.list {
				d.DeadUnread = true
			}
			return false
		}
		if d := all.of[string(b.Entry.ID)]; d != nil {
			if len(d.Dead) == inspect.MaxListed {
				d.MoreDead++
			} else {
				d.Dead = append(d.Dead, deadPayload(b, d.room, rawBytes, detailBytes))
			}
		}
		return true
	})
}

func (d *detail) explain(ctx context.Context) error {
	if d.State == inspect.JobDead {
		last := slices.MaxFunc(d.Dead, func(a, b inspect.DeadPayload) int { return a.At.Compare(b.At) })
		d.Attempt, d.LastError = last.Attempt, last.Error
		d.Explanation = inspect.Explanation{
			Queue: d.Queue, ID: d.ID, State: inspect.JobDead, Attempt: last.Attempt, LastError: last.Error, Dead: len(d.Dead) + d.MoreDead,
		}
		return nil
	}
	var err error
	d.Explanation, err = d.q.explain(ctx, d.ID)
	d.Explanation.LastError = brief.Cut(d.Explanation.LastError, detailBytes)
	return err
}

// decodeAll has the codec decode what there are bytes of, on a goroutine of its own:
// it is user code, which may end that or block.
func (d *detail) decodeAll(ctx context.Context) error {
	var todo []*inspect.PayloadInfo
	for _, list := range [...][]inspect.PayloadInfo{d.InHand, d.Waiting} {
		for i := range list {
			todo = append(todo, &list[i])
		}
	}
	for i := range d.Dead {
		todo = append(todo, &d.Dead[i].PayloadInfo)
	}
	todo = slices.DeleteFunc(todo, func(p *inspect.PayloadInfo) bool { return p.Raw == nil })
	raw := make([][]byte, len(todo))
	for i, p := range todo {
		raw[i] = slices.Clone(p.Raw) // the codec may write to them
	}
	results := make(chan []decoded, 1)
	for len(todo) > 0 {
		go decodeSome(d.q, raw, results)
		select {
		case values := <-results:
			for i, v := range values {
				todo[i].Value, todo[i].Decode = v.value, v.err
			}
			todo, raw = todo[len(values):], raw[len(values):]
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// decoded is what a codec made of a payload.
type decoded struct {
	value any
	err   error
}

// decodeSome decodes payloads up to the first whose codec ends the goroutine, and
// that, too.
func decodeSome(q *queue, raw [][]byte, result chan<- []decoded) {
	var values []decoded
	over := false
	defer func() {
		if !over {
			values = append(values, decoded{err: &codecError{errCodecExited, errCodecExited.Error()}})
		}
		result <- values
	}()
	for _, b := range raw {
		value, err := q.decode(b)
		if err != nil {
			value, err = nil, &codecError{err, brief.Cut(text(err.Error), detailBytes)}
		}
		values = append(values, decoded{value, err})
	}
	over = true
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

// Explain says why the job of an id does not run: what it waits for, which job has
// that, and for how much longer. For a job that is ready it says what keeps workers
// from it. For an id without a job it tells the dead letters, which it looks for among
// all of the queue; see [inspect.Inspector.Dead] for what that costs. It returns
// ErrUnknownQueue, ErrInvalidID for an id that no job can have, ErrClosed, ErrFailed,
// or the cause of ctx.
func (x *Executor) Explain(ctx context.Context, queue, id string) (inspect.Explanation, error) {
	ctx, err := usable(ctx)
	if err != nil {
		return inspect.Explanation{}, err
	}
	q, err := x.lookup(queue)
	if err == nil {
		err = checkID(id)
	}
	if err != nil {
		return inspect.Explanation{}, err
	}
	return q.explain(ctx, id)
}

func (q *queue) explain(ctx context.Context, id string) (inspect.Explanation, error) {
	e := inspect.Explanation{Queue: q.name, ID: id, State: inspect.JobUnknown, Attempt: 1}
	s, err := q.status(ctx, id)
	if err != nil {
		return inspect.Explanation{}, err
	}
	if e.Newest = s.Newest; !s.Known {
		return e, q.explainDead(ctx, &e)
	}
	e.Due, e.Attempt, e.LastError, e.Payloads = time.Unix(0, s.Due), s.Retry+firstAttempt, s.LastError, s.Payloads
	e.Paused = q.pauses.Over(id, s.Paused)
	switch {
	case s.Running:
		e.State = inspect.JobRunning
	case s.Halted:
		e.State = inspect.JobHalted
	case e.Paused != nil:
		e.State = inspect.JobPaused
	case s.Parked:
		q.explainWait(&e)
	case e.Due.After(q.x.clock()) && s.Retry >= 0:
		e.State = inspect.JobRetrying
	case e.Due.After(q.x.clock()):
		e.State = inspect.JobScheduled
	default:
		e.State = inspect.JobReady
	}
	if e.State == inspect.JobReady {
		e.Turn = q.turn(s.Runs, s.Concurrency)
	}
	return e, nil
}

func (q *queue) status(ctx context.Context, id string) (shard.Status, error) {
	var s shard.Status
	if err := q.shards.Of(id).Do(ctx, func(c *shard.Core) { s = c.Status(id) }); err != nil {
		return shard.Status{}, border(err) // the shard may still write to s
	}
	return s, nil
}

// explainWait says what a parked job waits for: the first of its conditions that has it in
// its line.
func (q *queue) explainWait(e *inspect.Explanation) {
	by := holder{Queue: e.Queue, ID: e.ID}
	e.State = inspect.JobWaiting
	for _, c := range q.admission.All() {
		if c.Explain(by, e) {
			return
		}
	}
	if q.x.quarantine.Holds(e.Queue, e.ID) {
		e.State = inspect.JobSuspected
	}
}

// turn says why no worker comes to a shard of the queue with a job due, which runs so many
// of as many as it may; nil: one is about to come.
func (q *queue) turn(runs, most int) *inspect.Turn {
	t := q.x.dispatcher.Turn(q.share, runs, most)
	if t.Reason == dispatch.Coming {
		return nil
	}
	reason := [...]inspect.TurnReason{
		dispatch.NotStarted: inspect.TurnNotStarted, dispatch.MaxConcurrent: inspect.TurnMaxConcurrent, dispatch.Concurrency: inspect.TurnConcurrency,
		dispatch.Priority: inspect.TurnPriority, dispatch.Weight: inspect.TurnWeight, dispatch.Workers: inspect.TurnWorkers,
	}[t.Reason]
	more := max(len(t.Before)-inspect.MaxListed, 0)
	return &inspect.Turn{Reason: reason, Running: t.Running, Of: t.Of, Before: t.Before[:len(t.Before)-more], More: more}
}
