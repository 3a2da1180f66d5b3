package store

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/pages"
	"go.etcd.io/bbolt"
)

const (
	compactBatch = 4 << 20 // about what one transaction writes to the new file
	copyStep     = 1000    // how many keys beside the log, with their values, a copy has in memory
)

// Compact replaces the file. When replaced is true and there is an error, it is
// not known which file the next one to open the journal will find.
func (s *Bolt) Compact(over <-chan struct{}) (replaced bool, err error) {
	if !directory.CanReplace {
		return false, fmt.Errorf("journal: compact a file that is open: %w", errors.ErrUnsupported)
	}
	// All that is opened is opened before the rename: what fails after it leaves
	// the log not knowing which file it has.
	names, err := s.place.Syncer()
	if err != nil {
		return false, fmt.Errorf("journal: compact: %w", err)
	}
	defer names.Close()
	next, err := s.successor(over)
	if err != nil {
		if directory.NoSpace(err) && !errors.Is(err, format.ErrFull) { // all of it was of the new file
			err = fmt.Errorf("%w: %w", format.ErrFull, err)
		}
		return false, fmt.Errorf("journal: compact: %w", errors.Join(err, s.place.DropFile(directory.NewName)))
	}
	s.swap.Lock()
	old := s.Db
	s.Db, s.File, s.space, s.logged = next.Db, next.File, next.space, false
	s.swap.Unlock()
	_ = old.Close() // that file is not needed again
	return true, directory.SyncNames(names)
}

// successor writes what is in use to a new file, opens it, and gives it the name
// of the old one, unless that name stands for another file by now.
func (s *Bolt) successor(over <-chan struct{}) (*Bolt, error) {
	if err := s.rewrite(s.place, over, nil); err != nil {
		return nil, err
	}
	next, err := attachIn(s.place, directory.NewName, BoltOptions())
	if err != nil {
		return nil, err
	}
	ours, err := s.File.Stat()
	if err == nil && !s.place.Has(directory.FileName, ours) {
		err = format.Damaged("%s is another file now", s.path)
	}
	if err == nil {
		err = s.place.Rename(directory.NewName, directory.FileName)
	}
	if err != nil {
		return nil, errors.Join(err, next.Close())
	}
	return next, nil
}

// rewrite writes what the last commit left, and then what waits, to a new file in a directory
// that is to take the place of this one, unless over is closed meanwhile. Its pages have the size
// of the old ones, to which the blocks were cut, whatever this system has. Users who may use the old
// file may use the new one. No log stands on it.
func (s *Bolt) rewrite(p *directory.Dir, over <-chan struct{}, waiting []*Transaction) error {
	ours, err := s.File.Stat()
	if err != nil {
		return err
	}
	if !p.Has(directory.FileName, ours) {
		return format.Damaged("%s is another file now", s.path)
	}
	if err := p.DropFile(directory.NewName); err != nil {
		return err
	}
	options := BoltOptions()
	options.PageSize = s.pageSize
	options.NoSync, options.NoGrowSync = true, true // once is enough
	to, err := attachIn(p, directory.NewName, options)
	if err != nil {
		return err
	}
	err = s.view(func(tx *bbolt.Tx) error { return to.take(tx, over) })
	if err == nil {
		err = to.settle(waiting)
	}
	if err == nil {
		err = directory.KeepAccess(to.File, ours)
	}
	if err == nil {
		err = to.Db.Sync()
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return err
	}
	return pages.CheckIn(p, directory.NewName) // the memory map can't tell when the disk reads something else
}

// settle makes a copy of a file one on which no log stands, with what had waited and the file
// did not have yet.
func (s *Bolt) settle(waiting []*Transaction) error {
	_, end, err := s.end()
	if err != nil {
		return err
	}
	s.Version, s.sums, s.logged = end.Version, end.Sides, end.Log != 0
	late := &Logged{Bolt: s}
	for _, t := range waiting {
		if t.Seq > end.Seq {
			late.wait(t)
		}
	}
	return late.Rest()
}

// take copies all that from sees, a batch at a time, and the end mark last: it
// has the number of the transaction that writes it.
func (s *Bolt) take(from *bbolt.Tx, over <-chan struct{}) error {
	if IsOver(over) {
		return ErrGivenUp
	}
	to, err := s.Db.Begin(true)
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
				if IsOver(over) {
					return ErrGivenUp
				}
				if err := to.Commit(); err != nil {
					return err
				}
				if to, err = s.Db.Begin(true); err != nil {
					return err
				}
				into = to.Bucket(name)
				into.FillPercent = 1
			}
			return into.Put(k, v)
		})
	})
	if err == nil {
		var end format.Manifest
		if end, err = format.ParseManifest(from.Bucket([]byte(format.BucketMeta)).Get(format.KeyManifest)); err == nil {
			err = PutManifest(to, end)
		}
	}
	if err != nil {
		return errors.Join(err, to.Rollback())
	}
	return to.Commit()
}

// Tidy removes what a crash while the file was compacted has left, and looks how
// large the file is. That the leftover can't be removed matters when it is in the
// way. The goroutine that commits calls it.
func (s *Bolt) Tidy() error {
	if err := s.place.DropFile(directory.NewName); errors.Is(err, format.ErrNotJournal) {
		return err
	}
	_ = s.look() // it fails again for who needs it
	return nil
}

// ErrGivenUp is what comes of a compacting or a copy whose caller has gone.
var ErrGivenUp = errors.New("journal: given up")

// IsOver reports whether a channel is closed; nil never is.
func IsOver(over <-chan struct{}) bool {
	select {
	case <-over:
		return true
	default:
		return false
	}
}

// Copy commits what s has, which stays as it is meanwhile, to a new journal file.
func Copy(s Store, path string) error {
	p, err := directory.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer p.Close()
	b, err := OpenBolt(p)
	if err != nil {
		return err
	}
	return errors.Join(b.fill(s), b.Close())
}

// fill commits everything: the blocks one by one, the rest in steps, and the true end mark with
// the last.
func (s *Bolt) fill(from Store) error {
	end, err := ReadManifest(from)
	if err != nil {
		return err
	}
	uuid, err := from.Get(format.BucketMeta, format.KeyUUID)
	if err == nil && uuid != nil { // a disk in memory has none
		err = s.contain(func() error { // a commit follows: the end mark has the number of the last
			return s.Db.Update(func(tx *bbolt.Tx) error {
				return tx.Bucket([]byte(format.BucketMeta)).Put(format.KeyUUID, uuid)
			})
		})
	}
	if err == nil {
		err = from.Scan(func(seq uint64, data []byte) error {
			return s.Commit(&Transaction{Seq: seq, Block: data, Manifest: format.FirstManifest})
		})
	}
	var step []format.Edit
	for _, name := range format.SideBuckets {
		for kv, broken := range Pages(from.Page).Each(name, nil) {
			if err = cmp.Or(err, broken); err != nil {
				return err
			}
			if step = append(step, format.Edit{Bucket: name, Key: kv.Key, Value: kv.Value}); len(step) == copyStep {
				err = s.Commit(&Transaction{Changes: step, Manifest: format.FirstManifest})
				step = nil
			}
		}
	}
	if err != nil {
		return err
	}
	return s.Commit(&Transaction{Changes: step, Manifest: end})
}
