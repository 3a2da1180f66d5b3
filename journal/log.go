package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/strandjobs/strand/journal/internal/block"
	"github.com/strandjobs/strand/journal/internal/crash"
	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
)

// Log is an open journal. Its methods may be called from any goroutine.
//
// It is put together from parts with one job each, which share the lock of the head:
//
//	head       what is accepted: positions, the open block
//	results    what consumers decide
//	committer  what goes to the disk, and when; a full disk
//	sides      small values beside the log
//	queues     their names, and what each had at the start
//	morgue     buried payloads
//	upkeep     copies, and a smaller file
type Log struct {
	committer
	sides
	queues
	morgue
	upkeep

	unlock   func() error
	place    *directory.Dir // nil in memory, and on a store of [OpenStore]
	uuid     string         // empty when it has none
	released chan struct{}  // closed when the file is closed too

	crash *crash.Findings // how the last process ended, and who is suspected
}

func newLog(s store.Store, cfg Config, volatile bool) *Log {
	l := &Log{
		committer: committer{
			store: s, closing: make(chan struct{}), done: make(chan struct{}), meter: meter{born: time.Now()},
			results: results{
				head: head{cfg: cfg.complete(), volatile: volatile, wake: make(chan struct{}, 1), group: groupCommit{over: make(chan struct{}, 1)}},
			},
		},
		upkeep:   upkeep{token: make(chan struct{}, 1), calls: make(chan compaction)},
		unlock:   func() error { return nil },
		released: make(chan struct{}),
	}
	c := &l.committer
	l.queues.h, l.queues.morgue = &l.results, &l.morgue
	l.sides.c, l.morgue.c, l.upkeep.c, c.upkeep = c, c, c, &l.upkeep
	l.morgue.sides = &l.sides
	l.upkeep.life, l.upkeep.end = context.WithCancel(cmp.Or(cfg.Life, context.Background()))
	l.morgue.restoring = make(chan *commit, 1)
	l.disk.mu, l.disk.logger = &l.mu, l.cfg.Logger
	most := block.Limits{Memory: l.cfg.MemoryBudget, TrimSlack: l.cfg.trimSlack, MinCarry: l.cfg.minCarry}
	if volatile {
		most.Memory = -1
	}
	l.chain = block.NewChain(s, most, l.unreadable)
	return l
}

// Append hands entries to the committer and gives them the next positions, in their order.
// It waits for the committer only while the open block is full. Position, Restored and the
// fields of a state are ignored. An entry that has a [Floor] gets a score, and perhaps a
// time, that puts it behind all entries of the same floor with lower positions; these are
// written into the entry. Entries are copied: the caller may reuse them.
//
// sets returns state keys that belong to the entries: they are in the same commit, and
// are refused with it. It is told the position of the first entry. It is called under
// the log's lock, once the entries are accepted, and must not block or call the log.
// When it panics nothing is accepted. Nil: there are none.
//
// It returns ErrTooLarge, ErrFull, ErrFailed, ErrClosed, ErrContext, or the cause of ctx
// when that ended before the entries were accepted; then none of them is.
func (l *Log) Append(ctx context.Context, entries []Entry, sets func(first Position) []Set) (Ticket, error) {
	return l.append(ctx, entries, false, sets)
}

// Post is Append for a caller who does not wait for the ticket, and so would not hear that the disk has turned out
// to be full: then the entries are kept in memory and tried again, until there is room or the log is closed. Once
// that is known Post returns ErrFull, as Append does.
func (l *Log) Post(ctx context.Context, entries []Entry, sets func(first Position) []Set) (Ticket, error) {
	return l.append(ctx, entries, true, sets)
}

func (l *Log) append(ctx context.Context, entries []Entry, posted bool, sets func(Position) []Set) (Ticket, error) {
	need := 0
	for i := range entries {
		need += format.EntryBound(&entries[i])
	}
	if need > format.MaxAppendBytes {
		return Ticket{}, fmt.Errorf("%w: %d bytes in one call, the limit is %d", ErrTooLarge, need, format.MaxAppendBytes)
	}
	if err := l.lockWithRoom(ctx, need); err != nil {
		return Ticket{}, err
	}
	ticket, streamed := l.accept(entries, posted, sets)
	switch {
	case streamed != nil:
		ticket = l.handOver(streamed)
	case len(entries) == 0:
	case l.volatile:
		l.commitHere()
	default:
		l.wakeCommitter()
	}
	return ticket, nil
}

