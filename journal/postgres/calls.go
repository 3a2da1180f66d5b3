package postgres

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/internal/format"
)

// A row of the inbox has calls, each with the items of one caller, which are accepted
// together or not at all:
//
//	version byte · calls, each: its length, the items of it · crc32c of all before
//	item: id, payload, flags byte, [due: seconds, nanoseconds] [score] [pairs: key, value, …]
//
// Lengths, numbers and counts are varints; texts and bytes have their length before them.
const callsVersion = 1

type item = executor.Item[[]byte]

// itemBytes is what an item takes at most beside its texts and bytes.
const itemBytes = 64

const (
	hasDue = 1 << iota
	hasScore
	hasMetadata
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encodeCall is one call as it stands in a row.
func encodeCall(items []item) []byte {
	b := binary.AppendUvarint(nil, uint64(len(items)))
	for i := range items {
		b = appendItem(b, &items[i])
	}
	return b
}

func appendItem(b []byte, it *item) []byte {
	b = appendBytes(b, it.ID)
	b = appendBytes(b, it.Payload)
	var flags byte
	if !it.Due.IsZero() {
		flags |= hasDue
	}
	if it.Score != nil {
		flags |= hasScore
	}
	if len(it.Metadata) > 0 {
		flags |= hasMetadata
	}
	b = append(b, flags)
	if flags&hasDue != 0 {
		b = binary.AppendVarint(b, it.Due.Unix())
		b = binary.AppendUvarint(b, uint64(it.Due.Nanosecond()))
	}
	if flags&hasScore != 0 {
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(*it.Score))
	}
	if flags&hasMetadata != 0 {
		b = binary.AppendUvarint(b, uint64(len(it.Metadata)))
		for _, key := range slices.Sorted(maps.Keys(it.Metadata)) {
			b = appendBytes(appendBytes(b, key), it.Metadata[key])
		}
	}
	return b
}

func appendBytes[T string | []byte](b []byte, v T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

// row joins calls.
func row(calls ...[]byte) []byte {
	size := 5
	for _, c := range calls {
		size += len(c) + binary.MaxVarintLen32
	}
	b := append(make([]byte, 0, size), callsVersion)
	for _, c := range calls {
		b = appendBytes(b, c)
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// callsOf takes a row apart. What it returns shares the memory of b.
func callsOf(b []byte) (calls [][]byte, err error) {
	if len(b) < 5 || binary.BigEndian.Uint32(b[len(b)-4:]) != crc32.Checksum(b[:len(b)-4], castagnoli) {
		return nil, &format.CorruptError{Reason: fmt.Sprintf("a row of the inbox, of %d bytes, is not what was written", len(b))}
	}
	if b[0] != callsVersion {
		return nil, fmt.Errorf("%w: a row of the inbox has version %d, this is version %d", ErrTooNew, b[0], callsVersion)
	}
	r := reader{b: b[1 : len(b)-4]}
	for len(r.b) > 0 && !r.bad {
		calls = append(calls, r.bytes())
	}
	return calls, r.err()
}

// itemsOf returns the items of a call.
func itemsOf(call []byte) ([]item, error) {
	r := reader{b: call}
	n := r.number()
	if n > uint64(len(call)) {
		r.bad = true
	}
	var items []item
	for i := uint64(0); i < n && !r.bad; i++ {
		items = append(items, r.item())
	}
	r.bad = r.bad || len(r.b) > 0
	return items, r.err()
}

// reader reads what was appended. Once it is bad it stays so.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) err() error {
	if r.bad {
		return &format.CorruptError{Reason: "a row of the inbox can't be read, although its sum is right"}
	}
	return nil
}

func (r *reader) item() (it item) {
	it.ID, it.Payload = string(r.bytes()), r.bytes()
	flags := r.take(1)
	if r.bad {
		return it
	}
	if flags[0]&hasDue != 0 {
		seconds, n := binary.Varint(r.b)
		if n <= 0 {
			r.bad = true
			return it
		}
		r.b = r.b[n:]
		it.Due = time.Unix(seconds, int64(r.number()))
	}
	if flags[0]&hasScore != 0 {
		if bits := r.take(8); !r.bad {
			it.Score = new(math.Float64frombits(binary.BigEndian.Uint64(bits)))
		}
	}
	if flags[0]&hasMetadata != 0 {
		it.Metadata = make(map[string]string)
		for n := r.number(); n > 0 && !r.bad; n-- {
			key := string(r.bytes())
			it.Metadata[key] = string(r.bytes())
		}
	}
	return it
}

func (r *reader) number() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) bytes() []byte { return r.take(r.number()) }

func (r *reader) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}
