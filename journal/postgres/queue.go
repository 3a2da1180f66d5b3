package postgres

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"

	"github.com/strandjobs/strand/executor"
)

// Queue is a registered queue. Its methods may be called from any goroutine.
type Queue[T any] struct {
	n           *Node
	name, order string
	cfg         executor.QueueConfig[T]
	codec       executor.Codec[T]
	most        int // bytes of a payload
}

// Receipt says what became of an enqueued payload.
type Receipt struct {
	executor.Receipt // Position and MergedInto are 0 when it is in the inbox, and when an owner has died before it could say them

	Partition int
	Inbox     bool // it is there, and the owner takes it in
}

// Handle registers a queue whose handler gets one payload per call, as executor.Handle does,
// for each partition that the node will own. All nodes should register the same queues: see
// [Stats] for what waits for one. A node that is not started needs the handler all the same.
//
// It returns the errors of executor.Handle, and executor.ErrState after Start.
func Handle[T any](n *Node, name string, handler func(context.Context, executor.Job[T]) error, cfg executor.QueueConfig[T]) (*Queue[T], error) {
	return handle(n, name, cfg, func(x *executor.Executor) (*executor.Queue[T], error) { return executor.Handle(x, name, handler, cfg) })
}

// HandleMerged registers a queue whose handler gets all payloads of an id in one call, as
// executor.HandleMerged does; see [Handle].
func HandleMerged[T any](n *Node, name string, handler func(context.Context, executor.Merged[T]) error, cfg executor.QueueConfig[T]) (*Queue[T], error) {
	return handle(n, name, cfg, func(x *executor.Executor) (*executor.Queue[T], error) {
		return executor.HandleMerged(x, name, handler, cfg)
	})
}

// HandleBatch registers a queue whose handler gets many jobs in one call, as
// executor.HandleBatch does; see [Handle].
func HandleBatch[T any](n *Node, name string, handler func(context.Context, []executor.Merged[T]) error, cfg executor.QueueConfig[T]) (*Queue[T], error) {
	return handle(n, name, cfg, func(x *executor.Executor) (*executor.Queue[T], error) {
		return executor.HandleBatch(x, name, handler, cfg)
	})
}

func handle[T any](n *Node, name string, cfg executor.QueueConfig[T], in func(*executor.Executor) (*executor.Queue[T], error)) (*Queue[T], error) {
	if n == nil {
		return nil, fmt.Errorf("%w: no node; Open makes one", ErrConfig)
	}
	if !validText(name) {
		return nil, fmt.Errorf("%w: the name of queue %q is not UTF-8, or has a zero byte", ErrConfig, name)
	}
	q := &Queue[T]{n: n, name: name, order: "queue " + name, cfg: cfg, codec: cfg.Codec}
	if cfg.Conditions.SharedLanes != "" {
		q.order = "lanes " + cfg.Conditions.SharedLanes
	}
	if q.codec == nil {
		if raw, ok := any(executor.Raw{}).(executor.Codec[T]); ok {
			q.codec = raw
		} else {
			q.codec = executor.JSON[T]{}
		}
	}
	q.most = cmp.Or(n.cfg.Executor.Advanced.MaxPayloadBytes, 1<<20)
	if err := n.register(registration{name: name, order: q.order, in: func(x *executor.Executor) (any, error) { return in(x) }}); err != nil {
		return nil, err
	}
	return q, nil
}

// Enqueue accepts a payload for an id. When it returns nil the payload is committed: in the log
// of the owner when that is this node, or in the inbox. With executor.IdempotencyKey, FromSource or
// IfAbsent it waits until the owner has decided, whichever node that is. See executor.Queue.Enqueue for
// the options and errors, and the package comment for what is different in the inbox. While the server does not answer it waits,
// until ctx ends: then the cause of ctx is returned if nothing was accepted, or
// executor.ErrUnknown if that can't be said: the payload is accepted already then, ahead of what the
// caller enqueues next, or never will be; or it is in the inbox, and the owner has not decided. For that a call whose context is cancelled before its
// deadline may take two seconds more, or longer with MiBs. On the owner's node it is unknown, too,
// when the lease is lost while the commit is under way: see the package comment for how to go on. A
// payload has MaxPayloadBytes of Config.Executor at most, 256 MiB at the very most, beyond which it
// is executor.ErrTooLarge. Calls for partitions of other nodes go to the server one flush after the
// other, and so behind a large one.
func (q *Queue[T]) Enqueue(ctx context.Context, id string, payload T, options ...executor.Option) (Receipt, error) {
	all, err := q.EnqueueMany(ctx, []executor.Item[T]{{ID: id, Payload: payload}}, options...)
	if err != nil {
		return Receipt{}, err
	}
	return all[0], nil
}

