package journal_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"

	"github.com/strandjobs/strand/journal"
)

// take keeps a Ref to everything that is delivered.
func take(refs *[]journal.Ref) func(*journal.Delivery) {
	return func(d *journal.Delivery) {
		var e journal.Entry
		for i := range d.Len() {
			*refs = append(*refs, must(d.Read(i, &e)))
		}
		d.Done()
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

func tempDir() (dir string, remove func()) {
	parent := must(os.MkdirTemp("", ""))
	return filepath.Join(parent, "jobs.strand"), func() { _ = os.RemoveAll(parent) }
}

// What was accepted is there after the process has ended, in its order, and
// what has ended is not.
func Example() {
	dir, remove := tempDir()
	defer remove()
	ctx := context.Background()

	var refs []journal.Ref
	l := must(journal.Open(dir, journal.Config{Deliver: take(&refs)}))
	orders := must(l.Queue(ctx, "orders"))
	for _, text := range []string{"pay", "pack", "send"} {
		ticket := must(l.Append(ctx, []journal.Entry{{Queue: orders, ID: []byte("order-42"), Payload: []byte(text)}}, nil))
		if err := ticket.Wait(ctx); err != nil { // on disk, and taken in
			log.Fatal(err)
		}
	}
	l.Record(&journal.Change{Ended: refs[:1]})
	_ = l.Close()

	l = must(journal.Open(dir, journal.Config{}))
	for _, ref := range slices.Concat(l.PendingPages(l.Queues()["orders"])...) {
		var e journal.Entry
		if err := ref.Read(&e); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d %s: %s\n", e.Position, e.ID, e.Payload)
	}
	fmt.Println("next position:", l.Stats().Next)
	_ = l.Close()
	// Output:
	// 2 order-42: pack
	// 3 order-42: send
	// next position: 4
}

// Entries are delivered after their commit, in the order of their positions.
func ExampleConfig_deliver() {
	ctx := context.Background()
	l := must(journal.OpenMemory(nil, journal.Config{Deliver: func(d *journal.Delivery) {
		for i := range d.Len() {
			var e journal.Entry
			ref := must(d.Read(i, &e))
			fmt.Printf("%d %s\n", ref.Position(), e.Payload)
			if i > 0 {
				d.Merged(ref.Position(), ref.Position()-1)
			}
		}
		d.Done()
	}}))
	ticket := must(l.Append(ctx, []journal.Entry{{Payload: []byte("one")}, {Payload: []byte("two")}}, nil))
	fmt.Println(ticket.Wait(ctx), ticket.Merged(0), ticket.Merged(1))
	_ = l.Close()
	// Output:
	// 1 one
	// 2 two
	// <nil> 0 1
}

// A payload in the morgue can be put back in its place.
func ExampleLog_Restore() {
	ctx := context.Background()
	var refs []journal.Ref
	l := must(journal.OpenMemory(nil, journal.Config{Deliver: take(&refs)}))
	orders := must(l.Queue(ctx, "orders"))
	_, err := l.Append(ctx, []journal.Entry{{Queue: orders, ID: []byte("order-42"), Payload: []byte("pay"), Score: 7}}, nil)
	fmt.Println(err, l.Flush(ctx))
	l.Record(&journal.Change{Buried: []journal.Burial{{Ref: refs[0], Retry: 25, Reason: "card declined"}}})
	_ = l.Flush(ctx)
	for buried, err := range l.Morgue(orders, 0) {
		fmt.Println(buried.Entry.Position, buried.Reason, err)
	}
	position := []journal.Position{refs[0].Position()}
	fmt.Println(l.Restore(ctx, orders, position, 0, func([]byte) uint32 { return 0 }))
	var e journal.Entry
	err = refs[1].Read(&e)
	fmt.Println(err, e.Position, e.Score, string(e.Payload))
	fmt.Println(l.Restore(ctx, orders, position, 0, func([]byte) uint32 { return 0 }))
	_ = l.Close()
	// Output:
	// <nil> <nil>
	// 1 card declined <nil>
	// <nil>
	// <nil> 1 7 pay
	// journal: not in the morgue: position 1
}

// A failed commit stops the log: what is on disk is not known any more.
func ExampleLog_Err() {
	ctx := context.Background()
	disk := new(journal.Memory)
	l := must(journal.OpenMemory(disk, journal.Config{}))
	disk.FailNext(errors.New("input/output error"))
	ticket := must(l.Append(ctx, []journal.Entry{{Payload: []byte("one")}}, nil))
	fmt.Println(ticket.Wait(ctx))
	_, err := l.Append(ctx, []journal.Entry{{Payload: []byte("two")}}, nil)
	fmt.Println(err)
	_ = l.Close()
	// Output:
	// journal: outcome unknown: input/output error
	// journal: failed; open it again: input/output error
}

// A damaged journal is never read in part.
func ExampleCheck() {
	dir, remove := tempDir()
	defer remove()
	l := must(journal.Open(dir, journal.Config{}))
	orders := must(l.Queue(context.Background(), "orders"))
	must(l.Append(context.Background(), []journal.Entry{{Queue: orders, ID: []byte("order-42")}}, nil))
	_ = l.Close()

	report := must(journal.Check(dir))
	fmt.Println(report.Queues, report.Live, report.Buried)

	file := filepath.Join(dir, "journal.db")
	_ = os.Truncate(file, 5000)
	_, err := journal.Check(dir)
	fmt.Println(errors.Is(err, journal.ErrCorrupt))
	// Output:
	// 1 1 0
	// true
}

// A copy is what one commit left, and a journal like any other.
func ExampleLog_Copy() {
	dir, remove := tempDir()
	defer remove()
	ctx := context.Background()
	l := must(journal.Open(dir, journal.Config{}))
	orders := must(l.Queue(ctx, "orders"))
	must(l.Append(ctx, []journal.Entry{{Queue: orders, ID: []byte("order-42")}}, nil))
	_ = l.Flush(ctx)
	fmt.Println(l.Copy(ctx, dir+".copy"))
	must(l.Append(ctx, []journal.Entry{{Queue: orders, ID: []byte("order-43")}}, nil))
	_ = l.Close()

	report := must(journal.Check(dir + ".copy"))
	fmt.Println(report.Live)
	// Output:
	// <nil>
	// 1
}

// Two processes, or two parts of one, can't have one journal open.
func ExampleLockedError() {
	dir, remove := tempDir()
	defer remove()
	l := must(journal.Open(dir, journal.Config{}))
	_, err := journal.Open(dir, journal.Config{})
	locked, ok := errors.AsType[*journal.LockedError](err)
	fmt.Println(ok, locked.PID == os.Getpid())
	_ = l.Close()
	// Output: true true
}
