package executor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/await"
	"github.com/strandjobs/strand/executor/internal/dispatch"
	"github.com/strandjobs/strand/executor/internal/fleet"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/journal"
)

// Cluster is what [OpenCluster] needs of the processes that run the jobs of an executor together.
// They divide the ids into partitions, each with a journal that one of them has at a time. All of
// its functions are needed, and any goroutine may call them.
type Cluster struct {
	Of          any // what ClusterOf returns
	Partitions  int // above 0
	PartitionOf func(id string) (int, error)

	// Enqueue accepts items as [Queue.Carry] returned them, with the conditions of their call.
	Enqueue func(ctx context.Context, queue string, items []Item[[]byte], conditions []byte) ([]Receipt, error)

	// Ask has the process that has a partition [Answer] a question, behind what was enqueued for
	// the queue before; "" is all queues. When that process has gone meanwhile, the next one is
	// asked if again is set; otherwise, and when ctx ends before the answer, it returns ErrUnknown.
	// An answer may come with an error.
	Ask func(ctx context.Context, partition int, queue string, question []byte, again bool) (answer []byte, err error)

	Start func(ctx context.Context) error // is called once, after OnStart
	Stop  func(ctx context.Context) error // is called once, before the executor has stopped; handlers may go on until ctx ends
	Err   func() error
}

// OpenCluster is [Open] for an executor of several processes, as journal/postgres has it: its users
// call the Open of such a package. The executor has its queues, and hands on what is done to them.
// The queues run in the executors of partitions: partition opens one over a log, as [OpenLog] does,
// with the queues of x and its limits. Queues and limits are to be made before Start: later it is
// ErrState. The process starts and stops the partitions that it has.
func OpenCluster(c Cluster, cfg Config) (x *Executor, partition func(name string, log func(journal.Config) (*journal.Log, error), cfg Config) (*Executor, error), err error) {
	if x, err = Open("", cfg); err != nil {
		return nil, nil, err
	}
	x.cluster = &cluster{Cluster: c, parts: make(map[*Executor]bool)}
	x.dir = "a cluster"
	x.view = &fleet.Inspector{Partitions: c.Partitions, Of: c.PartitionOf, Probe: x.inspector, Decode: x.inspector.Decode,
		Ask: func(ctx context.Context, number int, q *fleet.Question) (*fleet.Answer, error) {
			return x.cluster.ask(ctx, number, q, false)
		}}
	return x, func(name string, log func(journal.Config) (*journal.Log, error), cfg Config) (*Executor, error) {
		part, err := OpenLog(name, log, cfg)
		if err != nil {
			return nil, err
		}
		if err := x.cluster.open(x, part); err != nil {
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			return nil, errors.Join(err, part.Stop(ended))
		}
		return part, nil
	}, nil
}

// ClusterOf returns Of of the [Cluster] of an executor; nil: it has none.
func ClusterOf(x *Executor) any {
	if x == nil || x.cluster == nil {
		return nil
	}
	return x.cluster.Of
}

// cluster is that of an executor which several processes are.
type cluster struct {
	Cluster

	mu    sync.Mutex
	joins []func(part *Executor) error // the registrations of queues
	parts map[*Executor]bool           // of this process

	err error // of Stop, before the executor has stopped
}

// everywhere notes a registration that has succeeded, to be repeated in each partition.
func everywhere[T any](x *Executor, t *Queue[T], err error, in func(part *Executor) error) (*Queue[T], error) {
	if err != nil {
		return nil, err
	}
	if x.cluster == nil {
		return t, nil
	}
	x.cluster.mu.Lock()
	defer x.cluster.mu.Unlock()
	x.cluster.joins = append(x.cluster.joins, in)
	return t, x.mayRegister("queue of handler") // it may have started meanwhile
}

// open makes an executor that of a partition.
func (c *cluster) open(x, part *Executor) error {
	part.front = x
	c.mu.Lock()
	joins := slices.Clone(c.joins)
	c.parts[part] = true
	c.mu.Unlock()
	for _, join := range joins {
		if err := join(part); err != nil {
			return err
		}
	}
	for _, q := range x.registered() {
		if own, err := part.lookup(q.Name); err == nil {
			own.Share.Tune(q.Share.Share())
		}
	}
	return nil
}

