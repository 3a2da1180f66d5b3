package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// guard is a workload with what its figures may not fall below.
type guard struct {
	workload string
	n        int
	floors   []floor
	value    int // which of the workload's values counts
}

// floor is about a third below what is usual: far enough for a machine that
// does something else, too, near enough for work that is done twice to show.
// Objects depend less on the machine, and their floor is nearer.
type floor struct {
	name  string
	of    func(mine, theirs sample) float64
	limit float64
}

// Where other programs want the cores, elapsed time says little of what takes
// no longer than a turn of the scheduler, and processor time says it all. But
// that does not see a second wait for the disk. Where the disk has
// time to spare, that is seen in the latency alone, and best in that of the
// calls that nothing disturbed.
//
// Usual on two busy cores: 1.0 and 0.8, 1.17, 0.07, 1.8, 2.6, 0.62. A large
// backlog that stays in memory is at 0.37.
var guards = []guard{
	{"durable/bulk", 200_000, []floor{{"elapsed", elapsed, 0.75}, {"processor", processor, 0.6}}, 0},
	{"durable/latency", 200, []floor{{"p5", lowest, 0.78}}, 2},
	{"memory/bulk", 300_000, []floor{{"processor", processor, 0.045}}, 0},
	{"allocs/durable", 100_000, []floor{{"objects", lowest, 0.75}}, 0},
	{"allocs/memory", 100_000, []floor{{"objects", lowest, 0.85}}, 0},
	{"beyond-memory", 300_000, []floor{{"memory", lowest, 0.45}}, 1},
}

// sample is the best that a side did in some rounds: what disturbs it only
// makes it slower.
type sample struct {
	value, seconds float64
	cpu            time.Duration
}

func elapsed(mine, theirs sample) float64   { return theirs.seconds / mine.seconds }
func processor(mine, theirs sample) float64 { return float64(theirs.cpu) / float64(mine.cpu) }
func lowest(mine, theirs sample) float64    { return theirs.value / mine.value }

const (
	gateRounds = 5
	// gateTries is how often a workload may fail before it counts.
	gateTries = 3
)

var errGate = errors.New("slower than it was")

// gate compares a few figures with their floors.
func gate(ctx context.Context, parent string, out io.Writer) (err error) {
	dir, err := os.MkdirTemp(parent, "strand-gate-")
	if err != nil {
		return fmt.Errorf("-dir: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var failed []error
	for _, g := range guards {
		for try := range gateTries {
			mine, theirs, err := g.measure(ctx, dir)
			if err != nil {
				return fmt.Errorf("%s: %w", g.workload, err)
			}
			if err = g.judge(mine, theirs, out); err == nil {
				break
			}
			if try == gateTries-1 {
				failed = append(failed, err)
			}
		}
	}
	return errors.Join(failed...)
}

// judge compares all figures of a guard with their floors.
func (g guard) judge(mine, theirs sample, out io.Writer) error {
	var failed []error
	for _, f := range g.floors {
		value := f.of(mine, theirs)
		fmt.Fprintf(out, "%-15s %-9s %5s of its baseline, floor %s\n", g.workload, f.name, short(value), short(f.limit))
		if value < f.limit {
			failed = append(failed, fmt.Errorf("%w: %s, %s: %s of its baseline, the floor is %s", errGate, g.workload, f.name, short(value), short(f.limit)))
		}
	}
	return errors.Join(failed...)
}

// measure takes both sides in turns.
func (g guard) measure(ctx context.Context, dir string) (mine, theirs sample, err error) {
	all := workloads()
	w := all[slices.IndexFunc(all, func(w workload) bool { return w.name == g.workload })]
	l := &lab{n: g.n, ids: makeIDs(idCount), dir: dir}
	for range gateRounds {
		if err := errors.Join(theirs.add(ctx, l, w.baseline, g.value), mine.add(ctx, l, w.subject, g.value)); err != nil {
			return mine, theirs, err
		}
	}
	return mine, theirs, nil
}

func (s *sample) add(ctx context.Context, l *lab, side func(context.Context, *lab) (measured, error), value int) error {
	var m []measured
	before := cpuTime()
	if err := l.take(ctx, &m, side, "gate"); err != nil {
		return err
	}
	cpu := max(1, cpuTime()-before) // 1 where it is not known, on both sides
	if *s == (sample{}) {
		*s = sample{m[0].values[value], m[0].seconds, cpu}
		return nil
	}
	s.value, s.seconds, s.cpu = min(s.value, m[0].values[value]), min(s.seconds, m[0].seconds), min(s.cpu, cpu)
	return nil
}
