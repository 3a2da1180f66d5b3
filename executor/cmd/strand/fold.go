package main

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// firstAttempt is the attempt of a job whose state says Retry 0, as it failed once.
const firstAttempt = 2

// task is a job that waits or would run, with the payloads of one run.
type task struct {
	inspect.JobInfo
	Bytes        int64 // of all its payloads
	BytesAtLeast bool  `wire:",omit"` // there are more, which were not counted
	Crashes      int   `wire:",omit"` // how often the process died in a row while it ran

	Failures        []inspect.Failure     `wire:",omit"` // the last five, oldest first
	InHand, Waiting []inspect.PayloadInfo `wire:",omit"`

	due int64 // Unix ns
}

// list are its payloads, as far as they are known.
func (t *task) list() []inspect.PayloadInfo { return slices.Concat(t.InHand, t.Waiting) }

// settle says what state it is in: of a job at rest.
func (t *task) settle(now int64) *task {
	t.Due = time.Unix(0, t.due)
	switch {
	case t.State == inspect.JobHalted:
	case t.due <= now:
		t.State = inspect.JobReady
	case t.Attempt > 1:
		t.State = inspect.JobRetrying
	default:
		t.State = inspect.JobScheduled
	}
	return t
}

// infoOf is a payload of the journal.
func infoOf(e *journal.Entry) inspect.PayloadInfo {
	return inspect.PayloadInfo{
		Position: uint64(e.Position), Score: e.Score, EnqueuedAt: time.Unix(0, e.AcceptedAt()), Restored: e.Restored,
		Metadata: maps.Collect(e.Metadata.All()), Bytes: len(e.Payload), Raw: e.Payload,
	}
}

// fold is what a start would do with one queue: the shard's own state machine, fed
// with what the journal hands over, and with runs that all succeed.
type fold struct {
	queue    string
	number   uint32
	now      int64
	core     *shard.Core
	run      *shard.Run
	suspects map[journal.Position]journal.Suspicion

	mu      sync.Mutex
	halted  []journal.Entry // states of jobs that were halted when they were written
	bytes   int64           // of all payloads
	merged  int
	ticks   int64 // runs so far
	reached int64 // the latest due time of these
	drained bool  // what is not halted was taken
	err     error // why tasks ended early
}

// nowhere is where a Core writes its changes.
type nowhere struct{}

func (nowhere) Record(*shard.Change) {}

// load takes in the entries of the queue as a start does, but all into one shard.
func (f *fold) load(pages [][]journal.Ref) {
	one := func([]byte) int { return 0 }
	if _, f.err = shard.LoadAll([]*shard.Core{f.core}, pages, one, f.see); f.err != nil {
		return
	}
	slices.SortFunc(f.halted, func(a, b journal.Entry) int { return cmp.Compare(a.Position, b.Position) })
	f.core.Loaded()
	f.merged = int(f.core.Counts().Merged)
	f.core.Record(nowhere{})
	f.run, f.err = f.core.NewRun(), f.core.Err()
}

// see notes what can't be asked of the core. Several goroutines call it.
func (f *fold) see(entries []journal.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		f.bytes += int64(len(e.Payload))
		if e.Kind == journal.KindState && e.Halted {
			state := *e
			state.ID, state.Error, state.History = bytes.Clone(e.ID), bytes.Clone(e.Error), bytes.Clone(e.History)
			f.halted = append(f.halted, state)
		}
	}
}

// tasks lists the runs in the order of one shard: by due time. Those that no time
// makes due come last. A task is valid until the next one.
func (f *fold) tasks() iter.Seq[*task] {
	return func(yield func(*task) bool) {
		now := f.now
		for due := f.core.NextDue(); due != math.MaxInt64 && f.err == nil; due = f.core.NextDue() {
			// Time goes by, so that what is left of an id, due when its first
			// payloads are done, comes in the order of these ends.
			f.ticks++
			now = max(now+1, due)
			t := f.take(now)
			if t == nil {
				return
			}
			// What waits behind a retry may be due before that, and runs after it.
			if f.reached = max(f.reached, t.due); f.reached > f.now {
				t.due = f.reached
			}
			if t.due > f.now && t.due <= f.now+f.ticks {
				t.due = f.now
			}
			if !yield(t.settle(f.now)) {
				return
			}
		}
		f.drained = true
		for i := range f.halted {
			state := &f.halted[i]
			// Before all that is left of the others.
			if !f.core.RunNow(string(state.ID), math.MinInt64, true) {
				continue // went on since
			}
			f.core.Record(nowhere{})
			t := f.take(now)
			if t == nil {
				return
			}
			t.State, t.due, t.Attempt, t.LastError = inspect.JobHalted, state.Due, state.Retry+firstAttempt, string(state.Error)
			t.Failures = control.Failures(state.History, t.LastError)
			if !yield(t.settle(f.now)) {
				return
			}
		}
	}
}