// tune does in the partitions of this process what was done to a queue.
func (c *cluster) tune(name string, tuning QueueTuning) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for part := range c.parts {
		if q, err := part.lookup(name); err == nil {
			q.Share.Tune(dispatch.Share(tuning))
		}
	}
}

// startCluster has this process take its part in a cluster.
func (x *Executor) startCluster(ctx context.Context) error {
	x.mu.Lock()
	defer x.mu.Unlock() // so that a stop comes after it
	if x.state != starting {
		return fmt.Errorf("%w: stopped while it was starting", ErrState)
	}
	x.state = started
	return x.cluster.Start(ctx)
}

// end gives the partitions of this process away. Handlers may go on until a Stop has no time left.
func (c *cluster) end(x *Executor) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		select {
		case <-x.hurry:
			cancel(ErrStopping)
		case <-ctx.Done():
		}
	}()
	c.err = c.Stop(ctx)
}

// leave forgets a partition.
func (c *cluster) leave(part *Executor) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.parts, part)
}

// ask has a partition answer a question. There is an answer also with an error.
func (c *cluster) ask(ctx context.Context, number int, q *fleet.Question, again bool) (*fleet.Answer, error) {
	question, err := fleet.Encode(q)
	if err != nil {
		return new(fleet.Answer), err
	}
	behind := q.Which.Queue
	if q.Do != "do" { // nothing else adds to its order
		behind = ""
	}
	answer, err := c.Ask(ctx, number, behind, question, again)
	if len(answer) == 0 {
		return new(fleet.Answer), err
	}
	a, unreadable := fleet.Decode[fleet.Answer](answer)
	if unreadable != nil {
		return new(fleet.Answer), cmp.Or(err, unreadable)
	}
	return a, err
}

// Answer answers a question of the Ask of a [Cluster] with the executor of the partition that is
// asked. The question may be anybody's. A [PendingError] says that a wait has ended before the
// payload, which the next executor of the partition can be asked for.
func Answer(ctx context.Context, part *Executor, question []byte) (answer []byte, err error) {
	q, err := fleet.Decode[fleet.Question](question)
	if err != nil {
		return nil, err
	}
	a, err := part.answer(ctx, q)
	answer, unsaid := fleet.Encode(a)
	return answer, cmp.Or(err, unsaid)
}

func (x *Executor) answer(ctx context.Context, q *fleet.Question) (a *fleet.Answer, err error) {
	a = new(fleet.Answer)
	id := ""
	if len(q.Which.IDs) == 1 {
		id = q.Which.IDs[0]
	}
	switch q.Do {
	case "offset":
		a.Offset, a.All, err = x.SourceOffset(q.Reason)
		return a, err
	case "set-offset":
		return a, x.SetSourceOffset(ctx, q.Reason, int64(q.Position))
	case "delete-offset":
		return a, x.DeleteSourceOffset(ctx, q.Reason)
	case "wait", "result", "do", "pending", "letters":
	default:
		return fleet.Do(ctx, x.inspector, q)
	}
	t, err := x.Lookup(q.Which.Queue)
	if err != nil {
		return a, err
	}
	switch q.Do {
	case "wait", "result":
		var end await.End
		if end, err = t.q.wait(ctx, Receipt{ID: id, Position: q.Position, MergedInto: q.MergedInto}); err == nil && q.Do == "result" {
			err = say(a, end)
		}
	case "do":
		err = t.answerDo(ctx, id, q, a)
	case "pending":
		a.All, err = t.Pending(ctx, id)
	case "letters":
		a.Page.Dead, err = t.q.someLetters(journal.Position(q.Position))
	}
	return a, err
}

// lettersAtOnce and letterBytes bound the dead letters of an answer.
const (
	lettersAtOnce = 256
	letterBytes   = 1 << 20
)

