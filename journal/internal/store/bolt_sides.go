package store

import (
	"bytes"
	"errors"
	"strings"

	"github.com/strandjobs/strand/journal/internal/crash"
	"github.com/strandjobs/strand/journal/internal/format"
	"go.etcd.io/bbolt"
)

// sides are what the file has beside the log.
type sides struct {
	boltFile
	Version byte           // of its format when it was opened, and the present one after the first commit
	sums    format.Sides   // of the last commit
	dead    map[uint32]int // payloads in the morgue by queue, as check found them
}

// inside returns the part of a value that was given to a commit.
func (s *sides) inside(name format.Bucket, key, v []byte) ([]byte, error) {
	switch {
	case s.Version > 1 || v == nil || !format.Sealed(name):
		value, _, err := format.Unseal(name, key, v)
		return value, err
	case name == format.BucketState:
		return v, nil // nothing vouched for it then
	}
	value, err := format.CutChecksum(v, key)
	if err != nil {
		return nil, format.BrokenValue(name, key, err)
	}
	return value, nil
}

// writeSides writes changes and keeps the sums in step. What is replaced or
// deleted is looked at, so that damage to it does not go into the sums unseen.
func (s *sides) writeSides(tx *bbolt.Tx, changes []format.Edit, last *format.Manifest) error {
	last.Sides = s.sums
	if s.Version < format.FormatVersion {
		if err := s.migrate(tx, last); err != nil {
			return err
		}
	}
	var b *bbolt.Bucket
	var c *bbolt.Cursor // one for all of a bucket: Bucket.Get makes its own each time
	for i := range changes {
		change := &changes[i]
		if i == 0 || change.Bucket != changes[i-1].Bucket {
			b = tx.Bucket([]byte(change.Bucket))
			c = b.Cursor()
		}
		total := last.Sides.Of(change.Bucket)
		if k, old := c.Seek(change.Key); k != nil && bytes.Equal(k, change.Key) {
			if _, _, err := format.Unseal(change.Bucket, k, old); err != nil {
				return err
			}
			total.Remove(k, old)
		}
		if change.Value == nil {
			if err := b.Delete(change.Key); err != nil {
				return err
			}
			continue
		}
		v := format.Seal(change.Bucket, change.Key, change.Value, last.Seq)
		if err := b.Put(change.Key, v); err != nil {
			return err
		}
		total.Add(change.Key, v)
	}
	return nil
}

// migrateStep is how many values are in memory twice while a file is migrated.
const migrateStep = 256

// migrate makes a file of format 1 one of the present format, as part of the
// commit that it is opened with: a crash leaves one or the other, whole. It
// takes as much room as there are names and state keys.
func (s *sides) migrate(tx *bbolt.Tx, last *format.Manifest) error {
	for _, name := range format.SideBuckets {
		if !format.Sealed(name) {
			continue // its sum is known from when it was checked
		}
		b, total := tx.Bucket([]byte(name)), last.Sides.Of(name)
		*total = format.Sum{}
		for from := []byte{}; from != nil; {
			var step []format.Pair
			c := b.Cursor()
			k, v := c.Seek(from)
			for ; k != nil && len(step) < migrateStep; k, v = c.Next() {
				value, err := s.inside(name, k, v)
				if err != nil {
					return err
				}
				key := bytes.Clone(k)
				step = append(step, format.Pair{Key: key, Value: format.Seal(name, key, value, last.Seq)})
			}
			for _, kv := range step {
				if err := b.Put(kv.Key, kv.Value); err != nil {
					return err
				}
				total.Add(kv.Key, kv.Value)
			}
			from = bytes.Clone(k)
		}
	}
	return nil
}

// checkSides checks every value beside the log, and that they are those of the
// last commit.
func (s *sides) checkSides(tx *bbolt.Tx, t format.Manifest) error {
	s.sums = format.Sides{}
	s.dead = make(map[uint32]int)
	for _, name := range format.SideBuckets {
		got, want := s.sums.Of(name), *t.Sides.Of(name)
		err := tx.Bucket([]byte(name)).ForEach(func(k, v []byte) error {
			got.Add(k, v)
			s.mapped.touch(tx, len(k)+len(v))
			return s.checkValue(name, k, v)
		})
		switch {
		case err != nil:
			return err
		case t.Version == 1 && name == format.BucketState: // they were not counted
		case got.Count != want.Count:
			return format.Damaged("bucket %q holds %d values, want %d", name, got.Count, want.Count)
		case t.Version > 1 && got.Hash != want.Hash:
			return format.Damaged("bucket %q holds an older version of some of its %d values", name, got.Count)
		}
	}
	return nil
}

func (s *sides) checkValue(name format.Bucket, k, v []byte) error {
	if v == nil {
		return format.BrokenValue(name, k, errors.New("a bucket"))
	}
	value, err := s.inside(name, k, v)
	if err != nil {
		return err
	}
	if name == format.BucketMorgue {
		s.letter = max(s.letter, len(v))
	}
	return CheckSide(name, k, value, s.dead)
}

func (s *sides) Buried() map[uint32]int { return s.dead }

// CheckSide checks what a bucket beside the log has under a key, and counts what is buried, by queue.
func CheckSide(name format.Bucket, key, value []byte, dead map[uint32]int) (err error) {
	switch name {
	case format.BucketQueues:
		_, err = format.ParseQueue(key, value)
	case format.BucketMorgue:
		if _, err = format.ParseBuried(key, value); err == nil {
			dead[format.QueueOf(key)]++
		}
	case format.BucketState:
		if strings.HasPrefix(string(key), crash.SuspectPrefix) {
			_, _, err = crash.ParseSuspicion(string(key), value)
		}
	}
	return err
}
