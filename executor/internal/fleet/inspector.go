package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/await"
	"github.com/strandjobs/strand/executor/internal/each"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/guard"
)

// Inspector is an [inspect.Inspector] of all partitions.
type Inspector struct {
	admin.Actor // its own Act
	Partitions  int
	Of          func(id string) (int, error) // the partition of an id

	// Ask has a partition answer a question by Do, after it has taken in all that was enqueued
	// for the queue before; see package cluster.
	Ask func(ctx context.Context, partition int, queue string, question []byte, again bool) (answer []byte, err error)

	Probe  Part // of an executor with the same queues, and no jobs
	Decode func(ctx context.Context, d *inspect.JobDetail) error

	// Handlers of this process, which share so many workers, must not all wait for partitions here.
	Handler func(ctx context.Context) bool
	Here    func(partition int) bool
	Workers int
	waiting atomic.Int64           // handlers that do
	paused  atomic.Pointer[Answer] // what was known to be paused last
}

// Put has a partition answer a question: again if it has moved meanwhile. There is an answer also with an error.
func (in *Inspector) Put(ctx context.Context, number int, q *Question, again bool) (*Answer, error) {
	ctx, err := guard.Context(ctx)
	if err != nil {
		return new(Answer), err
	}
	question, err := Questions.Encode(q)
	if err != nil {
		return new(Answer), err
	}
	behind := ""
	if q.Do == "do" { // nothing else adds to what is in its order
		behind = q.Which.Queue
	}
	answer, err := in.Ask(ctx, number, behind, question, again)
	if len(answer) == 0 {
		if q.Looks() && err != nil {
			err = unanswered{err}
		}
		return &Answer{silent: err != nil}, err
	}
	a, unreadable := Answers.Decode(answer)
	if unreadable != nil {
		return new(Answer), cmp.Or(err, unreadable)
	}
	for i, e := range a.explained() {
		if i < len(a.Zeros) && a.Zeros[i] {
			e.Newest = new(float64)
		}
	}
	return a, err
}

// unanswered is the error of a question that changes nothing: nothing is unknown after it.
type unanswered struct{ err error }

func (e unanswered) Error() string {
	return strings.Replace(e.err.Error(), engine.ErrUnknown.Error(), "executor: no answer", 1)
}

func (e unanswered) Is(target error) bool {
	return target != engine.ErrUnknown && errors.Is(e.err, target)
}

func (e unanswered) As(target any) bool { return errors.As(e.err, target) }

// About asks the partition of an id, and its next owner if it took nothing in. Where no worker would
// be left here for what a handler waits for, it is [await.ErrDeadlock].
func (in *Inspector) About(ctx context.Context, queue, id string, q Question, again bool) (*Answer, error) {
	number, err := in.Of(id)
	if err != nil {
		return new(Answer), err
	}
	if (q.Do == "do" || q.Do == "Wait") && in.Handler(ctx) && in.Here(number) {
		defer in.waiting.Add(-1)
		if in.waiting.Add(1) >= int64(in.Workers) {
			return new(Answer), await.AllWait(in.Workers)
		}
	}
	q.Which = inspect.SelectIDs(queue, id)
	for {
		a, err := in.Put(ctx, number, &q, again)
		switch {
		case errors.Is(err, engine.ErrUnknownQueue): // which is not this process's list
			return a, part(number, err)
		case err != nil || !a.Moved:
			return a, err
		}
		select {
		case <-time.After(moveTime):
		case <-ctx.Done():
			return a, guard.Cause(ctx)
		}
	}
}

const (
	moveTime = 10 * time.Millisecond // that a partition has to move before it is asked again
	patience = 5 * time.Second       // how long those methods wait for partitions that have no context
)

// all asks some partitions, each its own question, and returns answers by number: those of the others
// are empty. An error is of one of them, and the answers of the others are there all the same.
func (in *Inspector) all(ctx context.Context, question func(number int) *Question) ([]*Answer, error) {
	answers, errs := make([]*Answer, in.Partitions), make([]error, in.Partitions)
	var calls sync.WaitGroup
	for number := range answers {
		q := question(number)
		if answers[number] = new(Answer); q == nil {
			continue
		}
		calls.Go(func() {
			a, err := in.Put(ctx, number, q, q.Looks())
			answers[number], errs[number] = a, part(number, err)
		})
	}
	calls.Wait()
	return answers, errors.Join(errs...)
}

// every asks all partitions the same.
func (in *Inspector) every(ctx context.Context, q *Question) ([]*Answer, error) {
	return in.all(ctx, func(int) *Question { return q })
}

// divided asks a question about some ids, each partition about those of its own.
func (in *Inspector) divided(ctx context.Context, q Question) ([]*Answer, error) {
	parts := make(map[int]*Question)
	for _, id := range q.Which.IDs {
		number, err := in.Of(id)
		if err != nil {
			return nil, err
		}
		if parts[number] == nil {
			own := q
			own.Which.IDs = nil
			parts[number] = &own
		}
		parts[number].Which.IDs = append(parts[number].Which.IDs, id)
	}
	return in.all(ctx, func(number int) *Question { return parts[number] })
}

