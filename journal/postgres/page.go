package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// inRow is a row of the inbox.
type inRow struct {
	number int64
	queue  string
	calls  []byte
	token  pgtype.UUID
}

// page is what the server shows of the inbox at one moment: rows, and the number of the last that
// there is; all transactions before ended have ended, and none from begun on has begun.
type page struct {
	rows         []inRow
	last         *int64
	ended, begun int64
}

// page reads the rows after a number, up to another one, if that is not nil.
func (t *taker) page(after int64, last *int64, queues []string) (p page, err error) {
	err = t.p.store.patient(func(ctx context.Context, conn *pgx.Conn) error {
		p.rows = p.rows[:0]
		rows, _ := conn.Query(ctx, t.p.n.texts["page"], t.p.number, after, last, queues)
		var r inRow
		_, err := pgx.ForEachRow(rows, []any{&p.ended, &p.begun, &r.number, &r.queue, &r.calls, &r.token, &p.last}, func() error {
			if p.last != nil {
				p.rows = append(p.rows, r)
			}
			r.calls = nil
			return nil
		})
		return err
	})
	return p, err
}

// mark is the number of a row of the inbox, and the first transaction that had not begun when that
// row was seen. A transaction has its own number before its rows have theirs: see the function same.
// So rows up to the mark are there, or never will be, once all transactions before that one have ended.
type mark struct{ number, begun int64 }

// raise is called when all that the first page of a pass had to show is in the log. Without a floor each
// pass would step over all that was taken in since the oldest snapshot in the database.
func (t *taker) raise(first page) {
	if first.ended >= t.mark.begun {
		t.floor.Store(max(t.floor.Load(), t.mark.number))
		if first.last != nil {
			t.mark = mark{*first.last, first.begun}
		}
	}
}
