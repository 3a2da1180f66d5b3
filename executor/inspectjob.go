package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// JobDetail is all that there is to see of an id: its job, and its dead letters.
type JobDetail struct {
	// JobInfo of the job; LastError is its first 16 KiB. Of an id that has only dead
	// payloads Queue and ID are set, State, to JobDead, and Attempt and LastError, to
	// those of the one that died last.
	JobInfo
	Failures []Failure // the last five of the job, oldest first; each cut as LastError is

	// InHand are the payloads that a handler has, Waiting those behind them, in the
	// order in which they will run: MaxListed of each, and More is how many there are
	// beyond. One that ended while the detail was made is in neither.
	InHand, Waiting []PayloadInfo
	More            int

	Holds       Holdings    `wire:",inline"`
	Explanation Explanation // why it does not run, a moment later; see Executor.Explain

	// Dead are the dead letters of the id, MaxListed at most, and MoreDead how many
	// there are beyond. Beside a job they are looked for among the first 10,000 of the
	// morgue: DeadUnread says that there are others.
	Dead       []DeadPayload
	MoreDead   int
	DeadUnread bool
}

// PayloadInfo is a payload as it is in the journal.
type PayloadInfo struct {
	Position   uint64
	Score      float64
	EnqueuedAt time.Time
	Restored   bool              `wire:",omit"` // it was a dead letter, and was put back
	Metadata   map[string]string // nil: none
	Bytes      int               // of the payload

	// Raw are its bytes. Of one call there is a MiB of them, or one payload: those
	// behind that have none, and are not decoded.
	Raw []byte `wire:"payload"`

	// Value is what the codec of the queue makes of Raw, and Decode why there is none:
	// the codec's error, with the first 16 KiB of its text, or a [PanicError]. Both are nil
	// when it was not decoded. In JSON, Decode is that text, and Value what its type says.
	Value  any
	Decode error `wire:"decode_error"`
}

// DeadPayload is a dead letter with its history.
type DeadPayload struct {
	PayloadInfo
	Attempt  int    // in which it died
	Error    string // why: its first 16 KiB
	At       time.Time
	Failures []Failure // the last five, oldest first; the last one is Error
}

// What a detail has.
const (
	detailBytes    = 16 << 10
	rawBytes       = 1 << 20
	deadBesideAJob = 10_000
)

// Job shows the job of an id, with its payloads, decoded by the codec of the queue,
// and its dead letters. The codec may panic, end its goroutine or block: the first
// two are PayloadInfo.Decode, and while it blocks, Job waits until ctx ends.
//
// What belongs to the job is of one moment; Holds, Explanation and Dead are of later
// ones. An id without a job is looked for among all dead letters; see
// [Inspector.Dead] for what that takes.
//
// It returns ErrUnknownQueue, ErrInvalidID, ErrUnknownJob for an id with neither a job
// nor dead letters, which tells the newest state that was done, as Explain does,
// ErrContext, ErrClosed, ErrFailed, or the cause of ctx.
func (i *Inspector) Job(ctx context.Context, queue, id string) (JobDetail, error) {
	found, err := i.JobsByID(ctx, queue, id)
	switch {
	case err != nil:
		return JobDetail{}, err
	case len(found) == 0:
		ctx, q, err := i.begin(ctx, queue)
		if err != nil {
			return JobDetail{}, err
		}
		s, err := q.status(ctx, id)
		return JobDetail{}, cmp.Or(err, fmt.Errorf("%w: id %q of queue %q has neither a job nor dead payloads%s",
			ErrUnknownJob, clip(id), queue, newestDone(s.Newest)))
	}
	return found[0], nil
}

