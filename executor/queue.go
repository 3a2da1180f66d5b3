package executor

import (
	"context"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// queue is a registered queue without its type parameter: what the engine
// works with.
type queue struct {
	settings
	x      *Executor
	name   string
	number uint32 // in the journal
	first  uint32 // number of its first shard
	actors []*shard.Shard

	quotas  []*quota // of the backlog, that hold for it
	locking locking
	scores  scoreFloor
	far     int64 // entries that are due in more than 50 years
	again   int   // jobs that ran when the last process died, and run again at once

	burials, halts, panics, failures tally // that are logged

	// call runs the handler for started items and returns an error for each.
	// It is not guarded.
	call func(ctx context.Context, items []*shard.Item) []error
	// exhausted tells the user's hook; nil when there is none. Not guarded.
	exhausted func(ctx context.Context, items []*shard.Item)
}

// inHand returns the payloads that a handler gets at once, of a started item.
func (q *queue) inHand(it *shard.Item) []shard.Payload {
	if q.core.Single {
		return it.Payloads[it.Outcome.Done:][:1]
	}
	return it.Payloads
}

// register makes the queue known, with what the journal has for it.
func (x *Executor) register(q *queue) error {
	if q.name == "" || len(q.name) > MaxIDBytes {
		return fmt.Errorf("%w: the name of a queue has from 1 to %d bytes, not %d", ErrConfig, MaxIDBytes, len(q.name))
	}
	suspects, err := x.arrange(q)
	if err != nil {
		return err
	}
	// What is logged is not logged while others can't register: the handler of a
	// logger is user code.
	q.warnFar()
	for _, s := range suspects {
		s.logIfGivenUp()
	}
	return nil
}

// arrange makes the queue and returns those of its jobs that are suspected.
func (x *Executor) arrange(q *queue) ([]*suspect, error) {
	x.arranging.Lock()
	defer x.arranging.Unlock()
	if err := x.mayRegister(q.name); err != nil {
		return nil, err
	}
	q.x = x
	if err := q.takeOver(); err != nil {
		return nil, err
	}
	number, err := x.log.Queue(context.Background(), q.name)
	if err != nil {
		return nil, border(err)
	}
	q.number = number
	x.watchdog.expect(q.timeout)
	x.backlog.join(q)
	suspects, err := q.openShards()
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.queues[q.name] = q
	return suspects, nil
}

func (x *Executor) mayRegister(name string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state == stopping {
		return ErrClosed
	}
	if x.queues[name] != nil {
		return fmt.Errorf("%w: %q", ErrDuplicateQueue, name)
	}
	return nil
}

// openShards starts the shards, each with its part of the pending entries.
// Nothing can be delivered to them before: nobody has the queue yet. But they
// may offer themselves, and run, from the moment they are made. Those that are
// suspected are parked.
func (q *queue) openShards() ([]*suspect, error) {
	x := q.x
	routes := slices.Clone(*x.routes.Load())
	q.first = uint32(len(routes))
	pending := x.log.PendingPages(q.number)
	suspects, err := q.suspects(pending)
	if err != nil {
		return nil, border(err)
	}
	cores := make([]*shard.Core, q.shards)
	for i := range cores {
		cores[i] = shard.NewCore(q.number, q.core)
		cores[i].Tick(time.Now().UnixNano())
	}
	for _, s := range suspects {
		if s.isHeld() || s.isGivenUp() {
			cores[q.route([]byte(s.id))-q.first].Park(s.id)
		}
	}
	if err := q.load(pending, cores); err != nil {
		return nil, border(err)
	}
	for i, core := range cores {
		index := len(routes)
		p := &port{dispatcher: x.dispatcher, queue: q, candidate: Candidate{Queue: q.name, Shard: i, Index: index, queue: int(q.first)}}
		name := fmt.Sprintf("%s/%d", q.name, i)
		s, err := shard.New(x.actors, name, core, p, p)
		if err != nil {
			return nil, fmt.Errorf("executor: shard %s: %w", name, err)
		}
		q.actors = append(q.actors, s)
		routes = append(routes, s)
	}
	x.routes.Store(&routes)
	for _, s := range suspects {
		s.shard = routes[q.route([]byte(s.id))]
		x.quarantine.admit(s)
	}
	return suspects, nil
}

// route returns the number of the shard of an id.
func (q *queue) route(id []byte) uint32 {
	return q.first + uint32(maphash.Bytes(q.x.seed, id)%uint64(q.shards))
}

// lookup returns a registered queue.
func (x *Executor) lookup(name string) (*queue, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if q := x.queues[name]; q != nil {
		return q, nil
	}
	known := slices.Sorted(maps.Keys(x.queues))
	return nil, fmt.Errorf("%w: %q; registered are: %s", ErrUnknownQueue, name, strings.Join(known, ", "))
}

// Receipt says what became of an enqueued payload.
type Receipt struct {
	// Position is its number in the journal: unique for ever, and growing in
	// the order of acceptance.
	Position uint64
	// MergedInto is the position of an equal payload of the same id that it was
	// merged into: that one runs, this one is over. 0: it stands by itself, so
	// far. As QueueConfig.Merge says, an equal payload that is accepted later may
	// take its place: the other receipt does not say so, Replaced in
	// [QueueStats] counts it, and the handler sees which one runs in
	// Payload.Position. It is 0 of a Duplicate, and under Async without Key and Once.
	MergedInto uint64
	// Durable: it is on disk. False in memory, and under Async without Key and Once.
	Durable bool
	// Duplicate: a call with the same [Key] was accepted before, in the
	// place of this one. Position is that of the first call's payload.
	Duplicate bool
}

// fill writes what an enqueue asks for into e. Its checks come before anything
// is accepted.
func (q *queue) fill(e *journal.Entry, id string, payload []byte, now stamp) error {
	if id == "" || len(id) > MaxIDBytes {
		return fmt.Errorf("%w: it has %d bytes, it must have from 1 to %d", ErrInvalidID, len(id), MaxIDBytes)
	}
	if len(payload) > q.x.cfg.MaxPayloadBytes {
		return fmt.Errorf("%w: %d bytes for id %q, the limit is %d", ErrTooLarge, len(payload), id, q.x.cfg.MaxPayloadBytes)
	}
	// The journal copies it, and changes nothing.
	e.ID = unsafe.Slice(unsafe.StringData(id), len(id))
	e.Queue, e.Payload = q.number, payload
	e.Accepted, e.Due, e.Score = now.due, now.due, now.score
	e.Route = q.route(e.ID)
	return nil
}

func (q *queue) receipt(t journal.Ticket, i int, d Durability) Receipt {
	r := Receipt{Position: uint64(t.Position(i))}
	if d == Sync {
		r.MergedInto, r.Durable = uint64(t.Merged(i)), !q.x.volatile
	}
	return r
}

// Enqueue accepts an encoded payload for a queue that is known by its name
// only. See [Queue.Enqueue] for everything else.
func (x *Executor) Enqueue(ctx context.Context, queue, id string, payload []byte, options ...Option) (Receipt, error) {
	if x == nil {
		return Receipt{}, fmt.Errorf("%w: no executor; Open makes one", ErrState)
	}
	q, err := x.lookup(queue)
	if err != nil {
		return Receipt{}, err
	}
	return q.enqueue(ctx, id, payload, options)
}

func (q *queue) enqueue(ctx context.Context, id string, payload []byte, options []Option) (Receipt, error) {
	buffer := borrowEntries(1)
	defer giveBackEntries(buffer)
	entries := *buffer
	e := &entries[0]
	if err := q.fill(e, id, payload, q.stamp()); err != nil {
		return Receipt{}, err
	}
	for _, o := range options {
		if err := o.apply(e); err != nil {
			return Receipt{}, err
		}
	}
	if slices.ContainsFunc(options, Option.conditional) {
		receipts, err := q.appendIf(ctx, entries, options)
		if err != nil {
			return Receipt{}, err
		}
		return receipts[0], nil
	}
	ticket, err := q.append(ctx, entries)
	if err != nil {
		return Receipt{}, err
	}
	return q.receipt(ticket, 0, q.durability), nil
}
