package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// errTaken is how the life of a partition ends that another node has got first.
var errTaken = errors.New("postgres: another node has taken the partition")

// partition is one that the node owns, or is about to: it has one life, from the lease that
// is acquired to the one that is given back, on one goroutine.
type partition struct {
	n      *Node
	number int

	ctx    context.Context // ends with the ownership: the store commits nothing after it
	cancel context.CancelCauseFunc
	grace  context.Context // of handlers when it is given away: ends with ctx, or hurry
	hurry  context.CancelCauseFunc
	over   chan struct{} // closed when its life is
	owner  atomic.Int64  // epoch; 0: none yet
	timer  *time.Timer   // loses it
	began  time.Time     // its life

	settingUp atomic.Bool // Setup runs
	stopped   atomic.Bool // its executor has

	// Before ready is set.
	before head // what the node had seen when it acquired the partition
	log    *journal.Log
	store  *partitionStore
	x      *executor.Executor
	taker  *taker
	token  int64 // see Token
	ready  atomic.Bool

	stopErr error // before over is closed

	handlers
	until time.Time // mu guards it: the partition is lost then, unless it is renewed
}

func newPartition(n *Node, number int) *partition {
	p := &partition{n: n, number: number, began: time.Now(), over: make(chan struct{}),
		handlers: handlers{most: n.cfg.grace(), down: make(chan struct{}), running: make(map[*context.CancelCauseFunc]struct{})}}
	p.ctx, p.cancel = context.WithCancelCause(n.base)
	p.grace, p.hurry = context.WithCancelCause(p.ctx)
	p.timer = time.AfterFunc(time.Hour, p.expire)
	p.timer.Stop()
	return p
}

func (p *partition) epoch() int64 { return p.owner.Load() }

// serving reports whether the executor takes calls: also while its last handlers end.
func (p *partition) serving() bool { return p.ready.Load() && !p.stopped.Load() && p.ctx.Err() == nil }

// ended reports whether the partition's executor has ended, or will.
func (p *partition) ended() bool {
	err := p.x.Err()
	return errors.Is(err, executor.ErrClosed) || errors.Is(err, executor.ErrFailed)
}

// gone reports whether err says that the partition's executor has ended, and it has: user code may say so of itself.
func (p *partition) gone(err error) bool {
	says := errors.Is(err, executor.ErrClosed) || errors.Is(err, executor.ErrFailed)
	return !errors.As(err, new(*executor.BuriedError)) && (errors.Is(err, ErrLeaseLost) || says && p.ended())
}

// extend notes a renewal that was sent at a time.
func (p *partition) extend(sent time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := sent.Add(p.n.cfg.Lease * safeQuarts / 4); until.After(p.until) {
		p.until = until
		p.timer.Reset(time.Until(until))
	}
}

// expire is called by the timer, perhaps while a renewal comes.
func (p *partition) expire() {
	p.mu.Lock()
	left := time.Until(p.until)
	p.mu.Unlock()
	if left <= 0 {
		p.lose(fmt.Errorf("%w: partition %d; its handlers are cancelled", ErrLeaseLost, p.number))
	}
}

// lose ends the ownership: first the contexts of the handlers, so that they hear this cause
// and no other, then the commits.
func (p *partition) lose(cause error) {
	p.end(cause)
	p.cancel(cause)
}

// stepDown is giveAway with handlers that are canceled when ctx, of the first call that ends, does.
func (p *partition) stepDown(ctx context.Context) {
	p.giveAway()
	forget := context.AfterFunc(ctx, func() { p.hurry(context.Cause(ctx)) })
	context.AfterFunc(p.ctx, func() { forget() })
}

