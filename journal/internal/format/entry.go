package format

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// Position numbers an entry. Positions grow in the order of acceptance; 0 means
// none.
type Position uint64

// Kind says what an entry is. Numbers are part of the format: one that was used
// stays taken.
type Kind uint8

const (
	// KindEnqueued is an accepted payload of one id.
	KindEnqueued Kind = 1
	// KindState is what was decided about a job that still has payloads: its
	// due time, retry count, last error, and which payloads failed last.
	KindState Kind = 2

	// KindMarks lists positions that ended. Only inside a block.
	KindMarks Kind = 3

	// kindMask leaves five bits beside the kind for flags.
	kindMask = 0x07
)

// Flags of an entry, kept beside its kind in one byte.
const (
	// flagLater, of an enqueued payload that was put off: it was accepted at the time
	// that its score says, not at its due time.
	flagLater = 0x08
	// flagCrashed, of the state of a halted job: it has killed the process.
	flagCrashed = 0x08
	// flagMore: what only few entries have follows at the end. Of an enqueued payload
	// that is when it was accepted, and its metadata; of a state the history.
	flagMore = 0x10
	// flagMoved: the position is written in full, because the entry was carried
	// forward from an older block or came back from the morgue.
	flagMoved = 0x20
	// flagScore: a score follows. Without it the score is the due time in
	// seconds, which is what a plain Enqueue asks for.
	flagScore = 0x40
	// flagExtra is an enqueued payload that came back from the morgue, or the
	// state of a halted job.
	flagExtra = 0x80
)

// Entry is one record of the log as its reader sees it. ID, Payload and Error
// are slices of the block that holds the entry: they must not be changed, and
// are valid as long as the reader likes.
type Entry struct {
	Kind     Kind
	Queue    uint32   // number of the queue, from [Log.Queue]
	Position Position // set by Append; in a Log.Restore, the payload's old one
	ID       []byte
	Due      int64  // Unix nanoseconds
	Route    uint32 // given to Append: whom to deliver to; not stored
	Floor    *Floor // given to Append: Score is not below it; nil: it is the caller's; not stored

	// Of a KindEnqueued entry.
	Score    float64
	Payload  []byte
	Metadata Metadata
	Restored bool // came back from the morgue

	// Accepted is when it was accepted, in Unix nanoseconds, and to the microsecond.
	// 0: at the due time, or it was put off by an older version of this package.
	Accepted int64

	// Of a KindState entry.
	Retry   int        // −1 new, 0 failed once, …
	Halted  bool       // not to be run until a person says so
	Crashed bool       // if halted: because it has killed the process
	Failed  []Position // payloads of the last, failed run; nil when it does not matter; what begins with 0 is the consumer's own
	Error   []byte     // text of the last error
	History History    // what failed, the last error included
}

// ScoreOf is the score of a payload that was enqueued without one: the Unix
// time t, given in nanoseconds, in seconds.
func ScoreOf(t int64) float64 { return float64(t) / float64(time.Second) }

// TimeOf is the inverse of ScoreOf, to the microsecond; 0 for a score that no clock
// can show.
func TimeOf(score float64) int64 {
	ns := math.Round(score * float64(time.Second))
	if !(math.Abs(ns) < 1<<63) { // NaN, too
		return 0
	}
	return int64(ns)
}

// AcceptedAt returns when a payload was accepted, in Unix nanoseconds.
func (e *Entry) AcceptedAt() int64 { return cmp.Or(e.Accepted, e.Due) }

// acceptance says how an entry tells when it was accepted: by its due time, by its
// score, or else by the time itself.
func (e *Entry) acceptance() (flag byte) {
	if e.Accepted == 0 || e.Accepted == e.Due {
		return 0
	}
	t := TimeOf(e.Score)
	off := t - e.Accepted
	switch {
	case t == 0 || off <= -int64(time.Microsecond) || off >= int64(time.Microsecond):
		return flagMore
	case t == e.Due: // which says it as well
		return 0
	}
	return flagLater
}

// AppendEntry writes e as part of a block whose first position is first and
// whose due times count from base.
func AppendEntry(b []byte, e *Entry, moved bool, first Position, base int64) []byte {
	head := len(b)
	b = append(b, byte(e.Kind))
	b = binary.AppendUvarint(b, uint64(e.Queue))
	if moved {
		b[head] |= flagMoved
		b = binary.AppendUvarint(b, uint64(e.Position))
	} else {
		b = binary.AppendUvarint(b, uint64(e.Position-first))
	}
	b = binary.AppendVarint(b, e.Due-base)
	b = AppendText(b, e.ID)
	if e.Kind == KindState {
		return appendState(b, head, e)
	}
	if e.Restored {
		b[head] |= flagExtra
	}
	if math.Float64bits(e.Score) != math.Float64bits(ScoreOf(e.Due)) { // −0 and NaN too
		b[head] |= flagScore
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(e.Score))
	}
	b = AppendText(b, e.Payload)
	flag := e.acceptance()
	if len(e.Metadata) > 0 {
		flag = flagMore
	}
	b[head] |= flag
	if flag != flagMore {
		return b
	}
	b = binary.AppendVarint(b, e.AcceptedAt()-base)
	return AppendText(b, e.Metadata)
}

