package statekey

import (
	"encoding/binary"
	"fmt"

	"github.com/strandjobs/strand/journal"
)

// OffsetPrefix begins the state keys of the offsets of sources; the name follows. The value
// is 8 bytes big endian.
const OffsetPrefix = "mark/"

// Offset encodes an offset.
func Offset(offset int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(offset)) }

// ParseOffset reads what Offset has encoded.
func ParseOffset(v []byte) (int64, error) {
	if len(v) != 8 {
		return 0, damaged("%d bytes instead of 8", len(v))
	}
	return int64(binary.BigEndian.Uint64(v)), nil
}

// IdempotencyPrefix begins the state keys of idempotency keys. The length and the name of
// the queue follow: numbers of queues change when a journal is exported and imported.
const IdempotencyPrefix = "key/"

// IdempotencyKey is the state key of an idempotency key of a queue.
func IdempotencyKey(queue, key string) string {
	return fmt.Sprintf("%s%d/%s/%s", IdempotencyPrefix, len(queue), queue, key)
}

// Idempotency is what the journal has about an idempotency key.
type Idempotency struct {
	At    int64 // Unix nanoseconds, when it was accepted
	First journal.Position
	N     int // items
}

const idempotencySize = 3 * 8

// Encode returns the value of the key.
func (k Idempotency) Encode() []byte {
	v := binary.BigEndian.AppendUint64(make([]byte, 0, idempotencySize), uint64(k.At))
	v = binary.BigEndian.AppendUint64(v, uint64(k.First))
	return binary.BigEndian.AppendUint64(v, uint64(k.N))
}

// ParseIdempotency reads what Encode has returned.
func ParseIdempotency(v []byte) (Idempotency, error) {
	if len(v) != idempotencySize {
		return Idempotency{}, damaged("%d bytes instead of %d", len(v), idempotencySize)
	}
	field := func(i int) uint64 { return binary.BigEndian.Uint64(v[8*i:]) }
	return Idempotency{int64(field(0)), journal.Position(field(1)), int(field(2))}, nil
}
