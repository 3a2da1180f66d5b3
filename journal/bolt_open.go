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

// openBolt opens the file in a directory, or creates it.
func openBolt(p *place) (*bolt, error) {
	err := checkPagesIn(p, fileName)
	if errors.Is(err, fs.ErrNotExist) {
		err = createBolt(p)
	}
	if err != nil {
		return nil, err
	}
	s, err := attachIn(p, fileName, boltOptions())
	if err != nil {
		return nil, err
	}
	s.place = p
	if err := s.check(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// readBolt has bbolt open a file, whose pages were checked, for reading.
func readBolt(path string) (*bolt, error) {
	options := boltOptions()
	options.ReadOnly = true
	return attach(path, options, func(int) (*os.File, error) { return openFile(path) })
}

// attachIn has bbolt open a file of the place. One that is there was checked.
func attachIn(p *place, name string, options *bbolt.Options) (*bolt, error) {
	return attach(p.path(name), options, func(flag int) (*os.File, error) { return p.open(name, flag) })
}

func attach(path string, options *bbolt.Options, open func(flag int) (*os.File, error)) (*bolt, error) {
	s := &bolt{path: path}
	options.OpenFile = func(_ string, flag int, _ fs.FileMode) (f *os.File, err error) {
		s.file, err = open(flag)
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
func createBolt(p *place) error {
	names, err := p.syncer()
	if err != nil {
		return fmt.Errorf("journal: create %s: %w", p.path(fileName), err)
	}
	defer names.Close()
	tmp := newName
	if err := p.remove(tmp); err != nil {
		return err
	}
	s, err := attachIn(p, tmp, boltOptions())
	if err != nil {
		return errors.Join(err, p.remove(tmp))
	}
	err = s.db.Update(func(tx *bbolt.Tx) error {
		for _, name := range buckets {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		meta := tx.Bucket([]byte(bucketMeta))
		return errors.Join(meta.Put([]byte(keyVersion), []byte{formatVersion}), meta.Put(keyUUID, newUUID()), putTail(tx, firstTail))
	})
	if err = errors.Join(err, s.close()); err == nil {
		err = p.Rename(tmp, fileName)
	}
	if err != nil {
		return fmt.Errorf("journal: create %s: %w", p.path(fileName), errors.Join(err, p.remove(tmp)))
	}
	return syncNames(names)
}

// check tells whether this is a journal that we can read, and walks everything
// that a replay does not look at.
func (s *bolt) check() error {
	return s.view(func(tx *bbolt.Tx) error {
		meta := tx.Bucket([]byte(bucketMeta))
		if meta == nil {
			return fmt.Errorf("%w: a bbolt file without the bucket %q", ErrNotJournal, bucketMeta)
		}
		v := meta.Get([]byte(keyVersion))
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
		case keyVersion, string(keyTail):
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
