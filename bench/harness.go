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
	rounds     int    // default; more of them as long as a ratio is not steady

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
	// slack is how far two runs may be apart where the figure is near zero, so
	// that a ratio says nothing. 0: it is not near zero.
	slack float64
	goal  goal
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

const (
	// longEnough is how long one side is measured in a round: what is shorter
	// is done again, up to againAtMost times, and the median counts.
	longEnough  = 250 * time.Millisecond
	againAtMost = 20
	// patience is how long a workload is measured beyond its rounds, because a
	// ratio is not steady.
	patience = 10 * time.Second
	// longest is how long a workload may take. What takes longer has hung.
	longest = 9 * time.Minute
)

// lab is what a measurement gets to work with.
type lab struct {
	enough, patience   time.Duration
	n, workers, shards int
	dir                string // of the workload, for all rounds
	scratch            string // of one measurement
	ids                []string
	retryIn            func(int) time.Duration // nil: the default
	budget             int                     // of memory for payloads; 0: the default
	slack              time.Duration           // of timers; 0: the default
	stopped            func()                  // called once the executor has stopped, before the check. Nil: nothing
}

func workloads() []workload {
	var all []workload
	for _, group := range [][]workload{throughput(), latency(), {lowkiq(), replay(), backlog(), largeBacklog(), hotID()}, shapes(), scaling(), costs(), footprint(), quiet(), locks()} {
		all = append(all, group...)
	}
	return all
}

func (o *options) printNames(out io.Writer) error {
	for _, w := range o.selected {
		if _, err := fmt.Fprintln(out, w.name); err != nil {
			return err
		}
	}
	return nil
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
		rounds := cmp.Or(o.rounds, w.rounds)
		switch {
		case o.quick:
			l.n, rounds = cmp.Or(o.n, min(w.n, quickMost)), cmp.Or(o.rounds, 1)
		case o.n == 0:
			l.enough = longEnough
		}
		if o.rounds == 0 && !o.quick {
			l.patience = patience
		}
		results, err := w.limited(ctx, l, rounds, dir)
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

// limited is measure with a limit of time.
func (w *workload) limited(ctx context.Context, l *lab, rounds int, parent string) ([]result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, longest, fmt.Errorf("it did not end within %v", longest))
	defer cancel()
	return w.measure(ctx, l, rounds, parent)
}

// measure takes all rounds of w, both sides in turns, and more of them as long
// as there is patience.
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
	begun := time.Now()
	var end time.Time // of patience
	for round := 0; ; round++ {
		if round == rounds {
			end = time.Now().Add(l.patience)
		}
		if round >= rounds {
			next := time.Now().Add(time.Since(begun) / time.Duration(round))
			if next.After(end) || w.steady(l.n, mine, theirs) {
				return w.results(l, mine, theirs), nil
			}
		}
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
}

// take adds one measurement of one side, which is done again if it is short.
func (l *lab) take(ctx context.Context, to *[]measured, side func(context.Context, *lab) (measured, error), name string) error {
	var all []measured
	for start := time.Now(); len(all) == 0 || len(all) < againAtMost && time.Since(start) < l.enough; {
		m, err := l.once(ctx, side)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, m)
	}
	*to = append(*to, middle(all))
	return nil
}

func (l *lab) once(ctx context.Context, side func(context.Context, *lab) (measured, error)) (m measured, err error) {
	if err := context.Cause(ctx); err != nil {
		return m, err
	}
	if l.scratch, err = os.MkdirTemp(l.dir, "m-"); err != nil {
		return m, err
	}
	defer os.RemoveAll(l.scratch)
	runtime.GC()
	return side(ctx, l)
}

// middle has the median of each value, and all seconds.
func middle(all []measured) (m measured) {
	for i := range all[0].values {
		m.values = append(m.values, spreadOf(column(all, i)).median)
	}
	for _, one := range all {
		m.seconds += one.seconds
	}
	return m
}

// rate is the outcome of a side that moved n jobs in some seconds.
func rate(n int, seconds float64) measured {
	return measured{values: []float64{float64(n) / seconds}, seconds: seconds}
}

// one is for a workload with a single figure.
func one(f figure) func(int) []figure { return func(int) []figure { return []figure{f} } }
