package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/pages"
	"go.etcd.io/bbolt"

	berrors "go.etcd.io/bbolt/errors"
)

// BoltOptions are bbolt's settings. The freelist is not synced: writing it makes small
// commits many times larger once a big backlog has drained. It is rebuilt at
// open from the pages in use.
func BoltOptions() *bbolt.Options {
	return &bbolt.Options{
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
		// The directory's own lock was taken before. This one can only be held
		// by a program that knows nothing of it.
		Timeout: time.Second,
	}
}

// OpenBolt opens the file in a directory, or creates it.
func OpenBolt(p *directory.Dir) (*Bolt, error) {
	err := pages.CheckIn(p, directory.FileName)
	if errors.Is(err, fs.ErrNotExist) {
		err = createBolt(p)
	}
	if err != nil {
		return nil, err
	}
	s, err := attachIn(p, directory.FileName, BoltOptions())
	if err != nil {
		return nil, err
	}
	s.place = p
	if err := s.Check(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// ReadBolt has bbolt open a file, whose pages were checked, for reading.
func ReadBolt(path string) (*Bolt, error) {
	options := BoltOptions()
	options.ReadOnly = true
	return attach(path, options, func(int) (*os.File, error) { return directory.OpenFile(path) })
}

// attachIn has bbolt open a file of the place. One that is there was checked.
func attachIn(p *directory.Dir, name string, options *bbolt.Options) (*Bolt, error) {
	return attach(p.Path(name), options, func(flag int) (*os.File, error) { return p.OpenRegular(name, flag) })
}

func attach(path string, options *bbolt.Options, open func(flag int) (*os.File, error)) (*Bolt, error) {
	s := new(Bolt)
	s.path = path
	options.OpenFile = func(_ string, flag int, _ fs.FileMode) (f *os.File, err error) {
		s.File, err = open(flag)
		return s.File, err
	}
	err := s.contain(func() (err error) {
		s.Db, err = bbolt.Open(path, 0o600, options)
		return err
	})
	if s.broken.Load() != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err != nil {
		return nil, boltError(path, err)
	}
	s.pageSize = s.Db.Info().PageSize
	s.chunk = ChunkFor(s.pageSize)
	if err := s.view(s.mapped.forget); err != nil { // bbolt has looked at every page
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// createBolt makes an empty journal under another name and moves it into
// place, so that a crash leaves either no file or a whole one.
func createBolt(p *directory.Dir) error {
	names, err := p.Syncer()
	if err != nil {
		return fmt.Errorf("journal: create %s: %w", p.Path(directory.FileName), err)
	}
	defer names.Close()
	tmp := directory.NewName
	if err := p.DropFile(tmp); err != nil {
		return err
	}
	s, err := attachIn(p, tmp, BoltOptions())
	if err != nil {
		return errors.Join(err, p.Drop(tmp))
	}
	err = s.Db.Update(func(tx *bbolt.Tx) error {
		for _, name := range format.Buckets {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		meta := tx.Bucket([]byte(format.BucketMeta))
		return errors.Join(meta.Put([]byte(format.KeyVersion), []byte{format.FormatVersion}), meta.Put(format.KeyUUID, format.NewUUID()), PutManifest(tx, format.FirstManifest))
	})
	if err = errors.Join(err, s.Close()); err == nil {
		err = p.Rename(tmp, directory.FileName)
	}
	if err != nil {
		return fmt.Errorf("journal: create %s: %w", p.Path(directory.FileName), errors.Join(err, p.Drop(tmp)))
	}
	return directory.SyncNames(names)
}

// Check tells whether this is a journal that we can read, and walks everything
// that a replay does not look at.
func (s *Bolt) Check() error {
	return s.view(func(tx *bbolt.Tx) error {
		meta := tx.Bucket([]byte(format.BucketMeta))
		if meta == nil {
			return fmt.Errorf("%w: a bbolt file without the bucket %q", format.ErrNotJournal, format.BucketMeta)
		}
		v := meta.Get([]byte(format.KeyVersion))
		switch {
		case len(v) != 1 || v[0] == 0:
			return fmt.Errorf("%w: a bbolt file without a format version", format.ErrNotJournal)
		case v[0] > format.OpenVersion:
			return fmt.Errorf("%w: %s has version %d, this is version %d", format.ErrTooNew, directory.FileName, v[0], format.OpenVersion)
		}
		for _, name := range format.Buckets {
			if tx.Bucket([]byte(name)) == nil {
				return &format.CorruptError{Reason: fmt.Sprintf("bucket %q is missing", name)}
			}
		}
		s.Version, s.logged = v[0], v[0] == format.OpenVersion
		t, err := format.ParseManifest(meta.Get(format.KeyManifest))
		if err == nil {
			err = s.checkMeta(tx, t)
		}
		if err == nil {
			err = s.checkSides(tx, t)
		}
		return err
	})
}

// checkMeta checks what is in the bucket meta, including the manifest t.
func (s *Bolt) checkMeta(tx *bbolt.Tx, t format.Manifest) error {
	if t.Version != s.Version {
		return format.Damaged("the file has format version %d, the end mark of the log %d", s.Version, t.Version)
	}
	if t.Tx != uint64(tx.ID()) {
		return format.Damaged("this is what commit %d left, and commit %d was the last one", t.Tx, tx.ID())
	}
	return tx.Bucket([]byte(format.BucketMeta)).ForEach(func(k, v []byte) error {
		switch string(k) {
		case format.KeyVersion, string(format.KeyManifest):
			return nil
		case string(format.KeyUUID):
			_, err := format.ParseUUID(v)
			return err
		}
		return format.Damaged("bucket %q has an unknown key %q", format.BucketMeta, k)
	})
}

// boltError names what is wrong with a file that bbolt would not open.
func boltError(path string, err error) error {
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return &format.LockedError{Dir: filepath.Dir(path)}
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrVersionMismatch), errors.Is(err, berrors.ErrChecksum):
		return fmt.Errorf("%w: %s: %w", format.ErrNotJournal, path, err)
	}
	return fmt.Errorf("journal: open %s: %w", path, err)
}
