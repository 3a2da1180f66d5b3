package executor_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// firstDead waits for the first payload in the morgue, which is there after the
// next commit.
func firstDead[T any](q *executor.Queue[T]) executor.Dead[T] {
	for {
		for dead, err := range q.Morgue() {
			check(err)
			return dead
		}
	}
}

// A call that is repeated with its key enqueues nothing more.
func ExampleIdempotencyKey() {
	ctx := context.Background()
	x := must(executor.Open("", executor.Config{}))
	q := must(executor.HandleMerged(x, "mails", func(context.Context, executor.Merged[string]) error { return nil }, executor.QueueConfig[string]{}))

	for range 2 { // the first answer may have been lost on its way
		r := must(q.Enqueue(ctx, "customer-7", "welcome", executor.IdempotencyKey("request-4711")))
		fmt.Println(r.Position, r.Duplicate)
	}
	check(x.Stop(ctx))
	// Output:
	// 1 false
	// 1 true
}

// What a numbered source says again is not taken in again.
func ExampleFromSource() {
	ctx := context.Background()
	x := must(executor.Open("", executor.Config{}))
	q := must(executor.HandleMerged(x, "events", func(context.Context, executor.Merged[string]) error { return nil }, executor.QueueConfig[string]{}))

	for _, offset := range []int64{1, 2, 2, 3} {
		_, err := q.Enqueue(ctx, "customer-7", fmt.Sprint("event ", offset), executor.FromSource("partition 0", offset))
		fmt.Println(offset, errors.As(err, new(*executor.StaleError)))
	}
	next, _, err := x.SourceOffset("partition 0")
	check(err)
	fmt.Println("read on after", next)
	check(x.Stop(ctx))
	// Output:
	// 1 false
	// 2 false
	// 2 true
	// 3 false
	// read on after 3
}

// Payloads of one id reach its handler in order, and a retry is not overtaken.
func Example_order() {
	ctx := context.Background()
	x := must(executor.Open("", executor.Config{}))
	failed := false
	done := make(chan struct{})
	q := must(executor.HandleMerged(x, "orders", func(_ context.Context, job executor.Merged[string]) error {
		for _, p := range job.Payloads {
			fmt.Println(job.ID, p.Value)
		}
		if !failed {
			failed = true
			return executor.RetryAfter(0, errors.New("not now"))
		}
		close(done)
		return nil
	}, executor.QueueConfig[string]{}))

	must(q.Enqueue(ctx, "order-42", "paid"))
	must(q.Enqueue(ctx, "order-42", "shipped"))
	must(q.Enqueue(ctx, "order-42", "placed", executor.Score(0))) // belongs before the others
	check(x.Start(ctx))
	<-done
	check(x.Stop(ctx))
	// Output:
	// order-42 placed
	// order-42 paid
	// order-42 shipped
	// order-42 placed
	// order-42 paid
	// order-42 shipped
}

// A call that finds the backlog full is told which limit it was and when to come
// back. What a handler enqueues is let in, as its follow-ups are: what it has in hand
// could not end otherwise.
func ExampleFullError() {
	ctx := context.Background()
	x := must(executor.Open("", executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 1000}}))
	mailed := make(chan string)
	mails := must(executor.Handle(x, "mails", func(_ context.Context, job executor.Job[string]) error {
		mailed <- job.Payload
		return nil
	}, executor.QueueConfig[string]{}))
	orders := must(executor.Handle(x, "orders", func(_ context.Context, job executor.Job[string]) error {
		return mails.FollowUp(job, job.ID, job.Payload+" is on its way")
	}, executor.QueueConfig[string]{MaxBacklog: executor.BacklogLimit{Payloads: 1}}))

	must(orders.Enqueue(ctx, "customer-7", "a book"))
	_, err := orders.Enqueue(ctx, "customer-8", "a lamp")
	if full, ok := errors.AsType[*executor.FullError](err); ok && !full.Disk {
		fmt.Println(full.Queue, full.Waiting, "of", full.Limit) // and to come back after full.RetryAfter
	}
	fmt.Println("what keeps it from its work:", x.Err()) // a probe says ready: what is accepted goes on
	check(x.Start(ctx))
	fmt.Println(<-mailed)
	check(x.Stop(ctx))
	// Output:
	// orders 1 of 1
	// what keeps it from its work: <nil>
	// a book is on its way
}

// What was accepted is on disk: another executor finds it.
func Example_durability() {
	parent := must(os.MkdirTemp("", ""))
	defer os.RemoveAll(parent)
	dir := filepath.Join(parent, "jobs.strand")
	ctx := context.Background()
	open := func(done *sync.WaitGroup) (*executor.Executor, *executor.Queue[string]) {
		x := must(executor.Open(dir, executor.Config{}))
		q := must(executor.HandleMerged(x, "mails", func(_ context.Context, job executor.Merged[string]) error {
			fmt.Println("run", job.Latest())
			done.Done()
			return nil
		}, executor.QueueConfig[string]{}))
		return x, q
	}

	x, q := open(nil) // never started: as if it had crashed before the job ran
	receipt := must(q.Enqueue(ctx, "ann", "welcome"))
	fmt.Println("durable:", receipt.Durable)
	check(x.Stop(ctx))

	var done sync.WaitGroup
	done.Add(1)
	x, _ = open(&done)
	check(x.Start(ctx))
	done.Wait()
	check(x.Stop(ctx))
	// Output:
	// durable: true
	// run welcome
}

