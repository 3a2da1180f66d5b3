package baseline

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
)

const (
	valueBytes = 128 // of a record: 100 bytes of payload, an id and some numbers
	perTurn    = 1000
	backlog    = 10_000
)

// records is a queue of records in a bbolt file: one key per record.
type records struct {
	db           *bbolt.DB
	first, after uint64 // the keys that are there
	value        [valueBytes]byte
}

var bucketName = []byte("records")

// openRecords opens a file in dir that holds n records.
func openRecords(dir string, n int) (*records, error) {
	// The settings under which bbolt is at its best for a queue.
	db, err := bbolt.Open(filepath.Join(dir, "records.db"), 0o600, &bbolt.Options{
		NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, Timeout: time.Second,
	})
	if err != nil {
		return nil, err
	}
	r := &records{db: db}
	for left := n; left > 0 && err == nil; left -= perTurn {
		err = r.turn(min(left, perTurn), 0)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return r, nil
}

// turn puts some new records in and takes the oldest out, in one transaction
// that is on disk when it returns.
func (r *records) turn(in, out int) error {
	var key [8]byte
	err := r.db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(bucketName)
		if err != nil {
			return err
		}
		b.FillPercent = 1 // keys only ever come at the end
		for i := range out {
			binary.BigEndian.PutUint64(key[:], r.first+uint64(i))
			if err := b.Delete(key[:]); err != nil {
				return err
			}
		}
		for i := range in {
			binary.BigEndian.PutUint64(key[:], r.after+uint64(i))
			if err := b.Put(key[:], r.value[:]); err != nil {
				return err
			}
		}
		return nil
	})
	r.first, r.after = r.first+uint64(out), r.after+uint64(in)
	return err
}

// check closes the file and reports whether it held n records.
func (r *records) check(n int) error {
	found := 0
	err := r.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketName).ForEach(func(_, _ []byte) error { found++; return nil })
	})
	if err == nil && found != n {
		err = fmt.Errorf("baseline: %d records in the file, want %d", found, n)
	}
	return errors.Join(err, r.db.Close())
}

// PutDelete moves n records through a bbolt file in dir that holds 10,000: each
// transaction puts 1000 new ones in, takes the 1000 oldest out and is synced.
func PutDelete(ctx context.Context, dir string, n int) (time.Duration, error) {
	r, err := openRecords(dir, backlog)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	for left := n; left > 0 && err == nil; left -= perTurn {
		if err = context.Cause(ctx); err == nil {
			err = r.turn(min(left, perTurn), min(left, perTurn))
		}
	}
	elapsed := time.Since(start)
	return elapsed, errors.Join(err, r.check(backlog))
}

// Commits measures n commits of one key each, with a pause before each.
func Commits(ctx context.Context, dir string, n int, pause time.Duration) ([]time.Duration, error) {
	r, err := openRecords(dir, 1)
	if err != nil {
		return nil, err
	}
	took := make([]time.Duration, 0, n)
	for range n {
		time.Sleep(pause)
		start := time.Now()
		if err = errors.Join(context.Cause(ctx), r.turn(1, 1)); err != nil {
			break
		}
		took = append(took, time.Since(start))
	}
	return took, errors.Join(err, r.check(1))
}

// Fill leaves a file with n records in dir, for Scan.
func Fill(dir string, n int) error {
	r, err := openRecords(dir, n)
	if err != nil {
		return err
	}
	return r.db.Close()
}

// Scan opens a file that Fill left and copies its n records to memory.
func Scan(dir string, n int) (time.Duration, error) {
	start := time.Now()
	r, err := openRecords(dir, 0)
	if err != nil {
		return 0, err
	}
	values := make([][]byte, 0, n)
	err = r.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketName).ForEach(func(_, v []byte) error {
			values = append(values, append([]byte(nil), v...))
			return nil
		})
	})
	elapsed := time.Since(start)
	if err == nil && len(values) != n {
		err = fmt.Errorf("baseline: %d records read, want %d", len(values), n)
	}
	return elapsed, errors.Join(err, r.db.Close())
}
