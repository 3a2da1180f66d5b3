package executortest_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/executortest"
)

// book is a driver of a database that counts what it is told.
type book struct{ lines, connections int }

func (l *book) Connect(context.Context) (driver.Conn, error) { l.connections++; return line{l}, nil }
func (l *book) Driver() driver.Driver                        { return nil }

// line is a connection to a book.
type line struct{ *book }

func (line) Prepare(string) (driver.Stmt, error) { return nil, errors.New("nothing is prepared") }
func (line) Begin() (driver.Tx, error)           { return nil, errors.New("no transactions") }
func (l line) Close() error                      { l.connections--; return nil }

func (l line) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	l.lines++
	return driver.ResultNoRows, nil
}

// What a scenario makes is in the bubble of its life, and so is what it leaves to Cleanup: a
// database of goroutines, channels and timers, for example.
func TestEveryCrashOfAScenarioWithADatabase(t *testing.T) {
	var world []*book
	executortest.EveryCrash(t, func(t *testing.T) executortest.Scenario {
		l := new(book)
		world = append(world, l)
		db := sql.OpenDB(l)
		db.SetMaxOpenConns(1)
		db.SetConnMaxLifetime(time.Minute)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		began := time.Now()
		var q *executor.Queue[string]
		return executortest.Scenario{
			Setup: func(x *executor.Executor) (err error) {
				q, err = executor.Handle(x, "q", func(ctx context.Context, _ executor.Job[string]) error {
					_, err := db.ExecContext(ctx, "insert")
					return err
				}, executor.QueueConfig[string]{})
				return err
			},
			Script: func(x *executortest.Executor) error {
				_, err := q.Enqueue(context.Background(), "a", "", executor.In(time.Hour))
				x.Advance(2 * time.Hour)
				return err
			},
			Check: func(t *testing.T, x *executortest.Executor) {
				executortest.RequireEmpty(x)
				require.Less(t, time.Since(began), 24*time.Hour, "the scenario has the clock of its bubble")
			},
		}
	})
	require.Greater(t, len(world), 2)
	for _, l := range world {
		require.Zero(t, l.connections)
	}
}
