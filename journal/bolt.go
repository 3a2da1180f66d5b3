package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

const (
	fileName = "journal.db"

	// A chunk of a block has the size that lets two of them, with their keys
	// and headers, fill a leaf page: 16 bytes for the page, 16 for each element.
	pageHeader, elementHeader = 16, 16
	chunkKeySize              = 12

	metaVersion = "version"
)

// bolt keeps a log in a bbolt file.
type bolt struct {
	db    *bbolt.DB
	chunk int // bytes of a block in one value
}

// boltOptions are bbolt's settings. The freelist is not synced: writing it makes small
// commits many times larger once a big backlog has drained. It is rebuilt at
// open from the pages in use.
func boltOptions(readOnly bool) *bbolt.Options {
	return &bbolt.Options{
		ReadOnly:       readOnly,
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
		// The directory's own lock was taken before. This one can only be held
		// by a program that knows nothing of it.
		Timeout: time.Second,
	}
}

// openBolt opens the file in dir, or creates it. A file that is there is first
// read without writing: bbolt can't tell a broken file from a sound one before
// it starts to change it.
func openBolt(dir string) (*bolt, error) {
	path := filepath.Join(dir, fileName)
	_, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := createBolt(path); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	default:
		if err := checkBolt(path); err != nil {
			return nil, err
		}
	}
	return attachBolt(path, false)
}

func attachBolt(path string, readOnly bool) (s *bolt, err error) {
	err = contain(func() error {
		db, err := bbolt.Open(path, 0o600, boltOptions(readOnly))
		if err != nil {
			return boltError(path, err)
		}
		s = &bolt{db: db, chunk: (db.Info().PageSize-pageHeader)/2 - elementHeader - chunkKeySize - 4}
		return nil
	})
	return s, err
}

// createBolt makes an empty journal under another name and moves it into
// place, so that a crash leaves either no file or a whole one.
func createBolt(path string) error {
	tmp := path + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s, err := attachBolt(tmp, false)
	if err != nil {
		return err
	}
	err = s.db.Update(func(tx *bbolt.Tx) error {
		for _, name := range buckets {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		meta := tx.Bucket([]byte(bucketMeta))
		return errors.Join(meta.Put([]byte(metaVersion), []byte{formatVersion}), meta.Put(keyTail, firstTail.encode()))
	})
	if err := errors.Join(err, s.close()); err != nil {
		return fmt.Errorf("journal: create %s: %w", path, err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// checkBolt reads the whole file without changing it.
func checkBolt(path string) error {
	s, err := attachBolt(path, true)
	if err != nil {
		return err
	}
	return errors.Join(s.check(), s.close())
}

// check tells whether this is a journal that we can read, and walks everything
// that a replay does not look at.
func (s *bolt) check() error {
	return s.view(func(tx *bbolt.Tx) error {
		meta := tx.Bucket([]byte(bucketMeta))
		if meta == nil {
			return fmt.Errorf("%w: a bbolt file without the bucket %q", ErrNotJournal, bucketMeta)
		}
		v := meta.Get([]byte(metaVersion))
		switch {
		case len(v) != 1 || v[0] == 0:
			return fmt.Errorf("%w: a bbolt file without a format version", ErrNotJournal)
		case v[0] > formatVersion:
			return fmt.Errorf("%w: %s has version %d, this is version %d", ErrTooNew, fileName, v[0], formatVersion)
		}
		for _, name := range buckets {
			if tx.Bucket([]byte(name)) == nil {
				return &CorruptError{Reason: fmt.Sprintf("bucket %q is missing", name)}
			}
		}
		t, err := parseTail(meta.Get(keyTail))
		if err != nil {
			return err
		}
		err = checkBucket(tx, bucketQueues, t.queues, func(k, v []byte) error {
			_, err := parseQueue(k, v)
			return err
		})
		if err != nil {
			return err
		}
		return checkBucket(tx, bucketMorgue, t.buried, func(k, v []byte) error {
			_, err := parseBuried(k, v)
			return err
		})
	})
}

// checkBucket checks every value of a bucket, and that there are as many as the
// log says.
func checkBucket(tx *bbolt.Tx, name bucket, want uint64, check func(k, v []byte) error) error {
	got := uint64(0)
	err := tx.Bucket([]byte(name)).ForEach(func(k, v []byte) error {
		got++
		return check(k, v)
	})
	if err == nil && got != want {
		err = &CorruptError{Reason: fmt.Sprintf("bucket %q holds %d values, want %d", name, got, want)}
	}
	return err
}

func (s *bolt) commit(t *transaction) error {
	return contain(func() error {
		tx, err := s.db.Begin(true)
		if err != nil {
			return err
		}
		if err := s.write(tx, t); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return fullOr(tx.Commit())
	})
}

func (s *bolt) write(tx *bbolt.Tx, t *transaction) error {
	log := tx.Bucket([]byte(bucketLog))
	log.FillPercent = 1 // keys only ever come at the end
	var key [chunkKeySize]byte
	for _, d := range t.drop {
		for i := range s.chunks(d.size) {
			if err := log.Delete(chunkKey(&key, d.seq, i)); err != nil {
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
	for _, c := range t.changes {
		b := tx.Bucket([]byte(c.bucket))
		if c.value == nil {
			if err := b.Delete(c.key); err != nil {
				return err
			}
		} else if err := b.Put(c.key, c.value); err != nil {
			return err
		}
	}
	return tx.Bucket([]byte(bucketMeta)).Put(keyTail, t.tail.encode())
}

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
		value = bytes.Clone(tx.Bucket([]byte(name)).Get(key))
		return nil
	})
	return value, err
}

func (s *bolt) page(name bucket, from []byte, n int) (page []pair, err error) {
	err = s.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket([]byte(name)).Cursor()
		for k, v := c.Seek(from); k != nil && len(page) < n; k, v = c.Next() {
			page = append(page, pair{bytes.Clone(k), bytes.Clone(v)})
		}
		return nil
	})
	return page, err
}

func (s *bolt) view(f func(*bbolt.Tx) error) error {
	err := contain(func() error { return s.db.View(f) })
	if errors.Is(err, berrors.ErrDatabaseNotOpen) {
		return ErrClosed // while the caller was on its way
	}
	return err
}

func (s *bolt) close() error { return s.db.Close() }

// contain turns a panic or a memory fault into an error. bbolt trusts its
// pages: a damaged one makes it index out of range, and a file that was cut
// short under its memory map faults.
func contain(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = &CorruptError{Reason: fmt.Sprintf("bbolt: %v", r)}
		}
	}()
	return f()
}

// boltError names what is wrong with a file that bbolt would not open.
func boltError(path string, err error) error {
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return &LockedError{Dir: filepath.Dir(path)}
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrVersionMismatch), errors.Is(err, berrors.ErrChecksum):
		return fmt.Errorf("%w: %s: %w", ErrNotJournal, path, err)
	}
	return fmt.Errorf("journal: open %s: %w", path, err)
}

// fullOr tells a full disk from a broken one. A failed write of data pages
// leaves the last commit as it was; after a failed sync nothing is known.
func fullOr(err error) error {
	var write *fs.PathError
	if errors.As(err, &write) && write.Op == "write" && noSpace(write.Err) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}