// letters yields the dead letters of the queue, those of a cluster partition by partition.
func (q *queue) letters(yield func(inspect.DeadPayload, error) bool) {
	if q.x.cluster == nil {
		q.lettersFrom(0, yield)
		return
	}
	for number := range q.x.cluster.Partitions {
		for from, more := uint64(0), true; more; {
			ctx, cancel := context.WithTimeout(context.Background(), fleet.Patience)
			a, err := q.x.cluster.ask(ctx, number, &fleet.Question{Do: "letters", Which: inspect.SelectQueue(q.Name), Position: from}, true)
			cancel()
			if err != nil {
				yield(inspect.DeadPayload{}, err)
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

// lettersFrom yields those of a journal, from a position on.
func (q *queue) lettersFrom(from journal.Position, yield func(inspect.DeadPayload, error) bool) {
	for b, err := range q.x.log.Morgue(q.Number, from) {
		if err != nil {
			yield(inspect.DeadPayload{}, border(err))
			return
		}
		if !yield(admin.DeadOf(q.Name, &b), nil) {
			return
		}
	}
}

// someLetters are as many as an answer may have.
func (q *queue) someLetters(from journal.Position) (some []inspect.DeadPayload, err error) {
	size := 0
	q.lettersFrom(from, func(d inspect.DeadPayload, failed error) bool {
		if err = failed; err != nil {
			return false
		}
		d.Raw = bytes.Clone(d.Raw)
		some, size = append(some, d), size+len(d.Raw)
		return len(some) < lettersAtOnce && size < letterBytes
	})
	return some, err
}

// about asks the partition of an id.
func (q *queue) about(ctx context.Context, id string, question fleet.Question, again bool) (*fleet.Answer, error) {
	number, err := q.x.cluster.PartitionOf(id)
	if err != nil {
		return new(fleet.Answer), err
	}
	question.Which = inspect.SelectIDs(q.Name, id)
	return q.x.cluster.ask(ctx, number, &question, again)
}

// waitElsewhere is Wait for a payload of a cluster.
func (q *queue) waitElsewhere(ctx context.Context, do string, r Receipt) (*fleet.Answer, error) {
	if r.ID == "" || r.Position == 0 {
		return nil, noPayload(r)
	}
	a, err := q.about(ctx, r.ID, fleet.Question{Do: do, Position: r.Position, MergedInto: r.MergedInto}, true)
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
	a, err := c.q.about(ctx, it.ID, q, keyed)
	if err == nil && a.Position != 0 { // its process waits no longer
		a, err = c.q.waitElsewhere(ctx, "result", Receipt{ID: it.ID, Position: a.Position, MergedInto: a.MergedInto, Durable: true})
	}
	switch {
	case err != nil:
		return result, err
	case len(a.Result) == 0:
		return result, fmt.Errorf("%w: id %q", ErrNoResult, it.ID)
	}
	if err = json.Unmarshal(a.Result, &result); err != nil {
		err = fmt.Errorf("%w: id %q: it is done, and its result can't be read from JSON: %w", ErrNoResult, it.ID, err)
	}
	return result, err
}

// answerDo is Do for a caller elsewhere.
func (t *Queue[T]) answerDo(ctx context.Context, id string, q *fleet.Question, a *fleet.Answer) error {
	options, err := Carried(q.Conditions)
	if err != nil {
		return err
	}
	entries := borrowEntries(1)
	defer giveBackEntries(entries)
	it := Item[T]{ID: id, Score: q.Score, Metadata: q.Metadata}
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

// say writes the result of a payload that is done into an answer, if its handler has said one.
func say(a *fleet.Answer, end await.End) error {
	if !end.Said {
		return nil
	}
	err := guard.Call(func() (err error) {
		a.Result, err = json.Marshal(end.Value)
		return err
	})
	if err != nil {
		err = fmt.Errorf("%w: it is done, and its result can't be written as JSON: %w", ErrNoResult, err)
	}
	return err
}

// offsets asks all partitions about an offset, and returns the highest.
func (x *Executor) offsets(ctx context.Context, do, name string, to int64) (highest int64, found bool, err error) {
	answers, err := x.view.(*fleet.Inspector).Every(ctx, &fleet.Question{Do: do, Reason: name, Position: uint64(to)})
	for _, a := range answers {
		if a.All && (!found || a.Offset > highest) {
			highest, found = a.Offset, true
		}
	}
	return highest, found, err
}

// putOffsets changes an offset in all partitions.
func (x *Executor) putOffsets(ctx context.Context, do, name string, to int64) error {
	ctx, err := guard.Context(ctx)
	if err = cmp.Or(checkName(name), err); err != nil {
		return err
	}
	_, _, err = x.offsets(ctx, do, name, to)
	return err
}

// failure returns the error of Stop.
func (c *cluster) failure() error {
	if c == nil {
		return nil
	}
	return c.err
}
