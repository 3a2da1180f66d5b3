package world

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cluster"
	"github.com/strandjobs/strand/journal"
)

// tenure is what a node has of a partition, until that moves.
type tenure struct {
	number   int
	node     *node
	part     *executor.Executor
	ctx      context.Context // ends when nothing that it does counts any more
	end      context.CancelCauseFunc
	tasks    sync.WaitGroup // answers, and the inbox
	handlers sync.WaitGroup
	away     bool // it is handed over; guarded by the town

	log                *journal.Log
	wake               chan struct{}
	commits, forwarded atomic.Int64 // and up to which of them letters are in their inboxes
}

type tenureKey struct{}

// row is something in an inbox: a call, or a question.
type row struct {
	queue      string
	items      []executor.Item[[]byte]
	conditions []byte
	staged     bool // by a job
	question   []byte
	offset     int64
	answer     chan answer // has room for one
}

// answer is what an owner says.
type answer struct {
	receipts []executor.Receipt
	text     []byte
	err      error
	lost     bool // it had begun, and is none any longer
}

// inboxSource numbers what comes from an inbox, so that no row is taken in twice.
const inboxSource = "inbox"

// over is a context that has ended.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

func (t *town) owner(number int) *tenure {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.owners[number]
}

// adopt has some node take a partition that has no owner.
func (t *town) adopt(number int) {
	t.mu.Lock()
	all := t.living()
	if t.closing || len(all) == 0 || t.owners[number] != nil {
		t.mu.Unlock()
		return
	}
	n := all[(number+t.last)%len(all)]
	t.mu.Unlock()
	t.take(number, n)
}

// take has a node open a partition.
func (t *town) take(number int, n *node) {
	p := &tenure{number: number, node: n, away: true, wake: make(chan struct{}, 1)}
	p.commits.Store(1) // what the owner before has not forwarded
	p.ctx, p.end = context.WithCancelCause(n.ctx)
	t.mu.Lock()
	if t.owners[number] != nil || t.closing {
		t.mu.Unlock()
		return
	}
	t.last++
	t.owners[number], t.moved = p, true
	t.terms[number].Store(int64(t.last))
	t.born[number].Store(t.epoch.Load())
	disk := t.disks[number]
	t.mu.Unlock()
	disk.OnCommit(t.w.committed)
	cfg := t.cfg
	cfg.Splitter = executor.Splitter{Nodes: partitions, Self: number, Owner: partitionOf}
	cfg.Middleware = append([]executor.Middleware{{Run: p.around}}, cfg.Middleware...)
	part, err := n.open(fmt.Sprint("partition ", number), func(c journal.Config) (_ *journal.Log, err error) {
		c.Committed = p.committed(c.Committed)
		p.log, err = journal.OpenMemory(disk, c)
		return p.log, err
	}, cfg)
	if err != nil {
		if n.lives() {
			t.w.fail("partition %d: %v", number, err)
		}
		p.end(err)
		t.give(p)
		return
	}
	t.mu.Lock()
	p.part, p.away = part, false
	dead := p.ctx.Err() != nil
	t.change()
	t.mu.Unlock()
	if err := part.Start(context.Background()); err != nil && !dead && n.lives() && p.ctx.Err() == nil && !t.leaves(p) {
		t.w.fail("partition %d: Start: %v", number, err)
	}
	if dead {
		p.stop(over)
		t.give(p)
		return
	}
	p.tasks.Go(p.takeIn)
	if n.left.Load() { // meanwhile
		t.handOver(over, p)
	}
}

// leaves reports whether a partition is being given away, also while it starts.
func (t *town) leaves(p *tenure) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return p.away
}

// around has handlers know their owner, and keeps them from what is another's.
func (p *tenure) around(ctx context.Context, _ *executor.Run, next func(context.Context) error) error {
	p.handlers.Add(1)
	defer p.handlers.Done()
	if p.ctx.Err() != nil {
		return errDead
	}
	return next(context.WithValue(ctx, tenureKey{}, p))
}

// handOver stops the executor of a partition in order, and another node takes it.
func (t *town) handOver(ctx context.Context, p *tenure) {
	t.mu.Lock()
	if p.away || t.owners[p.number] != p {
		t.mu.Unlock()
		return
	}
	p.away = true
	t.change()
	t.mu.Unlock()
	p.stop(ctx)
	p.end(executor.ErrClosed)
	p.tasks.Wait()
	t.mu.Lock()
	if t.owners[p.number] == p {
		t.disks[p.number] = t.disks[p.number].Crash() // faults are of the old process
	}
	t.mu.Unlock()
	t.give(p)
}

// stop stops the executor, whose log is locked until the last handler has returned.
func (p *tenure) stop(ctx context.Context) {
	_ = p.part.Stop(ctx)
	p.handlers.Wait()
}

// give takes a partition from its owner.
func (t *town) give(p *tenure) {
	t.mu.Lock()
	if t.owners[p.number] != p {
		t.mu.Unlock()
		return
	}
	t.owners[p.number] = nil
	t.change()
	t.mu.Unlock()
	t.behind.Go(func() {
		time.Sleep(t.w.conf.dur("lease"))
		t.adopt(p.number)
	})
}

