package wal

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/strandjobs/strand/journal/internal/format"
)

// A sector, little endian:
//
//	 0  CRC32C of its place and all else  4
//	 4  number of the record              8   0: the sector says which log this is
//	12  generation                        8   half of it says which log it is of
//	20  length of the rest, and flags     2
//	22  a part of the record, then zeros
const (
	sectorSize = 512
	headerSize = 22
	partSize   = sectorSize - headerSize

	firstFlag, lastFlag = 1 << 15, 1 << 14
)

// sector is what one says.
type sector struct {
	number      uint64
	generation  uint64
	part        []byte
	first, last bool // of its record
	sound       bool // its checksum says so
	empty       bool // it has only zeros: nothing was ever written to it
}

// put writes s into b, which is to be at a place in the file.
func (s *sector) put(b []byte, place int64) {
	n := binary.LittleEndian
	n.PutUint64(b[4:], s.number)
	n.PutUint64(b[12:], s.generation)
	length := uint16(len(s.part))
	if s.first {
		length |= firstFlag
	}
	if s.last {
		length |= lastFlag
	}
	n.PutUint16(b[20:], length)
	clear(b[headerSize+copy(b[headerSize:], s.part):])
	n.PutUint32(b, checksum(b, place))
}

// parse reads the sector b, which is at a place in the file. Its part shares memory
// with b.
func parse(b []byte, place int64) (s sector) {
	n := binary.LittleEndian
	length := n.Uint16(b[20:])
	size := int(length &^ (firstFlag | lastFlag))
	if n.Uint32(b) != checksum(b, place) || size > partSize {
		s.empty = [sectorSize]byte(b) == [sectorSize]byte{}
		return s
	}
	return sector{
		number: n.Uint64(b[4:]), generation: n.Uint64(b[12:]), part: b[headerSize : headerSize+size],
		first: length&firstFlag != 0, last: length&lastFlag != 0, sound: true,
	}
}

func checksum(b []byte, place int64) uint32 {
	var at [8]byte
	binary.LittleEndian.PutUint64(at[:], uint64(place))
	return crc32.Update(crc32.Checksum(at[:], format.Castagnoli), format.Castagnoli, b[4:sectorSize])
}
