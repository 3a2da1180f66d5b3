package store

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"go.etcd.io/bbolt"

	berrors "go.etcd.io/bbolt/errors"
)

// boltFile is a file that bbolt has open.
type boltFile struct {
	path     string
	pageSize int
	chunk    int // bytes of a block in one value
	space    space
	letter   int // bytes of the largest value in the morgue, at some time
	mapped   mapped

	// swap is held while Db and File change, and by readers while they use them.
	// The goroutine that commits is the one that changes them, and uses them
	// without it.
	swap sync.RWMutex
	Db   *bbolt.DB
	File *os.File // that db has open

	// broken is set once bbolt panicked. It may have left its locks held, so
	// it is not called again, not even to close.
	broken atomic.Pointer[format.CorruptError]
}

// view calls f within a transaction that reads. It returns ErrClosed once the file is
// closed.
func (s *boltFile) view(f func(*bbolt.Tx) error) error {
	s.swap.RLock()
	defer s.swap.RUnlock()
	err := s.contain(func() error { return s.Db.View(f) })
	if errors.Is(err, berrors.ErrDatabaseNotOpen) {
		return format.ErrClosed // while the caller was on its way
	}
	return err
}

// contain calls f unless bbolt panicked before. It turns a panic or a memory fault into
// an error. bbolt trusts its pages: a damaged one makes it index out of range, and a file
// that was cut short under its memory map faults.
func (s *boltFile) contain(f func() error) (err error) {
	if broken := s.broken.Load(); broken != nil {
		return broken
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			broken := &format.CorruptError{Reason: fmt.Sprintf("bbolt: %v", r)}
			s.broken.CompareAndSwap(nil, broken)
			err = broken
		}
	}()
	return f()
}

// last returns the number of the transaction that a reader finds.
func (s *boltFile) last() (id int) {
	_ = s.Db.View(func(tx *bbolt.Tx) error { // fails on a closed file only: 0
		id = tx.ID()
		return nil
	})
	return id
}

func (s *boltFile) Close() error {
	if s.broken.Load() != nil {
		return s.File.Close() // lets the next one have the lock; the memory map stays
	}
	return s.Db.Close()
}

// space is what is known about the room in a file. bbolt writes what it changes
// to other pages, so it takes room to give room back. Therefore some pages are
// always kept: the disk has given them to the file, and only results may be
// written to them. Appends are refused before.
type space struct {
	backed  int       // pages from the beginning of the file that the disk has given
	used    int       // of these, pages in use when we last looked
	top     int       // pages up to the last one that was in use; those behind it are in one piece
	refused time.Time // when it gave no more; zero: it gave what it was asked for last
}

// growPause is how long a disk that gave no more is not asked again.
const growPause = 50 * time.Millisecond

// In pages.
const (
	minReserve, maxReserve = 32, 1024
	minGrowth, maxGrowth   = 16, 4096
	// What is made ready beyond what is asked for: room to carry entries.
	minAhead, maxAhead = 32, 1024
	// overhead is what a commit writes beside its own bytes: the pages above
	// those that it changes.
	overhead = 16
	// maxWalk bounds the files that are walked through for free pages side by side.
	maxWalk = 1 << 16
)

// Room counts the pages that are free in the file, and has it grow before they
// come to an end.
func (s *boltFile) Room(need, run int) (Room, error) {
	if err := inPlace(s.File, s.path, int64(s.space.backed*s.pageSize), math.MaxInt64); err != nil {
		return Room{}, err
	}
	if err := s.look(); err != nil {
		return Room{}, err
	}
	var err error
	perPage := 2 * s.chunk
	want := need/perPage + 1 + overhead
	reserve := min(max(s.space.backed/16, minReserve), maxReserve)
	have := func() int { return s.space.backed - s.space.used }
	ahead := want + reserve + min(max(want, s.space.backed/8, minAhead), maxAhead)
	willing := time.Since(s.space.refused) > growPause
	if missing := max(ahead-have(), 0); willing && (missing > 0 || !s.space.refused.IsZero()) {
		s.space.refused = time.Time{}
		step := min(max(s.space.backed/4, minGrowth), maxGrowth)
		err = s.grow(s.space.backed + missing + step)
	}
	gives := s.space.refused.IsZero()
	// In smaller steps the disk gives what it has, and what it had given before the file was opened.
	for step := want + reserve - have(); step > 0 && have() < want+reserve && err == nil; step /= 2 {
		if err = s.grow(s.space.backed + step); !willing {
			break
		}
	}
	if end := s.space.top + (run+s.pageSize-1)/s.pageSize; end > s.space.backed && err == nil {
		err = s.grow(end)
	}
	bytes := max(have()-overhead, 0) * perPage
	r := Room{Bytes: bytes, Spare: bytes - reserve*perPage - need, Run: (s.space.backed - s.space.top) * s.pageSize, Gives: gives, Letter: s.letter}
	switch {
	case gives && r.Run >= run:
		r.Run = math.MaxInt32
	case err == nil && r.Run < run && s.space.top <= maxWalk:
		r.Run, err = s.longestRun(r.Run)
	}
	return r, err
}