// handOver delivers what was streamed, with what is left to its appender meanwhile,
// unless it was left to another one.
func (l *Log) handOver(d *Delivery) Ticket {
	if d.leads {
		defer l.committing.RUnlock()
		for next := d; next != nil; next = l.following(d.Route) {
			l.cfg.Deliver(next)
		}
	}
	return d.ticket()
}

// Recorded returns a ticket for a change that was just recorded: the ticket is done
// when the change is on disk. On a full disk it may say ErrFull; Settled waits on. In
// memory a change that only ends entries waits for no commit.
func (l *Log) Recorded(c *Change) Ticket {
	if l.volatile && len(c.States)+len(c.Buried)+len(c.Sets) == 0 {
		return Ticket{commit: settled}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest()
}

// Err returns what keeps the log from accepting more: ErrFailed with its cause,
// ErrClosed, ErrFull while the disk is full, or nil.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refusal()
}

// Close commits what was accepted and closes the file. As soon as it begins, appends, copies and
// compactings fail with ErrClosed. If the log has failed, even in that last commit, Close returns why.
// Every call waits until the file is closed; only the first returns an error.
func (l *Log) Close() error { return l.close(l.unlock) }

// CloseLocked is Close that leaves the directory locked until unlock is called: for an
// owner that may yet do something which the next one must not meet. It gives up what a
// full disk has no room for only when until is closed.
func (l *Log) CloseLocked(until <-chan struct{}) (unlock func() error, err error) {
	l.upkeep.end() // or a commit waits for it
	for l.owes(until) {
		time.Sleep(fullRetry)
	}
	return l.unlock, l.close(func() error { return nil })
}

// owes waits for a commit, unless until is closed, and reports whether a full disk keeps
// something from being on it then.
func (l *Log) owes(until <-chan struct{}) bool {
	l.mu.Lock()
	ticket, posted, failed := l.newest(), len(l.disk.waiting) > 0, l.err != nil
	l.mu.Unlock()
	l.wakeCommitter()
	select {
	case <-ticket.Done():
		return !failed && (posted || errors.Is(ticket.commit.err, ErrFull))
	case <-until:
		return false
	}
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
	l.disk.over = true
	if l.disk.lasting != nil {
		l.disk.lasting.Stop()
	}
	l.mu.Unlock()
	defer close(l.released)
	l.upkeep.end()
	close(l.closing)
	<-l.done
	failed := l.err // only the committer would have changed it
	if errors.Is(failed, ErrClosed) {
		failed = nil
	}
	var err error
	if s, logged := l.store.(*store.Logged); logged && failed == nil {
		if err = s.Rest(); errors.Is(err, ErrFull) {
			err = nil // what waits is in journal.wal
		}
	}
	err = errors.Join(err, l.store.Close())
	crash.EndReport(l.place)
	return errors.Join(failed, err, unlock())
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
	CommitTime time.Duration // how long the disk took for all commits together
	LastCommit time.Time     // when the last of them ended; zero: there was none
}

// Stats returns the figures of the log now.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Stats{
		Blocks: len(l.chain.Blocks), Bytes: l.chain.Size, LiveBytes: l.chain.Live, HeldBytes: l.chain.Held, ReadBacks: l.chain.ReadBacks(),
		Next: l.manifest.Next, Epoch: l.manifest.Epoch, Since: l.born, UUID: l.uuid, CommitAge: l.commitAge(),
		Commits: l.commits.Load(), CommitTime: time.Duration(l.commitTime.Load()),
	}
	if ended := l.lastCommit.Load(); ended > 0 {
		s.LastCommit = l.born.Add(time.Duration(ended))
	}
	if on, shared := l.store.(store.Shared); shared {
		s.Now = on.Now
	}
	return s
}

// Info returns the figures that [OpenView] has of a journal at rest, of the last commit
// or one that is about to be. It asks the system how large the files are, which is 0
// where there are none.
func (l *Log) Info() Info {
	l.mu.Lock()
	i := Info{
		Format: format.FormatVersion, Epoch: l.manifest.Epoch, UUID: l.uuid, Next: l.manifest.Next,
		Oldest: l.manifest.Oldest, Newest: l.manifest.Seq, Blocks: len(l.chain.Blocks),
		Queues: len(l.numbers), Bytes: l.chain.Size, LiveBytes: l.chain.Live,
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
	for _, name := range []string{directory.FileName, directory.WALFile} {
		if file, err := l.place.Stat(name); err == nil {
			i.FileBytes += file.Size()
		}
	}
	return i
}