// A payload ends as done, merged into an equal one, or in the morgue, from where it
// can be put back.
func Example_nothingIsDroppedSilently() {
	ctx := context.Background()
	x := must(executor.Open("", executor.Config{}))
	refuse := true
	ran := make(chan string)
	q := must(executor.HandleMerged(x, "hooks", func(_ context.Context, job executor.Merged[string]) error {
		defer func() { ran <- job.ID }()
		if refuse {
			return executor.Cancel(errors.New("no such customer"))
		}
		return nil
	}, executor.QueueConfig[string]{Merge: executor.MergeMinScore}))

	first := must(q.Enqueue(ctx, "customer-7", "changed"))
	second := must(q.Enqueue(ctx, "customer-7", "changed"))
	fmt.Println("merged into the first:", second.MergedInto == first.Position)

	check(x.Start(ctx))
	<-ran
	dead := firstDead(q)
	fmt.Println("dead:", dead.ID, dead.Payload, "-", dead.Error)
	refuse = false
	fmt.Println(must(x.Inspect().Requeue(ctx, inspect.SelectIDs(q.Name(), "customer-7"))))
	<-ran
	check(x.Stop(ctx))
	// Output:
	// merged into the first: true
	// dead: customer-7 changed - cancelled: no such customer
	// 1 payload is back
}

// A panic is an error of its own job. All others go on.
func Example_badJob() {
	ctx := context.Background()
	x := must(executor.Open("", executor.Config{Workers: 1}))
	done := make(chan struct{})
	q := must(executor.HandleMerged(x, "jobs", func(_ context.Context, job executor.Merged[int]) error {
		if job.ID == "bad" && job.Attempt == 1 {
			lines := []string{}
			fmt.Println(lines[job.Latest()])
		}
		fmt.Printf("%s, last error: %q\n", job.ID, job.LastError)
		if job.ID == "bad" {
			close(done)
		}
		return nil
	}, executor.QueueConfig[int]{Share: executor.Share{Shards: 1}, RetryIn: func(int) time.Duration { return 20 * time.Millisecond }}))
	must(q.Enqueue(ctx, "bad", 1))
	must(q.Enqueue(ctx, "good", 2))
	check(x.Start(ctx))
	<-done
	check(x.Stop(ctx))
	// Output:
	// good, last error: ""
	// bad, last error: "panic: runtime error: index out of range [1] with length 0"
}

// A job that is due runs at once: nothing looks for it from time to time.
func Example_noPolling() {
	ctx := context.Background()
	x := must(executor.Open("", executor.Config{}))
	late := make(chan time.Duration)
	q := must(executor.HandleMerged(x, "alarms", func(_ context.Context, job executor.Merged[string]) error {
		late <- time.Since(job.Due)
		return nil
	}, executor.QueueConfig[string]{}))
	check(x.Start(ctx))
	must(q.Enqueue(ctx, "breakfast", "tea", executor.In(50*time.Millisecond)))
	fmt.Println("within half a second:", (<-late) < 500*time.Millisecond)
	check(x.Stop(ctx))
	// Output:
	// within half a second: true
}

// Ids of one batch may fare differently.
func ExampleHandleBatch() {
	ctx := context.Background()
	x := must(executor.Open("", executor.Config{}))
	ran := make(chan struct{}, 1)
	q := must(executor.HandleBatch(x, "batches", func(_ context.Context, jobs []executor.Merged[int]) error {
		defer func() { ran <- struct{}{} }()
		return executor.BatchErrors{jobs[0].ID: executor.Cancel(errors.New("bad record"))}
	}, executor.QueueConfig[int]{BatchSize: 10, Share: executor.Share{Shards: 1}}))
	must(q.EnqueueMany(ctx, []executor.Item[int]{{ID: "a", Payload: 1}}))
	check(x.Start(ctx))
	<-ran
	dead := firstDead(q)
	fmt.Println(dead.ID, dead.Error)
	check(x.Stop(ctx))
	// Output:
	// a cancelled: bad record
}

// A job waits until another one, of another id and queue, has completed.
func ExampleLocks() {
	ctx := context.Background()
	x := must(executor.Open("", executor.Config{}))
	order := func(_ string, order int) []string { return []string{fmt.Sprint("order ", order)} }
	done := make(chan struct{})
	pay := must(executor.HandleMerged(x, "pay", func(context.Context, executor.Merged[int]) error {
		fmt.Println("paid")
		return nil
	}, executor.QueueConfig[int]{Conditions: executor.Conditions[int]{Locks: executor.Locks[int]{OnEnqueue: order, Unlock: order}}}))
	send := must(executor.HandleMerged(x, "send", func(context.Context, executor.Merged[int]) error {
		fmt.Println("sent")
		close(done)
		return nil
	}, executor.QueueConfig[int]{Conditions: executor.Conditions[int]{Locks: executor.Locks[int]{BlockedBy: order}}}))

	must(pay.Enqueue(ctx, "payment 1", 7, executor.In(50*time.Millisecond)))
	must(send.Enqueue(ctx, "parcel 1", 7))
	check(x.Start(ctx))
	<-done
	check(x.Stop(ctx))
	// Output:
	// paid
	// sent
}

