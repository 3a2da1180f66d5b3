package executor_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// A new version of a program starts before the old one has stopped, and goes on
// with its journal.
func ExampleOpenContext() {
	ctx := context.Background()
	root := must(os.MkdirTemp("", "strand"))
	defer os.RemoveAll(root)
	dir := filepath.Join(root, "jobs.strand")
	old := must(executor.Open(dir, executor.Config{}))

	hasty, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, err := executor.OpenContext(hasty, dir, executor.Config{})
	if locked, ok := errors.AsType[*journal.LockedError](err); ok {
		fmt.Println("still in use by this very process:", locked.PID == os.Getpid())
	}

	go func() { check(old.Stop(ctx)) }() // in a deploy: SIGTERM to the old process
	x := must(executor.OpenContext(ctx, dir, executor.Config{}))
	fmt.Println("taken over")
	check(x.Stop(ctx))
	// Output:
	// still in use by this very process: true
	// taken over
}
