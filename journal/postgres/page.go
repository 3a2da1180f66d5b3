package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// inRow is a row of the inbox.
type inRow struct {
	number int64
	queue  string
	calls  []byte
}

// page is what the server shows of the inbox at one moment.
type page struct {
	rows  []inRow
	last  *int64 // number of the last row that there is; nil: none of rows
	ended int64  // all transactions before this one have ended
	begun int64  // none from this one on has begun
}

// page reads the rows after a number, up to another one, if that is not nil.
func (t *taker) page(after int64, last *int64, queues []string) (p page, err error) {
	err = t.p.store.patient(func(ctx context.Context, conn *pgx.Conn) error {
		p.rows = p.rows[:0]
		rows, err := conn.Query(ctx, t.p.n.texts.page, t.p.number, after, last, queues)
		if err != nil {
			return err
		}
		var number *int64
		var queue *string
		var calls []byte
		_, err = pgx.ForEachRow(rows, []any{&p.ended, &p.begun, &number, &queue, &calls, &p.last}, func() error {
			if number != nil {
				p.rows = append(p.rows, inRow{*number, *queue, calls})
			}
			number, queue, calls = nil, nil, nil
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
	if first.ended < t.mark.begun {
		return
	}
	t.floor.Store(max(t.floor.Load(), t.mark.number))
	if first.last != nil {
		t.mark = mark{*first.last, first.begun}
	}
}
