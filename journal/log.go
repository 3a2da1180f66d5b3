package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/journal/internal/block"
	"github.com/strandjobs/strand/journal/internal/crash"
	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
)

// Config says how a log works. The zero Config is usable.
type Config struct {
	// Deliver takes in what was committed: one call per route and block, one at
	// a time, in position order. It must not block for
	// long, and must see to it that [Delivery.Done] is called once for each.
	// A log that works in memory only may call it for several routes at a time: in
	// position order for each of them. Nil: each counts as taken in.
	Deliver func(*Delivery)

	// Failed is called once, from the committer's goroutine, when a commit has
	// failed and the log stops. Nil: Err is the only sign.
	Failed func(error)

	// Committed is called with how long the disk took for a commit, from the
	// goroutine that made it, before what it holds is delivered: a delivery waits
	// for it. Nil: only the totals of Stats tell.
	Committed func(took time.Duration)

	// MaxBlockBytes is where Append starts to wait for the committer instead of
	// making the open block larger. One call's entries go into one
	// block. Default 4 MiB; below zero it is the most that a block can have, a GiB.
	MaxBlockBytes int

	// MemoryBudget is how many bytes of entries stay in memory, as they stand in
	// their blocks. Above it the oldest blocks are on disk only, and what is read
	// of them is read back: entries that follow one another by up to 64 KiB at a
	// time. Blocks that are not on disk yet come on top, and so do those that a
	// full disk had written in pieces, until they are over or the journal is
	// opened again. A log that works in memory only has no bound. Default 64 MiB;
	// below zero there is none.
	MemoryBudget int

	// Logger gets what an operator should know and no call can return: that all
	// users may write to the directory, that the crash recorder was lost, whom
	// OpenContext waits for, once that the disk is full, and once that there has
	// been room again for five seconds. Default nil: silence.
	Logger *slog.Logger

	trimSlack int // see below; less only in tests, to trim all the time
	minCarry  int

	compactAbove int           // see defaultCompactAbove; less only in tests
	compactAfter time.Duration // see defaultCompactAfter
}

const (
	defaultMaxBlockBytes = 4 << 20
	defaultMemoryBudget  = 64 << 20
	// defaultTrimSlack is how much dead weight is left alone: below it,
	// carrying costs more than it frees.
	defaultTrimSlack = 1 << 20
	// defaultMinCarry is how much one commit may carry forward when it has
	// little of its own to write. Otherwise it carries as much as it writes.
	defaultMinCarry = 256 << 10
	// defaultCompactAfter is how long a log is idle before it compacts by itself.
	defaultCompactAfter = 10 * time.Second
	// fullRetry is the pause between two looks at a full disk.
	fullRetry = 100 * time.Millisecond
)

// Log is an open journal. Its methods may be called from any goroutine.
type Log struct {
	store    store.Store
	volatile bool // the store keeps no blocks: nothing outlives the process
	cfg      Config
	unlock   func() error
	dir      string         // empty in memory, and on a store of [OpenStore]
	place    *directory.Dir // the same; nil where there is none
	uuid     string         // empty when it has none

	wake    chan struct{} // holds a token while there may be something to commit
	closing chan struct{}
	done    chan struct{} // closed when the committer has ended

	released chan struct{} // closed when the file is closed too

	born  time.Time    // when its opening began
	began atomic.Int64 // when the disk began with what it does now: ns after born, and one; 0: nothing

	commits    atomic.Uint64
	commitTime atomic.Int64 // of all of them, ns
	lastCommit atomic.Int64 // its end: ns after born

	upkeep upkeep

	// committing is held during a commit, by the committer or, in memory, an
	// appender, and for reading by who streams. It comes before mu.
	committing sync.RWMutex

	// mu is held for memory work only, never across I/O or a callback. It
	// decides the order of everything: the order in which it is taken is the
	// order of positions.
	mu       sync.Mutex
	open     *openBlock
	spare    *openBlock    // the one before, for its buffers
	last     *commit       // of the block before the open one
	room     chan struct{} // closed when the open block was taken; nil while no caller waits
	manifest format.Manifest
	chain    *block.Chain // of the sealed blocks
	streams  []stream     // by route; none but in memory
	disk     fullDisk     // what is done while there is no room on it
	groupCommit

	err    error // why nothing more is accepted: ErrClosed or ErrFailed
	lost   error // what could not be read back
	closed bool

	queues  map[string]uint32
	pending block.Pending  // found at open, per queue, in pages and in position order
	dead    map[uint32]int // payloads in the morgue by queue

	crash *crash.Findings // how the last process ended, and who is suspected

	// restoring holds the commit of the last Restore while no other one is at work.
	restoring chan *commit
}

