// Shows in a few seconds: 1,000 tickets sold by 16 workers, the process is killed in the middle, and no serial is sold twice.
// There is no gap either, because no sale fails and the second process is there within the TTL: see executor.NewSlots.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/strandjobs/strand/executor"
)

func main() {
	if dir := os.Getenv("TICKETS_DIR"); dir != "" {
		sell(dir)
		return
	}
	fmt.Println("You will see 1,000 tickets sold, a process killed among them, and 1,000 serials without a gap.")
	dir := must(os.MkdirTemp("", "tickets"))
	defer os.RemoveAll(dir)
	serials := make(map[string]string) // of each customer
	for _, killAfter := range []int{333, 0} {
		shop := exec.Command(must(os.Executable()))
		shop.Env = append(os.Environ(), "TICKETS_DIR="+filepath.Join(dir, "journal"))
		out := must(shop.StdoutPipe())
		must(0, shop.Start())
		for in := bufio.NewScanner(out); in.Scan(); {
			if customer, serial, ok := strings.Cut(in.Text(), " has "); ok {
				serials[customer] = serial // a sale that was not written down is made again
				if len(serials) == killAfter {
					must(0, shop.Process.Kill())
				}
			}
		}
		fmt.Println("The shop was killed:", shop.Wait() != nil)
	}
	different := make(map[string]bool)
	for _, serial := range serials {
		different[serial] = true
	}
	fmt.Printf("Customers: %d, serials: %d, last one: %v\n", len(serials), len(different), different["1000"])
}

// sell sells what is left, and says who has which serial.
func sell(dir string) {
	ctx, x := context.Background(), must(executor.Open(dir, executor.Config{Workers: 16}))
	serials := must(executor.NewSlots(x, "serials", executor.SlotsConfig[int]{
		Next: func(serial int) int { return serial + 1 },
	}))
	var done sync.WaitGroup
	sales := must(executor.HandleMerged(x, "sales", func(_ context.Context, job executor.Merged[string]) error {
		serial, _ := serials.Of(job) // the next free one; no other job has it
		fmt.Printf("%s has %d\n", job.ID, serial)
		done.Done()
		return nil
	}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Slots: []executor.SlotSource{serials}}, Share: executor.Share{Shards: 16}}))
	var items []executor.Item[string]
	for i := range 1000 {
		items = append(items, executor.Item[string]{ID: fmt.Sprint("customer ", i)})
	}
	must(sales.EnqueueMany(ctx, items, executor.IdempotencyKey("all of them"))) // the second time they are there already
	done.Add(must(sales.Stats(ctx)).Jobs)
	must(x, x.Start(ctx))
	done.Wait()
	must(x, x.Stop(ctx))
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