// refused returns why a question makes no sense: what the probe says to it.
func (in *Inspector) refused(ctx context.Context, q Question) error {
	q.Do = strings.Replace(q.Do, "pause", "resume", 1) // what does nothing where nothing is
	_, err := Do(ctx, in.Probe, &q)
	return err
}

// Act has all partitions that are meant do something, and returns the sum of what they did.
func (in *Inspector) Act(ctx context.Context, name string, which inspect.Selection, reason string) (sum inspect.Requeued, err error) {
	q := Question{Do: name, Which: which, Reason: reason}
	if err = in.refused(ctx, q); err != nil {
		return sum, err
	}
	var answers []*Answer
	switch {
	case which.Positions != nil && len(which.Positions) == 0: // no payload is meant
	case which.Positions != nil && (which.IDs == nil || len(which.IDs) > 1):
		return sum, errPositions
	case which.IDs != nil:
		answers, err = in.divided(ctx, q)
	default:
		answers, err = in.every(ctx, &q)
	}
	for _, a := range answers {
		sum = sum.Plus(a.Did)
	}
	if (name == "pause" || name == "resume") && which.IDs == nil {
		sum.Back = min(sum.Back, 1)
	}
	return sum, err
}

func (in *Inspector) Explain(ctx context.Context, queue, id string) (inspect.Explanation, error) {
	q := Question{Do: "Explain", Which: inspect.SelectIDs(queue, id)}
	if err := in.refused(ctx, q); err != nil && !errors.Is(err, engine.ErrUnknownQueue) { // the owner may have it
		return inspect.Explanation{}, err
	}
	a, err := in.About(ctx, queue, id, q, true)
	return a.Why, err
}

func (in *Inspector) Job(ctx context.Context, queue, id string) (d inspect.JobDetail, err error) {
	q := Question{Do: "Job", Which: inspect.SelectIDs(queue, id)}
	if err := in.refused(ctx, q); !errors.Is(err, inspect.ErrUnknownJob) {
		return d, err
	}
	a, err := in.About(ctx, queue, id, q, true)
	if err == nil {
		d = a.Details[0]
		err = in.Decode(ctx, &d)
	}
	return d, err
}

func (in *Inspector) JobsByID(ctx context.Context, queue string, ids ...string) ([]inspect.JobDetail, error) {
	q := Question{Do: "JobsByID", Which: inspect.SelectIDs(queue, ids...)}
	if err := in.refused(ctx, q); err != nil {
		return nil, err
	}
	answers, err := in.divided(ctx, q)
	if err != nil {
		return nil, err
	}
	byID := make(map[string]inspect.JobDetail)
	for _, a := range answers {
		for _, d := range a.Details {
			byID[d.ID] = d
		}
	}
	var found []inspect.JobDetail
	for _, id := range ids {
		d, ok := byID[id]
		if delete(byID, id); !ok {
			continue
		}
		if err := in.Decode(ctx, &d); err != nil {
			return nil, err
		}
		found = append(found, d)
	}
	return found, nil
}

func (in *Inspector) Running(ctx context.Context, query inspect.RunningQuery) (all inspect.RunningList, err error) {
	q := Question{Do: "Running", Running: query}
	if err = in.refused(ctx, q); err != nil {
		return all, err
	}
	answers, err := in.every(ctx, &q)
	for _, a := range answers {
		all.Running, all.More = append(all.Running, a.Running.Running...), all.More+a.Running.More
	}
	slices.SortStableFunc(all.Running, func(a, b inspect.Running) int { return a.Since.Compare(b.Since) })
	n := min(len(all.Running), cmp.Or(query.Limit, inspect.DefaultListLimit))
	all.Running, all.More = all.Running[:n], all.More+len(all.Running)-n
	return all, err
}

func (in *Inspector) LockedKeys(after string, limit int) (page []inspect.KeyLockStatus, more int, err error) {
	return keys(in, Question{Do: "LockedKeys", After: after, Limit: limit}, func(a *Answer) []inspect.KeyLockStatus { return a.Locked },
		func(k inspect.KeyLockStatus) string { return k.Key })
}

func (in *Inspector) Leases(after string, limit int) (page []inspect.LeaseStatus, more int, err error) {
	return keys(in, Question{Do: "Leases", After: after, Limit: limit}, func(a *Answer) []inspect.LeaseStatus { return a.Leases },
		func(l inspect.LeaseStatus) string { return l.Key })
}

func (in *Inspector) Limits(keys ...string) []inspect.LimitStats { return in.Probe.Limits(keys...) }

