package executor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/strandjobs/strand/executor"
)

// A call that waits for its turn among the jobs of its id, and for the result.
func ExampleCaller_Do() {
	x, err := executor.Open("", executor.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	balances := map[string]int{}
	accounts, err := executor.HandleResult(x, "accounts", func(_ context.Context, job executor.Job[int]) (int, error) {
		if balances[job.ID]+job.Payload < 0 {
			return 0, executor.Cancel(errors.New("no cover"))
		}
		balances[job.ID] += job.Payload // one at a time for each account
		return balances[job.ID], nil
	}, executor.QueueConfig[int]{})
	if err != nil {
		panic(err)
	}
	if err := x.Start(context.Background()); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, amount := range []int{100, -30, -80} {
		balance, err := accounts.Do(ctx, "alice", amount)
		if buried, ok := errors.AsType[*executor.BuriedError](err); ok {
			fmt.Println("refused:", buried.Reason)
			continue
		}
		fmt.Println(balance, err)
	}
	if err := x.Stop(ctx); err != nil {
		panic(err)
	}
	// Output:
	// 100 <nil>
	// 70 <nil>
	// refused: cancelled: no cover
}