func appendState(b []byte, head int, e *Entry) []byte {
	if e.Halted {
		b[head] |= flagExtra
	}
	if e.Crashed {
		b[head] |= flagCrashed
	}
	b = binary.AppendVarint(b, int64(e.Retry))
	b = binary.AppendUvarint(b, uint64(len(e.Failed)))
	for _, p := range e.Failed {
		b = binary.AppendUvarint(b, uint64(p))
	}
	b = AppendText(b, e.Error)
	if len(e.History) == 0 {
		return b
	}
	b[head] |= flagMore
	return AppendText(b, e.History)
}

// maxEntryOverhead bounds what AppendEntry adds to id, payload, metadata, error
// text, history and failed positions.
const maxEntryOverhead = 64

// EntryBound is how many bytes an entry takes at most.
func EntryBound(e *Entry) int {
	return maxEntryOverhead + len(e.ID) + len(e.Payload) + len(e.Metadata) + len(e.Error) + len(e.History) +
		binary.MaxVarintLen64*len(e.Failed)
}

// MaxAppendBytes bounds the entries of one call, because offsets have 32 bits.
const MaxAppendBytes = 1 << 30

var errShort = errors.New("entry cut short")

// Decoder reads the body of a block. The first error sticks: nothing is left to read then.
type Decoder struct {
	B   []byte
	Off int
	Err error
}

func (d *Decoder) fail(err error) {
	if d.Err == nil {
		d.B, d.Err = d.B[:d.Off], err
	}
}

// Byte reads one.
func (d *Decoder) Byte() byte {
	if d.Off >= len(d.B) {
		d.fail(errShort)
		return 0
	}
	d.Off++
	return d.B[d.Off-1]
}

// Uvarint reads a number.
func (d *Decoder) Uvarint() (v uint64) {
	for i, b := range d.B[d.Off:] {
		if b < 0x80 && (i < binary.MaxVarintLen64-1 || b <= 1) {
			d.Off += i + 1
			return v | uint64(b)<<(7*i)
		}
		if i == binary.MaxVarintLen64-1 { // it has more than 64 bits
			break
		}
		v |= uint64(b&0x7f) << (7 * i)
	}
	d.fail(errShort)
	return 0
}

// Varint reads a number with a sign.
func (d *Decoder) Varint() int64 {
	u := d.Uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// Bytes returns the next n bytes with their capacity cut, so that an append by the
// caller can't reach the next entry.
func (d *Decoder) Bytes(n uint64) []byte {
	if d.Err != nil || n > uint64(len(d.B)-d.Off) {
		d.fail(errShort)
		return nil
	}
	d.Off += int(n)
	return d.B[d.Off-int(n) : d.Off : d.Off]
}

// Entry decodes the entry at d.Off, which must not be a list of marks.
func (d *Decoder) Entry(e *Entry, first Position, base int64) {
	head := d.Byte()
	e.Kind, e.Queue, e.Position = Kind(head&kindMask), uint32(d.Uvarint()), Position(d.Uvarint())
	if head&flagMoved == 0 {
		e.Position += first
	}
	e.Due = base + d.Varint()
	e.ID = d.Bytes(d.Uvarint())
	switch e.Kind {
	case KindEnqueued:
		e.Restored = head&flagExtra != 0
		e.Score = ScoreOf(e.Due)
		if head&flagScore != 0 {
			if b := d.Bytes(8); b != nil {
				e.Score = math.Float64frombits(binary.LittleEndian.Uint64(b))
			}
		}
		e.Payload = d.Bytes(d.Uvarint())
		d.accepted(e, head, base)
		e.Retry, e.Halted, e.Crashed, e.Failed, e.Error, e.History = 0, false, false, nil, nil, nil
	case KindState:
		e.Score, e.Payload, e.Restored, e.Accepted, e.Metadata, e.History = 0, nil, false, 0, nil, nil
		e.Halted, e.Crashed = head&flagExtra != 0, head&flagCrashed != 0
		e.Retry = int(d.Varint())
		e.Failed = nil
		for n := d.Uvarint(); n > 0 && d.Err == nil; n-- {
			e.Failed = append(e.Failed, Position(d.Uvarint()))
		}
		e.Error = d.Bytes(d.Uvarint())
		if head&flagMore != 0 {
			e.History = d.Bytes(d.Uvarint())
		}
	default:
		d.fail(fmt.Errorf("entry of unknown kind %d", e.Kind))
	}
}

// accepted reads when the payload of e was accepted, and its metadata.
func (d *Decoder) accepted(e *Entry, head byte, base int64) {
	e.Accepted, e.Metadata = 0, nil
	switch {
	case head&flagMore != 0:
		if e.Accepted = base + d.Varint(); e.Accepted == e.Due {
			e.Accepted = 0
		}
		e.Metadata = d.Bytes(d.Uvarint())
	case head&flagLater != 0:
		e.Accepted = TimeOf(e.Score)
	}
}

// Head returns the id of the entry at d.Off and its due time, counted from that of
// the block, and leaves d somewhere in it.
func (d *Decoder) Head() (id []byte, due int64) {
	d.Byte()
	d.Uvarint() // queue
	d.Uvarint() // position
	due = d.Varint()
	return d.Bytes(d.Uvarint()), due
}

// Marks calls ended for each position in the list at d.Off, whose kind byte has
// been read. The first counts from last.
func (d *Decoder) Marks(last Position, ended func(Position)) {
	for n := d.Uvarint(); n > 0 && d.Err == nil; n-- {
		last = Position(int64(last) + d.Varint())
		if d.Err == nil {
			ended(last)
		}
	}
}
