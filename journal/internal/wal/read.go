package wal

import (
	"bufio"
	"bytes"
	"io"
	"math"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
)

// reading is the way through a log.
type reading struct {
	take       func(record []byte) error
	hurt       func(error) error
	generation uint64
	number     uint64 // of the record that is read, or comes next
	record     []byte
	inside     bool  // a part of it was read
	ended      int64 // where it is not what it should be; 0: nowhere
	told       bool  // that this is damage
	older      bool  // what the log stands on is, and that was told
}

// Read calls take with each record of the log with that ID that stands on what end says and
// had so many records before, in order. Take keeps the bytes. hurt is told of damage; when it
// returns no error, what comes after the damage is read, too.
func Read(f io.ReaderAt, id, before uint64, end []byte, take func(record []byte) error, hurt func(error) error) error {
	in, place := bufio.NewReaderSize(io.NewSectionReader(f, 0, math.MaxInt64), 64<<10), int64(0)
	r := &reading{take: take, hurt: hurt, generation: generationOf(id, end), number: before + 1}
	b, size := make([]byte, sectorSize), []byte(nil)
	for ; ; place += sectorSize {
		n, err := io.ReadFull(in, b)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			place += int64(n)
			break
		}
		s := parse(b, place)
		switch {
		case err != nil:
		case place > 0:
			err = r.sector(&s, place)
		case s.sound && s.generation == id && s.number == 0:
			size = bytes.Clone(s.part)
		default:
			return hurt(format.Damaged("%s is damaged at byte 0, or not the one of this %s", directory.WALFile, directory.FileName))
		}
		if err != nil {
			return err
		}
	}
	if !bytes.Equal(size, sizeOf(place)) {
		return hurt(format.Damaged("%s was cut or has grown, or was not made as a whole: it has %d bytes", directory.WALFile, place))
	}
	return nil
}

// sector takes in the next one.
func (r *reading) sector(s *sector, place int64) error {
	ours := s.sound && s.generation == r.generation
	if err := r.compare(s, place, ours); err != nil {
		return err
	}
	switch {
	case r.ended > 0:
	case ours && s.number == r.number && s.first != r.inside:
		r.record, r.inside = append(r.record, s.part...), !s.last
		if s.last {
			record := r.record
			r.record = nil
			r.number++
			return r.take(record)
		}
	default:
		r.ended = place
		if !s.sound && !s.empty { // what was never written whole is of another generation, or empty
			return r.damaged(place)
		}
	}
	return nil
}

// compare tells of what a sector with a later number says: ours, that something is missing
// before it; of another generation of the log, that it stands on an older commit than that one.
func (r *reading) compare(s *sector, place int64, ours bool) error {
	switch {
	case ours && r.ended > 0 && s.number > r.number:
		if err := r.damaged(r.ended); err != nil {
			return err
		}
		if s.first {
			r.number, r.record, r.inside, r.ended, r.told = s.number, nil, false, 0, false
		}
	case s.sound && !ours && s.generation>>32 == r.generation>>32 && s.number >= r.number && !r.older:
		r.older = true
		return r.hurt(format.Damaged("%s is older than %s, which has record %d of a later commit at byte %d", directory.FileName, directory.WALFile, s.number, place))
	}
	return nil
}

// damaged tells of it, once.
func (r *reading) damaged(place int64) error {
	if r.told {
		return nil
	}
	r.told = true
	return r.hurt(format.Damaged("%s: record %d is damaged at byte %d", directory.WALFile, r.number, place))
}
