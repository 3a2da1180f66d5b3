package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/strandjobs/strand/journal/internal/block"
	"github.com/strandjobs/strand/journal/internal/crash"
	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/store"
)

// Open opens the journal in the directory dir, whose parent must exist, or
// creates it. It checks and replays the whole log before it writes anything;
// the first commit is its own and makes the new epoch durable.
//
// It returns a [LockedError] when the journal is in use, which [OpenContext] waits
// for; a [CorruptError] when it is damaged, with what to do, ErrTooNew and
// ErrNotJournal, ErrFull when the disk has no room for what it writes, or what the
// system says about the directory. A journal that it refuses is left as it is.
func Open(dir string, cfg Config) (*Log, error) {
	var l *Log
	made, err := directory.Make(dir)
	if err == nil {
		l, err = openDir(dir, cfg)
	}
	if err != nil && made {
		_ = os.Remove(dir) // refused if there is something in it
	}
	if errors.Is(err, ErrCorrupt) {
		err = fmt.Errorf("%w: it is left as it is; strand check %q lists the damage, strand salvage writes what is intact to a new journal", err, dir)
	}
	if !errors.Is(err, ErrFull) && directory.NoSpace(err) {
		err = fmt.Errorf("%w: %w", ErrFull, err)
	}
	return l, err
}

func openDir(dir string, cfg Config) (*Log, error) {
	lock, err := directory.Lock(dir)
	if err != nil {
		return nil, err
	}
	cfg = cfg.complete()
	s, err := store.OpenLogged(lock.Place, cfg.WALBytes, cfg.walAfter)
	if err != nil {
		return nil, errors.Join(err, lock.Undo())
	}
	l := newLog(s, cfg, false)
	l.unlock, l.disk.dir, l.place, l.born = lock.Unlock, dir, lock.Place, lock.Since
	if err := l.boot(); err != nil {
		return nil, errors.Join(err, s.Close(), lock.Undo())
	}
	if err := l.compactAtOpen(s); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	directory.SweepBeside(dir)
	_ = crash.Reserve(l.place) // who needs it tries again, and says so: see RecordCrashes
	if mode, public := l.place.Public(); public {
		l.cfg.Logger.Warn("every user of this machine may replace the journal: its directory is writable for all",
			slog.String("dir", dir), slog.String("mode", mode.String()))
	}
	return l, nil
}

// lockPoll is how often a wait for another owner looks again, at a few system
// calls each time: the systems' file locks offer no wait that a context can end.
const lockPoll = 5 * time.Millisecond

// OpenContext is [Open] that waits while the journal is in use, until ctx ends. It
// begins to open within five milliseconds of the other's [Log.Close], or death; of
// several who wait, any may be the next. Whom it waits for is in one line to
// Config.Logger, and one more if it becomes another.
//
// When ctx ends first, the error matches both its cause and the [LockedError] that says who
// has the journal. Once the wait is over, ctx is not looked at again. Everything else is as
// with Open; a ctx that can't be asked is ErrContext.
func OpenContext(ctx context.Context, dir string, cfg Config) (*Log, error) {
	if err := cause(ctx); errors.Is(err, ErrContext) {
		return nil, err
	}
	begin := time.Now()
	var told LockedError
	for {
		l, err := Open(dir, cfg)
		locked, ok := errors.AsType[*LockedError](err)
		if !ok {
			return l, err
		}
		// A new owner locks before it writes who it is.
		if told == (LockedError{}) || locked.PID != 0 && *locked != told {
			if told = *locked; cfg.Logger != nil {
				cfg.Logger.Info("waiting for the process that has the journal", slog.String("dir", told.Dir),
					slog.Int("pid", told.PID), slog.String("host", told.Host), slog.Time("since", told.Since))
			}
		}
		select {
		case <-done(ctx):
			return nil, fmt.Errorf("journal: waited for %v: %w: %w", time.Since(begin).Round(time.Millisecond), ended(ctx), err)
		case <-time.After(lockPoll):
		}
	}
}

// OpenStore opens a log on a disk of another kind than a bbolt file. It is for packages
// below this one, which alone can name the type of s: journal/postgres keeps a log in
// the rows of a database with it.
//
// The log calls s as store.Store says, and s has to keep what is promised there: what
// the package comment says of commits, crashes and damage is as true as that. It has one
// writer: when another one may commit to the same disk, s has to refuse one of the two by
// an error of Commit, which latches that log. The first commit makes the new epoch
// durable before OpenStore returns. There is no directory, so there is no LOCK and no
// crash recorder: no position is suspected after a crash.
//
// It returns an error of s, or a [CorruptError] when what s has is damaged; s is still
// the caller's to close then. Otherwise [Log.Close] closes it.
func OpenStore(s store.Store, cfg Config) (*Log, error) {
	if s == nil {
		return nil, errors.New("journal: no store; give the one that the log is to be on")
	}
	return openOn(s, cfg, false)
}

// openOn opens a log on a store that has no directory.
func openOn(s store.Store, cfg Config, volatile bool) (*Log, error) {
	l := newLog(s, cfg, volatile)
	if err := l.boot(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *Log) boot() error {
	var err, unread error
	l.numbers, err = store.ReadQueues(l.store)
	l.uuid, unread = store.ReadUUID(l.store)
	if err := cmp.Or(err, unread, l.replay()); err != nil {
		return err
	}
	l.dead, l.dying = l.store.Buried(), make(map[uint32]int)
	if l.crash, err = crash.Investigate(l.disk.dir, l.manifest.Epoch, l.Keys(crash.SuspectPrefix, ""), l.pending.Positions()); err != nil {
		return err
	}
	// On disk before a caller learns of it. Otherwise a process that committed
	// nothing would share its epoch with the next one, and their fencing tokens
	// with it. Nothing was written before.
	if !l.volatile {
		if err := l.store.Commit(&store.Transaction{Manifest: l.manifest}); err != nil {
			return err
		}
		r, err := l.store.Room(l.chain.Kept(0), 0)
		if err != nil {
			return err
		}
		l.disk.gauge(r, l.chain.Live)
	}
	l.open = newOpenBlock(nil, l.manifest)
	l.open.Shown = l.volatile
	l.last = settled
	l.restoring <- settled
	go l.commitLoop() // ends in Close, which waits for it
	l.Record(&Change{Sets: l.crash.Sets})
	return nil
}

// replay rebuilds blocks, accounts and pending entries.
func (l *Log) replay() error {
	r := block.NewReading(l.chain.SettleIn)
	err := l.store.Scan(r.Block)
	t, unread := store.ReadManifest(l.store)
	if err := cmp.Or(err, unread, r.Finish(t)); err != nil {
		return err
	}
	l.pending = r.Load(l.chain)
	t.Epoch++
	l.manifest = t
	return nil
}