// EnqueueMany accepts all items or none: in one commit of the log when all are of one partition
// and this node owns it, and otherwise in one transaction of the inbox. Their order counts
// for each id. Whoever owns the partitions, more than 256 MiB in all, with ids, metadata and
// 64 bytes for each item, is executor.ErrTooLarge, unless it is one payload, whose limit is
// MaxPayloadBytes of Config.Executor. See [Queue.Enqueue].
func (q *Queue[T]) EnqueueMany(ctx context.Context, items []executor.Item[T], options ...executor.Option) ([]Receipt, error) {
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
		return nil, fmt.Errorf("%w: IfAbsent, IdempotencyKey and FromSource need one answer; make a call for each of %d partitions", ErrRemote, len(b.parts))
	}
	if p := q.n.owned(b.numbers[0]); p != nil && len(b.parts) == 1 {
		if receipts, err := q.local(ctx, p, b); !errors.Is(err, errElsewhere) {
			return receipts, err
		}
	}
	parts := make(map[place][]byte, len(b.parts))
	for number, of := range b.parts {
		parts[place{number, q.name}] = encodeCall(of)
	}
	token, err := q.n.outbox.put(ctx, parts, b.conditions)
	if err != nil {
		return nil, err
	}
	all := make([]Receipt, len(b.items))
	for i, it := range b.items {
		all[i] = Receipt{Receipt: executor.Receipt{ID: it.ID, Durable: true}, Partition: b.numbers[i], Inbox: b.conditions == nil}
	}
	if b.conditions != nil {
		return q.n.asking.complete(ctx, token, all)
	}
	return all, nil
}

// errNoQueue is what a Queue says that no registration made.
var errNoQueue = fmt.Errorf("%w: this queue was not made by Handle, HandleMerged or HandleBatch", executor.ErrState)

// errElsewhere is returned when the log can't have a call, and the inbox can.
var errElsewhere = errors.New("postgres: the log can't have it now")

// local puts a call into the log of a partition of this node, behind what the inbox has.
func (q *Queue[T]) local(ctx context.Context, p *partition, b *batch[T]) ([]Receipt, error) {
	switch err := p.taker.gate(ctx, q.order); {
	case err == nil:
	case errors.Is(err, executor.ErrFull) && ctx.Value(partitionKey{}) == nil && q.n.cfg.Executor.Overflow != executor.OverflowWait: // or else calls wait
		return nil, err
	case ctx.Err() != nil:
		return nil, p.store.trouble.explain(context.Cause(ctx), "the server can't be used")
	default: // nor must a handler be kept waiting for what may wait for it
		return nil, fmt.Errorf("%w: %w", errElsewhere, err)
	}
	x, _ := p.queues[q.name].(*executor.Queue[T]) // registered before the partition is served
	options, err := executor.Carried(b.conditions)
	if err != nil {
		return nil, err
	}
	receipts, err := enqueue(ctx, x, b.items, options)
	if (errors.Is(err, executor.ErrClosed) || errors.Is(err, executor.ErrFailed)) && !errors.Is(err, executor.ErrUnknown) {
		err = fmt.Errorf("%w: %w", errElsewhere, err) // nothing was accepted
	}
	if err != nil && ctx.Err() != nil {
		err = p.store.trouble.explain(err, "the server can't be used")
	}
	if err != nil {
		return nil, err
	}
	all := make([]Receipt, len(receipts))
	for i, r := range receipts {
		all[i] = Receipt{Receipt: r, Partition: p.number}
	}
	return all, nil
}

// enqueue is EnqueueMany, whose errors say nothing of items when there is one.
func enqueue[T any](ctx context.Context, x *executor.Queue[T], items []executor.Item[T], options []executor.Option) ([]executor.Receipt, error) {
	if it := items[0]; len(items) == 1 && it.Score == nil && it.Due.IsZero() && it.Metadata == nil {
		r, err := x.Enqueue(ctx, it.ID, it.Payload, options...)
		return []executor.Receipt{r}, err
	}
	return x.EnqueueMany(ctx, items, options...)
}

// batch are the items of a call.
type batch[T any] struct {
	items      []executor.Item[T] // with their ids
	parts      map[int][]item     // as they go into the inbox, by partition
	numbers    []int              // of the partition of each item
	conditions []byte             // of the call; nil: none
	size       int                // bytes of the items, about
}

// batch encodes and checks items as the owner does, so that what it would refuse is refused
// here, if that can be told.
func (q *Queue[T]) batch(items []executor.Item[T], options []executor.Option) (*batch[T], error) {
	b := &batch[T]{items: make([]executor.Item[T], len(items)), parts: make(map[int][]item), numbers: make([]int, len(items))}
	for i, it := range items {
		if err := q.add(b, i, it, options); err != nil {
			if len(items) > 1 {
				err = fmt.Errorf("item %d: %w", i, err)
			}
			return nil, err
		}
	}
	if _, err := executor.Carried(b.conditions); err != nil {
		return nil, err
	}
	return b, nil
}

