package store

import (
	"cmp"
	"errors"
	"path/filepath"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"go.etcd.io/bbolt"
)

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

// copyStep is how many keys beside the log, with their values, a copy has in memory.
const copyStep = 1000

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
	for _, name := range []format.Bucket{format.BucketQueues, format.BucketMorgue, format.BucketState} {
		for kv, broken := range List(from, name, nil) {
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
