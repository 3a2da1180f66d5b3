package postgres

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/strandjobs/strand/executor/cluster"
)

// limits reads and writes what all nodes know of the limits of a cluster.
type limits struct {
	n       *Node
	trouble trouble
}

// permits lets change see and change what all nodes know of some keys: see cluster.Cluster. Locks, which nodes take in
// one order, keep the others away meanwhile; nothing is written where nothing changes.
func (l *limits) permits(ctx context.Context, keys []string, change func(time.Time, func(string) bool, []cluster.Row) ([]cluster.Row, error)) error {
	began := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.n.base, cancel)()
	names := make([][]byte, len(keys))
	for i, key := range keys {
		names[i] = []byte(key)
	}
	err := onConnection(ctx, l.n.pool, l.n.cfg.Lease, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			now, alive, rows, err := known(ctx, tx, l.n.texts, names)
			if err != nil {
				return err
			}
			changed, err := change(now, func(node string) bool { return slices.Contains(alive, node) }, slices.Clone(rows))
			if err != nil {
				return err
			}
			return know(ctx, tx, l.n.texts, names, rows, changed)
		})
	})
	l.trouble.note(began, err)
	return err
}

// known returns the nodes that may run jobs, and the rows.
func known(ctx context.Context, tx pgx.Tx, texts texts, names [][]byte) (now time.Time, alive []string, rows []cluster.Row, err error) {
	var b pgx.Batch
	b.Queue("SET LOCAL idle_in_transaction_session_timeout = '1s'") // of a node that stands still with the locks
	b.Queue(texts["lock"], names)
	b.Queue(texts["alive"]).Query(func(found pgx.Rows) (err error) {
		alive, err = pgx.CollectRows(found, pgx.RowTo[string])
		return err
	})
	b.Queue(texts["known"], names).Query(func(found pgx.Rows) error {
		var row cluster.Row
		_, err := pgx.ForEachRow(found, []any{&now, &row.State, &row.Until}, func() error {
			rows = append(rows, cluster.Row{State: bytes.Clone(row.State), Until: row.Until})
			return nil
		})
		return err
	})
	err = tx.SendBatch(ctx, &b).Close()
	return now, alive, rows, err
}

// know writes what has changed.
func know(ctx context.Context, tx pgx.Tx, texts texts, names [][]byte, old, rows []cluster.Row) error {
	var keys [][]byte
	var states []string
	var until []time.Time
	for i, r := range rows {
		if !bytes.Equal(r.State, old[i].State) || r.Until.Sub(old[i].Until) >= time.Hour {
			keys, states, until = append(keys, names[i]), append(states, string(r.State)), append(until, r.Until)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, texts["know"], keys, states, until)
	return err
}
