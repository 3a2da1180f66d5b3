package format

import (
	"encoding/binary"
	"fmt"
)

// Buried is a payload in the morgue.
type Buried struct {
	Entry  Entry  // of KindEnqueued, as it was accepted
	Retry  int    // the retry count it died with
	Reason string // the last error
	At     int64  // Unix nanoseconds

	Crashed bool // it has killed the process
	Untold  bool // whether it has is not known: an older version of this package has buried it

	// History are its failures, of which the last one is Reason. Empty for what an
	// older version of this package has buried.
	History History
}

// morgueKeySize is a queue and a position.
const morgueKeySize = 4 + 8

// MorgueKey is where the morgue keeps a payload.
func MorgueKey(queue uint32, p Position) []byte {
	key := binary.BigEndian.AppendUint32(make([]byte, 0, morgueKeySize), queue)
	return binary.BigEndian.AppendUint64(key, uint64(p))
}

// QueueOf is the queue in a key of the morgue.
func QueueOf(key []byte) uint32 { return binary.BigEndian.Uint32(key) }

// Edit puts the payload into the morgue: version, count, time, reason, the entry as
// in a block that begins at zero, since version 2 the history, and 1 if it has killed
// the process, or else 0, which older versions of this package left out.
func (b *Buried) Edit() Edit {
	v := make([]byte, 0, EntryBound(&b.Entry)+len(b.Reason)+len(b.History)+ChecksumSize)
	v = append(v, BlockVersion)
	v = binary.AppendVarint(v, int64(b.Retry))
	v = binary.AppendVarint(v, b.At)
	v = AppendText(v, b.Reason)
	v = AppendEntry(v, &b.Entry, true, 0, 0)
	v = AppendText(v, b.History)
	if b.Crashed {
		v = append(v, 1)
	} else if !b.Untold {
		v = append(v, 0)
	}
	key := MorgueKey(b.Entry.Queue, b.Entry.Position)
	return Edit{Bucket: BucketMorgue, Key: key, Value: AppendChecksum(v, key)}
}

// ParseBuried reads a value of the morgue. It matches ErrCorrupt, with the key, or
// ErrTooNew.
func ParseBuried(key, v []byte) (b Buried, err error) {
	v, err = CutChecksum(v, key)
	if err == nil && len(key) != morgueKeySize {
		err = errShort
	}
	if err != nil {
		return b, &CorruptError{Reason: fmt.Sprintf("buried payload %x: %v", key, err)}
	}
	d := Decoder{B: v}
	version := d.Byte()
	if version > BlockVersion {
		return b, fmt.Errorf("%w: a buried payload has version %d", ErrTooNew, version)
	}
	b.Retry = int(d.Varint())
	b.At = d.Varint()
	b.Reason = string(d.Bytes(d.Uvarint()))
	d.Entry(&b.Entry, 0, 0)
	if version > 1 {
		b.History = d.Bytes(d.Uvarint())
	}
	if b.Untold = d.Off == len(v); !b.Untold {
		b.Crashed = d.Byte() == 1
	}
	if d.Err != nil {
		return b, &CorruptError{Reason: fmt.Sprintf("buried payload %x: %v", key, d.Err)}
	}
	return b, nil
}
