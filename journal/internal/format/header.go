package format

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// FormatVersion is that of the file, kept in the meta bucket and the end mark. Version 1
// had no checksums on state keys and no sums of the side buckets; the first commit to a
// file of that version makes it one of the present. See [store.Bolt]. A file has
// OpenVersion while a log stands on it, which may have more than it: a version of this
// package that knows of none refuses it. A reader refuses anything above.
const (
	FormatVersion = 2
	OpenVersion   = 3
)

// BlockVersion is written into every block, and into what is buried. Version 1 had
// no metadata, no history of failures, and no time of acceptance beside due time
// and score; it is read as if it were of the present.
const BlockVersion = 2

// The header of a block, little endian:
//
//	 0  magic "STRB"        4
//	 4  version             1
//	 5  reserved, zero      3
//	 8  CRC32C of all else  4
//	12  length of the rest  4   from byte 16 to the end of the marks
//	16  sequence            8
//	24  epoch               8
//	32  first position      8
//	40  base time           8   Unix ns, from which due times are counted
//	48  length of entries   4
//	52  number of entries   4
const HeaderSize = 56

var (
	BlockMagic = [4]byte{'S', 'T', 'R', 'B'}
	Castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// Header is the decoded header of a block.
type Header struct {
	Seq, Epoch uint64
	First      Position
	Base       int64
	Entries    int // bytes
	Count      int
}

// Put writes the header into the block b, and last the block's checksum.
func (h *Header) Put(b []byte) {
	copy(b, BlockMagic[:])
	b[4], b[5], b[6], b[7] = BlockVersion, 0, 0, 0
	binary.LittleEndian.PutUint32(b[12:], uint32(len(b)-16))
	binary.LittleEndian.PutUint64(b[16:], h.Seq)
	binary.LittleEndian.PutUint64(b[24:], h.Epoch)
	binary.LittleEndian.PutUint64(b[32:], uint64(h.First))
	binary.LittleEndian.PutUint64(b[40:], uint64(h.Base))
	binary.LittleEndian.PutUint32(b[48:], uint32(h.Entries))
	binary.LittleEndian.PutUint32(b[52:], uint32(h.Count))
	binary.LittleEndian.PutUint32(b[8:], BlockChecksum(b))
}

// ParseHeader checks all of b, which is filed under seq, and returns its header.
func ParseHeader(b []byte, seq uint64) (h Header, err error) {
	if len(b) < HeaderSize || [4]byte(b[:4]) != BlockMagic {
		return Header{}, DamagedBlock(seq, "no block header in %d bytes", len(b))
	}
	if got, want := BlockChecksum(b), binary.LittleEndian.Uint32(b[8:]); got != want {
		return Header{}, DamagedBlock(seq, "checksum %08x, want %08x", got, want)
	}
	if b[4] > BlockVersion {
		return Header{}, fmt.Errorf("%w: block %d has version %d, this is version %d", ErrTooNew, seq, b[4], BlockVersion)
	}
	if n := int(binary.LittleEndian.Uint32(b[12:])); n != len(b)-16 {
		return Header{}, DamagedBlock(seq, "length %d, want %d", len(b)-16, n)
	}
	if b[4] == 0 || [3]byte(b[5:8]) != [3]byte{} {
		return Header{}, DamagedBlock(seq, "reserved bytes are set, or no version")
	}
	h = Header{
		Seq:     binary.LittleEndian.Uint64(b[16:]),
		Epoch:   binary.LittleEndian.Uint64(b[24:]),
		First:   Position(binary.LittleEndian.Uint64(b[32:])),
		Base:    int64(binary.LittleEndian.Uint64(b[40:])),
		Entries: int(binary.LittleEndian.Uint32(b[48:])),
		Count:   int(binary.LittleEndian.Uint32(b[52:])),
	}
	if h.Seq != seq {
		return Header{}, DamagedBlock(seq, "holds block %d", h.Seq)
	}
	if h.Entries > len(b)-HeaderSize {
		return Header{}, DamagedBlock(seq, "%d bytes of entries in %d", h.Entries, len(b)-HeaderSize)
	}
	return h, nil
}

// Scan reads a checked block: every entry with its offset, then every ended
// position. Either function may be nil.
func (h *Header) Scan(b []byte, entry func(off uint32, size int, e *Entry), ended func(Position)) error {
	d := Decoder{B: b[:HeaderSize+h.Entries], Off: HeaderSize}
	corrupt := func() error {
		return &CorruptError{Block: h.Seq, Offset: d.Off, Reason: d.Err.Error()}
	}
	var e Entry
	for range h.Count {
		off := d.Off
		d.Entry(&e, h.First, h.Base)
		if d.Err != nil {
			return corrupt()
		}
		if entry != nil {
			entry(uint32(off), d.Off-off, &e)
		}
	}
	if d.Off != len(d.B) {
		d.fail(fmt.Errorf("%d bytes after the last entry", len(d.B)-d.Off))
		return corrupt()
	}
	if ended == nil {
		return nil
	}
	for d.B = b; d.Off < len(b); {
		if k := Kind(d.Byte()); k != KindMarks {
			d.fail(fmt.Errorf("marks of unknown kind %d", k))
			return corrupt()
		}
		if d.Marks(h.First, ended); d.Err != nil {
			return corrupt()
		}
	}
	return nil
}

// The values of morgue and meta end with a CRC32C of their key and themselves:
// bbolt has none on data pages. See also [Seal].
const ChecksumSize = 4

var errChecksum = errors.New("wrong checksum")

func checksumOf(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, Castagnoli), Castagnoli, value)
}

// BlockChecksum is that of a block without the four bytes where it stands.
func BlockChecksum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:8], Castagnoli), Castagnoli, b[12:])
}

// AppendChecksum appends that of key and value.
func AppendChecksum(value, key []byte) []byte {
	return binary.LittleEndian.AppendUint32(value, checksumOf(key, value))
}

// CutChecksum checks v and returns the value in it.
func CutChecksum(v, key []byte) ([]byte, error) {
	n := len(v) - ChecksumSize
	if n < 0 {
		return nil, errShort
	}
	if binary.LittleEndian.Uint32(v[n:]) != checksumOf(key, v[:n]) {
		return nil, errChecksum
	}
	return v[:n:n], nil
}
