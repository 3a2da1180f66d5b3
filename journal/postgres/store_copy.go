package postgres

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
)

// copyStep is how many rows beside the log a copy has in memory.
const copyStep = 1000

// CopyTo implements store.Store: a bbolt file has what one moment of the server had, and
// the UUID of the partition.
func (s *partitionStore) CopyTo(path string, over <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-over:
			cancel(store.ErrGivenUp)
		case <-ctx.Done():
		}
	}()
	err := pgx.BeginTxFunc(ctx, s.pool, snapshot, func(tx pgx.Tx) error {
		c := storeWithin(ctx, tx.Conn(), s.texts, s.partition, s.epoch)
		defer c.Close()
		return c.transfer(path)
	})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return err
}

// transfer makes the file of a journal of what a store in a transaction has.
func (s *partitionStore) transfer(path string) error {
	p, err := directory.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer p.Close()
	b, err := store.OpenBolt(p)
	if err != nil {
		return err
	}
	return errors.Join(s.fill(b), b.Close())
}

// fill commits everything to b: blocks and what stands beside the log in steps, and the true end
// mark with the last.
func (s *partitionStore) fill(b *store.Bolt) (err error) {
	if s.first, err = s.header(s.ctx, s.within); err != nil {
		return err
	}
	end, err := store.ReadManifest(s)
	if err == nil {
		err = b.SetUUID(s.first.uuid)
	}
	if err == nil {
		err = s.scan(s.ctx, s.within, func(seq uint64, data []byte) error {
			return b.Commit(&store.Transaction{Seq: seq, Block: data, Manifest: format.FirstManifest})
		})
	}
	var step []format.Edit
	for _, name := range buckets {
		for kv, broken := range store.List(s, name, nil) {
			if err = cmp.Or(err, broken); err != nil {
				return err
			}
			if step = append(step, format.Edit{Bucket: name, Key: kv.Key, Value: kv.Value}); len(step) == copyStep {
				err = b.Commit(&store.Transaction{Changes: step, Manifest: format.FirstManifest})
				step = nil
			}
		}
	}
	if err != nil {
		return err
	}
	return b.Commit(&store.Transaction{Changes: step, Manifest: end})
}
