package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// boltOptions are bbolt's settings. The freelist is not synced: writing it makes small
// commits many times larger once a big backlog has drained. It is rebuilt at
// open from the pages in use.
func boltOptions() *bbolt.Options {
	return &bbolt.Options{
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
		// The directory's own lock was taken before. This one can only be held
		// by a program that knows nothing of it.
		Timeout: time.Second,
	}
}

// openBolt opens the file in dir, or creates it.
func openBolt(dir string) (*bolt, error) {
	path := filepath.Join(dir, fileName)
	err := checkPages(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = createBolt(path)
	}
	if err != nil {
		return nil, err
	}
	s, err := attachBolt(path, boltOptions())
	if err != nil {
		return nil, err
	}
	if err := s.check(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// attachBolt has bbolt open a file whose pages were checked.
func attachBolt(path string, options *bbolt.Options) (*bolt, error) {
	s := &bolt{path: path}
	options.OpenFile = func(name string, flag int, mode fs.FileMode) (f *os.File, err error) {
		s.file, err = os.OpenFile(name, flag, mode)
		return s.file, err
	}
	err := s.contain(func() (err error) {
		s.db, err = bbolt.Open(path, 0o600, options)
		return err
	})
	if s.broken.Load() != nil {
		return nil, errors.Join(err, s.close())
	}
	if err != nil {
		return nil, boltError(path, err)
	}
	s.pageSize = s.db.Info().PageSize
	s.chunk = chunkFor(s.pageSize)
	if err := s.forget(); err != nil { // bbolt has looked at every page
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// createBolt makes an empty journal under another name and moves it into
// place, so that a crash leaves either no file or a whole one.
func createBolt(path string) error {
	tmp := path + newSuffix
	if err := remove(tmp); err != nil {
		return err
	}
	s, err := attachBolt(tmp, boltOptions())
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	err = s.db.Update(func(tx *bbolt.Tx) error {
		for _, name := range buckets {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		meta := tx.Bucket([]byte(bucketMeta))
		return errors.Join(meta.Put([]byte(metaVersion), []byte{formatVersion}), meta.Put(keyUUID, newUUID()), putTail(tx, firstTail))
	})
	if err = errors.Join(err, s.close()); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return fmt.Errorf("journal: create %s: %w", path, errors.Join(err, os.Remove(tmp)))
	}
	return syncDir(filepath.Dir(path))
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
		s.version = v[0]
		t, err := parseTail(meta.Get(keyTail))
		if err == nil {
			err = s.checkMeta(tx, t)
		}
		if err != nil {
			return err
		}
		return s.checkSides(tx, t)
	})
}

// checkMeta checks what is in the bucket meta, of which t is a part.
func (s *bolt) checkMeta(tx *bbolt.Tx, t tail) error {
	if t.version != s.version {
		return damaged("the file has format version %d, the end mark of the log %d", s.version, t.version)
	}
	if t.tx != uint64(tx.ID()) {
		return damaged("this is what commit %d left, and commit %d was the last one", t.tx, tx.ID())
	}
	return tx.Bucket([]byte(bucketMeta)).ForEach(func(k, v []byte) error {
		switch string(k) {
		case metaVersion, string(keyTail):
			return nil
		case string(keyUUID):
			_, err := parseUUID(v)
			return err
		}
		return damaged("bucket %q has an unknown key %q", bucketMeta, k)
	})
}

func (s *bolt) buried() map[uint32]int { return s.dead }

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
