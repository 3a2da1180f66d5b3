package journal

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
)

// store is the disk under a log. A log calls commit from one goroutine only;
// read, get and page may run beside it.
type store interface {
	// commit makes all of t durable or none of it. It returns an error that
	// matches ErrFull when nothing was written for want of room. After any
	// other error it is unknown what is on disk, and the log stops.
	commit(t *transaction) error

	// room looks how much the next commit can write, and tries to have room for
	// need bytes beside a reserve that is left to results. It is called by the
	// goroutine that commits. After an error the log stops.
	room(need int) (room, error)

	// scan calls block for every block, oldest first. The bytes are only valid
	// during the call.
	scan(block func(seq uint64, data []byte) error) error

	// read returns n chunks of a block that is committed, from the first of them
	// on, joined. Chunks have chunkSize bytes, except for the last one of a block.
	// It may be called from any goroutine.
	read(seq uint64, first, n int) ([]byte, error)
	chunkSize() int

	// get returns a copy of the value of a key, nil when there is none. Like page,
	// it returns ErrCorrupt, with bucket and key, for a value that is not what was
	// written.
	get(bucket bucket, key []byte) ([]byte, error)

	// page returns copies of up to n keys and values from key from on, in key
	// order.
	page(bucket bucket, from []byte, n int) ([]pair, error)

	// pageWithin is page for values that may be large: it stops after so many bytes
	// of them, but not before the first. No pair means that there is none.
	pageWithin(bucket bucket, from []byte, n, bytes int) ([]pair, error)

	// buried returns how many payloads each queue had in the morgue when the store
	// was opened.
	buried() map[uint32]int

	// copyTo writes what the last commit left to a new journal file, unless over
	// is closed meanwhile.
	copyTo(path string, over <-chan struct{}) error

	// size returns the bytes of the file, and used those in use. They are called
	// by the goroutine that commits.
	size() int
	used() (int, error)

	// compact gives back to the disk what is not in use. It is called by the
	// goroutine that commits. After an error the log goes on, unless the file
	// was replaced by then. It gives up, and changes nothing, when over is closed.
	compact(over <-chan struct{}) (replaced bool, err error)

	close() error
}

// bucket names one of bbolt's top-level buckets. Names are part of the format.
type bucket string

const (
	bucketLog    bucket = "log"
	bucketMeta   bucket = "meta"
	bucketQueues bucket = "queues" // name → number, 4 bytes big endian
	bucketMorgue bucket = "morgue" // queue, position → burial
	bucketState  bucket = "state"  // state key → value: marks, locks, slots, suspects
)

var buckets = []bucket{bucketLog, bucketMeta, bucketQueues, bucketMorgue, bucketState}

type pair struct{ key, value []byte }

// change is one put, or a delete when value is nil, in a side bucket.
type change struct {
	bucket     bucket
	key, value []byte
	owner      uint32 // offset of the entry in the open block that it goes with; 0: none
}

// transaction is what one commit writes. Its slices are valid until commit
// returns.
type transaction struct {
	seq     uint64
	block   []byte    // empty: only the tail changes
	drop    []dropped // blocks to delete, ascending
	changes []change  // in this order
	tail    tail
}

// dropped is a block that leaves the log.
type dropped struct {
	seq     uint64
	size    int
	carried bool // its live entries are in the block of the same transaction
	over    unit // of its last entry
}

// unit is one call of Record, by its number in the block that its results are in:
// the least that is written at once.
type unit struct {
	block *Block
	n     int
}

// room is how much a commit can write, in bytes.
type room struct {
	bytes int // at most, the reserve included
	spare int // beyond what was asked for and the reserve; negative when there is less
}

// endless is the room of a store that can't tell.
var endless = room{math.MaxInt32, math.MaxInt32}

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

// The values of morgue and meta end with a CRC32C of their key and themselves:
// bbolt has none on data pages. See also [seal].
const checksumSize = 4

var errChecksum = errors.New("wrong checksum")

func checksumOf(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

func appendChecksum(value, key []byte) []byte {
	return binary.LittleEndian.AppendUint32(value, checksumOf(key, value))
}

func cutChecksum(v, key []byte) ([]byte, error) {
	n := len(v) - checksumSize
	if n < 0 {
		return nil, errShort
	}
	if binary.LittleEndian.Uint32(v[n:]) != checksumOf(key, v[:n]) {
		return nil, errChecksum
	}
	return v[:n:n], nil
}
