package journal

import (
	"bytes"
	"errors"
	"strings"

	"go.etcd.io/bbolt"
)

// value returns a copy of a value as it was given to a commit, nil for none.
func (s *bolt) value(name bucket, key, v []byte) ([]byte, error) {
	value, err := s.inside(name, key, v)
	return bytes.Clone(value), err
}

// inside returns the part of a value that was given to a commit.
func (s *bolt) inside(name bucket, key, v []byte) ([]byte, error) {
	switch {
	case v == nil || !sealed(name):
		return v, nil
	case s.version > 1:
		value, _, err := unseal(name, key, v)
		return value, err
	case name == bucketState:
		return v, nil // nothing vouched for it then
	}
	value, err := cutChecksum(v, key)
	if err != nil {
		return nil, brokenValue(name, key, err)
	}
	return value, nil
}

// writeSides writes changes and keeps the sums in step. What is replaced or
// deleted is looked at, so that damage to it does not go into the sums unseen.
func (s *bolt) writeSides(tx *bbolt.Tx, changes []change, last *tail) error {
	last.version, last.sides = formatVersion, s.sides
	if s.version < formatVersion {
		if err := s.migrate(tx, last); err != nil {
			return err
		}
	}
	var b *bbolt.Bucket
	var c *bbolt.Cursor // one for all of a bucket: Bucket.Get makes its own each time
	for i := range changes {
		change := &changes[i]
		if i == 0 || change.bucket != changes[i-1].bucket {
			b = tx.Bucket([]byte(change.bucket))
			c = b.Cursor()
		}
		total := last.sides.of(change.bucket)
		if k, old := c.Seek(change.key); k != nil && bytes.Equal(k, change.key) {
			if sealed(change.bucket) {
				if _, _, err := unseal(change.bucket, k, old); err != nil {
					return err
				}
			}
			total.remove(k, old)
		}
		if change.value == nil {
			if err := b.Delete(change.key); err != nil {
				return err
			}
			continue
		}
		v := change.value
		if sealed(change.bucket) {
			v = seal(change.bucket, change.key, v, last.seq)
		}
		if err := b.Put(change.key, v); err != nil {
			return err
		}
		total.add(change.key, v)
	}
	return nil
}

// migrateStep is how many values are in memory twice while a file is migrated.
const migrateStep = 256

// migrate makes a file of format 1 one of the present format, as part of the
// commit that it is opened with: a crash leaves one or the other, whole. It
// takes as much room as there are names and state keys.
func (s *bolt) migrate(tx *bbolt.Tx, last *tail) error {
	for _, name := range sideBuckets {
		if !sealed(name) {
			continue // its sum is known from when it was checked
		}
		b, total := tx.Bucket([]byte(name)), last.sides.of(name)
		*total = sum{}
		for from := []byte{}; from != nil; {
			var step []pair
			c := b.Cursor()
			k, v := c.Seek(from)
			for ; k != nil && len(step) < migrateStep; k, v = c.Next() {
				value, err := s.inside(name, k, v)
				if err != nil {
					return err
				}
				key := bytes.Clone(k)
				step = append(step, pair{key, seal(name, key, value, last.seq)})
			}
			for _, kv := range step {
				if err := b.Put(kv.key, kv.value); err != nil {
					return err
				}
				total.add(kv.key, kv.value)
			}
			from = bytes.Clone(k)
		}
	}
	return tx.Bucket([]byte(bucketMeta)).Put([]byte(keyVersion), []byte{formatVersion})
}

// checkSides checks every value beside the log, and that they are those of the
// last commit.
func (s *bolt) checkSides(tx *bbolt.Tx, t tail) error {
	s.sides = sides{}
	s.dead = make(map[uint32]int)
	for _, name := range sideBuckets {
		got, want := s.sides.of(name), *t.sides.of(name)
		err := tx.Bucket([]byte(name)).ForEach(func(k, v []byte) error {
			got.add(k, v)
			return s.checkValue(name, k, v)
		})
		switch {
		case err != nil:
			return err
		case t.version == 1 && name == bucketState: // nobody has counted them
		case got.count != want.count:
			return damaged("bucket %q holds %d values, want %d", name, got.count, want.count)
		case t.version > 1 && got.hash != want.hash:
			return damaged("bucket %q holds an older version of some of its %d values", name, got.count)
		}
	}
	return nil
}

func (s *bolt) checkValue(name bucket, k, v []byte) error {
	if v == nil {
		return brokenValue(name, k, errors.New("a bucket"))
	}
	value, err := s.inside(name, k, v)
	if err != nil {
		return err
	}
	switch name {
	case bucketQueues:
		_, err = parseQueue(k, value)
	case bucketMorgue:
		if _, err = parseBuried(k, value); err == nil {
			s.dead[queueOf(k)]++
		}
	case bucketState:
		if strings.HasPrefix(string(k), suspectPrefix) {
			_, _, err = parseSuspicion(string(k), value)
		}
	}
	return err
}
