package journal

import (
	"github.com/strandjobs/strand/journal/internal/block"
	"github.com/strandjobs/strand/journal/internal/crash"
	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/rest"
)

// What users see of the packages below. What they do is said where they are.

// Entries, and what belongs to them.
type (
	// Position numbers an entry. Positions grow in the order of acceptance; 0 means
	// none.
	Position = format.Position
	// Entry is one record of the log: a payload of an id, or what was decided about its job. Its slices belong to the
	// log, and must not be changed.
	Entry = format.Entry
	// Floor keeps the scores of entries that come without one in the order of their positions: none gets less than one
	// before it.
	Floor = format.Floor
	// Set puts a value under a state key; a nil value deletes the key.
	Set = format.Set
	// Buried is a payload in the morgue.
	Buried = format.Buried
	// Metadata are pairs of strings that belong to a payload, as they stand in the log.
	Metadata = format.Metadata
	// History are the last failures of a job, as they stand in the log.
	History = format.History
	// Failure is one failed run of a job: Attempt (1, 2, 3, …), At (Unix nanoseconds) and Text.
	Failure = format.Failure
	// Ref points to a live entry, in memory or on disk.
	Ref = block.Ref
)

// Kinds of entries.
const (
	// KindEnqueued is an accepted payload of one id.
	KindEnqueued = format.KindEnqueued
	// KindState is what was decided about a job that still has payloads.
	KindState = format.KindState
)

// NewMetadata returns pairs as an [Entry] has them, in the order of their keys.
func NewMetadata(pairs map[string]string) Metadata { return format.NewMetadata(pairs) }

// ScoreOf is the score of a payload that was enqueued without one: the Unix
// time t, given in nanoseconds, in seconds.
func ScoreOf(t int64) float64 { return format.ScoreOf(t) }

// Errors of opening a journal, and of a running log.
var (
	// ErrTooNew is returned when the journal was written by a newer version of
	// this package. The file is not touched.
	ErrTooNew = format.ErrTooNew
	// ErrNotJournal is returned when the file exists and is something else.
	ErrNotJournal = format.ErrNotJournal
	// ErrExists is returned when a new journal is to be made where something is.
	ErrExists = format.ErrExists
	// ErrCorrupt is matched by the [CorruptError] that reading returns when a
	// checksum, a length or the sequence of blocks is wrong.
	ErrCorrupt = format.ErrCorrupt
	// ErrClosed is returned by calls after Close.
	ErrClosed = format.ErrClosed
	// ErrFailed is returned after a commit failed. The log refuses everything
	// from then on; only opening the journal again can tell what is on disk.
	ErrFailed = format.ErrFailed
	// ErrFull is returned while the disk has no room but what is kept for
	// results. Nothing was written, and nothing will be; the call can be repeated.
	ErrFull = format.ErrFull
	// ErrUnknown is returned when a commit failed, or the caller's context
	// ended, after the entries were handed to the committer: they may or may
	// not be on disk. Half of a call is never on disk.
	ErrUnknown = format.ErrUnknown
	// ErrTooLarge is returned when the entries of one call have more than a GiB: they go into one block.
	ErrTooLarge = format.ErrTooLarge
	// ErrNotFound is returned when a buried payload is not in the morgue.
	ErrNotFound = format.ErrNotFound
)

// Why a journal does not open, and how its last process ended.
type (
	// LockedError says which process, perhaps this one, has the journal open: Dir, PID, Host, Since. It is a pointer.
	LockedError = format.LockedError
	// CorruptError says where a journal is damaged: Block, Offset, Reason. It is a pointer, and matches [ErrCorrupt].
	CorruptError = format.CorruptError
	// CrashRecorder notes which positions run at the moment.
	CrashRecorder = crash.Recorder
	// Death is the end of a process that did not close its journal.
	Death = crash.Death
	// Suspicion says how likely a position that was running at a death has caused it. What was running at two deaths is
	// held back at the next start, and then runs without others of its kind. A death meanwhile clears it, as a rule; a
	// death right after it has begun confirms it.
	Suspicion = crash.Suspicion
)

// Cleared is the [Set] that takes the suspicion off a position, if there is one, when it is committed.
func Cleared(p Position) Set { return crash.Cleared(p) }

// Journals that are not open.
type (
	// View is a journal that is not open, read without changing it.
	View = rest.View
	// Info are the figures of a journal at rest.
	Info = rest.Info
	// Salvaged says what was found in a damaged journal and what was not.
	Salvaged = rest.Salvaged
	// Loss is one thing that could not be read.
	Loss = rest.Loss
	// Builder writes a new journal entry by entry.
	Builder = rest.Builder
)

// OpenView reads the journal in dir. It returns a [LockedError] when a process has
// it open or opens it meanwhile, and otherwise the errors of [Open], except that a
// directory without a journal is an error, too: ErrNotJournal.
//
// A process that opens the journal while it is being read is not held up.
func OpenView(dir string) (*View, error) { return rest.OpenView(dir, rest.AtHand) }

// OpenSides is OpenView for a caller that needs figures and what is beside the log. It
// checks all of the journal, in the same memory however much waits; the View has no
// entries and no suspects.
func OpenSides(dir string) (*View, error) { return rest.OpenView(dir, 0) }

// Check reads and checks all of the journal in dir, without writing to it, not even
// the LOCK file, and returns its figures. Damage is an error that matches
// ErrCorrupt; the others are those of [OpenView].
func Check(dir string) (Info, error) { return rest.Check(dir) }

// Clone copies the journal in dir, which must not be open, to newDir, which must not be there
// yet. The copy is exact, and is checked before it gets its name.
//
// The journal is locked meanwhile. Where this process can make no LOCK, on a disk that is read-only or
// full, it is a [LockedError] when another one has opened the journal by the end. So it is with Salvage.
func Clone(dir, newDir string) error { return rest.Clone(dir, newDir) }

// Compact makes the file of the journal in dir, which must not be open, as
// small as what is in it, and returns its size before and after. All of it is
// read and checked first. It returns the errors of [OpenView].
func Compact(dir string) (before, after int64, err error) { return rest.Compact(dir) }

// Salvage reads as much as possible of the journal in dir, which must not be
// open, and writes what is intact to a new one in newDir: live entries at
// their old positions, queues, the morgue. With an empty newDir it only looks.
//
// A lost block takes more with it than its entries: it also says which older
// entries had ended. Those run again, as after a crash. What is lost of the state
// keys is said with what it means.
//
// What it writes can be opened. Whoever opens it may want more of its state keys than
// the journal does: each check is called with every intact one, in key order, and what it
// returns an error for is left out, which is a loss with the reason. What the strand
// command salvages can be opened by an executor.
//
// There are no losses only if it holds all that the last commit left. A file of format 1
// is not salvaged.
//
// It returns an error, and makes no journal, when there is none in dir or it
// can't be read at all. Losses are not an error.
func Salvage(dir, newDir string, checks ...func(Set) error) (*Salvaged, error) {
	return rest.Salvage(dir, newDir, checks...)
}

// NewBuilder begins a journal in dir, which must not be there yet. Its
// positions go on at next, its epochs after epoch.
func NewBuilder(dir string, next Position, epoch uint64) (*Builder, error) {
	return rest.NewBuilder(dir, next, epoch)
}

// InUse returns a [LockedError] when a process has the journal in dir open, and nil when
// none has, or when there is no journal. It asks the lock alone; of one that this user
// may not read it returns fs.ErrPermission, with its path. Where the system's locks can't
// be asked about, as on Windows, it returns nil: there OpenView tells.
func InUse(dir string) error { return directory.Held(dir) }
