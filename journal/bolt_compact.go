package journal

import (
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
)

// compactBatch is about what one transaction writes to the new file.
const compactBatch = 4 << 20

// size is as of the last look.
func (s *bolt) size() int { return s.space.backed * s.pageSize }

func (s *bolt) used() (int, error) {
	err := s.look()
	return s.space.used * s.pageSize, err
}

// compact replaces the file. When replaced is true and there is an error, it is
// not known which file the next one to open the journal will find.
func (s *bolt) compact(over <-chan struct{}) (replaced bool, err error) {
	if !canReplace {
		return false, fmt.Errorf("journal: compact a file that is open: %w", errors.ErrUnsupported)
	}
	// All that is opened is opened before the rename: what fails after it leaves
	// the log not knowing which file it has.
	names, err := s.place.syncer()
	if err != nil {
		return false, fmt.Errorf("journal: compact: %w", err)
	}
	defer names.Close()
	next, err := s.successor(over)
	if err != nil {
		if wantsRoom(err) {
			err = fmt.Errorf("%w: %w", ErrFull, err)
		}
		return false, fmt.Errorf("journal: compact: %w", errors.Join(err, s.place.removeFile(newName)))
	}
	s.swap.Lock()
	old := s.db
	s.db, s.file, s.space = next.db, next.file, next.space
	s.swap.Unlock()
	_ = old.Close() // nobody will need that file again
	return true, syncNames(names)
}

// successor writes what is in use to a new file, opens it, and gives it the name
// of the old one, unless that name stands for another file by now.
func (s *bolt) successor(over <-chan struct{}) (*bolt, error) {
	if err := s.rewrite(s.place, over); err != nil {
		return nil, err
	}
	next, err := attachIn(s.place, newName, boltOptions())
	if err != nil {
		return nil, err
	}
	ours, err := s.file.Stat()
	if err == nil && !s.place.has(fileName, ours) {
		err = damaged("%s is another file now", s.path)
	}
	if err == nil {
		err = s.place.Rename(newName, fileName)
	}
	if err != nil {
		return nil, errors.Join(err, next.close())
	}
	return next, nil
}

// rewrite writes what the last commit left to a new file in a directory, and
// syncs it, unless over is closed meanwhile. Whoever may use the old file may use the
// new one.
func (s *bolt) rewrite(p *place, over <-chan struct{}) error {
	ours, err := s.file.Stat()
	if err != nil {
		return err
	}
	if !p.has(fileName, ours) {
		return damaged("%s is another file now", s.path)
	}
	if err := p.removeFile(newName); err != nil {
		return err
	}
	options := boltOptions()
	options.NoSync, options.NoGrowSync = true, true // once is enough
	to, err := attachIn(p, newName, options)
	if err != nil {
		return err
	}
	err = s.view(func(tx *bbolt.Tx) error { return to.take(tx, over) })
	if err == nil {
		err = keepAccess(to.file, ours)
	}
	if err == nil {
		err = to.db.Sync()
	}
	if err = errors.Join(err, to.close()); err != nil {
		return err
	}
	return checkPagesIn(p, newName) // the memory map can't tell when the disk reads something else
}

// take copies all that from sees, a batch at a time, and the end mark last: it
// has the number of the transaction that writes it.
func (s *bolt) take(from *bbolt.Tx, over <-chan struct{}) error {
	to, err := s.db.Begin(true)
	if err != nil {
		return err
	}
	size := 0
	var read mapped
	err = from.ForEach(func(name []byte, b *bbolt.Bucket) error {
		into, err := to.CreateBucket(name)
		if err != nil {
			return err
		}
		into.FillPercent = 1 // keys come in order
		return b.ForEach(func(k, v []byte) error {
			read.touch(from, len(v))
			if size += len(k) + len(v); size > compactBatch {
				size = 0
				if isOver(over) {
					return errGivenUp
				}
				if err := to.Commit(); err != nil {
					return err
				}
				if to, err = s.db.Begin(true); err != nil {
					return err
				}
				into = to.Bucket(name)
				into.FillPercent = 1
			}
			return into.Put(k, v)
		})
	})
	if err == nil {
		var t tail
		if t, err = parseTail(from.Bucket([]byte(bucketMeta)).Get(keyTail)); err == nil {
			err = putTail(to, t)
		}
	}
	if err != nil {
		return errors.Join(err, to.Rollback())
	}
	return to.Commit()
}

// tidy removes what a crash while the file was compacted has left, and looks how
// large the file is. That the leftover can't be removed matters when it is in the
// way.
func (s *bolt) tidy() error {
	if err := s.place.removeFile(newName); errors.Is(err, ErrNotJournal) {
		return err
	}
	_ = s.look() // it fails again for who needs it
	return nil
}