func newLog(s store.Store, cfg Config, volatile bool) *Log {
	if cfg.MaxBlockBytes = cmp.Or(cfg.MaxBlockBytes, defaultMaxBlockBytes); cfg.MaxBlockBytes < 0 {
		cfg.MaxBlockBytes = format.MaxAppendBytes
	}
	cfg.MemoryBudget = cmp.Or(cfg.MemoryBudget, defaultMemoryBudget)
	cfg.trimSlack = cmp.Or(cfg.trimSlack, defaultTrimSlack)
	cfg.minCarry = cmp.Or(cfg.minCarry, defaultMinCarry)
	cfg.compactAbove = cmp.Or(cfg.compactAbove, defaultCompactAbove)
	cfg.compactAfter = cmp.Or(cfg.compactAfter, defaultCompactAfter)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Log{
		store:       s,
		volatile:    volatile,
		cfg:         cfg,
		unlock:      func() error { return nil },
		wake:        make(chan struct{}, 1),
		closing:     make(chan struct{}),
		upkeep:      upkeep{token: make(chan struct{}, 1), calls: make(chan compaction)},
		done:        make(chan struct{}),
		released:    make(chan struct{}),
		born:        time.Now(),
		restoring:   make(chan *commit, 1),
		groupCommit: groupCommit{over: make(chan struct{}, 1)},
	}
	l.disk.mu, l.disk.logger = &l.mu, cfg.Logger
	most := block.Limits{Memory: cfg.MemoryBudget, TrimSlack: cfg.trimSlack, MinCarry: cfg.minCarry}
	if volatile {
		most.Memory = -1
	}
	l.chain = block.NewChain(s, most, l.unreadable)
	return l
}

// start begins to commit. The log has been replayed.
func (l *Log) start() {
	l.open = newOpenBlock(nil, l.manifest)
	l.open.Shown = l.volatile
	l.last = settled
	l.restoring <- settled
	go l.commitLoop() // ends in Close, which waits for it
}

// Append hands entries to the committer and gives them the next positions, in
// their order. It waits for the committer only while the open block is full.
// Position, Restored and the fields of a state are ignored. Those that have a
// [Floor] get a score, and perhaps a time, by which they come after all that have the
// same floor and got their positions before: it is written into them. Entries are
// copied: the caller may reuse them.
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

// Post is Append for a caller who does not wait for the ticket, and would
// not hear a refusal. So when the disk turns out to be full the entries are kept
// and tried again, until there is room or the log is closed.
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

// accept adds entries to the open block, and unlocks mu, which the caller holds:
// also when sets panics, and then nothing has changed. What is streamed has no ticket
// yet.
func (l *Log) accept(entries []Entry, posted bool, sets func(Position) []Set) (ticket Ticket, streamed *Delivery) {
	defer l.mu.Unlock()
	if len(entries) == 0 {
		return Ticket{commit: settled}, nil // no commit would ever come
	}
	ticket = Ticket{commit: l.open.commit, first: l.manifest.Next}
	if sets != nil {
		owner := uint32(len(l.open.Entries)) // where the first entry will be
		for _, s := range sets(ticket.first) {
			c := s.Edit()
			c.Owner = owner
			l.open.changes = append(l.open.changes, c)
		}
	}
	if l.volatile && len(entries) == 1 {
		if d := l.stream(&entries[0]); d != nil {
			return ticket, d
		}
	}
	call := uint32(len(l.open.Entries))
	now := int64(0)
	for i := range entries {
		e := &entries[i]
		off := l.admit(e, &now)
		d := l.open.route(e.Route, off)
		if len(entries) == 1 {
			ticket.taken = d.taken
		}
		if posted {
			l.open.keep(off, call)
		}
	}
	if !posted {
		l.open.calls++
		l.groupCommit.called()
	}
	return ticket, nil
}

// lockWithRoom takes l.mu once need bytes may be added to the open block.
func (l *Log) lockWithRoom(ctx context.Context, need int) error {
	if err := cause(ctx); err != nil {
		return err
	}
	for {
		l.mu.Lock()
		if err := l.refusal(); err != nil {
			l.mu.Unlock()
			return err
		}
		if size := l.open.Size(); size+need <= l.cfg.MaxBlockBytes || size <= format.HeaderSize {
			return nil
		}
		room := l.nextRoom()
		l.mu.Unlock()
		select {
		case <-room:
		case <-done(ctx):
			return ended(ctx)
		}
	}
}