// fence ends what an owner does at once: what is on disk is what the next one has.
func (t *town) fence(p *tenure) {
	w := t.w
	w.mu.Lock()
	t.mu.Lock()
	if t.owners[p.number] != p || p.part == nil {
		t.mu.Unlock()
		w.mu.Unlock()
		return
	}
	p.end(errDead)
	t.disks[p.number] = t.disks[p.number].Kill(errDead)
	t.mu.Unlock()
	w.running = slices.DeleteFunc(w.running, func(r *run) bool {
		gone := r.tenure == p
		for _, f := range w.features {
			if gone && f.died != nil {
				f.died(w, r)
			}
		}
		return gone
	})
	w.mu.Unlock()
	t.behind.Go(func() {
		p.stop(over)
		p.tasks.Wait()
	})
	t.give(p)
}

// takeIn puts what is in the inbox into the log, in its order.
func (p *tenure) takeIn() {
	t := p.node.t
	for {
		p.forward()
		t.mu.Lock()
		var first *row
		if rows := t.inboxes[p.number]; len(rows) > 0 {
			first = rows[0]
		}
		over, changed := p.away || p.ctx.Err() != nil, t.changed
		if first != nil && first.question != nil && !over {
			t.drop(p.number, first)
		}
		t.mu.Unlock()
		switch {
		case over:
			return
		case first == nil:
			select {
			case <-changed:
			case <-p.wake:
			case <-p.ctx.Done():
			}
		case first.question != nil:
			p.tasks.Go(func() { p.hear(first) })
		case !p.takeRow(first):
			return // the next owner does it
		}
	}
}

// letter is a follow-up on its way to another partition.
type letter struct {
	Queue string
	Item  executor.Item[[]byte]
}

// letters are state keys, each of which is written by the commit of a job.
const letters = "outbox/"

// followUp is FollowUp of a [cluster.Cluster].
func (n *node) followUp(queue string, it executor.Item[[]byte]) (journal.Set, error) {
	value, err := json.Marshal(letter{queue, it})
	return journal.Set{Key: fmt.Sprintf("%s%09d", letters, n.t.staged.Add(1)), Value: value}, err
}

