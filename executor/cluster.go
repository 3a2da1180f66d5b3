package executor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/await"
	"github.com/strandjobs/strand/executor/internal/fleet"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/journal"
)

// openCluster opens the executor of a cluster, and returns what opens those of its partitions. See
// package cluster, which is its door.
func openCluster(c *cluster, cfg Config) (x *Executor, partition func(string, func(journal.Config) (*journal.Log, error), Config) (*Executor, error), err error) {
	if x, err = Open("", cfg); err != nil {
		return nil, nil, err
	}
	c.Probe, c.Decode = x.inspector, x.inspector.Decode
	x.cluster = c
	x.dir, x.view = "a cluster", &x.cluster.Inspector
	return x, x.openPartition, nil
}

func (x *Executor) openPartition(name string, log func(journal.Config) (*journal.Log, error), cfg Config) (*Executor, error) {
	part, err := OpenLog(name, log, cfg)
	if err != nil {
		return nil, err
	}
	part.front = x
	if err := x.cluster.Join(part); err != nil {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		return nil, errors.Join(err, part.Stop(ended))
	}
	for _, q := range x.registered() {
		if own, err := part.lookup(q.Name); err == nil {
			own.Share.Tune(q.Share.Share())
		}
	}
	return part, nil
}

// cluster is that of an executor which several processes are.
type cluster struct {
	fleet.Inspector
	fleet.Members[*Executor] // the executors of partitions in this process

	of      any
	enqueue func(ctx context.Context, queue string, items []Item[[]byte], conditions []byte) ([]Receipt, error)
	start   func(context.Context) error
	stop    func(context.Context) error
	failing func() error

	err error // of stop, before the executor has stopped
}

// everywhere has each partition repeat a registration that has succeeded.
func everywhere[T any](x *Executor, t *Queue[T], err error, register func(part *Executor) error) (*Queue[T], error) {
	if err != nil {
		return nil, err
	}
	if x.cluster != nil {
		x.cluster.Each(register)
	}
	return t, nil
}

// end gives the partitions of this process away. Handlers may go on until a Stop has no time left.
func (c *cluster) end(hurry <-chan struct{}) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		select {
		case <-hurry:
			cancel(ErrStopping)
		case <-ctx.Done():
		}
	}()
	c.err = c.stop(ctx)
}

// asked is the executor of a partition, for those who ask it from elsewhere.
type asked struct {
	*Executor
	inspector
}

func (a asked) Stats(ctx context.Context) (inspect.Stats, error) { return a.inspector.Stats(ctx) }

func (a asked) Lanes(queue string) string {
	if q, err := a.Executor.lookup(queue); err == nil {
		return q.sharedLanes
	}
	return ""
}

func (a asked) Queue(name string) (fleet.Queue, error) {
	t, err := a.Executor.Lookup(name)
	return askedQueue{t}, err
}

// askedQueue is a queue of such an executor.
type askedQueue struct{ *Queue[[]byte] }

func (t askedQueue) Letters(from uint64, yield func(inspect.DeadPayload, error) bool) {
	t.q.letters(journal.Position(from), yield)
}

// Wait waits for a payload, whose handler may have returned a result.
func (t askedQueue) Wait(ctx context.Context, id string, q *fleet.Question, a *fleet.Answer) error {
	end, err := t.q.wait(ctx, Receipt{ID: id, Position: q.Position, MergedInto: q.MergedInto})
	return cmp.Or(err, say(a, end))
}

// Enqueue is Do. What a caller waits for no longer is in the answer, for the next one to be asked.
func (t askedQueue) Enqueue(ctx context.Context, id string, q *fleet.Question, a *fleet.Answer) error {
	options, err := Carried(q.Conditions)
	if err != nil {
		return err
	}
	entries := borrowEntries(1)
	defer giveBackEntries(entries)
	it := Item[[]byte]{ID: id, Score: q.Score, Metadata: q.Metadata}
	if q.Delay > 0 {
		it.Due = time.Unix(0, t.q.stamp()).Add(q.Delay)
	}
	if err := t.write(&(*entries)[0], it, q.Payload, t.q.stamp()); err != nil {
		return err
	}
	end, err := t.q.do(ctx, *entries, options)
	if pending, ok := errors.AsType[*PendingError](err); ok {
		a.Position, a.MergedInto = pending.Receipt.Position, pending.Receipt.MergedInto
		return nil
	}
	return cmp.Or(err, say(a, end))
}

// say writes the result of a payload into an answer, if its handler has returned one.
func say(a *fleet.Answer, end await.End) error {
	if end.Value == nil || !end.Said {
		return nil
	}
	err := guard.Call(func() (err error) {
		a.Result, err = json.Marshal(end.Value)
		return err
	})
	if err != nil {
		err = fmt.Errorf("%w: it is done, and can't be written as JSON: %w", ErrNoResult, err)
	}
	return err
}

// waitElsewhere waits for a payload of a cluster.
func (q *queue) waitElsewhere(ctx context.Context, r Receipt) (*fleet.Answer, error) {
	if r.ID == "" || r.Position == 0 {
		return nil, noPayload(r)
	}
	a, err := q.x.cluster.About(ctx, q.Name, r.ID, fleet.Question{Do: "Wait", Position: r.Position, MergedInto: r.MergedInto}, true)
	switch {
	case err == nil || errors.As(err, new(*PendingError)):
	case ctx.Err() != nil:
		err = &PendingError{Receipt: r, Err: guard.Cause(ctx)}
	case q.x.stopping.Load():
		err = &PendingError{Receipt: r, Err: ErrClosed}
	case errors.Is(err, ErrUnknown):
		err = &PendingError{Receipt: r, Err: err}
	}
	return a, err
}

// doElsewhere is Do for a payload of a cluster: the result comes as JSON.
func (c *Caller[T, R]) doElsewhere(ctx context.Context, id string, payload T, options []Option) (result R, err error) {
	items, conditions, err := c.Carry([]Item[T]{{ID: id, Payload: payload}}, options...)
	if err != nil {
		return result, err
	}
	it := items[0]
	q := fleet.Question{Do: "do", Payload: it.Payload, Score: it.Score, Metadata: it.Metadata, Conditions: conditions}
	if !it.Due.IsZero() {
		q.Delay = max(time.Until(it.Due), 1)
	}
	keyed := slices.ContainsFunc(options, func(o Option) bool { return o.kind == optionIdempotency })
	a, err := c.q.x.cluster.About(ctx, c.q.Name, it.ID, q, keyed)
	if err == nil && a.Position != 0 { // its process waits no longer
		a, err = c.q.waitElsewhere(ctx, Receipt{ID: it.ID, Position: a.Position, MergedInto: a.MergedInto, Durable: true})
	}
	switch {
	case err != nil:
	case len(a.Result) == 0:
		err = fmt.Errorf("%w: id %q", ErrNoResult, it.ID)
	default:
		if err = json.Unmarshal(a.Result, &result); err != nil {
			err = fmt.Errorf("%w: id %q: it is done, and can't be read from JSON: %w", ErrNoResult, it.ID, err)
		}
	}
	return result, err
}
