package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/bench/child"
	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// stopTime is how long a life waits for its handlers when it is told to end.
const stopTime = 3 * time.Second

// actor lives one life and says what it does, a line before and after each
// step. A line is one write of less than PIPE_BUF bytes, so a kill leaves it
// whole or not at all, and the order of lines is the order of events.
//
//	o                                   the journal is open
//	i OP QUEUE ID:NUMBER...             about to enqueue
//	a OP DURABLE POSITION:INTO...       Enqueue returned nil
//	e OP CLASS                          Enqueue returned an error
//	s RUN QUEUE ID POSITION:NUMBER...   a handler got a job
//	f RUN OUTCOME...                    it is about to return, with one for all payloads or for each
//	p RUN QUEUE ID ATTEMPT POSITION:... a handler got an event; see endEvent
//	m QUEUE ID POSITION:NUMBER          in the morgue, at the end of a drain
//	x WORDS...                          something is wrong
//	z CLASS                             the life is over, without a kill
type actor struct {
	life
	x      *executor.Executor
	queues map[string]*executor.Queue[[]byte]
	ops    atomic.Int64
	runs   atomic.Int64
}

func newActor(l life) *actor {
	return &actor{life: l, queues: make(map[string]*executor.Queue[[]byte])}
}

func say(format string, args ...any) {
	line := append([]byte(strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")), '\n')
	if len(line) > 4096 {
		line = []byte("x a line of more than PIPE_BUF bytes\n")
	}
	_, _ = os.Stdout.Write(line) // the reader may be gone: then there is no one to tell
}

// play is the whole life. It returns the exit code: 0 unless the harness
// itself is at fault.
func (a *actor) play() int {
	if !a.setUp(a.register) {
		return 0
	}
	a.marks()
	if !a.start() {
		return 0
	}
	if a.Mode == drainMode {
		if a.Parked && !a.openGate() {
			say("x the gate does not open")
		}
		a.repeat()
		a.drain()
	} else {
		a.produceAll(untilTold())
	}
	a.stop()
	return 0
}

// setUp opens the journal and registers the queues. False: the life is over.
func (a *actor) setUp(register func(queueLife) error) bool {
	var err error
	if a.x, err = a.open(nil); err != nil {
		say("z open: %v", err)
		return false
	}
	for _, q := range a.Queues {
		if err := register(q); err != nil {
			say("z register: %s %v", class(err), err)
			a.stop()
			return false
		}
	}
	say("o")
	return true
}

// start has the handlers run. False: the life is over.
func (a *actor) start() bool {
	if err := a.x.Start(context.Background()); err != nil {
		say("z start: %v", err)
		return false
	}
	if a.Compact {
		go a.compact() // until the executor stops
	}
	return true
}

// untilTold returns a channel that is closed when the parent closes stdin.
func untilTold() <-chan struct{} {
	told := make(chan struct{})
	go func() { // or until this process ends
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(told)
	}()
	return told
}

// compact replaces the file of the journal again and again.
func (a *actor) compact() {
	for {
		err := a.x.Compact(context.Background())
		if errors.Is(err, executor.ErrClosed) || errors.Is(err, executor.ErrFailed) {
			return
		}
		if err != nil {
			say("x compact: %v", err)
		}
		time.Sleep(rand.N(3 * time.Millisecond))
	}
}

func (a *actor) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if err := a.x.Stop(ctx); err != nil {
		say("z stop: %v", err)
		return
	}
	say("z")
}

func (a *actor) register(q queueLife) error {
	cfg := q.config(func(int) time.Duration { return rand.N(5 * time.Millisecond) })
	if a.Parked && q.Name == mergingQueue {
		cfg.Conditions.Locks = parking()
	}
	if q.Name != eventQueue {
		return a.serve(q, a.handle, cfg)
	}
	cfg.MaxRetries = eventRetries
	t, err := executor.Handle(a.x, q.Name, a.handleEvent, cfg)
	a.queues[q.Name] = t
	return err
}

// serve registers a queue whose jobs are begun by handle and ended by what it
// returns.
func (a *actor) serve(q queueLife, handle handler, cfg executor.QueueConfig[[]byte]) (err error) {
	var t *executor.Queue[[]byte]
	if q.Batch == 1 {
		t, err = executor.HandleMerged(a.x, q.Name, func(ctx context.Context, job executor.Merged[[]byte]) error {
			_, end := handle(ctx, job)
			return end()
		}, cfg)
	} else {
		t, err = executor.HandleBatch(a.x, q.Name, func(ctx context.Context, jobs []executor.Merged[[]byte]) error {
			return a.handleBatch(ctx, jobs, handle)
		}, cfg)
	}
	a.queues[q.Name] = t
	return err
}

// handler begins one job, numbers its run, and returns how it ends.
type handler func(context.Context, executor.Merged[[]byte]) (run int64, end func() error)

// handleBatch tells the jobs of a batch apart. Now and then it does not, and gets them
// again in halves.
func (a *actor) handleBatch(ctx context.Context, jobs []executor.Merged[[]byte], handle handler) error {
	runs, ends := make([]int64, len(jobs)), make([]func() error, len(jobs))
	for i, job := range jobs {
		runs[i], ends[i] = handle(ctx, job)
	}
	if r := rand.New(rand.NewPCG(a.Seed, uint64(runs[0]))); len(jobs) > 1 && r.IntN(8) == 0 {
		for _, run := range runs {
			say("f %d again", run)
		}
		if r.IntN(2) == 0 {
			panic("no luck for one of them")
		}
		return errors.New("no luck for one of them")
	}
	failed := executor.BatchErrors{}
	for i, job := range jobs {
		if err := executorGuard(ends[i]); err != nil {
			failed[job.ID] = err
		}
	}
	return failed
}

// executorGuard turns the panic that end may make into an error: in a batch it
// would count for all.
func executorGuard(end func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return end()
}

// handle is a [handler].
func (a *actor) handle(ctx context.Context, job executor.Merged[[]byte]) (run int64, last func() error) {
	run = a.begin(job)
	r := rand.New(rand.NewPCG(a.Seed, uint64(run)))
	a.pause(ctx, r)
	return run, func() error { return end(r, run, job) }
}

// pause takes some time, now and then.
func (a *actor) pause(ctx context.Context, r *rand.Rand) {
	pause := time.Duration(0)
	switch {
	case a.Busy && r.IntN(50) == 0: // beside many that are fast, in one run with them
		pause = time.Duration(r.IntN(int(30 * time.Millisecond)))
	case !a.Busy && !a.Wide && r.IntN(4) == 0 && a.Processors != 1:
		pause = time.Duration(r.IntN(int(3 * time.Millisecond)))
	}
	if pause > 0 {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// begin says what a handler got, and numbers its run.
func (a *actor) begin(job executor.Merged[[]byte]) (run int64) {
	run = a.runs.Add(1)
	var line strings.Builder
	for i, p := range job.Payloads {
		number, err := readPayload(p.Value)
		if err != nil {
			say("x payload %d of %s/%s: %v", p.Position, job.Queue, job.ID, err)
		}
		if i > 0 && slices.IndexFunc(job.Payloads[:i], func(q executor.Payload[[]byte]) bool {
			return q.Score > p.Score || (q.Score == p.Score && q.Position >= p.Position)
		}) >= 0 {
			say("x payloads of %s/%s are not in order of score and position", job.Queue, job.ID)
		}
		fmt.Fprintf(&line, " %d:%d", p.Position, number)
	}
	say("s %d %s %s%s", run, job.Queue, job.ID, line.String())
	return run
}

// end draws what becomes of a job. No job fails more than three times in a
// row, so none is ever out of retries.
func end(r *rand.Rand, run int64, job executor.Merged[[]byte]) error {
	if len(job.Payloads) > 1 && job.Queue == sequenceQueues[0] && r.IntN(3) == 0 {
		return endEach(r, run, job)
	}
	switch p := r.IntN(100); {
	case p < 15 && job.Attempt < 4:
		say("f %d again", run)
		return errors.New("no luck")
	case p < 18 && job.Attempt < 4:
		say("f %d again", run)
		panic("no luck at all")
	case p < 26:
		say("f %d again", run)
		return executor.Snooze(time.Duration(r.IntN(int(5 * time.Millisecond))))
	case p < 28 && job.Queue != mergingQueue:
		say("f %d cancelled", run)
		return executor.Cancel(errors.New("not wanted"))
	case p < 30:
		say("f %d over", run)
		return executor.Discard()
	}
	say("f %d over", run)
	return nil
}

// drain waits until no queue has a job, and lists the morgue.
func (a *actor) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		s, err := a.x.Stats(ctx)
		if err != nil {
			say("x drain: %v", err)
			return
		}
		if !slices.ContainsFunc(s.Queues, func(q inspect.QueueStats) bool { return q.Jobs > 0 || q.Unclaimed > 0 }) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	// What the last run decided is in the commit before this one's at the latest.
	err := a.x.SetSourceOffset(ctx, "drained", 1)
	for errors.Is(err, executor.ErrFull) { // the jobs that ended give room, not at once
		time.Sleep(5 * time.Millisecond)
		err = a.x.SetSourceOffset(ctx, "drained", 1)
	}
	if err != nil {
		say("x drain: %v", err)
		return
	}
	a.nothingLocked()
	for name, q := range a.queues {
		for dead, err := range q.Morgue() {
			if err != nil {
				say("x morgue: %v", err)
				return
			}
			number, _ := readPayload(dead.Raw)
			if name == eventQueue && !isOf(dead.Error, number) {
				say("x payload %d of %s/%s is in the morgue for %q", number, name, dead.ID, dead.Error)
			}
			say("m %s %s %d:%d", name, dead.ID, dead.Position, number)
		}
	}
}

// produceAll enqueues until told or until all calls are made, and then lets
// the handlers come to an end.
func (a *actor) produceAll(told <-chan struct{}) {
	if !a.repeat() {
		return
	}
	var producers sync.WaitGroup
	for n := range a.Sources {
		producers.Go(func() { a.consume(n, told) })
	}
	if a.Parked {
		producers.Go(func() { a.keepGate(told) })
	}
	for g := range a.Producers {
		producers.Go(func() { a.produce(g, told) })
	}
	producers.Wait()
	if a.Dies {
		child.Die()
	}
	if a.Ops == 0 {
		return
	}
	for range 20 { // some of what was enqueued should end before the stop
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		s, err := a.x.Stats(ctx)
		cancel()
		if err != nil || a.x.Err() != nil || !slices.ContainsFunc(s.Queues, func(q inspect.QueueStats) bool { return q.Jobs > 0 }) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
