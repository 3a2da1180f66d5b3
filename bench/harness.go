package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// workload is one thing that is measured. It yields one figure or several.
type workload struct {
	name       string
	durability string // sync, or memory
	n          int    // default number of jobs
	rounds     int    // default

	// figures says what the two functions measure for n jobs, in order.
	figures func(n int) []figure
	// prepare makes what all rounds use, in lab.dir. Nil: nothing.
	prepare func(context.Context, *lab) error
	subject func(context.Context, *lab) (measured, error)
	// baseline yields a value for each figure. It may be a constant.
	baseline func(context.Context, *lab) (measured, error)
}

// figure is one number that a workload yields.
type figure struct {
	suffix   string // of the workload's name
	unit     string
	baseline string // what it is compared with
	lower    bool   // lower is better: times and bytes
	goal     goal
}

// goal is what a figure has to reach. The zero goal is none.
type goal struct {
	ratio float64 // at least
	value float64 // at least, or at most where lower is better
}

// measured is the outcome of one round of one side.
type measured struct {
	values  []float64 // one for each figure
	seconds float64   // how long the measured part took
}

// lab is what a measurement gets to work with.
type lab struct {
	n, workers, shards int
	dir                string // of the workload, for all rounds
	scratch            string // of one measurement
	ids                []string
	retryIn            func(int) time.Duration // nil: the default
	budget             int                     // of memory for payloads; 0: the default
	stopped            func()                  // called once the executor has stopped, before the check. Nil: nothing
}

func workloads() []workload {
	var all []workload
	for _, group := range [][]workload{throughput(), latency(), {lowkiq(), replay(), backlog(), hoard(), hotID()}, shapes(), scaling(), costs(), footprint(), quiet(), locks()} {
		all = append(all, group...)
	}
	return all
}

func names() string {
	var s []string
	for _, w := range workloads() {
		s = append(s, w.name)
	}
	return strings.Join(s, ", ")
}

// measure runs the selected workloads. One that fails doesn't keep the others
// from being measured, the end of ctx does.
func (o *options) measure(ctx context.Context, out, progress io.Writer) (err error) {
	dir, err := os.MkdirTemp(o.dir, "strand-bench-")
	if err != nil {
		return fmt.Errorf("-dir: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	write := tableWriter(out)
	if o.json {
		write = jsonWriter(out)
	}
	ids := makeIDs(idCount)
	var failed []error
	for i, w := range o.selected {
		fmt.Fprintf(progress, "%d/%d %s\n", i+1, len(o.selected), w.name)
		l := &lab{n: cmp.Or(o.n, w.n), workers: o.workers, shards: o.shards, ids: ids}
		results, err := w.measure(ctx, l, cmp.Or(o.rounds, w.rounds), dir)
		if cause := context.Cause(ctx); cause != nil {
			return fmt.Errorf("%s: %w", w.name, cause)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", w.name, err))
			fmt.Fprintln(progress, "FAILED:", failed[len(failed)-1])
			continue
		}
		if err := write(results); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

// measure takes all rounds of w, both sides in turns.
func (w *workload) measure(ctx context.Context, l *lab, rounds int, parent string) ([]result, error) {
	var err error
	if l.dir, err = os.MkdirTemp(parent, "w-"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(l.dir)
	if w.prepare != nil {
		if err := w.prepare(ctx, l); err != nil {
			return nil, err
		}
	}
	var mine, theirs []measured
	for round := range rounds {
		// Who comes first changes, in case one leaves the machine in a state
		// that the other one feels.
		sides := [2]func() error{
			func() error { return l.take(ctx, &theirs, w.baseline, "baseline") },
			func() error { return l.take(ctx, &mine, w.subject, "subject") },
		}
		if err := errors.Join(sides[round%2](), sides[1-round%2]()); err != nil {
			return nil, fmt.Errorf("round %d: %w", round+1, err)
		}
	}
	return w.results(l, mine, theirs), nil
}

// take adds one measurement of one side.
func (l *lab) take(ctx context.Context, to *[]measured, side func(context.Context, *lab) (measured, error), name string) (err error) {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if l.scratch, err = os.MkdirTemp(l.dir, "m-"); err != nil {
		return err
	}
	defer os.RemoveAll(l.scratch)
	runtime.GC()
	m, err := side(ctx, l)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	*to = append(*to, m)
	return nil
}

// rate is the outcome of a side that moved n jobs in some seconds.
func rate(n int, seconds float64) measured {
	return measured{values: []float64{float64(n) / seconds}, seconds: seconds}
}

// one is for a workload with a single figure.
func one(f figure) func(int) []figure { return func(int) []figure { return []figure{f} } }