// A person locks a key, looks at it, and lets the jobs go on.
func ExampleExecutor_KeyLocks() {
	ctx := context.Background()
	x := must(executor.Open("", executor.Config{}))
	done := make(chan struct{})
	q := must(executor.HandleMerged(x, "imports", func(context.Context, executor.Merged[string]) error {
		close(done)
		return nil
	}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{
		Locks: executor.Locks[string]{
			BlockedBy: func(string, string) []string { return []string{"maintenance"} },
		},
	}}))
	check(x.KeyLocks().Lock(ctx, "maintenance"))
	must(q.Enqueue(ctx, "import 1", ""))
	check(x.Start(ctx))
	locked, _, err := x.Inspect().LockedKeys("", 0)
	check(err)
	fmt.Println(locked[0].Key, "is locked by", locked[0].Locks[0].By)
	check(x.KeyLocks().Unlock(ctx, "maintenance"))
	<-done
	fmt.Println(x.KeyLocks().Unlock(ctx, "maintenance"))
	check(x.Stop(ctx))
	// Output:
	// maintenance is locked by a person
	// lock: not locked: "maintenance"
}

// Equal payloads of different ids do not run at the same time.
func ExampleUnique() {
	ctx := context.Background()
	x := must(executor.Open("", executor.Config{}))
	var done sync.WaitGroup
	var mu sync.Mutex // is never waited for
	q := must(executor.HandleMerged(x, "syncs", func(_ context.Context, job executor.Merged[string]) error {
		defer done.Done()
		if !mu.TryLock() {
			fmt.Println("two at a time")
			return nil
		}
		defer mu.Unlock()
		fmt.Println("synced", job.Latest(), job.Lease().Held())
		return nil
	}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Unique: executor.Unique[string]{While: executor.UniqueWhileRunning}}}))
	done.Add(2)
	must(q.Enqueue(ctx, "1", "account 7"))
	must(q.Enqueue(ctx, "2", "account 7"))
	check(x.Start(ctx))
	done.Wait()
	check(x.Stop(ctx))
	// Output:
	// synced account 7 true
	// synced account 7 true
}

// One job at a time for each customer, in two queues. A job that waits for its
// retry keeps no other waiting.
func ExampleUnique_key() {
	ctx := context.Background()
	x := must(executor.Open("", executor.Config{}))
	done := make(chan struct{})
	customer := executor.Unique[string]{Key: func(_ string, customer string) string { return customer }}
	charges := must(executor.Handle(x, "charges", func(_ context.Context, job executor.Job[string]) error {
		defer func() { done <- struct{}{} }()
		fmt.Println("the bank does not answer", job.Payload)
		return executor.RetryAfter(time.Hour, errors.New("timeout"))
	}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Unique: customer}}))
	refunds := must(executor.Handle(x, "refunds", func(_ context.Context, job executor.Job[string]) error {
		defer func() { done <- struct{}{} }()
		fmt.Println("money back for", job.Payload)
		return nil
	}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Unique: customer}}))
	check(x.Start(ctx))
	must(charges.Enqueue(ctx, "invoice-1", "ann"))
	<-done
	must(refunds.Enqueue(ctx, "invoice-2", "ann"))
	<-done
	check(x.Stop(ctx))
	// Output:
	// the bank does not answer ann
	// money back for ann
}

// Each job gets a serial number of its own; one that failed gives it back, and the next one
// gets it. Beside others that succeed meanwhile it would be a gap.
func ExampleSlots() {
	ctx := context.Background()
	x := must(executor.Open("", executor.Config{Workers: 1}))
	serials := must(executor.NewSlots(x, "serials", executor.SlotsConfig[int]{
		Next: func(serial int) int { return serial + 1 },
	}))
	done := make(chan struct{})
	q := must(executor.HandleMerged(x, "sales", func(_ context.Context, job executor.Merged[string]) error {
		defer func() { done <- struct{}{} }()
		serial, _ := serials.Of(job)
		fmt.Println(job.ID, "has", serial)
		if job.ID == "bob" {
			return executor.Cancel(errors.New("no money"))
		}
		return nil
	}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Slots: []executor.SlotSource{serials}}, Share: executor.Share{Shards: 1}}))
	check(x.Start(ctx))
	for _, customer := range []string{"ann", "bob", "cid"} {
		must(q.Enqueue(ctx, customer, ""))
		<-done
	}
	check(x.Stop(ctx))
	// Output:
	// ann has 1
	// bob has 2
	// cid has 2
}
