package journal

import (
	"context"
	"errors"
	"fmt"
	"math"

	"go.etcd.io/bbolt"
)

// bbolt gives no page back to the disk. Compacting writes what is in use to a
// new file, which then takes the place of the old one: a crash leaves one or the
// other, and they hold the same.

const (
	// defaultCompactAbove is the size that a file may have, however little of it
	// is in use.
	defaultCompactAbove = 64 << 20
	// maxIdleCompact bounds what is written again for a log that has nothing
	// else to do, so that whoever comes meanwhile hardly notices.
	maxIdleCompact = 16 << 20
	// compactBatch is about what one transaction writes to the new file.
	compactBatch = 4 << 20
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
	case l.compactions <- c: // with the token, which goes when it is over
	case <-over:
		<-l.upkeep
		return ended(ctx)
	case <-l.done:
		<-l.upkeep
		return l.stopped()
	}
	select {
	case err := <-c.err:
		if errors.Is(err, errGivenUp) {
			return ended(ctx)
		}
		return err
	case <-over:
		return fmt.Errorf("%w: compacting: %w", ErrUnknown, ended(ctx))
	}
}

// beginUpkeep waits until nobody else copies or replaces the file, and takes the
// token; not in memory, where there is no file.
func (l *Log) beginUpkeep(ctx context.Context, over <-chan struct{}) error {
	if err := cause(ctx); err != nil {
		return err
	}
	if err := l.stopped(); err != nil || l.volatile {
		return err
	}
	select {
	case l.upkeep <- struct{}{}:
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

// compaction is a call of Compact that the committer carries out.
type compaction struct {
	over <-chan struct{} // closed when its caller has gone
	err  chan error      // has room for the outcome; nil: there is no call
}

// run is called by the committer, with committing held and the token of upkeep.
func (c compaction) run(l *Log) {
	if c.err != nil {
		err := l.compact(c.over)
		<-l.upkeep
		c.err <- err
	}
}

// errGivenUp is what comes of a compacting or a copy whose caller has gone.
var errGivenUp = errors.New("journal: given up")

// compact is called with the token of upkeep and committing held.
func (l *Log) compact(over <-chan struct{}) error {
	l.mu.Lock()
	open, err := l.open, l.err
	l.mu.Unlock()
	if err != nil {
		return err
	}
	busy := l.busy()
	replaced, err := l.store.compact(over)
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
	case l.upkeep <- struct{}{}:
		_ = l.compact(nil)
		<-l.upkeep
	default:
	}
}

// bloated reports whether less than one part of so many of the file is in use,
// and less than most bytes.
func (l *Log) bloated(parts, most int) bool {
	size := l.store.size()
	if size <= l.cfg.compactAbove {
		return false
	}
	used, err := l.store.used()
	return err == nil && used*parts < size && used < most
}

// compactAtOpen compacts a log that nobody uses yet.
func (l *Log) compactAtOpen(s *bolt) error {
	// What a crash while it was compacted left. That it can't be removed matters when
	// it is in the way.
	if err := s.place.removeFile(newName); errors.Is(err, ErrNotJournal) {
		return err
	}
	l.committing.Lock()
	defer l.committing.Unlock()
	_ = s.look() // it fails again for who needs it
	if l.bloated(2, math.MaxInt) {
		_ = l.compact(nil)
	}
	if l.failed() {
		return l.err
	}
	return nil
}

// size is as of the last look.
func (s *bolt) size() int { return s.space.backed * s.pageSize }

func (s *bolt) used() (int, error) {
	err := s.look()
	return s.space.used * s.pageSize, err
}

// compact replaces the file. When replaced is true and there is an error, it is
// not known which file the next one to open the journal will find.
func (s *bolt) compact(over <-chan struct{}) (replaced bool, err error) {
	if !canReplace {
		return false, fmt.Errorf("journal: compact a file that is open: %w", errors.ErrUnsupported)
	}
	// All that is opened is opened before the rename: what fails after it leaves
	// the log not knowing which file it has.
	names, err := s.place.syncer()
	if err != nil {
		return false, fmt.Errorf("journal: compact: %w", err)
	}
	defer names.Close()
	next, err := s.successor(over)
	if err != nil {
		if wantsRoom(err) {
			err = fmt.Errorf("%w: %w", ErrFull, err)
		}
		return false, fmt.Errorf("journal: compact: %w", errors.Join(err, s.place.removeFile(newName)))
	}
	s.swap.Lock()
	old := s.db
	s.db, s.file, s.space = next.db, next.file, next.space
	s.swap.Unlock()
	_ = old.Close() // nobody will need that file again
	return true, syncNames(names)
}

// newName is the file that is to take the journal's place.
const newName = fileName + newSuffix

// successor writes what is in use to a new file, opens it, and gives it the name
// of the old one, unless that name stands for another file by now.
func (s *bolt) successor(over <-chan struct{}) (*bolt, error) {
	if err := s.rewrite(s.place, over); err != nil {
		return nil, err
	}
	next, err := s.place.attach(newName, boltOptions())
	if err != nil {
		return nil, err
	}
	ours, err := s.file.Stat()
	if err == nil && !s.place.has(fileName, ours) {
		err = damaged("%s is another file now", s.path)
	}
	if err == nil {
		err = s.place.Rename(newName, fileName)
	}
	if err != nil {
		return nil, errors.Join(err, next.close())
	}
	return next, nil
}

// rewrite writes what the last commit left to a new file in a directory, and
// syncs it, unless over is closed meanwhile. Whoever may use the old file may use the
// new one.
func (s *bolt) rewrite(p *place, over <-chan struct{}) error {
	ours, err := s.file.Stat()
	if err != nil {
		return err
	}
	if !p.has(fileName, ours) {
		return damaged("%s is another file now", s.path)
	}
	if err := p.removeFile(newName); err != nil {
		return err
	}
	options := boltOptions()
	options.NoSync, options.NoGrowSync = true, true // once is enough
	to, err := p.attach(newName, options)
	if err != nil {
		return err
	}
	err = s.view(func(tx *bbolt.Tx) error { return to.take(tx, over) })
	if err == nil {
		err = keepAccess(to.file, ours)
	}
	if err == nil {
		err = to.db.Sync()
	}
	if err = errors.Join(err, to.close()); err != nil {
		return err
	}
	return p.checkPages(newName) // the memory map can't tell when the disk reads something else
}

// take copies all that from sees, a batch at a time, and the end mark last: it
// has the number of the transaction that writes it.
func (s *bolt) take(from *bbolt.Tx, over <-chan struct{}) error {
	to, err := s.db.Begin(true)
	if err != nil {
		return err
	}
	size := 0
	var read mapped
	err = from.ForEach(func(name []byte, b *bbolt.Bucket) error {
		into, err := to.CreateBucket(name)
		if err != nil {
			return err
		}
		into.FillPercent = 1 // keys come in order
		return b.ForEach(func(k, v []byte) error {
			read.touch(from, len(v))
			if size += len(k) + len(v); size > compactBatch {
				size = 0
				if isOver(over) {
					return errGivenUp
				}
				if err := to.Commit(); err != nil {
					return err
				}
				if to, err = s.db.Begin(true); err != nil {
					return err
				}
				into = to.Bucket(name)
				into.FillPercent = 1
			}
			return into.Put(k, v)
		})
	})
	if err == nil {
		var t tail
		if t, err = parseTail(from.Bucket([]byte(bucketMeta)).Get(keyTail)); err == nil {
			err = putTail(to, t)
		}
	}
	if err != nil {
		return errors.Join(err, to.Rollback())
	}
	return to.Commit()
}

func isOver(over <-chan struct{}) bool {
	select {
	case <-over:
		return true
	default:
		return false
	}
}

// Compact makes the file of the journal in dir, which must not be open, as
// small as what is in it, and returns its size before and after. All of it is
// read and checked first. It returns the errors of [OpenView].
func Compact(dir string) (before, after int64, err error) {
	release, err := lockAtRest(dir)
	if err != nil {
		return 0, 0, err
	}
	before, after, err = compactAtRest(dir)
	return before, after, errors.Join(err, release())
}

func compactAtRest(dir string) (before, after int64, err error) {
	p, err := openPlace(dir)
	if err != nil {
		return 0, 0, fmt.Errorf("journal: compact: %w", err)
	}
	defer p.Close()
	names, err := p.syncer()
	if err != nil {
		return 0, 0, fmt.Errorf("journal: compact: %w", err)
	}
	defer names.Close()
	v := &View{dir: dir}
	if err = v.open(); err == nil {
		err = v.load()
	}
	before = v.size
	if err == nil {
		err = v.store.rewrite(p, nil)
	}
	// Closed first: Windows does not rename over an open file.
	if err = errors.Join(err, v.Close()); err == nil {
		err = p.Rename(newName, fileName)
	}
	if err != nil {
		return before, before, errors.Join(err, p.removeFile(newName))
	}
	info, err := p.Lstat(fileName)
	if err != nil {
		return before, 0, err
	}
	return before, info.Size(), syncNames(names)
}
