package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/strandjobs/strand/journal/internal/store"
)

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
	err := pgx.BeginTxFunc(ctx, s.pool, snapshot, func(tx pgx.Tx) (err error) {
		c := storeWithin(ctx, tx.Conn(), s.texts, s.partition, s.epoch)
		defer c.Close()
		if c.first, err = c.header(ctx, tx); err != nil {
			return err
		}
		return store.Copy(c, path)
	})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return err
}