// nextRoom is closed when the open block has been taken, which begins at once. The
// caller holds mu.
func (l *Log) nextRoom() <-chan struct{} {
	if l.room == nil {
		l.room = make(chan struct{})
		l.groupCommit.end()
	}
	return l.room
}

// refusal says why nothing is accepted now. The caller holds mu.
func (l *Log) refusal() error {
	if l.err != nil {
		return l.err
	}
	if l.disk.full {
		return ErrFull
	}
	return nil
}

func (l *Log) wakeCommitter() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Change is what a consumer decided. It becomes durable as a whole.
type Change struct {
	Ended     []Ref      // entries that are over: done, merged, superseded
	States    []JobState // new states of jobs
	Buried    []Burial   // payloads that go to the morgue; they end with it
	Rewritten []Rewrite  // entries that get another payload
	Sets      []Set      // changes of state keys

	// Exhumed are payloads that Queue has in the morgue, and that leave it for good. None
	// of them may be on its way out of it by Restore or Delete at the same time.
	Exhumed []Position
	Queue   uint32

	FollowUps
}

// JobState is a job's state to be written down, and where it went.
type JobState struct {
	Entry Entry // Kind and Position are set by Record
	Ref   Ref   // set by Record
}

// Rewrite is an entry that gets another payload, and keeps all else that it has. It
// is about no entry of the open block; see [Ref.Fresh].
type Rewrite struct {
	Ref     Ref // set by Record to that of the new entry, which may be read before its commit
	Payload []byte
	Room    int // bytes, of what was taken for it with [Log.TakeRoom]
}

// Burial is a payload that goes to the morgue.
type Burial struct {
	Ref     Ref
	Payload []byte // instead of that of the entry; nil: as it was accepted
	Retry   int    // the retry count it died with
	Reason  string // the last error
	At      int64  // Unix nanoseconds
	History History
}

// Record adds c to the next commit and sets the Ref of each state. It does
// not wait, except that it reads the disk for a burial that left memory, and not
// for its commit: what a crash takes back is decided again, in the old order. After
// a failure it has no effect.
func (l *Log) Record(c *Change) {
	burials, err := changesOf(c.Buried) // may read the disk
	if err != nil || c.empty() {
		return
	}
	rewritten, err := entriesOf(c.Rewritten) // the same
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || errors.Is(l.err, ErrFailed) || l.lost != nil {
		return
	}
	for i := range c.States {
		s := &c.States[i]
		s.Entry.Kind, s.Entry.Position = KindState, l.manifest.Next
		l.manifest.Next++
		s.Ref = l.open.Add(&s.Entry, false)
	}
	for _, put := range burials {
		l.open.changes = append(l.open.changes, put)
		l.bury(format.QueueOf(put.Key), 1)
	}
	for _, p := range c.Exhumed {
		l.open.changes = append(l.open.changes, format.Edit{Bucket: format.BucketMorgue, Key: format.MorgueKey(c.Queue, p)})
		l.bury(c.Queue, -1)
	}
	l.set(c.Sets)
	l.follow(&c.FollowUps)
	l.rewrite(rewritten, c.Rewritten)
	l.end(c)
	if !l.volatile {
		l.open.cuts = append(l.open.cuts, l.open.cut())
	}
	if !l.volatile || len(c.States)+len(c.Buried)+len(c.Exhumed)+len(c.Sets)+len(c.FollowUps.Entries)+len(c.Rewritten) > 0 {
		l.wakeCommitter()
	}
}

// end takes what is over according to c off the accounts and lists it among the
// marks. The accounts come first: they notice a bug of the consumer, and must
// not leave half a list behind.
func (l *Log) end(c *Change) {
	n := len(c.Ended) + len(c.Buried)
	if n == 0 {
		return
	}
	for _, r := range c.Ended {
		l.chain.End(r, &l.open.Writer)
	}
	for i := range c.Buried {
		l.chain.End(c.Buried[i].Ref, &l.open.Writer)
	}
	if l.volatile {
		return
	}
	l.open.BeginMarks(n)
	for _, r := range c.Ended {
		l.open.MarkEnded(r.Position())
	}
	for i := range c.Buried {
		l.open.MarkEnded(c.Buried[i].Ref.Position())
	}
}
