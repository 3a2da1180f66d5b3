package executor_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/strandjobs/strand/executor"
)

// Events run one by one, in order. A bad one is retried and buried alone.
func ExampleHandle() {
	ctx := context.Background()
	x := must(executor.Open("", executor.Config{}))
	ran := make(chan struct{}, 10)
	orders := must(executor.Handle(x, "orders", func(_ context.Context, job executor.Job[string]) error {
		defer func() { ran <- struct{}{} }()
		fmt.Println(job.ID, job.Payload, "attempt", job.Attempt)
		if job.Payload == "paid twice" {
			return executor.RetryAfter(0, errors.New("what is that?"))
		}
		return nil
	}, executor.QueueConfig[string]{MaxRetries: 1}))

	for _, event := range []string{"placed", "paid", "paid twice", "shipped"} {
		must(orders.Enqueue(ctx, "order-42", event))
	}
	check(x.Start(ctx))
	for range 5 {
		<-ran
	}
	check(x.Stop(ctx))
	// Output:
	// order-42 placed attempt 1
	// order-42 paid attempt 1
	// order-42 paid twice attempt 1
	// order-42 paid twice attempt 2
	// order-42 shipped attempt 1
}

// Of state only the newest counts: all that waits for an id comes at once.
func ExampleHandleMerged() {
	ctx := context.Background()
	x := must(executor.Open("", executor.Config{}))
	ran := make(chan struct{})
	mirror := must(executor.HandleMerged(x, "mirror", func(_ context.Context, job executor.Merged[string]) error {
		fmt.Println(job.ID, "is", job.Latest(), "- of", len(job.Payloads))
		close(ran)
		return nil
	}, executor.QueueConfig[string]{Merge: executor.MergeKeepLast}))

	for _, state := range []string{"open", "closed", "open"} {
		must(mirror.Enqueue(ctx, "door-7", state))
	}
	check(x.Start(ctx))
	<-ran
	check(x.Stop(ctx))
	// Output:
	// door-7 is open - of 2
}

// Of several payloads those that are done need not run again.
func ExamplePayloadErrors() {
	ctx := context.Background()
	x := must(executor.Open("", executor.Config{}))
	ran := make(chan struct{}, 10)
	lines := must(executor.HandleMerged(x, "lines", func(_ context.Context, job executor.Merged[string]) error {
		defer func() { ran <- struct{}{} }()
		errs := make(executor.PayloadErrors)
		for _, p := range job.Payloads {
			fmt.Println("attempt", job.Attempt, p.Value)
			if p.Value == "b" && job.Attempt == 1 {
				errs[p.Position] = executor.RetryAfter(0, errors.New("not now"))
			}
		}
		return errs
	}, executor.QueueConfig[string]{}))

	for _, line := range []string{"a", "b", "c"} {
		must(lines.Enqueue(ctx, "file-1", line))
	}
	check(x.Start(ctx))
	_, _ = <-ran, <-ran
	check(x.Stop(ctx))
	// Output:
	// attempt 1 a
	// attempt 1 b
	// attempt 1 c
	// attempt 2 b
}

// A batch that fails without saying which job is to blame is halved until the
// culprit is alone.
func ExampleHandleBatch_halves() {
	ctx := context.Background()
	x := must(executor.Open("", executor.Config{Workers: 1}))
	ran := make(chan struct{}, 10)
	index := must(executor.HandleBatch(x, "index", func(_ context.Context, jobs []executor.Merged[string]) error {
		bad := 0
		for _, job := range jobs {
			if job.Latest() == "bad" {
				bad++
			}
		}
		fmt.Println(len(jobs), "jobs, bad:", bad)
		if bad > 0 {
			if len(jobs) == 1 {
				close(ran)
			}
			return errors.New("bulk insert failed")
		}
		return nil
	}, executor.QueueConfig[string]{BatchSize: 4, Share: executor.Share{Shards: 1}}))

	for i, doc := range []string{"good", "bad", "good", "good"} {
		must(index.Enqueue(ctx, fmt.Sprint("doc-", i), doc))
	}
	check(x.Start(ctx))
	<-ran
	check(x.Stop(ctx))
	// Output:
	// 4 jobs, bad: 1
	// 2 jobs, bad: 1
	// 1 jobs, bad: 0
	// 1 jobs, bad: 1
	// 2 jobs, bad: 0
}
