// Bench measures Strand on the machine it runs on, and next to each figure what
// the same machine does with the least that could be called the same work.
//
//	go run ./bench [-run REGEXP] [-n N] [-workers W] [-rounds R] [-quick] [-json] [-list]
//	go run ./bench -report DIR [-quick]
//	go run ./bench -gate
//
// A workload and its baseline are measured in turns, several rounds, so that
// both see the same machine. A figure is the median of its rounds, the spread
// is the lowest and the highest. A ratio is that of one round, and the median of
// those; it is always "higher is better" and worth more than the figure, which
// depends on the machine and on what else it does. What is over soon is done
// again and again within a round, and there are more rounds as long as the
// middle half of the ratios lies far apart, for 10 s at most.
//
// Every workload checks its own result: each job ran exactly once, the jobs of
// an id in order, and nothing is left in the journal. If not, bench says so and
// ends with status 1.
//
// With -report it measures other systems, too, and writes a page with charts;
// see bench/peers. With -gate it compares a few figures with stored floors, for
// CI.
//
// # What is measured
//
//   - Payloads have 100 bytes and differ from each other, so that nothing
//     merges under the default policy. The codec is that of []byte.
//   - Executor and queue have their default settings, workers aside, and what is
//     in memory where that is measured: see backlog and beyond-memory.
//   - Time counts from the first Enqueue until Stop has returned: the last job
//     has run, and that it has is on disk.
//   - Handlers only check what they get: that it is the next payload of its id.
//     Baselines count.
//   - Latency is from before Enqueue until the handler is entered, on an
//     executor that has been idle for a moment; durable latency includes a
//     commit.
//   - Replay counts from before Open until every shard has its jobs, in a
//     process of its own, whose peak memory it reports, too.
//   - Bytes written are those that the process sent to the disk, each page as
//     often as it was written. Objects allocated are those from Open to Stop; one
//     of them is the copy of the payload that the codec makes.
//   - Wake-ups are how often a thread of a process that has nothing to do got a
//     core, beside those of a process without an executor.
//   - A lock is timed from its release until the next waiter has it: the
//     next waiter, or the handler of a job that was parked. Those that many wait
//     for are beside those that 100 wait for.
//   - A curve (scaling/…@5, cost/…@100) has a figure for each setting, all
//     beside one of them.
//
// Goals are where the project wants to be, not what it has promised. They are
// for a workload's own number of jobs, or more.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"syscall"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	if childMain() {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main without the process: it returns the exit status.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	o, err := parse(args, errOut)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(errOut, "bench:", err)
		return exitUsage
	}
	work := func() error { return o.measure(ctx, out, errOut) }
	switch {
	case o.list:
		work = func() error { return o.printNames(out) }
	case o.gate:
		work = func() error { return gate(ctx, o.dir, out) }
	case o.report != "":
		work = func() error { return o.writeReport(ctx, out, errOut) }
	}
	if err := work(); err != nil {
		fmt.Fprintln(errOut, "bench:", err)
		return exitFailed
	}
	return 0
}

// What -quick measures, and with how many jobs at most.
const (
	telling   = `^(durable/.*|memory/(bulk|single|latency)|lowkiq|zipf|retry|mixed|scaling/.*|cost/.*|written/.*|allocs/.*|hotid|backlog|startup|idle)$`
	quickMost = 60_000
)

// options are what the command line says.
type options struct {
	selected []workload
	n        int // 0: each workload's own
	rounds   int // 0: each workload's own
	workers  int // 0: the executor's default
	shards   int // 0: the executor's default
	dir      string
	json     bool
	list     bool
	gate     bool
	report   string // directory
	quick    bool
}

var errUsage = errors.New("usage")

func parse(args []string, errOut io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(errOut)
	expr := f.String("run", "", "measure the workloads whose name matches this regular expression; none: all, or with -quick the most telling ones")
	f.IntVar(&o.n, "n", 0, "jobs per measurement; 0: each workload's own number, again and again where that is over soon")
	f.IntVar(&o.rounds, "rounds", 0, "rounds; 0: each workload's own number, and more as long as a ratio is not steady")
	f.IntVar(&o.workers, "workers", 0, "workers; 0: the executor's default")
	f.IntVar(&o.shards, "shards", 0, "shards of the queue; 0: its default")
	f.StringVar(&o.dir, "dir", ".", "directory for journals, which are removed; what it is on is what is measured")
	f.BoolVar(&o.json, "json", false, "print one JSON object per figure instead of a table")
	f.BoolVar(&o.list, "list", false, "print the names of the workloads that -run selects, and measure nothing")
	f.BoolVar(&o.gate, "gate", false, "measure a few figures only, and fail when one is far from what it was")
	f.StringVar(&o.report, "report", "", "measure everything, other systems too, and write a page, charts and the data into this directory")
	f.BoolVar(&o.quick, "quick", false, "only the most telling cases, once, with few jobs: half a minute, with -report under two")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, err
		}
		return o, errUsage // the flag set has said the rest
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q; workloads are chosen with -run", f.Arg(0))
	}
	if o.report != "" {
		var other string
		f.Visit(func(f *flag.Flag) {
			if !slices.Contains([]string{"report", "quick", "dir"}, f.Name) {
				other = f.Name
			}
		})
		if other != "" {
			return o, fmt.Errorf("-report measures everything in its own way; leave out -%s", other)
		}
	}
	for _, number := range []struct {
		name string
		v    int
	}{{"n", o.n}, {"rounds", o.rounds}, {"workers", o.workers}, {"shards", o.shards}} {
		if number.v < 0 {
			return o, fmt.Errorf("-%s is %d, it can't be below 0", number.name, number.v)
		}
	}
	if o.quick && *expr == "" {
		*expr = telling
	}
	name, err := regexp.Compile(*expr)
	if err != nil {
		return o, fmt.Errorf("-run: %w", err)
	}
	for _, w := range workloads() {
		if name.MatchString(w.name) {
			o.selected = append(o.selected, w)
		}
	}
	if len(o.selected) == 0 {
		return o, fmt.Errorf("no workload matches %q; there are %s", *expr, names())
	}
	if info, err := os.Stat(o.dir); err != nil {
		return o, fmt.Errorf("-dir: %w", err)
	} else if !info.IsDir() {
		return o, fmt.Errorf("-dir: %s is not a directory", o.dir)
	}
	return o, nil
}