// JobsByID is Job for up to DefaultListLimit ids of a queue, in their order, each once;
// those with neither a job nor dead letters are left out. The morgue is gone through
// once for all of them, and the MiB of PayloadInfo.Raw is for all, too. More ids are
// ErrInvalidQuery; the other errors are those of Job, but for ErrUnknownJob.
func (i *Inspector) JobsByID(ctx context.Context, queue string, ids ...string) ([]JobDetail, error) {
	ctx, q, err := i.begin(ctx, queue)
	if err != nil {
		return nil, err
	}
	if len(ids) > DefaultListLimit {
		return nil, fmt.Errorf("%w: there are %d ids, one call takes %d at most", ErrInvalidQuery, len(ids), DefaultListLimit)
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
		d.Queue, d.ID, d.State = queue, id, JobDead
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
	var found []JobDetail
	for _, d := range all.list {
		if d.State == JobDead && len(d.Dead) == 0 {
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
	JobDetail
	q    *queue
	room *int // bytes of payloads that the details of the call may still have
}

func (d *detail) lookAtJob(ctx context.Context) error {
	q, id := d.q, d.ID
	seen, _, err := payloadsOf(ctx, q, id, MaxListed)
	if err != nil || seen == nil {
		return err
	}
	if d.JobInfo, err = q.info(&seen.View); err != nil {
		return err
	}
	d.LastError = cut(seen.LastError, detailBytes)
	d.Failures = cutFailures(failuresOf(seen.History, seen.LastError), detailBytes)
	d.More = max(seen.Payloads-len(seen.InHand)-len(seen.Waiting), 0)
	for _, list := range [...]struct {
		from []shard.Payload
		to   *[]PayloadInfo
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
	for _, c := range q.admission.Shown() {
		c.(shownCondition).holds(holder{Queue: q.name, ID: id}, &d.Holds)
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
func payloadInfo(e *journal.Entry, room *int, most int) PayloadInfo {
	p := PayloadInfo{
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
func deadPayload(b *journal.Buried, room *int, most, errs int) DeadPayload {
	return DeadPayload{
		PayloadInfo: payloadInfo(&b.Entry, room, most), Attempt: b.Retry + firstAttempt, Error: cut(b.Reason, errs),
		At: time.Unix(0, b.At), Failures: cutFailures(failuresOf(b.History, b.Reason), errs),
	}
}

func cutFailures(list []Failure, errs int) []Failure {
	for i := range list {
		list[i].Error = cut(list[i].Error, errs)
	}
	return list
}

// lookAtMorgue looks for the dead letters of all: among the first ones, unless that is
// all that there may be of an id.
func (all *details) lookAtMorgue(ctx context.Context) error {
	if all.q.x.log.Buried(all.q.number) == 0 {
		return nil
	}
	examined, dead := 0, slices.ContainsFunc(all.list, func(d *detail) bool { return d.State == JobDead })
	return all.q.seeDead(ctx, 0, func(b *journal.Buried) bool {
		if examined++; !dead && examined > deadBesideAJob {
			for _, d := range all.list {
				d.DeadUnread = true
			}
			return false
		}
		if d := all.of[string(b.Entry.ID)]; d != nil {
			if len(d.Dead) == MaxListed {
				d.MoreDead++
			} else {
				d.Dead = append(d.Dead, deadPayload(b, d.room, rawBytes, detailBytes))
			}
		}
		return true
	})
}

func (d *detail) explain(ctx context.Context) error {
	if d.State == JobDead {
		last := slices.MaxFunc(d.Dead, func(a, b DeadPayload) int { return a.At.Compare(b.At) })
		d.Attempt, d.LastError = last.Attempt, last.Error
		d.Explanation = Explanation{
			Queue: d.Queue, ID: d.ID, State: JobDead, Attempt: last.Attempt, LastError: last.Error, Dead: len(d.Dead) + d.MoreDead,
		}
		return nil
	}
	var err error
	d.Explanation, err = d.q.explain(ctx, d.ID)
	d.Explanation.LastError = cut(d.Explanation.LastError, detailBytes)
	return err
}

// decodeAll has the codec decode what there are bytes of, on a goroutine of its own:
// it is user code, which may end that or block.
func (d *detail) decodeAll(ctx context.Context) error {
	var todo []*PayloadInfo
	for _, list := range [...][]PayloadInfo{d.InHand, d.Waiting} {
		for i := range list {
			todo = append(todo, &list[i])
		}
	}
	for i := range d.Dead {
		todo = append(todo, &d.Dead[i].PayloadInfo)
	}
	todo = slices.DeleteFunc(todo, func(p *PayloadInfo) bool { return p.Raw == nil })
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
			value, err = nil, &codecError{err, cut(text(err.Error), detailBytes)}
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
