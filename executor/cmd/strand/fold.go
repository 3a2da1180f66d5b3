package main

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// firstAttempt is the attempt of a job whose state says Retry 0, as it failed once.
const firstAttempt = 2

// task is a job that would run: the payloads of one run.
type task struct {
	Queue     string
	ID        string
	Due       int64 // Unix ns
	Attempt   int   // that comes next: 1, 2, 3, …
	LastError string
	Failures  []failed // the last five, oldest first
	Halted    bool
	Crashes   int // how often the process died in a row while it ran
	Payloads  []journal.Entry
}

func (t *task) state() string {
	switch {
	case t.Halted:
		return "halted"
	case t.Attempt > 1:
		return "retrying"
	}
	return "fresh"
}

func (t *task) bytes() (n int64) {
	for i := range t.Payloads {
		n += int64(len(t.Payloads[i].Payload))
	}
	return n
}

// fold is what a start would do with one queue: the shard's own state machine, fed
// with what the journal hands over, and with runs that all succeed.
type fold struct {
	queue  string
	number uint32
	now    int64
	core   *shard.Core
	// states of jobs that were halted when they were written
	halted   []journal.Entry
	merged   int
	suspects map[journal.Position]journal.Suspicion
}

// nowhere is where a Core writes its changes.
type nowhere struct{}

func (nowhere) Record(*shard.Change) {}

func newFold(name string, number uint32, refs []journal.Ref, cfg shard.Config, now int64) *fold {
	f := &fold{queue: name, number: number, now: now, core: shard.NewCore(number, cfg)}
	var e journal.Entry
	for _, ref := range refs {
		read(ref, &e)
		if e.Kind == journal.KindState && e.Halted {
			f.halted = append(f.halted, e)
		}
		f.core.Load(&e, ref)
	}
	f.core.Loaded()
	f.merged = int(f.core.Counts().Merged)
	f.core.Record(nowhere{})
	return f
}

// tasks lists the runs in the order of one shard: by due time. Those that no time
// makes due come last.
func (f *fold) tasks() iter.Seq[*task] {
	return func(yield func(*task) bool) {
		now, ticks, reached := f.now, int64(0), int64(math.MinInt64)
		for due := f.core.NextDue(); due != math.MaxInt64; due = f.core.NextDue() {
			// Time goes by, so that what is left of an id, due when its first
			// payloads are done, comes in the order of these ends.
			ticks++
			now = max(now+1, due)
			t := f.take(now)
			if t == nil {
				return
			}
			// What waits behind a retry may be due before that, and runs after it.
			if reached = max(reached, t.Due); reached > f.now {
				t.Due = reached
			}
			if t.Due > f.now && t.Due <= f.now+ticks {
				t.Due = f.now
			}
			if !yield(t) {
				return
			}
		}
		for i := range f.halted {
			state := &f.halted[i]
			if !f.core.RunNow(string(state.ID), now) {
				continue // went on since
			}
			f.core.Record(nowhere{})
			t := f.take(now)
			if t == nil {
				return
			}
			t.Halted, t.Due, t.Attempt, t.LastError = true, state.Due, state.Retry+firstAttempt, string(state.Error)
			t.Failures = failures(state.History, t.LastError)
			if !yield(t) {
				return
			}
		}
	}
}

// take lets the oldest job run.
func (f *fold) take(now int64) *task {
	r := f.core.NewRun()
	if !f.core.Take(now, r) {
		return nil
	}
	it := r.Next(nil, 1)[0]
	t := &task{Queue: f.queue, ID: it.ID, Due: it.Due, Attempt: it.Retry + firstAttempt, LastError: it.LastError}
	t.Failures = failures(it.History, it.LastError)
	for _, p := range it.Payloads {
		var e journal.Entry
		read(p.Ref, &e)
		t.Crashes = max(t.Crashes, f.suspects[e.Position].Deaths)
		t.Payloads = append(t.Payloads, e)
	}
	it.Outcome.Verdict = shard.VerdictDone
	r.Elapsed = 2 * shard.Quantum // slow: one job at a time, in strict order
	f.core.Finish(now, r)
	f.core.Record(nowhere{})
	return t
}

// read decodes an entry of a view, which has all of them in memory.
func read(ref journal.Ref, e *journal.Entry) {
	if err := ref.Read(e); err != nil {
		panic(fmt.Sprintf("strand: bug: position %d: %v", ref.Position(), err))
	}
}

// names of queues by number, and one for every number without.
func names(v *journal.View, m *journal.Moment) map[uint32]string {
	names := make(map[uint32]string)
	for name, number := range v.Queues() {
		names[number] = name
	}
	for _, number := range m.Queues() {
		if _, known := names[number]; !known {
			names[number] = fmt.Sprintf("?%d", number)
		}
	}
	return names
}

// inOrder are the numbers of queues by name.
func inOrder(names map[uint32]string) []uint32 {
	return slices.SortedFunc(maps.Keys(names), func(a, b uint32) int { return strings.Compare(names[a], names[b]) })
}

// folds are the queues of a moment, by name; only the one called queue, if that is
// not empty. A queue that the flags name has to be there.
func folds(c *call, v *journal.View, m *journal.Moment, queue string, configs configs) (iter.Seq[*fold], error) {
	names := names(v, m)
	for _, asked := range append([]string{queue}, slices.Sorted(maps.Keys(configs))...) {
		if err := known(names, asked); err != nil && asked != "*" {
			return nil, err
		}
	}
	return func(yield func(*fold) bool) {
		for _, number := range inOrder(names) {
			if queue != "" && names[number] != queue {
				continue
			}
			f := newFold(names[number], number, m.Live(number), configs.of(names[number]), c.now.UnixNano())
			f.suspects = v.Suspects()
			if !yield(f) {
				return
			}
		}
	}, nil
}

// known returns an error that lists the queues there are when queue is none of
// them.
func known(names map[uint32]string, queue string) error {
	if queue == "" || slices.Contains(slices.Collect(maps.Values(names)), queue) {
		return nil
	}
	all := slices.Sorted(maps.Values(names))
	for i := range all {
		all[i] = show([]byte(all[i]))
	}
	return usage("the journal has no queue %q; it has: %s", queue, cmp.Or(strings.Join(all, ", "), "none"))
}
