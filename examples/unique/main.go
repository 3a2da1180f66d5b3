// Shows in a second: equal jobs run one after the other, those that wait take no worker, and a queue behind them goes on.
package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor"
)

func main() {
	fmt.Println("You will see 20 syncs of one account run one at a time, and 50 mails sent beside them by the other worker.")
	ctx := context.Background()
	x := must(executor.Open("", executor.Config{Workers: 2, Scheduler: executor.RegistrationOrder()}))
	var done sync.WaitGroup
	var running, together, synced, overtaken atomic.Int32

	syncs := must(executor.HandleMerged(x, "syncs", func(context.Context, executor.Merged[string]) error {
		if running.Add(1) > 1 {
			together.Add(1)
		}
		time.Sleep(10 * time.Millisecond)
		running.Add(-1)
		synced.Add(1)
		done.Done()
		return nil
	}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{
		Unique: executor.Unique[string]{
			While: executor.UniqueWhileRunning,
			Key:   func(_, account string) string { return account },
		},
	}}))
	mails := must(executor.HandleMerged(x, "mails", func(context.Context, executor.Merged[int]) error {
		if synced.Load() < 20 {
			overtaken.Add(1)
		}
		done.Done()
		return nil
	}, executor.QueueConfig[int]{}))

	done.Add(70)
	for i := range 20 {
		must(syncs.Enqueue(ctx, fmt.Sprint("sync ", i), "account 7"))
	}
	for i := range 50 {
		must(mails.Enqueue(ctx, fmt.Sprint("mail ", i), i))
	}
	must(x, x.Start(ctx))
	done.Wait()
	fmt.Println("Syncs that ran beside another:", together.Load())
	fmt.Println("Mails that did not wait for the last sync:", overtaken.Load())
	must(x, x.Stop(ctx))
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
