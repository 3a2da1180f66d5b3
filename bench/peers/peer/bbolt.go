package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/bbolt"
)

func bolt() []Peer {
	return []Peer{{
		Name: "bbolt by hand", Module: "go.etcd.io/bbolt", Promise: Synced, Order: "per id: one worker for each part of the ids",
		Settings: "a key per job; 1000 oldest are read, run and deleted in one transaction; callers share one with Batch",
		Workers:  5, Bulk: bulk, Producers: many, Holds: true, Open: openBolt,
	}}
}

var boltBucket = []byte("jobs")

type boltSystem struct {
	db   *bbolt.DB
	room Room
	wake chan struct{}
	stop chan struct{}
	done sync.WaitGroup
	err  error // of the loop, once it is done
}

func openBolt(_ context.Context, r Room) (System, error) {
	db, err := bbolt.Open(filepath.Join(r.Dir, "jobs.db"), 0o600, &bbolt.Options{
		NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, Timeout: time.Second,
	})
	if err != nil {
		return nil, err
	}
	err = db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket(boltBucket); return err })
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	db.MaxBatchDelay = 0 // a commit waits for no other caller
	s := &boltSystem{db: db, room: r, wake: make(chan struct{}, 1), stop: make(chan struct{})}
	s.done.Go(func() { s.err = s.loop() })
	return s, nil
}

// Enqueue stores the items under the next keys.
func (s *boltSystem) Enqueue(_ context.Context, items []Item) error {
	add := func(tx *bbolt.Tx) error {
		b := tx.Bucket(boltBucket)
		b.FillPercent = 1 // keys only ever come at the end
		for _, item := range items {
			number, err := b.NextSequence()
			if err != nil {
				return err
			}
			value := binary.AppendUvarint(make([]byte, 0, 2+len(item.ID)+len(item.Payload)), uint64(len(item.ID)))
			value = append(append(value, item.ID...), item.Payload...)
			if err := b.Put(binary.BigEndian.AppendUint64(nil, number), value); err != nil {
				return err
			}
		}
		return nil
	}
	commit := s.db.Update
	if len(items) == 1 {
		commit = s.db.Batch
	}
	if err := commit(add); err != nil {
		return err
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// loop runs the oldest jobs and deletes them, until stop.
func (s *boltSystem) loop() error {
	for {
		keys, err := s.turn()
		if err == nil && len(keys) > 0 {
			err = s.db.Update(func(tx *bbolt.Tx) error {
				for _, k := range keys {
					if err := tx.Bucket(boltBucket).Delete(k); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err != nil {
			return err
		}
		select {
		case <-s.stop:
			return nil
		default:
		}
		if len(keys) == 0 {
			select {
			case <-s.wake:
			case <-s.stop:
				return nil
			}
		}
	}
}

// turn runs up to 1000 jobs, those of one part of the ids one after the other,
// and returns their keys.
func (s *boltSystem) turn() (keys [][]byte, err error) {
	parts := make([][]Item, s.room.Workers)
	err = s.db.View(func(tx *bbolt.Tx) error {
		c := tx.Bucket(boltBucket).Cursor()
		for k, v := c.First(); k != nil && len(keys) < bulk; k, v = c.Next() {
			length, n := binary.Uvarint(v)
			id, payload := string(v[n:n+int(length)]), append([]byte(nil), v[n+int(length):]...)
			part := shardOf(id, len(parts))
			parts[part] = append(parts[part], Item{id, payload})
			keys = append(keys, append([]byte(nil), k...))
		}
		return nil
	})
	var group sync.WaitGroup
	for _, part := range parts {
		if len(part) > 0 {
			group.Go(func() {
				for _, item := range part {
					s.room.Handle(item.ID, item.Payload)
				}
			})
		}
	}
	group.Wait()
	return keys, err
}

func (s *boltSystem) Close() error {
	close(s.stop)
	s.done.Wait()
	return errors.Join(s.err, s.db.Close())
}
