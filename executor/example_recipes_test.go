package executor_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// accounts stands for a database with two tables. With database/sql, book is one
// transaction:
//
//	INSERT INTO booked (position) VALUES ($1) ON CONFLICT DO NOTHING
//	-- no row was inserted: COMMIT, it is booked already
//	UPDATE accounts SET balance = balance + $3 WHERE id = $2
type accounts struct {
	booked  map[uint64]bool
	balance map[string]int
}

// book adds amount once for each position.
func (a *accounts) book(position uint64, id string, amount int) (again bool) {
	if a.booked[position] {
		return true
	}
	a.booked[position] = true
	a.balance[id] += amount
	return false
}

// A job runs at least once: a handler may have done its work when its process dies,
// or when the answer of the database is lost, and then it runs again. The position
// of a payload is the same in each of its attempts and belongs to no other payload
// of the journal, so it goes into the transaction with the work. A comparison with
// the highest position so far is not enough: what comes back from the morgue is
// older than what was done meanwhile.
func Example_idempotentHandler() {
	ctx := context.Background()
	x := must(executor.Open("", executor.Config{}))
	db := accounts{map[uint64]bool{}, map[string]int{}}
	done := make(chan struct{})
	deposits := must(executor.Handle(x, "deposits", func(_ context.Context, job executor.Job[int]) error {
		again := db.book(job.Position, job.ID, job.Payload)
		fmt.Println("attempt", job.Attempt, "booked before:", again)
		if job.Attempt == 1 {
			return executor.RetryAfter(0, errors.New("the connection broke after COMMIT"))
		}
		close(done)
		return nil
	}, executor.QueueConfig[int]{}))
	must(deposits.Enqueue(ctx, "ann", 100))
	check(x.Start(ctx))
	<-done
	check(x.Stop(ctx))
	fmt.Println("ann has", db.balance["ann"])
	// Output:
	// attempt 1 booked before: false
	// attempt 2 booked before: true
	// ann has 100
}

// What follows a job is staged on it, and lands in the commit of its success: an order
// is charged, then shipped, then its customer is told, each once for each time that the
// step before has ended, without a key. What an attempt has staged that failed is
// dropped. Such calls are let in even when the backlog is full.
func ExampleQueue_FollowUp() {
	ctx := context.Background()
	x := must(executor.Open("", executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 1}}))
	done := make(chan struct{})
	mails := must(executor.Handle(x, "mails", func(_ context.Context, job executor.Job[string]) error {
		fmt.Println("mail:", job.Payload)
		close(done)
		return nil
	}, executor.QueueConfig[string]{}))
	shipments := must(executor.HandleMerged(x, "shipments", func(_ context.Context, job executor.Merged[int]) error {
		fmt.Println("ship", job.Latest(), "books")
		return mails.FollowUp(job, job.ID, fmt.Sprint(job.Latest(), " books are on their way"))
	}, executor.QueueConfig[int]{}))
	orders := must(executor.Handle(x, "orders", func(_ context.Context, job executor.Job[int]) error {
		if err := shipments.FollowUp(job, job.ID, job.Payload); err != nil {
			return err
		}
		fmt.Println("charge, attempt", job.Attempt)
		if job.Attempt == 1 {
			return executor.RetryAfter(0, errors.New("the bank does not answer")) // nothing is shipped
		}
		return nil
	}, executor.QueueConfig[int]{}))
	must(orders.Enqueue(ctx, "customer-7", 2))
	check(x.Start(ctx))
	<-done
	check(x.Stop(ctx))
	// Output:
	// charge, attempt 1
	// charge, attempt 2
	// ship 2 books
	// mail: 2 books are on their way
}

// A person pauses a queue: what runs goes on, what waits keeps its place and its retries,
// and what comes is accepted, over restarts, until a person resumes it. With
// SelectExecutor it is for all queues, and it may be for single ids, or those of a tenant.
func Example_pause() {
	ctx := context.Background()
	dir := must(os.MkdirTemp("", "strand"))
	defer func() { check(os.RemoveAll(dir)) }()
	done := make(chan struct{})
	start := func() (*executor.Executor, *executor.Queue[string]) {
		x := must(executor.Open(dir, executor.Config{}))
		mails := must(executor.Handle(x, "mails", func(_ context.Context, job executor.Job[string]) error {
			fmt.Println("mail to", job.ID)
			close(done)
			return nil
		}, executor.QueueConfig[string]{}))
		check(x.Start(ctx))
		return x, mails
	}

	x, mails := start()
	_, err := x.Inspect().Pause(ctx, inspect.SelectQueue("mails"))
	check(err)
	must(mails.Enqueue(ctx, "ann", "hello"))
	check(x.Stop(ctx))

	x, _ = start()
	fmt.Println(must(x.Inspect().Explain(ctx, "mails", "ann")))
	_, err = x.Inspect().Resume(ctx, inspect.SelectQueue("mails"))
	check(err)
	<-done
	check(x.Stop(ctx))
	// Output:
	// mails/ann is paused (pause of the queue)
	// mail to ann
}

// The newest state wins, also when states come late or twice: it has a version of
// its own, which is its score, and the replica keeps the highest one.
func Example_replica() {
	type row struct {
		Version int
		Name    string
	}
	ctx := context.Background()
	x := must(executor.Open("", executor.Config{}))
	replica := map[string]row{}
	done := make(chan struct{})
	rows := must(executor.HandleMerged(x, "rows", func(_ context.Context, job executor.Merged[row]) error {
		if newest := job.Latest(); newest.Version > replica[job.ID].Version { // WHERE version < $1
			replica[job.ID] = newest
		}
		done <- struct{}{}
		return nil
	}, executor.QueueConfig[row]{
		Merge:    executor.MergeKeepLast,
		Defaults: executor.Defaults[row]{Score: func(r row) float64 { return float64(r.Version) }},
	}))
	for _, r := range []row{{1, "Ann"}, {3, "Anna"}, {2, "Anne"}} {
		must(rows.Enqueue(ctx, "person-1", r))
	}
	check(x.Start(ctx))
	<-done
	must(rows.Enqueue(ctx, "person-1", row{2, "Anne"}, executor.In(time.Millisecond))) // once more, late
	<-done
	check(x.Stop(ctx))
	fmt.Println(replica["person-1"].Name)
	// Output:
	// Anna
}

// Several kinds of payloads, one order for each id: each kind is a queue with a
// handler of its own, and what was accepted first for an order is done first.
func Example_sharedLanes() {
	ctx := context.Background()
	x := must(executor.Open("", executor.Config{}))
	done := make(chan struct{})
	created := must(executor.Handle(x, "created", func(_ context.Context, job executor.Job[int]) error {
		if job.Attempt == 1 {
			return executor.RetryAfter(10*time.Millisecond, errors.New("the shop is busy"))
		}
		fmt.Println(job.ID, "has items:", job.Payload)
		return nil
	}, executor.QueueConfig[int]{Conditions: executor.Conditions[int]{SharedLanes: "orders"}}))
	paid := must(executor.Handle(x, "paid", func(_ context.Context, job executor.Job[string]) error {
		fmt.Println(job.ID, "is paid:", job.Payload)
		close(done)
		return nil
	}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{SharedLanes: "orders"}}))
	must(created.Enqueue(ctx, "order-42", 3))
	must(paid.Enqueue(ctx, "order-42", "19.99"))
	check(x.Start(ctx))
	<-done
	check(x.Stop(ctx))
	// Output:
	// order-42 has items: 3
	// order-42 is paid: 19.99
}