// take lets the oldest job run. It returns nil when that can't be read.
func (f *fold) take(now int64) *task {
	if !f.core.Take(now, f.run) {
		f.err = f.core.Err()
		return nil
	}
	it := f.run.Next(nil, 1)[0]
	t := &task{due: it.Due, Failures: control.Failures(it.History, it.LastError)}
	t.JobInfo = inspect.JobInfo{
		Queue: f.queue, ID: it.ID, Attempt: it.Retry + firstAttempt, LastError: it.LastError, Payloads: len(it.Payloads),
	}
	for _, p := range it.Payloads {
		t.Crashes = max(t.Crashes, f.suspects[p.Ref.Position()].Deaths)
		var e journal.Entry
		if f.err = p.Ref.Read(&e); f.err != nil {
			return nil
		}
		t.Bytes += int64(len(e.Payload))
		t.Waiting = append(t.Waiting, infoOf(&e))
	}
	if len(t.Waiting) > 0 {
		first := &t.Waiting[0]
		t.Position, t.Score, t.EnqueuedAt = first.Position, first.Score, first.EnqueuedAt
	}
	it.Outcome.Verdict = shard.VerdictDone
	f.run.Elapsed = 2 * shard.Quantum // slow: one job at a time, in strict order
	f.core.Finish(now, f.run)
	f.core.Record(nowhere{})
	return t
}

// left is what tasks has not come to.
func (f *fold) left() shard.Outlook {
	o := f.core.Outlook(f.now + f.ticks)
	switch {
	case f.drained: // the rest of halted ones
		o.Due, o.Delayed = 0, 0
	case f.reached > f.now+f.ticks: // what is left runs after that
		o.Due, o.Delayed = 0, o.Due+o.Delayed
	}
	return o
}

// names of queues by number, and one for every number without.
func names(v *journal.View) map[uint32]string {
	names := make(map[uint32]string)
	for name, number := range v.Queues() {
		names[number] = name
	}
	for _, used := range []map[uint32]int{v.Unclaimed(), v.Buried()} {
		for number := range used {
			if _, known := names[number]; !known {
				names[number] = fmt.Sprintf("?%d", number)
			}
		}
	}
	return names
}

// inOrder are the numbers of queues by name.
func inOrder(names map[uint32]string) []uint32 {
	return slices.SortedFunc(maps.Keys(names), func(a, b uint32) int { return strings.Compare(names[a], names[b]) })
}

// folds are the queues of a journal, by name.
type folds struct {
	*journal.View
	names   map[uint32]string
	queue   string // only this one, if it is not empty
	id      string // the same
	configs configs
	now     int64
	blank   *fold // of a queue without anything; nil: there was none
	err     error // why all ended early
}

// folds opens the journal at rest, for one of its queues or all, of which the flags say how they
// behave. A queue that the call names has to be there.
func (c *call) folds(queue string, maxPayloads int) (*folds, error) {
	v, err := journal.OpenView(c.Args().First())
	if err != nil {
		return nil, err
	}
	s := &folds{View: v, names: names(v), queue: queue, now: c.now.UnixNano()}
	s.configs, err = readConfigs(c, maxPayloads)
	for _, asked := range append([]string{queue}, slices.Sorted(maps.Keys(s.configs))...) {
		if err == nil && asked != "*" {
			err = known(slices.Collect(maps.Values(s.names)), asked)
		}
	}
	if err != nil {
		v.Close()
		return nil, err
	}
	return s, nil
}

// lookEvery is how long what is read may not have been asked about; see Undisturbed.
const lookEvery = 100 * time.Millisecond

// all lists them, one at a time in memory.
func (s *folds) all() iter.Seq[*fold] {
	return func(yield func(*fold) bool) {
		suspects, looked := s.Suspects(), time.Now()
		for _, number := range inOrder(s.names) {
			name := s.names[number]
			if s.queue != "" && name != s.queue {
				continue
			}
			f := s.fold(name, number, suspects)
			if s.err == nil && !yield(f) {
				return
			}
			if s.err = cmp.Or(s.err, f.err); s.err != nil {
				break
			}
			if time.Since(looked) > lookEvery {
				if s.err = s.Undisturbed(nil); s.err != nil {
					return
				}
				looked = time.Now()
			}
		}
		s.err = s.Undisturbed(s.err)
	}
}

// fold takes in a queue. Those without anything share what is nothing: there may be many.
func (s *folds) fold(name string, number uint32, suspects map[journal.Position]journal.Suspicion) *fold {
	f := &fold{queue: name, number: number, now: s.now, suspects: suspects, reached: math.MinInt64}
	pages := s.PendingPages(number)
	if s.id != "" {
		pages, s.err = only(s.id, pages)
	}
	switch {
	case s.err != nil:
	case len(pages) == 0 && s.blank != nil:
		f.core, f.run = s.blank.core, s.blank.run
	default:
		cfg := s.configs.of(name)
		if s.id != "" && len(pages[0]) == 1 { // one payload, which is the newest, or what is known of the newest that was done
			cfg.Merge = shard.MergeSupersede
		}
		f.core = shard.NewCore(number, cfg)
		if f.load(pages); len(pages) == 0 {
			s.blank = f
		}
		s.err = f.err
	}
	return f
}

// only keeps the entries of one id.
func only(id string, pages [][]journal.Ref) ([][]journal.Ref, error) {
	var kept []journal.Ref
	for _, page := range pages {
		for _, ref := range page {
			of, err := ref.ID()
			if err != nil {
				return nil, err
			}
			if string(of) == id {
				kept = append(kept, ref)
			}
		}
	}
	return [][]journal.Ref{kept}, nil
}

// known returns an error that lists the queues there are when queue is none of
// them.
func known(names []string, queue string) error {
	if queue == "" || slices.Contains(names, queue) {
		return nil
	}
	var all []string
	for _, name := range slices.Sorted(slices.Values(names)) {
		all = append(all, show([]byte(name)))
	}
	return usage("the journal has no queue %q; it has: %s", queue, cmp.Or(strings.Join(all, ", "), "none"))
}
