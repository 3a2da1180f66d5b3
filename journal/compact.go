package journal

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/strandjobs/strand/journal/internal/store"
)

// bbolt gives no page back to the disk. Compacting writes what is in use to a
// new file, which then takes the place of the old one: a crash leaves one or the
// other, and they hold the same.

const (
	// defaultCompactAbove is the size that a file may have, however little of it
	// is in use.
	defaultCompactAbove = 64 << 20
	// maxIdleCompact bounds what is written again for a log that has nothing else
	// to do, so that a caller who comes meanwhile hardly notices.
	maxIdleCompact = 16 << 20
)

// Compact makes the file as small as what is in it, while the log is at work.
// It waits for the end of a running Copy, and for one commit. Appends wait for it,
// until ctx ends at the latest: it reads and writes what is in use once, and needs as
// much room on the disk. In memory it has no effect.
//
// It is hardly ever needed: [Open] compacts a file of more than 64 MiB of which
// less than half is in use, and so does the log when it was idle for ten seconds
// and less than a quarter, and no more than 16 MiB, is in use.
//
// It returns ErrFull when there is no room, ErrContext, or the cause of ctx when
// that ended before it began, and then nothing has changed; ErrUnknown when ctx
// ended meanwhile: it gives up, or was about to be done; ErrClosed; ErrFailed; and
// errors.ErrUnsupported where an open file can't be replaced.
func (l *Log) Compact(ctx context.Context) error {
	over := done(ctx)
	if err := l.beginUpkeep(ctx, over); err != nil || l.volatile {
		return err
	}
	c := compaction{over: over, err: make(chan error, 1)}
	select {
	case l.upkeep.calls <- c: // with the token, which goes when it is over
	case <-over:
		<-l.upkeep.token
		return ended(ctx)
	case <-l.done:
		<-l.upkeep.token
		return l.stopped()
	}
	select {
	case err := <-c.err:
		if errors.Is(err, store.ErrGivenUp) {
			return ended(ctx)
		}
		return err
	case <-over:
		return fmt.Errorf("%w: compacting: %w", ErrUnknown, ended(ctx))
	}
}

// beginUpkeep waits until no other call copies or replaces the file, and takes the
// token; not in memory, where there is no file.
func (l *Log) beginUpkeep(ctx context.Context, over <-chan struct{}) error {
	if err := cause(ctx); err != nil {
		return err
	}
	if err := l.stopped(); err != nil || l.volatile {
		return err
	}
	select {
	case l.upkeep.token <- struct{}{}:
		return nil
	case <-over:
		return ended(ctx)
	}
}

// stopped returns ErrClosed or ErrFailed, once that is so.
func (l *Log) stopped() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// upkeep is what is done to the file as a whole, one thing at a time.
type upkeep struct {
	// token is in it while the file is copied or replaced: in the order of the
	// calls. It comes before committing.
	token chan struct{}

	// calls are taken by the committer, one after a commit: so no call waits until
	// there is nothing to commit, and no append waits behind many of them.
	calls chan compaction
}

// compaction is a call of Compact that the committer carries out.
type compaction struct {
	over <-chan struct{} // closed when its caller has gone
	err  chan error      // has room for the outcome; nil: there is no call
}

// run is called by the committer, with committing held and the token of upkeep.
func (c compaction) run(l *Log) {
	if c.err != nil {
		err := l.compact(c.over)
		<-l.upkeep.token
		c.err <- err
	}
}

// compact is called with the token of upkeep and committing held.
func (l *Log) compact(over <-chan struct{}) error {
	l.mu.Lock()
	open, err := l.open, l.err
	l.mu.Unlock()
	if err != nil {
		return err
	}
	busy := l.busy()
	replaced, err := l.store.Compact(over)
	busy()
	if err != nil && replaced {
		l.fail(open, err)
	}
	return err
}

// compactIdle compacts a log that has nothing else to do. The caller holds
// committing. An error changes nothing, or has made the log fail.
func (l *Log) compactIdle() {
	if !l.bloated(4, maxIdleCompact) {
		return
	}
	select {
	case l.upkeep.token <- struct{}{}:
		_ = l.compact(nil)
		<-l.upkeep.token
	default:
	}
}

// bloated reports whether less than one part of so many of the file is in use,
// and less than most bytes.
func (l *Log) bloated(parts, most int) bool {
	size := l.store.Size()
	if size <= l.cfg.compactAbove {
		return false
	}
	used, err := l.store.Used()
	return err == nil && used*parts < size && used < most
}

// compactAtOpen compacts a log before its first caller has it.
func (l *Log) compactAtOpen(s *store.Bolt) error {
	l.committing.Lock()
	defer l.committing.Unlock()
	if err := s.Tidy(); err != nil {
		return err
	}
	if l.bloated(2, math.MaxInt) {
		_ = l.compact(nil)
	}
	if l.failed() {
		return l.err
	}
	return nil
}
