package life

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/each"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/roster"
	"github.com/strandjobs/strand/executor/internal/tally"
)

const (
	// stuckAfter is how long handlers have to return once their context is canceled.
	stuckAfter = 50 * time.Millisecond
	// closeAfter is how long Stop then waits for the disk.
	closeAfter = time.Second
)

// Stop ends the executor, and waits for that until ctx ends at the latest. A handler of it does not wait.
func (l *Life) Stop(ctx context.Context) error {
	ctx, err := guard.Context(ctx)
	if err != nil {
		return err
	}
	inside := l.Owns(ctx)
	if _, ends := ctx.Deadline(); ends && !inside {
		l.hurries.Store(true)
	}
	l.beginStop()
	if inside {
		return nil
	}
	select {
	case <-l.stopped:
		return l.stopErr
	case <-ctx.Done():
	}
	l.hasten(ErrStopping)
	select {
	case <-l.stopped:
		return l.stopErr
	case <-time.After(stuckAfter + closeAfter):
		return fmt.Errorf("%w, or the disk does not answer; what was accepted is written when it does", ErrStuck)
	}
}

func (l *Life) beginStop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != stopping {
		l.state = stopping
		l.Crew.Draining.Store(true) // before Err says so
		l.Stopping.Store(true)
		go (&shutdown{Life: l, at: time.Now()}).run() // no context ends it: see the census
	}
}

// shutdown is a stop that is under way: it has what one of its steps leaves for the next.
type shutdown struct {
	*Life
	at time.Time // when it began

	elsewhere error               // of the stop of a cluster
	figures   *inspect.QueueStats // of all queues together; nil: it never began to run jobs
	left      []string            // jobs whose handlers were left behind
	stuck     error               // names these; nil: there are none
}

// run goes through the steps. Nothing new is accepted any more.
func (s *shutdown) run() {
	c := s.Crew
	if s.Front != nil {
		s.Leave()
	}
	c.Backlog.Close(ErrClosed)
	s.startNothing(ErrClosed)
	if s.StopAll == nil { // the workers of a cluster are those of its partitions
		s.drain()
	}
	// A queue that is being registered, or a Start that makes workers, is waited for. The next ones are refused.
	s.Roster.Arranging.Lock()
	//lint:ignore SA2001 from here on shards and workers are complete
	s.Roster.Arranging.Unlock()
	if s.StopAll != nil {
		ctx, cancel := context.WithCancel(s.hurry) // handlers may go on until a Stop has no time left
		s.elsewhere = s.StopAll(ctx)
		cancel()
	}
	if s.Unlisten != nil {
		s.Unlisten() // not before: a stop that takes long is looked at
	}
	s.sum()
	c.Watchdog.Stop()
	c.Quarantine.Close()
	c.Ledger.End()
	c.Limits.Close()
	s.cancel(ErrStopping)
	for _, q := range s.Roster.All() { // no more are made
		q.Dead.Close()
		q.Folder.Close()
		q.Admission.Retire()
	}
	s.awaitFolders()
	unlock, err := s.closeAll()
	if s.Front != nil {
		s.Left()
	}
	s.stopErr = errors.Join(s.stuck, s.ended(), s.elsewhere, err)
	if s.stuck != nil {
		defer func() {
			c.Wait()
			for _, q := range s.Roster.All() { // they may have begun to wait for something
				q.Admission.Retire()
			}
			if err := unlock(); err != nil {
				c.Logger.Error("journal stays locked", slog.Any("error", err))
			}
		}()
	}
	s.log()
	close(s.stopped)
}

// drain waits for the workers.
func (s *shutdown) drain() {
	quiet := s.Crew.Drain()
	select {
	case <-quiet:
		return
	case <-s.hurry.Done():
	}
	s.Crew.Hurried.Store(new(time.Now()))
	s.cancel(ErrStopping)
	select {
	case <-quiet:
		return
	case <-time.After(stuckAfter):
	}
	s.left = s.Crew.Jobs()
	s.stuck = fmt.Errorf("%w: still running: %v", ErrStuck, s.left)
}

// sum takes the figures of all queues, for the line about the stop.
func (s *shutdown) sum() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel() // a moment, for what handlers have just enqueued
	_ = s.Crew.Log.Settled(ctx)
	if s.began.IsZero() {
		return
	}
	if all, err := s.Stats(context.Background()); err == nil {
		s.figures = new(all.Total())
	}
}

// awaitFolders gives the goroutines that fold some time to return. What they do after it
// changes nothing any more.
func (s *shutdown) awaitFolders() {
	select {
	case <-guard.Returned(s.Folding.Wait):
	case <-time.After(stuckAfter):
	}
}

// closeAll ends what runs jobs, and the journal, which stays locked while handlers that were
// left behind run.
func (s *shutdown) closeAll() (unlock func() error, err error) {
	c, unlocked := s.Crew, s.stuck == nil
	// Nothing keeps a shard from handling what is in its mailbox: this ends.
	background := context.Background()
	errs := each.Of(s.Roster.Routes(), func(to roster.Route) error { return to.Stop(background) })
	// Not before: a shard may assign a run until it has stopped.
	c.Close()
	if unlocked {
		c.Wait()
	}
	if c.Recorder != nil {
		errs = append(errs, c.Recorder.Close(!unlocked))
	}
	errs = append(errs, s.Roster.Actors.Stop(background))
	s.Roster.Events.Close()
	if !s.hurries.Load() { // nobody ends a wait for room
		defer time.AfterFunc(max(s.Grace, 0), func() { s.hasten(ErrStopping) }).Stop()
	}
	unlock, err = c.Log.CloseLocked(s.hurry.Done())
	if unlocked {
		err = errors.Join(err, unlock())
	}
	if err = errors.Join(append(errs, err)...); s.Failure() != nil {
		err = s.Failure()
	} else if err != nil {
		err = fmt.Errorf("executor: stop: %w", c.Border(err))
	}
	return unlock, err
}

// log is the one line about a stop.
func (s *shutdown) log() {
	said := tally.Life{Dir: s.Dir, Stuck: s.left, Err: s.Failure(), RanFor: s.at.Sub(cmp.Or(s.began, s.at)), Took: time.Since(s.at)}
	for _, q := range s.Roster.All() { // no more are made
		said.LeftOut += q.Lines.Unsaid()
	}
	if !s.began.IsZero() || said.LeftOut > 0 {
		guard.Log(func() { said.Stopped(s.Crew.Handlers, s.Crew.Logger, s.figures) })
	}
}
