package command

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// liveChild registers the queues of an office, and runs what is in "errands", whose
// handlers do not return.
func liveChild(dir string) {
	x, err := executor.Open(dir, executor.Config{ControlSocket: true, OnFatal: func(err error) { panic(err) }})
	must := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(noClear)
		}
	}
	must(err)
	ctx := context.Background()
	idle := func(context.Context, executor.Merged[string]) error { return nil }
	for _, name := range []string{"mails", "orders", "idle"} {
		_, err := executor.HandleMerged(x, name, idle, executor.QueueConfig[string]{})
		must(err)
		_, err = x.Inspect().Pause(ctx, inspect.SelectQueue(name))
		must(err)
	}
	errands, err := executor.Handle(x, "errands", func(ctx context.Context, job executor.Job[string]) error {
		executor.Progress(ctx, 3, 10, "on my\x1b[31m way")
		<-ctx.Done()
		return context.Cause(ctx)
	}, executor.QueueConfig[string]{MaxConcurrent: 1})
	must(err)
	if _, err := os.Stat(filepath.Join(dir, "..", "errands")); err == nil {
		for _, id := range []string{"bank", "post"} {
			_, err := errands.Enqueue(ctx, id, "go")
			must(err)
		}
	}
	must(x.Start(ctx))
	fmt.Println("ready")
	select {}
}

// startLive returns when a process has the journal and can be asked.
func startLive(t *testing.T, dir string) (pid int, kill func()) {
	t.Helper()
	return startWith(t, liveEnv+"="+dir)
}

// withErrands has the process of a journal be at work.
func withErrands(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(dir), "errands"), nil, 0o600))
}
