package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "modernc.org/sqlite" // in Go, without cgo
)

// store has the orders, in SQLite.
type store struct{ db *sql.DB }

// errImpossible is an event that can't happen to an order as it is.
var errImpossible = errors.New("can't happen to the order")

const schema = `
CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, state TEXT NOT NULL, cents INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS applied (event TEXT PRIMARY KEY, order_id TEXT NOT NULL, kind TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS applied_to_order ON applied (order_id);`

func openStore(path string) (*store, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(4)
	if _, err := db.Exec(schema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &store{db}, nil
}

func (s *store) close() error { return s.db.Close() }

// next are the states that an event is possible in, and the one it leads to.
var next = map[string]struct {
	from map[string]bool
	to   string
}{
	"created":   {map[string]bool{"": true}, "created"},
	"paid":      {map[string]bool{"created": true}, "paid"},
	"shipped":   {map[string]bool{"paid": true}, "shipped"},
	"cancelled": {map[string]bool{"created": true, "paid": true}, "cancelled"},
}

// apply applies an event to its order, once: one whose id is there already has been applied.
func (s *store) apply(ctx context.Context, id string, e accepted) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after the commit it does nothing
	done, err := tx.ExecContext(ctx, `INSERT OR IGNORE INTO applied (event, order_id, kind) VALUES (?, ?, ?)`, e.ID, id, e.Kind)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return err
	}
	state, _, err := find(ctx, tx, id)
	if err != nil {
		return err
	}
	step, known := next[e.Kind]
	if !known || !step.from[state] {
		return fmt.Errorf("%q %w, whose state is %q", e.Kind, errImpossible, state)
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO orders (id, state, cents) VALUES (?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET state = excluded.state, cents = cents + excluded.cents`, id, step.to, e.Cents)
	if err != nil {
		return err
	}
	return tx.Commit()
}

// find returns an order; "": there is none.
func find(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, id string) (state string, cents int, err error) {
	err = db.QueryRowContext(ctx, `SELECT state, cents FROM orders WHERE id = ?`, id).Scan(&state, &cents)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return state, cents, err
}

// history returns what has happened to an order, in the order in which it was applied.
func (s *store) history(ctx context.Context, id string) (kinds []string, err error) {
	rows, err := s.db.QueryContext(ctx, `SELECT kind FROM applied WHERE order_id = ? ORDER BY rowid`, id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var kind string
		if err := rows.Scan(&kind); err != nil {
			return nil, err
		}
		kinds = append(kinds, kind)
	}
	return kinds, rows.Err()
}
