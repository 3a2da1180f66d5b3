package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/each"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/tally"
)

const (
	// stuckAfter is how long handlers have to return once their context is cancelled.
	stuckAfter = 50 * time.Millisecond
	// closeAfter is how long Stop then waits for the disk.
	closeAfter = time.Second
)

// shutdown is a stop that is under way: it has what one of its steps leaves for the next.
type shutdown struct {
	x     *Executor
	began time.Time

	elsewhere error               // of the stop of a cluster
	figures   *inspect.QueueStats // of all queues together; nil: it never began to run jobs
	left      []string            // jobs whose handlers were left behind
	stuck     error               // names these; nil: there are none
}

// run goes through the steps. Nothing new is accepted any more.
func (s *shutdown) run() {
	x := s.x
	if x.front != nil {
		x.front.cluster.Leave(x)
	}
	x.backlog.Close(ErrClosed)
	x.startNothing(ErrClosed)
	if x.cluster == nil { // whose workers are those of its partitions
		s.drain()
	}
	// A queue that is being registered, or a Start that makes workers, is waited for. The next ones are refused.
	x.queues.arranging.Lock()
	//lint:ignore SA2001 from here on shards and workers are complete
	x.queues.arranging.Unlock()
	if x.cluster != nil {
		ctx, cancel := context.WithCancel(x.hurry) // handlers may go on until a Stop has no time left
		s.elsewhere = x.cluster.stop(ctx)
		cancel()
	}
	if x.unlisten != nil {
		x.unlisten() // not before: a stop that takes long is looked at
	}
	s.sum()
	x.crew.Watchdog.Stop()
	x.quarantine.Close()
	x.ledger.End()
	x.limits.Close()
	x.cancel(ErrStopping)
	for _, q := range x.queues.all() { // no more are made
		q.Dead.Close()
		q.Folder.Close()
		q.Admission.Retire()
	}
	s.awaitFolders()
	unlock, err := s.closeAll()
	if x.front != nil && !x.front.cluster.Here(x.cfg.Splitter.Self) { // its shards have stopped, and none is open again
		x.front.limits.Forget(func(o admit.Owner) bool { return x.cfg.Splitter.refuse(o.ID) == nil })
	}
	x.stopErr = errors.Join(s.stuck, x.ended(), s.elsewhere, err)
	if s.stuck != nil {
		defer func() {
			x.crew.Wait()
			for _, q := range x.queues.all() { // they may have begun to wait for something
				q.Admission.Retire()
			}
			if err := unlock(); err != nil {
				x.cfg.Logger.Error("journal stays locked", slog.Any("error", err))
			}
		}()
	}
	s.log()
	close(x.stopped)
}

// drain waits for the workers.
func (s *shutdown) drain() {
	quiet := s.x.crew.Drain()
	select {
	case <-quiet:
		return
	case <-s.x.hurry.Done():
	}
	s.x.crew.Hurried.Store(new(time.Now()))
	s.x.cancel(ErrStopping)
	select {
	case <-quiet:
		return
	case <-time.After(stuckAfter):
	}
	s.left = s.x.crew.Jobs()
	s.stuck = fmt.Errorf("%w: still running: %v", ErrStuck, s.left)
}

// sum takes the figures of all queues, for the line about the stop.
func (s *shutdown) sum() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel() // a moment, for what handlers have just enqueued
	_ = s.x.log.Settled(ctx)
	if s.x.began.IsZero() {
		return
	}
	if all, err := s.x.inspector.Stats(context.Background()); err == nil {
		s.figures = new(all.Total())
	}
}

// awaitFolders gives the goroutines that fold some time to return. What they do after it
// changes nothing any more.
func (s *shutdown) awaitFolders() {
	select {
	case <-guard.Returned(s.x.folding.Wait):
	case <-time.After(stuckAfter):
	}
}

// closeAll ends what runs jobs, and the journal, which stays locked while handlers that were
// left behind run.
func (s *shutdown) closeAll() (unlock func() error, err error) {
	x, unlocked := s.x, s.stuck == nil
	// Nothing keeps a shard from handling what is in its mailbox: this ends.
	background := context.Background()
	errs := each.Of(*x.queues.routes.Load(), func(to route) error { return to.Stop(background) })
	// Not before: a shard may assign a run until it has stopped.
	x.crew.Close()
	if unlocked {
		x.crew.Wait()
	}
	if x.crew.Recorder != nil {
		errs = append(errs, x.crew.Recorder.Close(!unlocked))
	}
	errs = append(errs, x.actors.Stop(background))
	x.events.Close()
	if !x.hurries.Load() { // nobody ends a wait for room
		defer time.AfterFunc(max(x.cfg.StopTimeout, 0), func() { x.hasten(ErrStopping) }).Stop()
	}
	unlock, err = x.log.CloseLocked(x.hurry.Done())
	if unlocked {
		err = errors.Join(err, unlock())
	}
	if err = errors.Join(append(errs, err)...); x.failure() != nil {
		err = x.failure()
	} else if err != nil {
		err = fmt.Errorf("executor: stop: %w", border(err))
	}
	return unlock, err
}

// log is the one line about a stop.
func (s *shutdown) log() {
	x := s.x
	life := tally.Life{Dir: x.dir, Stuck: s.left, Err: x.failure(), RanFor: s.began.Sub(cmp.Or(x.began, s.began)), Took: time.Since(s.began)}
	for _, q := range x.queues.all() { // no more are made
		life.LeftOut += q.Lines.Unsaid()
	}
	if !x.began.IsZero() || life.LeftOut > 0 {
		guard.Log(func() { life.Stopped(x.crew.Handlers, x.cfg.Logger, s.figures) })
	}
}
