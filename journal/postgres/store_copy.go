package postgres

import (
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
	p, err := directory.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer p.Close()
	b, err := store.OpenBolt(p)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-over:
			cancel(store.ErrGivenUp)
		case <-ended:
		}
	}()
	err = pgx.BeginTxFunc(ctx, s.pool, snapshot, func(tx pgx.Tx) error {
		return s.transfer(ctx, tx, b)
	})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return errors.Join(err, b.Close())
}

// transfer commits everything to b: blocks and rows beside the log in steps, and the true
// end mark with the last.
func (s *partitionStore) transfer(ctx context.Context, tx querier, b *store.Bolt) error {
	h, err := s.header(ctx, tx)
	if err != nil {
		return err
	}
	end := format.FirstManifest
	if h.manifest != nil {
		end, err = format.ParseManifest(h.manifest)
	}
	if err == nil {
		err = b.SetUUID(h.uuid)
	}
	if err != nil {
		return err
	}
	err = s.scan(ctx, tx, func(seq uint64, data []byte) error {
		return b.Commit(&store.Transaction{Seq: seq, Block: data, Manifest: format.FirstManifest})
	})
	if err != nil {
		return err
	}
	rows, err := tx.Query(ctx, s.texts.sides, s.partition)
	if err != nil {
		return err
	}
	defer rows.Close()
	var step []format.Edit
	for rows.Next() {
		var bucket int16
		var key, sealed []byte
		var sum int64
		if err := rows.Scan(&bucket, &key, &sealed, &sum); err != nil {
			return err
		}
		name := buckets[bucket-1]
		value, err := unsealed(name, key, sealed)
		if err != nil {
			return err
		}
		if step = append(step, format.Edit{Bucket: name, Key: key, Value: value}); len(step) == copyStep {
			if err := b.Commit(&store.Transaction{Changes: step, Manifest: format.FirstManifest}); err != nil {
				return err
			}
			step = nil
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return b.Commit(&store.Transaction{Changes: step, Manifest: end})
}
