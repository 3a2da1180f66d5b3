package journal

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
}

// morgueKeySize is a queue and a position.
const morgueKeySize = 4 + 8

func morgueKey(queue uint32, p Position) []byte {
	key := binary.BigEndian.AppendUint32(make([]byte, 0, morgueKeySize), queue)
	return binary.BigEndian.AppendUint64(key, uint64(p))
}

// queueOf is the queue in a key of the morgue.
func queueOf(key []byte) uint32 { return binary.BigEndian.Uint32(key) }

// change puts the payload into the morgue: version, count, time, reason, and the
// entry as in a block that begins at zero.
func (b *Buried) change() change {
	v := make([]byte, 0, entryBound(&b.Entry)+len(b.Reason)+checksumSize)
	v = append(v, blockVersion)
	v = binary.AppendVarint(v, int64(b.Retry))
	v = binary.AppendVarint(v, b.At)
	v = binary.AppendUvarint(v, uint64(len(b.Reason)))
	v = append(v, b.Reason...)
	v = appendEntry(v, &b.Entry, true, 0, 0)
	key := morgueKey(b.Entry.Queue, b.Entry.Position)
	return change{bucket: bucketMorgue, key: key, value: appendChecksum(v, key)}
}

func parseBuried(key, v []byte) (b Buried, err error) {
	v, err = cutChecksum(v, key)
	if err == nil && len(key) != morgueKeySize {
		err = errShort
	}
	if err != nil {
		return b, &CorruptError{Reason: fmt.Sprintf("buried payload %x: %v", key, err)}
	}
	d := decoder{b: v}
	if version := d.byte(); version > blockVersion {
		return b, fmt.Errorf("%w: a buried payload has version %d", ErrTooNew, version)
	}
	b.Retry = int(d.varint())
	b.At = d.varint()
	b.Reason = string(d.bytes(d.uvarint()))
	d.entry(&b.Entry, 0, 0)
	if d.err != nil {
		return b, &CorruptError{Reason: fmt.Sprintf("buried payload %x: %v", key, d.err)}
	}
	return b, nil
}
