package lock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/strandjobs/strand/lock"
)

func ExampleTable_Acquire() {
	table := new(lock.Table)
	ctx := context.Background()
	lease, err := table.Acquire(ctx, lock.Options{Owner: "import", TTL: time.Minute}, "orders", "stock")
	if err != nil {
		panic(err)
	}
	defer lease.Unlock()
	fmt.Println("token", lease.Token(), "holds", lease.Keys())

	_, err = table.TryAcquire(lock.Options{Owner: "report"}, "stock")
	fmt.Println(err)
	// Output:
	// token 1 holds [orders stock]
	// lock: "stock" is held by "import" (token 1)
}

// Waiters get a key in the order in which they asked, one per unlock.
func ExampleTable_Queue() {
	table := new(lock.Table)
	lease, _ := table.TryAcquire(lock.Options{}, "printer")
	for _, name := range []string{"first", "second", "third"} {
		var place *lock.Place
		place, _ = table.Queue(lock.Options{Owner: name}, func() {
			next, _ := place.Lease()
			fmt.Println(name, "prints with token", next.Token())
			_ = next.Unlock()
		}, "printer")
	}
	_ = lease.Unlock()
	// Output:
	// first prints with token 2
	// second prints with token 3
	// third prints with token 4
}

// A store that remembers the largest token refuses a holder that was paused for too
// long.
func ExampleLease_Token() {
	table := new(lock.Table)
	largest := uint64(0)
	write := func(l lock.Lease, what string) {
		if l.Token() < largest {
			fmt.Println("refused:", what)
			return
		}
		largest = l.Token()
		fmt.Println("written:", what)
	}
	paused, _ := table.TryAcquire(lock.Options{TTL: time.Millisecond}, "report")
	lost := paused.Lost()
	<-lost // its TTL ends
	now, _ := table.TryAcquire(lock.Options{}, "report")
	write(now, "new report")
	write(paused, "old report")
	fmt.Println(errors.Is(paused.Unlock(), lock.ErrLockLost))
	// Output:
	// written: new report
	// refused: old report
	// true
}

// Work stops when its lease ends.
func ExampleLease_Context() {
	table := new(lock.Table)
	lease, _ := table.TryAcquire(lock.Options{Owner: "slow"}, "k")
	ctx, cancel := lease.Context(context.Background())
	defer cancel()
	_, _ = table.Break("k") // a person has waited long enough
	<-ctx.Done()
	fmt.Println(context.Cause(ctx))
	// Output: lock: lock lost: token 1 of "k": lease broken
}

func ExampleDeadlockError() {
	table := new(lock.Table)
	_, _ = table.TryAcquire(lock.Options{Owner: "billing"}, "invoices")
	_, _ = table.TryAcquire(lock.Options{Owner: "shipping"}, "parcels")
	_, _ = table.Queue(lock.Options{Owner: "billing"}, nil, "parcels")
	_, err := table.Acquire(context.Background(), lock.Options{Owner: "shipping"}, "invoices")
	fmt.Println(err)
	// Output:
	// lock: deadlock: "shipping" waits for "invoices" of "billing", "billing" waits for "parcels" of "shipping"
}

func ExampleSlots() {
	ctx := context.Background()
	serials, _ := lock.NewSlots(lock.SlotsConfig[string]{
		StartFrom: func(context.Context) (string, error) { return "T-1000", nil },
		Next: func(v string) string {
			var n int
			_, _ = fmt.Sscanf(v, "T-%d", &n)
			return fmt.Sprintf("T-%d", n+1)
		},
	})
	a, _ := serials.Reserve(ctx, lock.Options{})
	b, _ := serials.Reserve(ctx, lock.Options{})
	fmt.Println(a.Value(), b.Value())
	_ = a.Unlock() // the sale failed: the value is free again
	c, _ := serials.Reserve(ctx, lock.Options{})
	fmt.Println(c.Value())
	_, _ = c.Commit(), b.Commit()
	last, _, _ := serials.Last()
	fmt.Println("last", last)
	// Output:
	// T-1001 T-1002
	// T-1001
	// last T-1002
}

func ExampleElection() {
	flag, _ := new(lock.Table).NewElection("cron", lock.ElectionConfig{Lease: time.Minute})
	a, _ := flag.Candidate("node-a")
	b, _ := flag.Candidate("node-b")
	fmt.Println(a.IsLeader(), b.IsLeader())
	_, changed := flag.Leader()
	_ = a.Resign()
	<-changed
	fmt.Println(a.Epoch(), b.IsLeader(), b.Epoch())
	// Output:
	// true false
	// 0 true 2
}
