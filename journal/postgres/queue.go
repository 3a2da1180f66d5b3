package postgres

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/strandjobs/strand/executor"
)

// Queue is a registered queue. Its methods may be called from any goroutine.
type Queue[T any] struct {
	n           *Node
	name, order string
	probe       *executor.Queue[T]
}

// Handle registers a queue whose handler gets one payload per call, as executor.Handle does,
// for each partition that the node will own. All nodes should register the same queues: see
// [Stats] for what waits for one. A node that is not started needs the handler all the same.
//
// It returns the errors of executor.Handle, and executor.ErrState after Start.
func Handle[T any](n *Node, name string, handler func(context.Context, executor.Job[T]) error, cfg executor.QueueConfig[T]) (*Queue[T], error) {
	return handle(n, name, executor.Handle[T], handler, cfg)
}

// HandleLatest registers a queue for state, where only the newest payload of an id counts, as
// executor.HandleLatest does; see [Handle].
func HandleLatest[T any](n *Node, name string, handler func(context.Context, executor.Job[T]) error, cfg executor.QueueConfig[T]) (*Queue[T], error) {
	return handle(n, name, executor.HandleLatest[T], handler, cfg)
}

// HandleMerged registers a queue whose handler gets all payloads of an id in one call, as
// executor.HandleMerged does; see [Handle].
func HandleMerged[T any](n *Node, name string, handler func(context.Context, executor.Merged[T]) error, cfg executor.QueueConfig[T]) (*Queue[T], error) {
	return handle(n, name, executor.HandleMerged[T], handler, cfg)
}

// HandleBatch registers a queue whose handler gets many jobs in one call, as
// executor.HandleBatch does; see [Handle].
func HandleBatch[T any](n *Node, name string, handler func(context.Context, []executor.Merged[T]) error, cfg executor.QueueConfig[T]) (*Queue[T], error) {
	return handle(n, name, executor.HandleBatch[T], handler, cfg)
}

func handle[T, H any](n *Node, name string, in func(*executor.Executor, string, H, executor.QueueConfig[T]) (*executor.Queue[T], error),
	handler H, cfg executor.QueueConfig[T]) (*Queue[T], error) {
	if n == nil {
		return nil, fmt.Errorf("%w: no node; Open makes one", ErrConfig)
	}
	if !validText(name) {
		return nil, fmt.Errorf("%w: the name of queue %q is not UTF-8, or has a zero byte", ErrConfig, name)
	}
	q := &Queue[T]{n: n, name: name, order: "queue " + name}
	if cfg.Conditions.SharedLanes != "" {
		q.order = "lanes " + cfg.Conditions.SharedLanes
	}
	typed, err := n.register(registration{name: name, order: q.order, in: func(x *executor.Executor) (any, error) { return in(x, name, handler, cfg) }})
	if err != nil {
		return nil, err
	}
	q.probe = typed.(*executor.Queue[T])
	return q, nil
}

// Enqueue accepts a payload for an id. When it returns nil the payload is committed: in the log of the
// owner when that is this node, or in the inbox: then Position and MergedInto of the Receipt are 0, as
// they are when the owner dies before it could say them. With executor.IdempotencyKey, FromSource or
// IfAbsent it waits until the owner has decided, whichever node that is. See executor.Queue.Enqueue
// for the options and errors, and the package comment for what is different in the inbox. While the
// server does not answer it waits, until ctx ends: then the cause of ctx is returned if nothing was
// accepted, or executor.ErrUnknown if that can't be said: the payload is accepted already then, ahead
// of what the caller enqueues next, or never will be; or it is in the inbox, and the owner has not
// decided. For that a call whose context is cancelled before its deadline may take two seconds more,
// or longer with MiBs. On the owner's node it is unknown, too, when the lease is lost while the commit
// is under way: see the package comment for how to go on. A payload has MaxPayloadBytes of
// Config.Executor at most, 256 MiB at the very most, beyond which it is executor.ErrTooLarge. Calls
// for partitions of other nodes go to the server one flush after the other, and so behind a large one.
func (q *Queue[T]) Enqueue(ctx context.Context, id string, payload T, options ...executor.Option) (executor.Receipt, error) {
	all, err := q.EnqueueMany(ctx, []executor.Item[T]{{ID: id, Payload: payload}}, options...)
	if err != nil {
		return executor.Receipt{}, err
	}
	return all[0], nil
}

// EnqueueMany accepts all items or none: in one commit of the log when all are of one partition
// and this node owns it, and otherwise in one transaction of the inbox. Their order counts
// for each id. Whoever owns the partitions, more than 256 MiB in all, with ids, metadata and
// 64 bytes for each item, is executor.ErrTooLarge, unless it is one payload, whose limit is
// MaxPayloadBytes of Config.Executor. See [Queue.Enqueue].
func (q *Queue[T]) EnqueueMany(ctx context.Context, items []executor.Item[T], options ...executor.Option) ([]executor.Receipt, error) {
	if len(items) == 0 {
		return nil, nil
	}
	if q == nil || q.n == nil {
		return nil, errNoQueue
	}
	if ctx == nil {
		return nil, errNilContext
	}
	if err := q.n.outbox.ended(); err != nil {
		return nil, err
	}
	b, err := q.batch(items, options)
	if err != nil {
		return nil, err
	}
	if b.conditions != nil && len(b.parts) > 1 {
		return nil, fmt.Errorf("%w: IfAbsent, IdempotencyKey and FromSource need one answer; make a call for each of %d partitions", executor.ErrInvalidKey, len(b.parts))
	}
	if p := q.n.owned(b.numbers[0]); p != nil && len(b.parts) == 1 {
		if receipts, err := q.local(ctx, p, b); !errors.Is(err, errElsewhere) {
			return receipts, err
		}
	}
	parts := make(map[place][]byte, len(b.parts))
	for number, of := range b.parts {
		at := place{number, q.name}
		parts[at] = encodeCall(of)
		if b.conditions != nil {
			parts[at] = rowOf([]byte{conditionVersion}, b.conditions, parts[at])
		}
	}
	token, err := q.n.outbox.put(ctx, parts, b.conditions != nil)
	if err != nil {
		return nil, err
	}
	all := make([]executor.Receipt, len(b.items))
	for i, it := range b.items {
		all[i] = executor.Receipt{ID: it.ID, Durable: true}
	}
	if b.conditions != nil {
		return q.n.asking.complete(ctx, token, all)
	}
	return all, nil
}

