package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/strandjobs/strand/journal/internal/crash"
	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
)

// Open opens the journal in the directory dir, whose parent must exist, or
// creates it. It checks and replays the whole log before it writes anything;
// the first commit is its own and makes the new epoch durable.
//
// It returns a [LockedError] when the journal is in use, which [OpenContext] waits
// for; a [CorruptError] when it is damaged, with what to do, ErrTooNew and
// ErrNotJournal, or what the system says about the directory. A journal that it
// refuses is left as it is.
func Open(dir string, cfg Config) (*Log, error) {
	made, err := directory.Make(dir)
	if err != nil {
		return nil, err
	}
	l, err := openDir(dir, cfg)
	if err != nil && made {
		_ = os.Remove(dir) // refused if there is something in it
	}
	if errors.Is(err, ErrCorrupt) {
		err = fmt.Errorf("%w: it is left as it is; strand check %q lists the damage, strand salvage writes what is intact to a new journal", err, dir)
	}
	return l, err
}

func openDir(dir string, cfg Config) (*Log, error) {
	lock, err := directory.Lock(dir)
	if err != nil {
		return nil, err
	}
	s, err := store.OpenBolt(lock.Place)
	if err != nil {
		return nil, errors.Join(err, lock.Undo())
	}
	l := newLog(s, cfg, false)
	l.unlock, l.dir, l.place, l.born = lock.Unlock, dir, lock.Place, lock.Since
	l.disk.dir = dir
	if err := l.boot(); err != nil {
		return nil, errors.Join(err, s.Close(), lock.Undo())
	}
	if err := l.compactAtOpen(s); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	l.tidy()
	return l, nil
}

// tidy removes what dead processes have left beside the journal, has room for the crash
// recorder, and warns when all users may write to it.
func (l *Log) tidy() {
	directory.SweepBeside(l.dir)
	_ = crash.Reserve(l.place) // who needs it tries again, and says so: see RecordCrashes
	if mode, public := l.place.Public(); public {
		l.cfg.Logger.Warn("every user of this machine may replace the journal: its directory is writable for all",
			slog.String("dir", l.dir), slog.String("mode", mode.String()))
	}
}

func (l *Log) boot() error {
	var err error
	if l.queues, err = store.ReadQueues(l.store); err != nil {
		return err
	}
	if l.uuid, err = store.ReadUUID(l.store); err != nil {
		return err
	}
	if err := l.replay(); err != nil {
		return err
	}
	l.dead = l.store.Buried()
	if l.crash, err = crash.Investigate(l.dir, l.manifest.Epoch, l.Keys(crash.SuspectPrefix, ""), l.pending.Positions()); err != nil {
		return err
	}
	// On disk before a caller learns of it. Otherwise a process that committed
	// nothing would share its epoch with the next one, and their fencing tokens
	// with it. Nothing was written before.
	if !l.volatile {
		if err := l.store.Commit(&store.Transaction{Manifest: l.manifest}); err != nil {
			return err
		}
		r, err := l.store.Room(0)
		if err != nil {
			return err
		}
		l.disk.gauge(r, l.chain.Live)
	}
	l.start()
	l.Record(&Change{Sets: l.crash.Sets})
	return nil
}

// Close commits what was accepted and closes the file. Appends fail with
// ErrClosed from its beginning on. It returns why the log had failed, if it
// had, also when that was the last commit. Every call returns when the file is
// closed; only the first one returns an error.
func (l *Log) Close() error { return l.close(l.unlock) }

// CloseLocked is Close that leaves the directory locked until unlock is called:
// for an owner that may yet do something which the next one must not meet.
func (l *Log) CloseLocked() (unlock func() error, err error) {
	return l.unlock, l.close(func() error { return nil })
}

func (l *Log) close(unlock func() error) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		<-l.released
		return nil
	}
	l.closed = true
	l.err = cmp.Or(l.err, ErrClosed)
	l.disk.end()
	l.mu.Unlock()
	defer close(l.released)
	close(l.closing)
	<-l.done
	failed := l.err // only the committer would have changed it
	if errors.Is(failed, ErrClosed) {
		failed = nil
	}
	err := l.store.Close()
	crash.EndReport(l.place)
	return errors.Join(failed, err, unlock())
}

// Flush returns nil when everything that was accepted before is on disk. While
// the disk is full it returns ErrFull: something is not, but it is not lost.
func (l *Log) Flush(ctx context.Context) error {
	l.mu.Lock()
	return l.await(ctx, false)
}

// Settled waits until what was recorded is on disk, as Flush does; on a full disk
// until there is room for it, as results have the reserve. Its errors are those of
// Flush without ErrFull.
func (l *Log) Settled(ctx context.Context) error {
	_, err := l.Arrived(ctx, 0)
	return err
}