// longestRun looks for more free bytes in one piece than there are behind the last page in use.
func (s *boltFile) longestRun(most int) (int, error) {
	err := s.view(func(tx *bbolt.Tx) error {
		for id, free := 0, 0; id < s.space.top; id++ {
			p, err := tx.Page(id)
			if err != nil {
				return err
			}
			free += s.pageSize
			if p.Type != "free" {
				id, free = id+p.OverflowCount, 0
			}
			most = max(most, free)
		}
		return nil
	})
	return most, err
}

// Size is as of the last look.
func (s *boltFile) Size() int { return s.space.backed * s.pageSize }

// Used looks again.
func (s *boltFile) Used() (int, error) {
	err := s.look()
	return s.space.used * s.pageSize, err
}

// inPlace returns what another program did to a file of so many bytes: cut it, made it grow,
// deleted it, or put another one or a link in its place. What is written then is never read. A
// directory may be moved.
func inPlace(f *os.File, path string, least, most int64) error {
	ours, err := f.Stat()
	if err != nil {
		return err
	}
	there, err := os.Lstat(path)
	switch {
	case err == nil && !os.SameFile(ours, there):
		return format.Damaged("%s is another file now", path)
	case err != nil && directory.Deleted(ours):
		return format.Damaged("%s was deleted", path)
	case ours.Size() < least:
		return format.Damaged("%s was cut to %d bytes", path, ours.Size())
	case ours.Size() > most:
		return format.Damaged("%s has grown to %d bytes", path, ours.Size())
	}
	return nil
}

// look counts the pages up to the last one in use, and those of them that are.
func (s *boltFile) look() error {
	return s.view(func(tx *bbolt.Tx) error {
		top := int(tx.Size()) / s.pageSize
		s.space.top, s.space.backed = top, max(s.space.backed, top)
		stats := s.Db.Stats()
		s.space.used = top - stats.FreePageN
		if stats.OpenTxN <= 1 {
			s.space.used -= stats.PendingPageN // no reader but us sees what was there before
		}
		return nil
	})
}

// grow has the disk give so many pages to the file. It returns no error when the
// disk is full.
func (s *boltFile) grow(pages int) error {
	from, to := int64(s.space.backed*s.pageSize), int64(pages*s.pageSize)
	info, err := s.File.Stat()
	if err == nil {
		err = fill(s.File, from, to)
	}
	if err == nil && info.Size() < to {
		err = s.File.Truncate(to)
	}
	switch {
	case err == nil:
		s.space.backed = pages
		return s.File.Sync()
	case directory.NoSpace(err):
		s.space.refused = time.Now()
		return nil
	}
	return err
}

// zeroes is written to pages that were not used yet.
var zeroes [64 << 10]byte

// writeZeroes has the disk give the bytes of f between two offsets.
func writeZeroes(f *os.File, from, to int64) error {
	for ; from < to; from += int64(len(zeroes)) {
		if _, err := f.WriteAt(zeroes[:min(int64(len(zeroes)), to-from)], from); err != nil {
			return err
		}
	}
	return nil
}

// mapped keeps the memory map of the file out of memory: pages that were touched
// count as memory of the process, although the kernel could have them back at
// any time.
type mapped struct {
	touched atomic.Int64 // bytes since the last time
}

// mappedMost is about how much of the file may stay mapped.
const mappedMost = 16 << 20

// touch notes that bytes of the file were read, and lets go of the pages once
// that is much. What they hold stays with the kernel. The transaction keeps the
// map where it is.
func (m *mapped) touch(tx *bbolt.Tx, bytes int) {
	if m.touched.Add(int64(bytes)) >= mappedMost {
		_ = m.forget(tx)
	}
}

// forget lets go of all pages. It never fails.
func (m *mapped) forget(tx *bbolt.Tx) error {
	m.touched.Store(0)
	unmapPages(tx.DB().Info().Data, int(tx.Size()))
	return nil
}
