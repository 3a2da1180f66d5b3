package executortest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/executortest"
)

// order is what a customer has bought.
type order struct{ Total int }

// ledger is a service under test: it books orders, and sends a receipt for each.
type ledger struct {
	orders   *executor.Queue[order]
	receipts *executor.Queue[order]
	booked   map[string]int // the world: it is there when the process is not
}

// register is what the program calls, too.
func (l *ledger) register(x *executor.Executor) (err error) {
	l.receipts, err = executor.Handle(x, "receipts", func(context.Context, executor.Job[order]) error { return nil }, executor.QueueConfig[order]{})
	if err != nil {
		return err
	}
	l.orders, err = executor.Handle(x, "orders", l.book, executor.QueueConfig[order]{})
	return err
}

func (l *ledger) book(_ context.Context, job executor.Job[order]) error {
	switch {
	case job.Payload.Total < 0:
		return executor.Cancel(errors.New("a negative total"))
	case job.Payload.Total == 0 && job.Attempt == 1:
		return executor.RetryAfter(time.Hour, errors.New("no total yet"))
	}
	l.booked[job.ID] = job.Payload.Total // as often as one likes
	return l.receipts.FollowUp(job, job.ID, job.Payload)
}

// What a producer enqueues, what the handler makes of it, and when.
func TestLedger(t *testing.T) {
	l := &ledger{booked: map[string]int{}}
	executortest.Run(t, executortest.Config{}, l.register, func(t *testing.T, x *executortest.Executor) {
		for id, total := range map[string]int{"42": 7, "43": 0, "44": -1} {
			if _, err := l.orders.Enqueue(t.Context(), id, order{total}); err != nil {
				t.Fatal(err)
			}
		}
		x.UntilIdle()
		executortest.RequireDone(x, l.orders, "42")
		executortest.RequireEnqueued(x, l.receipts, "42", order{7})
		executortest.RequireFailed(x, l.orders, "43", "no total yet")
		executortest.RequireDue(x, l.orders, "43", time.Hour)
		executortest.RequireBuried(x, l.orders, "44", "a negative total")
		executortest.RequireNotEnqueued(x, l.receipts, "43", "44")

		x.UntilEmpty()
		executortest.RequireOutcomes(x, l.orders, "43", events.Failed, events.Done)
	})
}

// One call of one handler, with all around it.
func TestBookOnce(t *testing.T) {
	l := &ledger{booked: map[string]int{}}
	executortest.Run(t, executortest.Config{}, l.register, func(t *testing.T, x *executortest.Executor) {
		r := executortest.Work(x, l.orders, "42", order{7}, executor.Metadata(map[string]string{"trace": "1"}))
		if r.Outcome != events.Done || len(r.FollowUps) != 1 || r.FollowUps[0].Payload != (order{7}) {
			t.Fatal("want a receipt, got", r.Ran, r.FollowUps)
		}
	})
}

// Whenever the process dies, each order that was accepted is booked, and has one receipt.
func TestLedgerSurvives(t *testing.T) {
	executortest.EveryCrash(t, func(*testing.T) executortest.Scenario {
		l := &ledger{booked: map[string]int{}}
		var accepted []string
		return executortest.Scenario{
			Setup: l.register,
			Script: func(x *executortest.Executor) error {
				for i := range 3 {
					id := fmt.Sprint(i)
					if _, err := l.orders.Enqueue(context.Background(), id, order{7}); err != nil {
						return err
					}
					accepted = append(accepted, id)
					x.UntilIdle()
				}
				return nil
			},
			Check: func(t *testing.T, x *executortest.Executor) {
				for _, id := range accepted {
					executortest.RequireEnqueued(x, l.receipts, id, order{7}) // once
					executortest.RequireDone(x, l.receipts, id)
					if l.booked[id] != 7 {
						t.Fatal("not booked:", id)
					}
				}
			},
		}
	})
}