// errNoQueue is what a Queue says that no registration made.
var errNoQueue = fmt.Errorf("%w: this queue was not made by Handle, HandleLatest, HandleMerged or HandleBatch", executor.ErrState)

// errElsewhere is returned when the log can't have a call, and the inbox can.
var errElsewhere = errors.New("postgres: the log can't have it now")

// local puts a call into the log of a partition of this node, behind what the inbox has.
func (q *Queue[T]) local(ctx context.Context, p *partition, b *batch) ([]executor.Receipt, error) {
	switch err := p.taker.gate(ctx, q.order); {
	case err == nil:
	case errors.Is(err, executor.ErrFull) && ctx.Value(partitionKey{}) == nil && !q.n.cfg.Executor.WaitForRoom: // or else calls wait
		return nil, err
	case ctx.Err() != nil:
		return nil, p.store.trouble.explain(context.Cause(ctx), "the server can't be used")
	default: // nor must a handler be kept waiting for what may wait for it
		return nil, fmt.Errorf("%w: %w", errElsewhere, err)
	}
	options, err := executor.Carried(b.conditions)
	x, unknown := p.x.Lookup(q.name) // registered before the partition is served
	if err = cmp.Or(err, unknown); err != nil {
		return nil, err
	}
	receipts, err := x.EnqueueMany(ctx, b.items, options...)
	if (errors.Is(err, executor.ErrClosed) || errors.Is(err, executor.ErrFailed)) && !errors.Is(err, executor.ErrUnknown) {
		err = fmt.Errorf("%w: %w", errElsewhere, err) // nothing was accepted
	}
	if err != nil && ctx.Err() != nil {
		err = p.store.trouble.explain(err, "the server can't be used")
	}
	return receipts, err
}

// batch are the items of a call.
type batch struct {
	items      []item         // as the owner gets them
	parts      map[int][]item // by partition
	numbers    []int          // of the partition of each item
	conditions []byte         // of the call; nil: none
}

// batch encodes and checks items as the owner does, so that what it would refuse is refused
// here, if that can be told.
func (q *Queue[T]) batch(items []executor.Item[T], options []executor.Option) (b *batch, err error) {
	b = &batch{parts: make(map[int][]item), numbers: make([]int, len(items))}
	if b.items, b.conditions, err = q.probe.Carry(items, options...); err != nil {
		return nil, err
	}
	size := 0
	for i := range b.items {
		it := &b.items[i]
		number, err := q.n.PartitionOf(it.ID)
		if err != nil {
			return nil, err
		}
		size += len(it.ID) + len(it.Payload) + itemBytes
		for key, value := range it.Metadata {
			size += len(key) + len(value) + 2*binary.MaxVarintLen16
		}
		if i > 0 && size > callBytes {
			return nil, fmt.Errorf("item %d: %w: with this one the call has %d bytes, the limit is %d; make several calls", i, executor.ErrTooLarge, size, callBytes)
		}
		if !it.Due.IsZero() {
			it.Due = q.n.byServer(it.Due)
		}
		b.numbers[i], b.parts[number] = number, append(b.parts[number], *it)
	}
	return b, nil
}

// guarded calls user code on a goroutine of its own, which that may end.
func guarded(f func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errors.New("postgres: the function called runtime.Goexit")
		defer func() {
			if v := recover(); v != nil {
				err = &executor.PanicError{Value: v, Stack: string(debug.Stack())}
			}
			done <- err
		}()
		err = f()
	}()
	return <-done
}

// FollowUp stages a payload on a job whose handler runs, as executor.Queue.FollowUp does: it is
// accepted in the commit of that job's success. The id has to be of the same partition: one of
// another is executor.ErrNotOwned, or executor.ErrFollowUp where this node has that one, too.
func (q *Queue[T]) FollowUp(job executor.Parent, id string, payload T, options ...executor.Option) error {
	if q == nil || q.n == nil {
		return errNoQueue
	}
	b, err := q.batch([]executor.Item[T]{{ID: id, Payload: payload}}, options)
	if err != nil {
		return err
	}
	it, number := b.items[0], b.numbers[0]
	q.n.mu.Lock()
	p := q.n.held[number]
	q.n.mu.Unlock()
	if p == nil || !p.ready.Load() {
		return fmt.Errorf("%w: id %q is of partition %d, which this node does not serve", executor.ErrNotOwned, it.ID, number)
	}
	if !it.Due.IsZero() {
		options = append(slices.Clip(options), executor.At(it.Due))
	}
	x, _ := p.queues[q.name].(*executor.Queue[T])
	return x.FollowUp(job, it.ID, payload, options...)
}