// Arrived is Settled that also sees to what was posted: when it returns false, the entry
// at p has been handed to its consumer, if it was accepted before the call. True: it waits
// for room on a full disk, and Arrived does not wait for that.
func (l *Log) Arrived(ctx context.Context, p Position) (held bool, err error) {
	for {
		l.mu.Lock()
		if l.disk.holds(p) {
			l.mu.Unlock()
			return true, nil
		}
		err := l.await(ctx, true)
		if !errors.Is(err, ErrFull) || errors.Is(err, ErrFailed) { // closed on a full disk, it is never written
			return false, err
		}
	}
}

// await waits for everything that was accepted so far; on a full disk only if told to.
// It unlocks mu, which the caller holds.
func (l *Log) await(ctx context.Context, full bool) error {
	if err := l.err; errors.Is(err, ErrFailed) {
		l.mu.Unlock()
		return err
	}
	if l.disk.full && !full {
		l.mu.Unlock()
		return ErrFull
	}
	ticket := l.newest()
	l.mu.Unlock()
	l.wakeCommitter()
	return ticket.Wait(ctx)
}

// Recorded returns a ticket for a change that was just recorded: it is done when that
// is on disk. On a full disk it may say ErrFull; Settled waits on. In memory what
// only ends waits for no commit.
func (l *Log) Recorded(c *Change) Ticket {
	if l.volatile && len(c.States)+len(c.Buried)+len(c.Sets) == 0 {
		return Ticket{commit: settled}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest()
}

// Short reports whether the disk had no more room than what is kept for results when
// the last block was made. Who gives it work then does well to give the oldest first:
// a block leaves the disk when all that is older has ended.
func (l *Log) Short() bool { return l.disk.short.Load() }

// newest stands for everything that was accepted so far. The caller holds mu.
func (l *Log) newest() Ticket {
	if l.open.empty() {
		return Ticket{commit: l.last}
	}
	return Ticket{commit: l.open.commit}
}

// Err returns what keeps the log from accepting more: ErrFailed with its cause,
// ErrClosed, ErrFull while the disk is full, or nil.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refusal()
}

// Stats are the figures of a log at one moment.
type Stats struct {
	Blocks    int              // in the log
	Bytes     int              // of these blocks
	LiveBytes int              // of entries in them that did not end
	HeldBytes int              // of entries that are in memory, ended ones among them; see [Config.MemoryBudget]
	ReadBacks uint64           // how often the disk was read for entries that are not
	Next      Position         // the next position
	Epoch     uint64           // how many times the journal was opened
	Since     time.Time        // when this process locked the journal
	UUID      string           // of the journal and its copies; empty in memory, and for one from before there was one
	Now       func() time.Time // by the clock of all processes that go on with the log; nil: by this one's

	CommitAge  time.Duration // how long the disk has been at the present commit; 0: at none. A healthy one needs milliseconds
	Commits    uint64        // since the log was opened
	CommitTime time.Duration // that the disk took for them together
	LastCommit time.Time     // when the last of them ended; zero: there was none
}

// Stats returns the figures of the log now.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	var last time.Time
	if ended := l.lastCommit.Load(); ended > 0 {
		last = l.born.Add(time.Duration(ended))
	}
	s := Stats{
		Blocks: len(l.chain.Blocks), Bytes: l.chain.Size, LiveBytes: l.chain.Live, HeldBytes: l.chain.Held, ReadBacks: l.chain.ReadBacks(),
		Next: l.manifest.Next, Epoch: l.manifest.Epoch, Since: l.born, UUID: l.uuid, CommitAge: l.commitAge(),
		Commits: l.commits.Load(), CommitTime: time.Duration(l.commitTime.Load()), LastCommit: last,
	}
	if on, shared := l.store.(store.Shared); shared {
		s.Now = on.Now
	}
	return s
}

// Info returns the figures that [OpenView] has of a journal at rest, of the last commit
// or one that is about to be. It asks the system how large the file is, which is 0
// where there is none.
func (l *Log) Info() Info {
	l.mu.Lock()
	i := Info{
		Format: format.FormatVersion, Epoch: l.manifest.Epoch, UUID: l.uuid, Next: l.manifest.Next,
		Oldest: l.manifest.Oldest, Newest: l.manifest.Seq, Blocks: len(l.chain.Blocks),
		Queues: len(l.queues), Bytes: l.chain.Size, LiveBytes: l.chain.Live,
	}
	for _, n := range l.dead {
		i.Buried += n
	}
	for _, b := range l.chain.Blocks {
		i.Entries += b.Count
		i.Live += b.Live
	}
	l.mu.Unlock()
	if l.place == nil {
		return i
	}
	if file, err := l.place.Stat(directory.FileName); err == nil {
		i.FileBytes = file.Size()
	}
	return i
}
