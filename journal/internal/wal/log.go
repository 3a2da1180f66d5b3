package wal

import (
	"encoding/binary"
	"hash/crc32"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
)

// fillSize is how much is written at a time when a log is made. Linux has the pages of
// a file in memory as they were first written, and writes all of one again for a sector:
// it makes 64 KiB of each record when the file was written in such pieces.
const fillSize = 4 << 10

// Log is a log that is written to.
type Log struct {
	ID      uint64 // of this log and no other, not zero
	Size    int64  // of the file
	Records uint64 // that it has had, of all generations

	f          *os.File
	sync       func(*os.File) error
	generation uint64
	at         int64 // where the next record goes
	buf        []byte
}

// Make makes the file f, of which nothing is needed, a log of about so many bytes. It is
// on disk then, but for its name. There is no room in the log until Begin. sync has the disk
// write what f holds, whose size stays as it is.
func Make(f *os.File, size int64, sync func(*os.File) error) (*Log, error) {
	size = max((size+fillSize-1)/fillSize, 2) * fillSize
	l := &Log{ID: rand.Uint64() | 1, Size: size, f: f, sync: sync, at: size}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	given, known := directory.Given(info)
	if info.Size() != size || known && given < size {
		if err := l.fill(); err != nil {
			return nil, err
		}
	}
	head, b := sector{generation: l.ID, part: sizeOf(size), first: true, last: true}, make([]byte, sectorSize)
	head.put(b, 0)
	if _, err := f.WriteAt(b, 0); err != nil {
		return nil, err
	}
	return l, f.Sync()
}

// sizeOf is what the first sector has.
func sizeOf(size int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(size)) }

// fill has the disk give the file its room.
func (l *Log) fill() error {
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	zeros := make([]byte, fillSize)
	for at := int64(0); at < l.Size; at += fillSize {
		if _, err := l.f.WriteAt(zeros, at); err != nil {
			return err
		}
	}
	return nil
}

// generationOf is that of a log with an ID which stands on what end says: a half of each.
func generationOf(id uint64, end []byte) uint64 {
	h := fnv.New32a()
	h.Write(end)
	return id<<32 | uint64(h.Sum32())
}

// Begin voids all records. The log stands from now on on what end says, which no log
// with records of this ID may have stood on before.
func (l *Log) Begin(end []byte) { l.generation, l.at = generationOf(l.ID, end), sectorSize }

// Fits reports whether there is room for a record of so many bytes.
func (l *Log) Fits(bytes int) bool { return l.at+spanOf(bytes) <= l.Size }

// spanOf is how much of the file a record takes.
func spanOf(bytes int) int64 { return int64(max(bytes+partSize-1, partSize)/partSize) * sectorSize }

// Append writes a record that fits, and syncs it. When the write fails, which is before
// the sync, the record will not be found, and there is no room until Begin.
func (l *Log) Append(record []byte) error {
	span := int(spanOf(len(record)))
	l.buf = slices.Grow(l.buf[:0], span)[:span]
	l.Records++ // also when it fails: what is left of it is of an earlier commit then
	for at := 0; at < span; at += sectorSize {
		n := min(len(record), partSize)
		s := sector{l.Records, l.generation, record[:n], at == 0, at+sectorSize == span, true, false}
		s.put(l.buf[at:at+sectorSize], l.at+int64(at))
		record = record[n:]
	}
	place := l.at
	l.at = l.Size
	if _, err := l.f.WriteAt(l.buf, place); err != nil {
		return err
	}
	if err := l.sync(l.f); err != nil {
		return err
	}
	l.at = place + int64(span)
	return nil
}

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