func (q *Queue[T]) add(b *batch[T], i int, it executor.Item[T], options []executor.Option) error {
	filled, rest := it.With(options...)
	data, err := q.encode(it.Payload)
	if err != nil {
		return fmt.Errorf("%w: id %q: %w", executor.ErrEncode, it.ID, err)
	}
	if err := q.compute(&filled); err != nil {
		return err
	}
	switch {
	case filled.ID == "" || len(filled.ID) > executor.MaxIDBytes:
		return fmt.Errorf("%w: it has %d bytes, it must have from 1 to %d", executor.ErrInvalidID, len(filled.ID), executor.MaxIDBytes)
	case len(data) > q.most:
		return fmt.Errorf("%w: %d bytes for id %q, the limit is %d", executor.ErrTooLarge, len(data), filled.ID, q.most)
	case filled.Score != nil && (math.IsNaN(*filled.Score) || math.IsInf(*filled.Score, 0)):
		return fmt.Errorf("%w: %v for id %q, it must be finite", executor.ErrInvalidScore, *filled.Score, filled.ID)
	}
	if err := checkMetadata(filled.ID, filled.Metadata); err != nil {
		return err
	}
	number, err := q.n.PartitionOf(filled.ID)
	if err != nil {
		return err
	}
	b.size += len(filled.ID) + len(data) + itemBytes
	for key, value := range filled.Metadata {
		b.size += len(key) + len(value) + 2*binary.MaxVarintLen16
	}
	if i > 0 && b.size > callBytes {
		return fmt.Errorf("%w: with this one the call has %d bytes, the limit is %d; make several calls", executor.ErrTooLarge, b.size, callBytes)
	}
	if !filled.Due.IsZero() {
		filled.Due = q.n.byServer(filled.Due)
	}
	b.items[i], b.numbers[i], b.conditions = filled, number, rest
	b.parts[number] = append(b.parts[number], item{ID: filled.ID, Payload: data, Score: filled.Score, Due: filled.Due, Metadata: filled.Metadata})
	return nil
}

func (q *Queue[T]) encode(payload T) (data []byte, err error) {
	err = contained(func() (err error) { data, err = q.codec.Encode(payload); return err })
	return data, err
}

// compute fills in what an item leaves out.
func (q *Queue[T]) compute(it *executor.Item[T]) error {
	err := contained(func() error {
		if it.ID == "" && q.cfg.Defaults.ID != nil {
			it.ID = q.cfg.Defaults.ID(it.Payload)
		}
		if it.Score == nil && q.cfg.Defaults.Score != nil {
			it.Score = new(q.cfg.Defaults.Score(it.Payload))
		}
		if it.Due.IsZero() && q.cfg.Defaults.Due != nil {
			it.Due = q.cfg.Defaults.Due(it.Payload)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w: computing id, score or due time: %w", executor.ErrEncode, err)
	}
	return nil
}

// contained calls user code on the goroutine of its caller.
func contained(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &executor.PanicError{Value: v, Stack: string(debug.Stack())}
		}
	}()
	return f()
}

// guarded is contained on a goroutine of its own, which the user's code may end.
func guarded(f func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errors.New("postgres: the function called runtime.Goexit")
		defer func() { done <- err }()
		err = contained(f)
	}()
	return <-done
}

// What executor.Metadata may have.
const (
	metadataPairs = 16
	metadataBytes = 1 << 10
)

func checkMetadata(id string, pairs map[string]string) error {
	size := 0
	for key, value := range pairs {
		if key == "" {
			return fmt.Errorf("%w: a key is empty, for id %q", executor.ErrInvalidMetadata, id)
		}
		size += len(key) + len(value)
	}
	if len(pairs) > metadataPairs || size > metadataBytes {
		return fmt.Errorf("%w: %d pairs with %d bytes for id %q, the limits are %d and %d",
			executor.ErrInvalidMetadata, len(pairs), size, id, metadataPairs, metadataBytes)
	}
	return nil
}

// FollowUp stages a payload on a job whose handler runs, as executor.Queue.FollowUp does: it is
// accepted in the commit of that job's success. The id has to be of the same partition: one of
// another is executor.ErrNotOwned, or executor.ErrFollowUp where this node has that one, too.
func (q *Queue[T]) FollowUp(job executor.Parent, id string, payload T, options ...executor.Option) error {
	if q == nil || q.n == nil {
		return errNoQueue
	}
	it := executor.Item[T]{ID: id, Payload: payload}
	if err := q.compute(&it); err != nil {
		return err
	}
	number, err := q.n.PartitionOf(it.ID)
	if err != nil {
		return err
	}
	q.n.mu.Lock()
	p := q.n.held[number]
	q.n.mu.Unlock()
	if p == nil || !p.ready.Load() {
		return fmt.Errorf("%w: id %q is of partition %d, which this node does not serve", executor.ErrNotOwned, it.ID, number)
	}
	if it, _ = it.With(options...); !it.Due.IsZero() {
		options = append(slices.Clip(options), executor.At(q.n.byServer(it.Due)))
	}
	x, _ := p.queues[q.name].(*executor.Queue[T])
	return x.FollowUp(job, it.ID, payload, options...)
}
