package postgres

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/internal/format"
)

// A row of the inbox has calls, each with the items of one caller, which are accepted
// together or not at all:
//
//	version byte · calls, each: its length, the items of it · crc32c of all before
//	version byte · conditions, with their length · call, with its length · crc32c
//	item: id, payload, flags byte, [due: seconds, nanoseconds] [score] [pairs: key, value, …]
//
// Lengths, numbers and counts are varints; texts and bytes have their length before them.
const (
	callsVersion     = 1
	conditionVersion = 2 // a caller waits for the answer
	txVersion        = 3 // nobody does
	questionVersion  = 6 // it waits for the answer to the only item; 4 and 5 were questions, too
)

type item = executor.Item[[]byte]

// itemBytes is what an item takes at most beside its texts and bytes.
const itemBytes = 64

const (
	hasDue = 1 << iota
	hasScore
	hasMetadata
	isStaged // by a job: no middleware is called; earlier nodes do not heed it
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encodeCall is one call as it stands in a row.
func encodeCall(items []item) []byte {
	b := binary.AppendUvarint(nil, uint64(len(items)))
	for i := range items {
		b = appendItem(b, &items[i], 0)
	}
	return b
}

func appendItem(b []byte, it *item, flag byte) []byte {
	b = format.AppendText(b, it.ID)
	b = format.AppendText(b, it.Payload)
	flags := len(b)
	b = append(b, flag)
	if !it.Due.IsZero() {
		b[flags] |= hasDue
		b = binary.AppendVarint(b, it.Due.Unix())
		b = binary.AppendUvarint(b, uint64(it.Due.Nanosecond()))
	}
	if it.Score != nil {
		b[flags] |= hasScore
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(*it.Score))
	}
	if len(it.Metadata) > 0 {
		b[flags] |= hasMetadata
		b = binary.AppendUvarint(b, uint64(len(it.Metadata)))
		for _, key := range slices.Sorted(maps.Keys(it.Metadata)) {
			b = format.AppendText(format.AppendText(b, key), it.Metadata[key])
		}
	}
	return b
}

// row joins calls.
func row(calls ...[]byte) []byte { return rowOf([]byte{callsVersion}, calls...) }

func rowOf(b []byte, parts ...[]byte) []byte {
	size := 4
	for _, p := range parts {
		size += len(p) + binary.MaxVarintLen32
	}
	b = slices.Grow(b, size)
	for _, p := range parts {
		b = format.AppendText(b, p)
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// callsOf takes a row apart. What it returns shares the memory of b.
func callsOf(b []byte) (calls [][]byte, conditions []byte, err error) {
	if len(b) < 5 || binary.BigEndian.Uint32(b[len(b)-4:]) != crc32.Checksum(b[:len(b)-4], castagnoli) {
		return nil, nil, &format.CorruptError{Reason: fmt.Sprintf("a row of the inbox, of %d bytes, is not what was written", len(b))}
	}
	if b[0] < callsVersion || b[0] > questionVersion {
		return nil, nil, fmt.Errorf("%w: a row of the inbox has version %d, this is version %d", journal.ErrTooNew, b[0], questionVersion)
	}
	d := format.Decoder{B: b[1 : len(b)-4]}
	if b[0] != callsVersion {
		conditions = text(&d)
	}
	for d.Off < len(d.B) && d.Err == nil {
		calls = append(calls, text(&d))
	}
	return calls, conditions, unread(&d)
}

// itemsOf returns the items of a call, and whether a job has staged them.
func itemsOf(call []byte) (items []item, staged bool, err error) {
	d := format.Decoder{B: call}
	for n := d.Uvarint(); n > 0 && d.Err == nil; n-- {
		it := item{ID: string(text(&d)), Payload: text(&d)}
		flags := d.Byte()
		if flags&hasDue != 0 {
			seconds := d.Varint()
			it.Due = time.Unix(seconds, int64(d.Uvarint()))
		}
		if flags&hasScore != 0 {
			if bits := d.Bytes(8); d.Err == nil {
				it.Score = new(math.Float64frombits(binary.BigEndian.Uint64(bits)))
			}
		}
		if flags&hasMetadata != 0 {
			it.Metadata = make(map[string]string)
			for n := d.Uvarint(); n > 0 && d.Err == nil; n-- {
				key := string(text(&d))
				it.Metadata[key] = string(text(&d))
			}
		}
		items, staged = append(items, it), flags&isStaged != 0
	}
	return items, staged, unread(&d)
}

// unread returns an error unless all was read.
func unread(d *format.Decoder) error {
	if d.Err != nil || d.Off < len(d.B) {
		return &format.CorruptError{Reason: "a row of the inbox can't be read, although its sum is right"}
	}
	return nil
}

// text reads what has its length before it.
func text(d *format.Decoder) []byte { return d.Bytes(d.Uvarint()) }

// stagedPrefix begins the state key of a follow-up of another partition; the number of that and the name of
// the queue follow. No such key is ever written: the commit that sets it puts rows into the inbox instead.
const stagedPrefix = "outbox/"

// followUp is FollowUp of cluster.Cluster. What the server would refuse is refused here: it would take the
// commit with it.
func (o *outbox) followUp(queue string, it item) (set journal.Set, err error) {
	number, err := o.n.PartitionOf(it.ID)
	if err == nil && !validText(queue) {
		err = fmt.Errorf("%w: no follow-up for queue %q, whose name is not UTF-8, or has a zero byte", executor.ErrState, queue)
	}
	set.Key = fmt.Sprintf("%s%d/%s", stagedPrefix, number, queue)
	set.Value = appendItem(binary.AppendUvarint(nil, 1), &it, isStaged)
	return set, err
}

// placeOf returns where a change goes that stands for a follow-up.
func placeOf(e format.Edit) (at place, staged bool) {
	if e.Bucket != format.BucketState || !bytes.HasPrefix(e.Key, []byte(stagedPrefix)) {
		return at, false
	}
	number, queue, _ := strings.Cut(string(e.Key[len(stagedPrefix):]), "/")
	partition, _ := strconv.Atoi(number) // which followUp has written
	return place{partition, queue}, true
}

// follow are rows for follow-ups, in their order.
func follow(staged []*outCall) (all []rows) {
	for n := 0; len(staged) > 0; staged = staged[n:] {
		n = flushable(staged)
		all = append(all, rowsOf(staged[:n]))
	}
	return all
}