// committed has forward look when there was a commit.
func (p *tenure) committed(told func(time.Duration)) func(time.Duration) {
	return func(took time.Duration) {
		told(took)
		p.commits.Add(1)
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

// forward puts letters into the inboxes of their partitions, once each.
func (p *tenure) forward() {
	t, commits := p.node.t, p.commits.Load()
	if t.staged.Load() == 0 {
		p.forwarded.Store(commits)
		return
	}
	for set, err := range p.log.Keys(letters, "") {
		var l letter
		if err == nil {
			err = json.Unmarshal(set.Value, &l)
		}
		if err != nil || !p.post(set.Key, l) || p.log.Put(context.Background(), journal.Set{Key: set.Key}) != nil {
			return // the next owner does it
		}
	}
	p.forwarded.Store(commits)
}

// post has a letter in its inbox, unless it is there; false: the tenure is over.
func (p *tenure) post(key string, l letter) bool {
	t := p.node.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.ctx.Err() != nil {
		return false
	}
	if !t.posted[key] {
		t.posted[key] = true
		t.receive(partitionOf(l.Item.ID), &row{queue: l.Queue, items: []executor.Item[[]byte]{l.Item}, staged: true})
		t.change()
	}
	return true
}

// receive appends a row to an inbox. mu is held.
func (t *town) receive(number int, r *row) {
	t.offsets[number]++
	r.offset, r.answer = t.offsets[number], make(chan answer, 1)
	t.inboxes[number] = append(t.inboxes[number], r)
}

// drop takes a row out. mu is held.
func (t *town) drop(number int, r *row) bool {
	rows := len(t.inboxes[number])
	t.inboxes[number] = slices.DeleteFunc(t.inboxes[number], func(other *row) bool { return other == r })
	t.change()
	return len(t.inboxes[number]) < rows
}

// hear answers a question, unless the tenure ends before.
func (p *tenure) hear(r *row) {
	text, err := cluster.Answer(p.ctx, p.part, r.question)
	r.answer <- answer{text: text, err: err, lost: p.ctx.Err() != nil && err != nil || p.gone(err)}
}

// takeRow enqueues what a row has, and answers; false: the tenure has ended.
func (p *tenure) takeRow(r *row) bool {
	a := answer{receipts: make([]executor.Receipt, len(r.items))}
	last, _, err := p.part.SourceOffset(inboxSource)
	if a.err = err; err == nil && last < r.offset { // else it was taken in, and not dropped
		a.receipts, a.err = p.enqueue(p.ctx, r, executor.FromSource(inboxSource, r.offset), cluster.Relayed(r.staged))
	}
	if a.err != nil && (p.gone(a.err) || p.ctx.Err() != nil || errors.Is(a.err, executor.ErrUnknown)) {
		return false
	}
	if a.err != nil && r.conditions == nil {
		p.node.t.w.fail("refused: a row of the inbox: %v", a.err)
	}
	t := p.node.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.ctx.Err() == nil {
		t.drop(p.number, r)
		r.answer <- a
	}
	return true
}

func (p *tenure) enqueue(ctx context.Context, r *row, own ...executor.Option) ([]executor.Receipt, error) {
	options, err := cluster.Carried(r.conditions)
	if err != nil {
		return nil, err
	}
	q, err := p.part.Lookup(r.queue)
	if err != nil {
		return nil, err
	}
	return q.EnqueueMany(ctx, r.items, append(options, own...)...)
}

// gone reports whether an error says that the executor of a partition has ended, and it has.
func (p *tenure) gone(err error) bool {
	says := func(err error) bool { return errors.Is(err, executor.ErrClosed) || errors.Is(err, executor.ErrFailed) }
	return !errors.As(err, new(*executor.BuriedError)) && says(err) && says(p.part.Err())
}

// gate returns the tenure of a node once the log has what the inbox had for a queue; nil: it has none.
func (n *node) gate(ctx context.Context, number int, queue string) (*tenure, error) {
	for {
		n.t.mu.Lock()
		p, changed := n.t.owners[number], n.t.changed
		mine := p != nil && p.node == n && !p.away && p.ctx.Err() == nil
		behind := slices.ContainsFunc(n.t.inboxes[number], func(r *row) bool { return r.question == nil && (queue == "" || r.queue == queue) })
		n.t.mu.Unlock()
		switch {
		case !mine:
			return nil, nil
		case !behind:
			return p, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-n.ctx.Done():
			return nil, errLost
		}
	}
}

// put has rows in their inboxes, all or none.
func (n *node) put(rows map[int]*row) error {
	t := n.t
	t.mu.Lock()
	defer t.mu.Unlock()
	lose := t.lose
	if t.lose = ""; n.ctx.Err() != nil || lose == "before" {
		return errLost
	}
	for number, r := range rows {
		t.receive(number, r)
	}
	t.change()
	if lose != "" {
		return errLost
	}
	return nil
}

// enqueue is Enqueue of a [cluster.Cluster].
func (n *node) enqueue(ctx context.Context, queue string, items []executor.Item[[]byte], conditions []byte) ([]executor.Receipt, error) {
	rows := make(map[int]*row)
	for _, it := range items {
		number := partitionOf(it.ID)
		if rows[number] == nil {
			rows[number] = &row{queue: queue, conditions: conditions}
		}
		rows[number].items = append(rows[number].items, it)
	}
	if conditions != nil && len(rows) > 1 {
		return nil, fmt.Errorf("%w: conditions need one partition", executor.ErrInvalidKey)
	}
	var one *row
	for number, r := range rows {
		if one = r; len(rows) > 1 {
			break
		}
		p, err := n.gate(ctx, number, queue)
		if err != nil {
			return nil, err
		}
		if p != nil {
			receipts, err := p.enqueue(ctx, r)
			if !p.gone(err) || errors.Is(err, executor.ErrUnknown) {
				return receipts, err
			}
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := n.put(rows); err != nil {
		return nil, err
	}
	receipts := make([]executor.Receipt, len(items))
	if conditions != nil {
		a, err := n.wait(ctx, one)
		if err = errors.Join(err, a.err); err != nil {
			return nil, err
		}
		receipts = a.receipts
	}
	for i := range receipts {
		receipts[i].ID, receipts[i].Durable = items[i].ID, true
	}
	return receipts, nil
}

// wait waits for the answer to a row.
func (n *node) wait(ctx context.Context, r *row) (answer, error) {
	select {
	case a := <-r.answer:
		return a, nil
	case <-ctx.Done():
		return answer{}, fmt.Errorf("%w: %w", executor.ErrUnknown, context.Cause(ctx))
	case <-n.ctx.Done():
		return answer{}, errLost
	}
}

// ask is Ask of a [cluster.Cluster].
func (n *node) ask(ctx context.Context, number int, queue string, question []byte, again bool) ([]byte, error) {
	for {
		p, err := n.gate(ctx, number, queue)
		if err != nil {
			return nil, err
		}
		if p != nil {
			text, err := cluster.Answer(ctx, p.part, question)
			switch {
			case !p.gone(err), ctx.Err() != nil:
				return text, err
			case !again:
				return nil, fmt.Errorf("%w: the partition is given away: %w", executor.ErrUnknown, err)
			}
		}
		r := &row{queue: queue, question: question}
		if err := n.put(map[int]*row{number: r}); err != nil {
			if again && n.ctx.Err() == nil {
				continue
			}
			return nil, err
		}
		a, err := n.wait(ctx, r)
		switch {
		case err != nil && ctx.Err() != nil && n.recall(number, r):
			return nil, context.Cause(ctx)
		case err != nil:
			return nil, err
		case a.lost && !again:
			return nil, errLost
		case !a.lost:
			return a.text, a.err
		}
	}
}

// recall takes a question back, unless its owner has begun.
func (n *node) recall(number int, r *row) bool {
	n.t.mu.Lock()
	defer n.t.mu.Unlock()
	return n.t.drop(number, r)
}
