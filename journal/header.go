package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// formatVersion is that of the file, kept in the meta bucket and the end mark. A
// reader refuses anything above it. Version 1 had no checksums on state keys and
// no sums of the side buckets; the first commit to a file of that version makes
// it one of the present. See [bolt.migrate].
const formatVersion = 2

// blockVersion is written into every block, and into what is buried.
const blockVersion = 1

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
const headerSize = 56

var (
	blockMagic = [4]byte{'S', 'T', 'R', 'B'}
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// header is the decoded header of a block.
type header struct {
	seq, epoch uint64
	first      Position
	base       int64
	entries    int // bytes
	count      int
}

func (h *header) put(b []byte) {
	copy(b, blockMagic[:])
	b[4], b[5], b[6], b[7] = blockVersion, 0, 0, 0
	binary.LittleEndian.PutUint32(b[12:], uint32(len(b)-16))
	binary.LittleEndian.PutUint64(b[16:], h.seq)
	binary.LittleEndian.PutUint64(b[24:], h.epoch)
	binary.LittleEndian.PutUint64(b[32:], uint64(h.first))
	binary.LittleEndian.PutUint64(b[40:], uint64(h.base))
	binary.LittleEndian.PutUint32(b[48:], uint32(h.entries))
	binary.LittleEndian.PutUint32(b[52:], uint32(h.count))
	binary.LittleEndian.PutUint32(b[8:], blockChecksum(b))
}

func blockChecksum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:8], castagnoli), castagnoli, b[12:])
}

// parseHeader checks all of b, which is filed under seq, and returns its header.
func parseHeader(b []byte, seq uint64) (h header, err error) {
	corrupt := func(format string, args ...any) (header, error) {
		return header{}, &CorruptError{Block: seq, Offset: -1, Reason: fmt.Sprintf(format, args...)}
	}
	if len(b) < headerSize || [4]byte(b[:4]) != blockMagic {
		return corrupt("no block header in %d bytes", len(b))
	}
	if got, want := blockChecksum(b), binary.LittleEndian.Uint32(b[8:]); got != want {
		return corrupt("checksum %08x, want %08x", got, want)
	}
	if b[4] > blockVersion {
		return header{}, fmt.Errorf("%w: block %d has version %d, this is version %d", ErrTooNew, seq, b[4], blockVersion)
	}
	if n := int(binary.LittleEndian.Uint32(b[12:])); n != len(b)-16 {
		return corrupt("length %d, want %d", len(b)-16, n)
	}
	if [4]byte(b[4:8]) != [4]byte{blockVersion} {
		return corrupt("reserved bytes are set")
	}
	h = header{
		seq:     binary.LittleEndian.Uint64(b[16:]),
		epoch:   binary.LittleEndian.Uint64(b[24:]),
		first:   Position(binary.LittleEndian.Uint64(b[32:])),
		base:    int64(binary.LittleEndian.Uint64(b[40:])),
		entries: int(binary.LittleEndian.Uint32(b[48:])),
		count:   int(binary.LittleEndian.Uint32(b[52:])),
	}
	if h.seq != seq {
		return corrupt("holds block %d", h.seq)
	}
	if h.entries > len(b)-headerSize {
		return corrupt("%d bytes of entries in %d", h.entries, len(b)-headerSize)
	}
	return h, nil
}

// scan reads a checked block: every entry with its offset, then every ended
// position. Either function may be nil.
func (h *header) scan(b []byte, entry func(off uint32, size int, e *Entry), ended func(Position)) error {
	d := decoder{b: b[:headerSize+h.entries], off: headerSize}
	corrupt := func() error {
		return &CorruptError{Block: h.seq, Offset: d.off, Reason: d.err.Error()}
	}
	var e Entry
	for range h.count {
		off := d.off
		d.entry(&e, h.first, h.base)
		if d.err != nil {
			return corrupt()
		}
		if entry != nil {
			entry(uint32(off), d.off-off, &e)
		}
	}
	if d.off != len(d.b) {
		d.fail(fmt.Errorf("%d bytes after the last entry", len(d.b)-d.off))
		return corrupt()
	}
	if ended == nil {
		return nil
	}
	for d.b = b; d.off < len(b); {
		if k := Kind(d.byte()); k != kindMarks {
			d.fail(fmt.Errorf("marks of unknown kind %d", k))
			return corrupt()
		}
		if d.marks(h.first, ended); d.err != nil {
			return corrupt()
		}
	}
	return nil
}
