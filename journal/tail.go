package journal

import "encoding/binary"

// tail says where the log begins and ends, so that a block that is missing at
// either end is noticed and no position is used twice after the log ran empty.
type tail struct {
	oldest uint64   // sequence of the oldest block, seq + 1 when there is none
	seq    uint64   // of the newest block ever written
	next   Position // first position that was never used
	epoch  uint64   // number of times the journal was opened

	sides   sides // what the store has beside the log; it fills them in
	version byte  // of the format that it was read from; 0: not read, the present one

	// tx is the store's own number of the transaction that wrote this. When
	// bbolt has another one for it, what we read is an older version of a page,
	// and a disk has lost a write.
	tx uint64
}

// The sizes of a tail, with its checksum: version and eleven numbers. In format 1
// it was seven numbers: of the sides, it had the counts of queues and morgue.
const (
	tailSize  = 1 + 11*8 + checksumSize
	tailSize1 = 7*8 + checksumSize
)

// keyTail is where a store keeps the tail, in the meta bucket.
var keyTail = []byte("tail")

func (t tail) encode() []byte {
	v := make([]byte, 0, tailSize)
	s := t.sides
	numbers := []uint64{
		t.oldest, t.seq, uint64(t.next), t.epoch, s.queues.count, s.morgue.count, t.tx,
		s.state.count, s.queues.hash, s.morgue.hash, s.state.hash,
	}
	if t.version == 1 {
		numbers = numbers[:7]
	} else {
		v = append(v, formatVersion)
	}
	for _, n := range numbers {
		v = binary.BigEndian.AppendUint64(v, n)
	}
	return appendChecksum(v, keyTail)
}

func parseTail(v []byte) (tail, error) {
	size := len(v)
	v, err := cutChecksum(v, keyTail)
	if err != nil || size != tailSize1 && (size != tailSize || v[0] != formatVersion) {
		return tail{}, damaged("the end mark of the log: %d bytes, %v", size, err)
	}
	old := size == tailSize1
	t := tail{version: 1}
	if !old {
		t.version, v = v[0], v[1:]
	}
	field := func(i int) uint64 { return binary.BigEndian.Uint64(v[8*i:]) }
	t.oldest, t.seq, t.next, t.epoch, t.tx = field(0), field(1), Position(field(2)), field(3), field(6)
	t.sides.queues.count, t.sides.morgue.count = field(4), field(5)
	if !old {
		t.sides.state = sum{field(7), field(10)}
		t.sides.queues.hash, t.sides.morgue.hash = field(8), field(9)
	}
	return t, nil
}

// firstTail is the tail of an empty journal. A file is created with it: one
// without it is damaged.
var firstTail = tail{oldest: 1, next: 1}
