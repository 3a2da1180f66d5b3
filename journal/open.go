package journal

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"

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

func (l *Log) boot() error {
	var err, unread error
	l.numbers, err = store.ReadQueues(l.store)
	l.uuid, unread = store.ReadUUID(l.store)
	if err := cmp.Or(err, unread, l.replay()); err != nil {
		return err
	}
	l.dead = l.store.Buried()
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