// live is the life of a partition.
func (p *partition) live() {
	err := p.serve()
	p.timer.Stop()
	p.cancel(cmp.Or(err, executor.ErrClosed))
	switch {
	case errors.Is(err, errTaken):
	case errors.Is(err, ErrLeaseLost):
		p.tell(slog.LevelWarn, "partitions are lost", slog.Any("error", err))
	case err != nil && p.n.base.Err() == nil:
		p.tell(levelOf(err), "partitions are not served", slog.Any("error", err))
	case err == nil:
		p.tell(slog.LevelInfo, "partitions are given away")
	}
	if !errors.Is(err, errTaken) && p.lingering() == 0 { // otherwise it ends by itself: they have that long
		p.release()
	}
	p.n.disown(p, err)
	close(p.over)
	poke(p.n.wake)
}

// release gives the lease back, if the server answers before it ends.
func (p *partition) release() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.n.base), p.n.cfg.Lease)
	defer cancel()
	if err := p.n.command(ctx, "release", p.number, p.n.id, p.epoch()); err == nil {
		p.n.notifier.tell(hintLease)
	}
}

// serve acquires the lease, opens the executor, and has it run until the partition is lost or
// to be given away.
func (p *partition) serve() error {
	if err := p.acquire(); err != nil {
		return err
	}
	if err := p.open(); err != nil {
		if p.x != nil {
			p.hurry(err)
			err = errors.Join(err, p.x.Stop(p.grace))
		}
		return cmp.Or(p.whyLost(), err)
	}
	var taking sync.WaitGroup
	taking.Go(p.taker.run)
	p.ready.Store(true) // before the first handler: it may enqueue here
	p.n.mu.Lock()
	values := p.n.values
	delete(p.n.failed, p.number)
	p.n.mu.Unlock()
	if err := p.x.Start(values); err != nil {
		p.cancel(err)
	}
	poke(p.n.wake) // perhaps it is another node's to serve by now
	p.tell(slog.LevelInfo, "partitions are taken")
	select {
	case <-p.ctx.Done():
	case <-p.down:
	}
	p.mu.Lock()
	p.leaving = time.Now()
	p.mu.Unlock()
	if err := p.x.Stop(p.grace); !p.isLost(err) { // drains the handlers; what is lost is told as what it is
		p.stopErr = err
	}
	p.stopped.Store(true)
	p.taker.stop()
	taking.Wait()
	p.awaitRest()
	return cmp.Or(p.whyLost(), context.Cause(p.ctx))
}

// awaitRest waits until those hear who have asked, whom the executor keeps waiting no longer, and for handlers that the
// executor has not waited for; the lease is kept meanwhile. It ends when the partition is lost, or Stop has no time left.
func (p *partition) awaitRest() {
	p.mu.Lock()
	p.awaited = true
	p.mu.Unlock()
	select {
	case <-returned(func() { p.taker.answering.Wait(); p.group.Wait() }):
	case <-p.ctx.Done():
	case <-p.n.hurried:
	}
}

// isLost reports whether the partition is lost, which an error of its executor may tell first.
func (p *partition) isLost(err error) bool {
	if errors.Is(err, errFenced) {
		p.lose(fmt.Errorf("%w: %w", ErrLeaseLost, err))
	}
	return p.whyLost() != nil
}

// acquire gets the lease. After an error the server may have given it all the same: then it is
// given back, or ends.
func (p *partition) acquire() error {
	p.before = p.n.seen[p.number].head()
	sent := time.Now()
	var epoch *int64
	err := onConnection(p.ctx, p.n.control, p.n.cfg.Lease/2,
		scalar(&epoch, p.n.texts["acquire"], p.number, p.n.id, p.n.cfg.Lease.Milliseconds()))
	switch {
	case err != nil:
		return fmt.Errorf("postgres: partition %d: %w", p.number, err)
	case epoch == nil:
		return errTaken
	}
	p.extend(sent)
	p.owner.Store(*epoch)
	return nil
}

// open opens the executor, with all queues.
func (p *partition) open() (err error) {
	p.x, err = p.n.part(fmt.Sprintf("%s/%d", p.n.cfg.Schema, p.number), p.openLog, p.config())
	if err != nil {
		return err
	}
	if f := p.n.cfg.Setup; f != nil {
		p.settingUp.Store(true)
		err := guarded(func() error { return f(p.x, p.number) })
		p.settingUp.Store(false)
		if err != nil {
			return fmt.Errorf("postgres: partition %d: Setup: %w", p.number, err)
		}
	}
	p.taker = newTaker(p)
	return nil
}

