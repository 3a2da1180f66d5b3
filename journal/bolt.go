package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// bolt keeps a log in a bbolt file.
type bolt struct {
	path     string
	place    *place // where it is replaced; nil where it never is
	pageSize int
	chunk    int            // bytes of a block in one value
	space    space          // of the file
	version  byte           // of its format; the first commit makes it the present one
	sides    sides          // of the last commit
	dead     map[uint32]int // payloads in the morgue by queue, as check found them
	mapped   mapped

	// swap is held while db and file change, and by readers while they use
	// them. Whoever commits is who changes them, and needs it not.
	swap sync.RWMutex
	db   *bbolt.DB
	file *os.File // that db has open

	// broken is set once bbolt panicked. It may have left its locks held, so
	// it is not called again, not even to close.
	broken atomic.Pointer[CorruptError]
}

// chunkFor returns the size of chunk that lets two of them, with their keys and
// headers, fill a leaf page.
func chunkFor(pageSize int) int {
	return (pageSize-pageHeader)/2 - elementHeader - chunkKeySize - 4
}

func (s *bolt) commit(t *transaction) error {
	return s.contain(func() error {
		tx, err := s.db.Begin(true)
		if err != nil {
			return err
		}
		last := t.tail
		if err := s.write(tx, t, &last); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		id := tx.ID()
		err = tx.Commit()
		if wantsRoom(err) && s.last() == id-1 {
			return fmt.Errorf("%w: %w", ErrFull, err)
		}
		if err == nil {
			if s.sides = last.sides; s.version != formatVersion { // the first one: nobody reads yet
				s.version = formatVersion
			}
			err = s.wrote(len(t.block))
		}
		return err
	})
}

// wantsRoom reports whether a commit failed for want of room before it synced:
// then nothing is lost but the attempt. After a failed sync nothing is known.
func wantsRoom(err error) bool {
	if err == nil {
		return false
	}
	write, wrote := errors.AsType[*fs.PathError](err)
	// bbolt does not wrap what it gets when the file can't grow.
	resize := strings.HasPrefix(err.Error(), "file resize error: ")
	return slices.ContainsFunc(noSpace, func(full syscall.Errno) bool {
		return wrote && write.Op == "write" && errors.Is(write.Err, full) ||
			resize && strings.HasSuffix(err.Error(), full.Error())
	})
}

// last returns the number of the transaction that a reader finds.
func (s *bolt) last() (id int) {
	_ = s.db.View(func(tx *bbolt.Tx) error { // fails on a closed file only: 0
		id = tx.ID()
		return nil
	})
	return id
}

// write writes t, and the tail with what it fills in.
func (s *bolt) write(tx *bbolt.Tx, t *transaction, last *tail) error {
	log := tx.Bucket([]byte(bucketLog))
	log.FillPercent = 1 // keys only ever come at the end
	var key [chunkKeySize]byte
	c := log.Cursor() // one for all: Bucket.Delete makes its own each time
	for _, d := range t.drop {
		for i := range s.chunks(d.size) {
			if k, _ := c.Seek(chunkKey(&key, d.seq, i)); !bytes.Equal(k, key[:]) {
				continue
			}
			if err := c.Delete(); err != nil {
				return err
			}
		}
	}
	for i := range s.chunks(len(t.block)) {
		part := t.block[i*s.chunk : min((i+1)*s.chunk, len(t.block))]
		if err := log.Put(chunkKey(&key, t.seq, i), part); err != nil {
			return err
		}
	}
	if err := s.writeSides(tx, t.changes, last); err != nil {
		return err
	}
	return putTail(tx, *last)
}

func putTail(tx *bbolt.Tx, t tail) error {
	t.tx = uint64(tx.ID())
	return tx.Bucket([]byte(bucketMeta)).Put(keyTail, t.encode())
}

func (s *bolt) chunkSize() int { return s.chunk }

func (s *bolt) chunks(size int) int { return (size + s.chunk - 1) / s.chunk }

func chunkKey(key *[chunkKeySize]byte, seq uint64, chunk int) []byte {
	binary.BigEndian.PutUint64(key[:], seq)
	binary.BigEndian.PutUint32(key[8:], uint32(chunk))
	return key[:]
}

// scan joins the chunks of each block.
func (s *bolt) scan(block func(seq uint64, data []byte) error) error {
	return s.view(func(tx *bbolt.Tx) error {
		var data []byte
		var seq uint64
		next := 0
		c := tx.Bucket([]byte(bucketLog)).Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			if len(k) != chunkKeySize {
				return &CorruptError{Reason: fmt.Sprintf("the log has a key of %d bytes", len(k))}
			}
			at, n := binary.BigEndian.Uint64(k), int(binary.BigEndian.Uint32(k[8:]))
			if at != seq && next > 0 {
				if err := block(seq, data); err != nil {
					return err
				}
				data, next = data[:0], 0
			}
			if seq = at; n != next {
				return &CorruptError{Block: seq, Offset: -1, Reason: fmt.Sprintf("chunk %d is missing", next)}
			}
			data = append(data, v...)
			s.mapped.touch(tx, len(v))
			next++
		}
		if next == 0 {
			return nil
		}
		return block(seq, data)
	})
}

func (s *bolt) get(name bucket, key []byte) (value []byte, err error) {
	err = s.view(func(tx *bbolt.Tx) error {
		value, err = s.value(name, key, tx.Bucket([]byte(name)).Get(key))
		return err
	})
	return value, err
}

func (s *bolt) page(name bucket, from []byte) (page []pair, err error) {
	err = s.view(func(tx *bbolt.Tx) error {
		size := 0
		c := tx.Bucket([]byte(name)).Cursor()
		for k, v := c.Seek(from); k != nil && len(page) < pageCount && size < pageBytes; k, v = c.Next() {
			value, err := s.value(name, k, v)
			if err != nil {
				return err
			}
			page = append(page, pair{bytes.Clone(k), value})
			size += len(v)
			s.mapped.touch(tx, len(v))
		}
		return nil
	})
	return page, err
}

func (s *bolt) view(f func(*bbolt.Tx) error) error {
	s.swap.RLock()
	defer s.swap.RUnlock()
	err := s.contain(func() error { return s.db.View(f) })
	if errors.Is(err, berrors.ErrDatabaseNotOpen) {
		return ErrClosed // while the caller was on its way
	}
	return err
}

func (s *bolt) close() error {
	if s.broken.Load() != nil {
		return s.file.Close() // lets the next one have the lock; the memory map stays
	}
	return s.db.Close()
}

// contain calls f unless bbolt panicked before.
func (s *bolt) contain(f func() error) error {
	if broken := s.broken.Load(); broken != nil {
		return broken
	}
	err := contain(f)
	if panicked, ok := errors.AsType[*boltPanic](err); ok {
		s.broken.CompareAndSwap(nil, &panicked.CorruptError)
		return &panicked.CorruptError
	}
	return err
}

// boltPanic is a panic of bbolt.
type boltPanic struct{ CorruptError }

// contain turns a panic or a memory fault into an error. bbolt trusts its
// pages: a damaged one makes it index out of range, and a file that was cut
// short under its memory map faults.
func contain(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = &boltPanic{CorruptError{Reason: fmt.Sprintf("bbolt: %v", r)}}
		}
	}()
	return f()
}
