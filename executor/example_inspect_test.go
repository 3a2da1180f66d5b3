package executor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// What is about to run next, page by page, and what there is to see of one id.
func ExampleInspector() {
	ctx := context.Background()
	x, _ := executor.Open("", executor.Config{Logger: slog.New(slog.DiscardHandler)})
	mails, _ := executor.Handle(x, "mails", func(context.Context, executor.Job[string]) error {
		return errors.New("not reached: the executor is not started")
	}, executor.QueueConfig[string]{})
	for i, id := range []string{"carol", "alice", "bob"} {
		_, _ = mails.Enqueue(ctx, id, "hello "+id, executor.In(time.Duration(i+1)*time.Hour))
	}

	query := inspect.JobQuery{Queue: "mails", States: []inspect.JobState{inspect.JobScheduled}, Order: inspect.OrderDue, Limit: 2}
	for more := true; more; more = query.Cursor != "" {
		page, err := x.Inspect().Jobs(ctx, query)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, job := range page.Jobs {
			fmt.Printf("%s is %s: %s\n", job.ID, job.State, job.Raw)
		}
		query.Cursor = page.Next
	}

	job, err := x.Inspect().Job(ctx, "mails", "bob")
	fmt.Println(job.Waiting[0].Value, "at attempt", job.Attempt, err)
	_, err = x.Inspect().Job(ctx, "mails", "dave")
	fmt.Println(err)
	_ = x.Stop(ctx)
	// Output:
	// carol is scheduled: "hello carol"
	// alice is scheduled: "hello alice"
	// bob is scheduled: "hello bob"
	// hello bob at attempt 1 <nil>
	// executor: unknown job: id "dave" of queue "mails" has neither a job nor dead payloads
}
