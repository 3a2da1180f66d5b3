package format

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
)

// Manifest says where the log begins and ends, so that a block that is missing at
// either end is noticed and no position is used twice after the log ran empty.
type Manifest struct {
	Oldest uint64   // sequence of the oldest block, seq + 1 when there is none
	Seq    uint64   // of the newest block ever written
	Next   Position // first position that was never used
	Epoch  uint64   // number of times the journal was opened

	Sides   Sides // what the store has beside the log; it fills them in
	Version byte  // of the format that it was read from; 0: not read, the present one

	// Tx is the store's own number of the transaction that wrote this. When
	// bbolt has another one for it, what we read is an older version of a page,
	// and a disk has lost a write.
	Tx uint64

	// Log is the number of the log that stands on this; 0: there is none. Records is how many
	// records that had before this.
	Log, Records uint64
}

// The sizes of a manifest, with its checksum: version and eleven numbers, and two more where
// there is a log. In format 1 it was seven numbers: of the sides, it had the counts of
// queues and morgue.
const (
	manifestSize  = 1 + 11*8 + ChecksumSize
	manifestSize1 = 7*8 + ChecksumSize
	manifestSize3 = manifestSize + 2*8
)

// KeyManifest is where a store keeps the manifest, in the meta bucket.
var KeyManifest = []byte("tail")

// Encode returns the value that the meta bucket keeps.
func (t Manifest) Encode() []byte {
	v := make([]byte, 0, manifestSize3)
	s := t.Sides
	numbers := []uint64{
		t.Oldest, t.Seq, uint64(t.Next), t.Epoch, s.Queues.Count, s.Morgue.Count, t.Tx,
		s.State.Count, s.Queues.Hash, s.Morgue.Hash, s.State.Hash,
	}
	switch {
	case t.Log != 0:
		v, numbers = append(v, OpenVersion), append(numbers, t.Log, t.Records)
	case t.Version == 1:
		numbers = numbers[:7]
	default:
		v = append(v, FormatVersion)
	}
	for _, n := range numbers {
		v = binary.BigEndian.AppendUint64(v, n)
	}
	return AppendChecksum(v, KeyManifest)
}

// ParseManifest reads a value of the present format, or of format 1.
func ParseManifest(v []byte) (Manifest, error) {
	size := len(v)
	v, err := CutChecksum(v, KeyManifest)
	t := Manifest{Version: map[int]byte{manifestSize1: 1, manifestSize: FormatVersion, manifestSize3: OpenVersion}[size]}
	if err != nil || t.Version == 0 || t.Version > 1 && v[0] != t.Version {
		return Manifest{}, Damaged("the end mark of the log: %d bytes, %v", size, err)
	}
	if t.Version > 1 {
		v = v[1:]
	}
	field := func(i int) uint64 { return binary.BigEndian.Uint64(v[8*i:]) }
	t.Oldest, t.Seq, t.Next, t.Epoch, t.Tx = field(0), field(1), Position(field(2)), field(3), field(6)
	t.Sides.Queues.Count, t.Sides.Morgue.Count = field(4), field(5)
	if t.Version > 1 {
		t.Sides.State = Sum{field(7), field(10)}
		t.Sides.Queues.Hash, t.Sides.Morgue.Hash = field(8), field(9)
	}
	if t.Version == OpenVersion {
		t.Log, t.Records = field(11), field(12)
	}
	return t, nil
}

// FirstManifest is the manifest of an empty journal. A file is created with it: one
// without it is damaged.
var FirstManifest = Manifest{Oldest: 1, Next: 1}

// KeyUUID is where the meta bucket keeps what tells a journal from all others. A
// copy has the same; which of them is meant, epoch and next position may tell.
// Journals from before there was one have none.
var KeyUUID = []byte("uuid")

const uuidSize = 16

// NewUUID returns a random one (version 4), with its checksum.
func NewUUID() []byte {
	id := make([]byte, uuidSize, uuidSize+ChecksumSize)
	_, _ = rand.Read(id) // never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return AppendChecksum(id, KeyUUID)
}

// ParseUUID returns the text of one; empty for none.
func ParseUUID(v []byte) (string, error) {
	if v == nil {
		return "", nil
	}
	id, err := CutChecksum(v, KeyUUID)
	if err != nil || len(id) != uuidSize {
		return "", Damaged("the UUID of the journal: %d bytes, %v", len(v), err)
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]), nil
}
