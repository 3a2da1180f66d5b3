package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/store"
)

// upkeep is what is done to the file as a whole, one thing at a time: copying and
// compacting.
//
// bbolt gives no page back to the disk. Compacting writes what is in use to a
// new file, which then takes the place of the old one: a crash leaves one or the
// other, and they hold the same.
type upkeep struct {
	c *committer

	// token is in it while the file is copied or replaced: in the order of the
	// calls. It comes before committing.
	token chan struct{}

	// calls are taken by the committer, one after a commit: so no call waits until
	// there is nothing to commit, and no append waits behind many of them.
	calls chan compaction

	life context.Context // that of [Config]; it ends when the log is about to close, too, which would wait
	end  func()
}

// compaction is a call of Compact that the committer carries out.
type compaction struct {
	over <-chan struct{} // closed when its caller has gone, or the log is about to close
	err  chan error      // has room for the outcome; nil: there is no call
}

// maxIdleCompact bounds what is written again for a log that has nothing else
// to do, so that a caller who comes meanwhile hardly notices.
const maxIdleCompact = 16 << 20

// Copy writes a copy of the journal to dir, which must not be there yet, while
// the log is at work. The copy is what one commit left: everything that was
// accepted when Copy began is in it, posted or not. Only what waits in memory
// because the disk is full is not. It is as large as the file, and synced before it gets its name.
//
// Appends go on meanwhile. Only a commit for which the memory map of the file
// has to grow, which doubles each time, waits for the end of the copy. Copies are
// made one at a time, and not while the file is compacted.
//
// It returns ErrExists, ErrClosed, ErrFailed, ErrContext, the cause of ctx when that
// ended before, what the system says about the directory, or errors.ErrUnsupported
// for a log that works in memory only; then there is no copy.
func (u *upkeep) Copy(ctx context.Context, dir string) error {
	if u.c.volatile {
		return fmt.Errorf("journal: copy a log that keeps nothing: %w", errors.ErrUnsupported)
	}
	over := done(ctx)
	if err := u.beginUpkeep(ctx, over); err != nil {
		return err
	}
	defer func() { <-u.token }()
	until, forget := u.until(over)
	defer forget()
	return directory.Fill(dir, func(file string) error {
		// On a full disk, what is not on it waits for longer than a copy takes.
		err := u.c.Flush(ctx)
		if err == nil || err == ErrFull {
			err = u.c.store.CopyTo(file, until)
		}
		if errors.Is(err, store.ErrGivenUp) || err != nil && store.IsOver(over) {
			return givenUp(ctx, over)
		}
		if errors.Is(err, ErrUnknown) { // of what it waited for, because the log has failed
			u.c.mu.Lock()
			defer u.c.mu.Unlock()
			err = cmp.Or(u.c.err, err)
		}
		return err
	})
}

// until returns what is closed when over is, or the log is about to close, or nobody wants to know any more.
func (u *upkeep) until(over <-chan struct{}) (either <-chan struct{}, forget func()) {
	life, cancel := context.WithCancel(u.life)
	go func() { // see the census
		select {
		case <-over:
			cancel()
		case <-life.Done():
		}
	}()
	return life.Done(), cancel
}

// givenUp is why a copy or a compacting was.
func givenUp(ctx context.Context, over <-chan struct{}) error {
	if store.IsOver(over) {
		return ended(ctx)
	}
	return ErrClosed
}

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
func (u *upkeep) Compact(ctx context.Context) error {
	over := done(ctx)
	if err := u.beginUpkeep(ctx, over); err != nil || u.c.volatile {
		return err
	}
	until, forget := u.until(over)
	defer forget()
	c := compaction{over: until, err: make(chan error, 1)}
	select {
	case u.calls <- c: // with the token, which goes when it is over
	case <-until:
		<-u.token
		return givenUp(ctx, over)
	case <-u.c.done:
		<-u.token
		return u.c.stopped()
	}
	select {
	case err := <-c.err:
		if errors.Is(err, store.ErrGivenUp) {
			return givenUp(ctx, over)
		}
		return err
	case <-over:
		return fmt.Errorf("%w: compacting: %w", ErrUnknown, ended(ctx))
	}
}

// beginUpkeep waits until no other call copies or replaces the file, and takes the
// token; not in memory, where there is no file.
func (u *upkeep) beginUpkeep(ctx context.Context, over <-chan struct{}) error {
	if err := cmp.Or(cause(ctx), u.c.stopped()); err != nil || u.c.volatile {
		return err
	}
	select {
	case u.token <- struct{}{}:
		return nil
	case <-over:
		return ended(ctx)
	}
}

// run carries out a call of Compact, if there is one. The committer calls it, with
// committing held and the token.
func (u *upkeep) run(asked compaction) {
	if asked.err != nil {
		err := u.compact(asked.over)
		<-u.token
		asked.err <- err
	}
}

// compact is called with the token of upkeep and committing held.
func (u *upkeep) compact(over <-chan struct{}) error {
	if err := u.c.stopped(); err != nil {
		return err
	}
	u.c.busy()
	replaced, err := u.c.store.Compact(over)
	u.c.idle()
	if err != nil && replaced {
		u.c.fail(err)
	}
	return err
}

// compactIdle compacts a log that has nothing else to do. The caller holds
// committing. An error changes nothing, or has made the log fail.
func (u *upkeep) compactIdle() {
	if !u.bloated(4, maxIdleCompact) {
		return
	}
	select {
	case u.token <- struct{}{}:
		_ = u.compact(u.life.Done())
		<-u.token
	default:
	}
}

// bloated reports whether less than one part of so many of the file is in use,
// and less than most bytes.
func (u *upkeep) bloated(parts, most int) bool {
	size := u.c.store.Size()
	if size <= u.c.cfg.compactAbove {
		return false
	}
	used, err := u.c.store.Used()
	return err == nil && used*parts < size && used < most
}

// compactAtOpen compacts a log before its first caller has it.
func (u *upkeep) compactAtOpen(s *store.Logged) error {
	u.c.committing.Lock()
	defer u.c.committing.Unlock()
	if err := s.Tidy(); err != nil {
		return err
	}
	if u.bloated(2, math.MaxInt) {
		_ = u.compact(nil)
	}
	return u.c.stopped()
}
