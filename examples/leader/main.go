// Shows in about four seconds: two executors with one schedule, of which the leader fires, dies, and is followed.
package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/lock"
)

var (
	mu    sync.Mutex
	fired = make(map[time.Time]int) // how often each tick ran, wherever
	ran   = make(chan string, 10)   // on whose executor
)

// open starts an executor with the schedule, as a member of the group.
func open(ctx context.Context, group *cron.Group, member string) (*executor.Executor, *cron.Cron) {
	x := must(executor.Open("", executor.Config{}))
	reports := must(executor.HandleMerged(x, "reports", func(_ context.Context, job executor.Merged[time.Time]) error {
		mu.Lock()
		defer mu.Unlock()
		fired[job.Latest()]++
		ran <- member
		return nil
	}, executor.QueueConfig[time.Time]{}))
	c := must(cron.New(x, cron.Config{Group: group, Member: member}))
	must(x, cron.Add(ctx, c, cron.Schedule[time.Time]{
		Name: "report", Spec: "@every 1s", Queue: reports, Payload: func(tick time.Time) time.Time { return tick.UTC() },
	}))
	must(x, x.Start(ctx))
	must(x, c.Start())
	for member == "ann" && !c.Leads() {
		time.Sleep(time.Millisecond) // so that ann leads first
	}
	return x, c
}

func main() {
	fmt.Println("You will see ann fire ticks, die, and bob go on with the next one; no tick fires twice.")
	ctx := context.Background()
	group := must(cron.NewGroup(must(new(lock.Table).NewElection("cron", lock.ElectionConfig{}))))
	ann, _ := open(ctx, group, "ann")
	bob, c := open(ctx, group, "bob")
	for range 2 {
		fmt.Println("  a tick ran on the executor of", <-ran)
	}
	must(ann, ann.Stop(ctx)) // its Cron finds out, and gives the lead away
	fmt.Println("ann's executor is gone.")
	for range 2 {
		fmt.Println("  a tick ran on the executor of", <-ran)
	}
	must(c, c.Stop(ctx))
	must(bob, bob.Stop(ctx))
	twice, first, last := 0, time.Time{}, time.Time{}
	for tick, n := range fired {
		twice += n - 1
		if first.IsZero() || tick.Before(first) {
			first = tick
		}
		if tick.After(last) {
			last = tick
		}
	}
	fmt.Printf("Ticks that fired twice: %d, that no member fired: %d\n", twice, int(last.Sub(first).Seconds())+1-len(fired))
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