// Stats are sums, with the longest Age, Lag and CommitAge. A prefix is paused in all partitions, and
// counts once. Shards are left out, and UUID says how many journals there are.
func (in *Inspector) Stats(ctx context.Context) (s inspect.Stats, err error) {
	answers, err := in.every(ctx, &Question{Do: "Stats"})
	if err != nil {
		return s, err
	}
	queues, homes := make(map[string]inspect.QueueStats), make(map[uint64]int)
	for _, a := range answers {
		p := &a.Stats
		homes[a.Home] = p.Workers
		s.Busy, s.Stuck, s.Paused, s.Age = s.Busy+p.Busy, s.Stuck+p.Stuck, s.Paused || p.Paused, max(s.Age, p.Age)
		s.Backlog, s.Journal = backlogs(s.Backlog, p.Backlog), journals(s.Journal, p.Journal)
		for _, q := range p.Queues {
			t := queues[q.Name]
			t.Name, t.Registered, t.Paused, t.Backlog = q.Name, t.Registered || q.Registered, t.Paused || q.Paused, backlogs(t.Backlog, q.Backlog)
			prefixes := max(t.PausedPrefixes, q.PausedPrefixes)
			t = t.Plus(q)
			t.PausedPrefixes = prefixes
			queues[q.Name] = t
		}
	}
	s.Journal.UUID = fmt.Sprintf("%d journals", in.Partitions)
	for _, workers := range homes {
		s.Workers += workers
	}
	s.Queues = each.Of(slices.Sorted(maps.Keys(queues)), func(name string) inspect.QueueStats { return queues[name] })
	return s, nil
}

// Figures are those of one queue; what no partition has is zero.
func (in *Inspector) Figures(ctx context.Context, queue string) (inspect.QueueStats, error) {
	all, err := in.Stats(ctx)
	i := slices.IndexFunc(all.Queues, func(q inspect.QueueStats) bool { return q.Name == queue })
	if i < 0 {
		return inspect.QueueStats{Name: queue}, err
	}
	return all.Queues[i], err
}

func backlogs(a, b inspect.Backlog) inspect.Backlog {
	return inspect.Backlog{Payloads: a.Payloads + b.Payloads, Bytes: a.Bytes + b.Bytes, Refused: a.Refused + b.Refused,
		Waiting: a.Waiting + b.Waiting, Stalled: max(a.Stalled, b.Stalled)}
}

func journals(a, b inspect.JournalStats) inspect.JournalStats {
	if b.LastCommit.After(a.LastCommit) {
		a.LastCommit = b.LastCommit
	}
	a.Epoch, a.Next, a.CommitAge = max(a.Epoch, b.Epoch), max(a.Next, b.Next), max(a.CommitAge, b.CommitAge)
	a.Bytes, a.LiveBytes, a.HeldBytes = a.Bytes+b.Bytes, a.LiveBytes+b.LiveBytes, a.HeldBytes+b.HeldBytes
	a.ReadBacks, a.Commits, a.CommitTime = a.ReadBacks+b.ReadBacks, a.Commits+b.Commits, a.CommitTime+b.CommitTime
	return a
}

// Letters yields the dead letters of a queue, one partition after the other.
func (in *Inspector) Letters(queue string, yield func(inspect.DeadPayload, error) bool) {
	for number := range in.Partitions {
		for from, more := uint64(0), true; more; {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			a, err := in.Put(ctx, number, &Question{Do: "Letters", Which: inspect.SelectQueue(queue), Position: from}, true)
			cancel()
			if err != nil {
				yield(inspect.DeadPayload{}, part(number, err))
				return
			}
			for _, d := range a.Page.Dead {
				if !yield(d, nil) {
					return
				}
				from = d.Position + 1
			}
			more = len(a.Page.Dead) > 0
		}
	}
}

// Unlock unlocks a key in all partitions, and reports whether it was locked in any.
func (in *Inspector) Unlock(ctx context.Context, key string) (was bool, err error) {
	answers, err := in.every(ctx, &Question{Do: "unlock", Reason: key})
	return slices.ContainsFunc(answers, func(a *Answer) bool { return a.Did.Back > 0 }), err
}

// Offset is the highest offset of a source that any partition has.
func (in *Inspector) Offset(name string) (highest int64, found bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answers, err := in.every(ctx, &Question{Do: "SourceOffset", Reason: name})
	for _, a := range answers {
		if a.All && (!found || a.Offset > highest) {
			highest, found = a.Offset, true
		}
	}
	return highest, found, err
}

// PutOffset changes the offset of a source in all partitions. When only some have, it is [engine.ErrUnknown].
func (in *Inspector) PutOffset(ctx context.Context, do, name string, offset int64) error {
	_, err := in.every(ctx, &Question{Do: do, Reason: name, Offset: offset})
	failed, ok := errors.AsType[interface { // which every has joined
		error
		Unwrap() []error
	}](err)
	if ok && len(failed.Unwrap()) < in.Partitions && !errors.Is(err, engine.ErrUnknown) {
		err = fmt.Errorf("%w: other partitions have changed it: %w", engine.ErrUnknown, err)
	}
	return err
}