func (p *partition) openLog(cfg journal.Config) (*journal.Log, error) {
	s, err := openStore(p.ctx, p.n.pool, p.n.cfg.Schema, p.number, p.epoch())
	if err != nil {
		return nil, err
	}
	s.seen, s.turns, s.clock, s.hint = &p.n.seen[p.number], p.n.turns, &p.n.outbox.clock, p.n.notifier.hint
	if err := behind(p.number, p.before, head{s.epoch - 1, s.first.number}); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	l, err := journal.OpenStore(s, cfg)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	p.log, p.store, p.token = l, s, int64(l.Stats().Epoch)
	return l, nil
}

// Token returns the fencing token of a handler from its context, or one made of it: a number
// that is larger with each owner of the partition, and with each life that one node has as its
// owner. So for an id it does not shrink, over [Import], [Export] and [Repartition] neither. Elsewhere it is 0.
// Middlewares that run with a handler have it, too.
//
// It fences what a handler writes elsewhere against a process that was paused for longer than
// its lease and goes on in a handler that another one has run meanwhile. Keep it with the data,
// and have each write, the first of them before anything is read, look at what is there:
//
//	UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2
//
// No row means that another owner was here: return an error, which is not believed either. What ran,
// and was not settled, runs again: the write of an earlier payload is there for a moment then, in
// place of a later one's. Where that matters, and payloads have no scores, keep the position of
// the job, too: SET balance = CASE WHEN position <= $4 THEN $1 ELSE balance END, fence = $2,
// position = greatest(position, $4), with the same condition.
//
// Limits: until the next owner has written, the earlier one still may. Ids of different
// partitions have tokens that say nothing of one another, so one fence is for the ids of one
// partition; see Config.Partition. All runs by one owner have the same token, one after the
// other for an id: executor.Job.Lease tells them apart. A server that was set back, see
// [ErrBehind], gives out again what it has forgotten.
func Token(ctx context.Context) int64 {
	if ctx != nil {
		if p, ok := ctx.Value(partitionKey{}).(*partition); ok {
			return p.token
		}
	}
	return 0
}

// unsettled is what a run of a lost partition has returned for the executor, which can't commit
// it any longer: no failure, of which hooks would be told.
var unsettled = executor.Snooze(time.Millisecond)

// partitionKey marks the contexts of handlers.
type partitionKey struct{}

// config is that of the partition's executor: a middleware around all others ends the contexts
// of handlers when the partition is lost.
func (p *partition) config() executor.Config {
	cfg := p.n.cfg.Executor
	cfg.OnStart = nil // it was called
	cfg.Splitter = p.n.divide
	cfg.Splitter.Self = p.number
	if cfg.Advanced.MemoryBudget >= 0 { // of the node
		cfg.Advanced.MemoryBudget = max(cmp.Or(cfg.Advanced.MemoryBudget, defaultMemory)/p.n.divide.Nodes, leastMemory)
	}
	cfg.Logger = slog.New(calm{cfg.Logger.Handler()})
	_ = guarded(func() error { cfg.Logger = cfg.Logger.With(slog.Int("partition", p.number)); return nil })
	cfg.Middleware = append([]executor.Middleware{{Run: func(ctx context.Context, _ *executor.Run, next func(context.Context) error) (err error) {
		ctx, cancel := context.WithCancelCause(context.WithValue(ctx, partitionKey{}, p))
		defer cancel(executor.ErrReturned)
		if !p.enter(&cancel) {
			return unsettled
		}
		defer func() { // also when the handler ends its goroutine
			if !p.exit(&cancel) {
				err = unsettled
			}
		}()
		return next(ctx)
	}}}, cfg.Middleware...)
	tell := cfg.OnFatal
	cfg.OnFatal = func(err error) {
		lost := p.isLost(err) // then it is no failure: another owner goes on
		p.cancel(err)
		if tell != nil && !lost {
			tell(err)
		}
	}
	return cfg
}
