package command

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// settle says what state a job at rest is in, which waits or would run with the payloads of one run.
// A list of jobs has for those that are paused the words of a process.
func (f *fold) settle(t *control.Job) *control.Job {
	paused := len(f.over(t.ID))
	switch {
	case t.State == inspect.JobHalted:
	case f.runs && paused > 0:
		t.State = inspect.JobPaused
	case paused > len(f.whole):
		t.State = inspect.JobParked
	case t.Due.UnixNano() <= f.now:
		t.State = inspect.JobReady
	case t.Attempt > 1:
		t.State = inspect.JobRetrying
	default:
		t.State = inspect.JobScheduled
	}
	return t
}

// fold is what a start would do with one queue: the shard's own state machine, fed
// with what the journal hands over, and with runs that all succeed.
type fold struct {
	*folds
	paused   // of the queue
	queue    string
	part     *int // nil: there is one
	core     *shard.Core
	run      *shard.Run
	suspects map[journal.Position]journal.Suspicion

	halted  []journal.Entry // states of jobs that were halted when they were written
	bytes   int64           // of all payloads
	merged  int
	time    int64        // of the next run
	ticks   int64        // runs so far
	reached int64        // the latest due time of these
	drained bool         // what is not halted was taken
	ahead   *control.Job // what tasks of its queue has not come to
}

// nowhere is where a Core writes its changes.
type nowhere struct{}

func (nowhere) Record(*shard.Change) {}

// load takes in the entries of the queue as a start does, but all into one shard.
func (f *fold) load(pages [][]journal.Ref) {
	one := func([]byte) int { return 0 }
	var mu sync.Mutex                      // several goroutines look
	see := func(entries []journal.Entry) { // what can't be asked of the core
		mu.Lock()
		defer mu.Unlock()
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
	if _, f.err = shard.LoadAll([]*shard.Core{f.core}, pages, one, see); f.err != nil {
		return
	}
	slices.SortFunc(f.halted, func(a, b journal.Entry) int { return cmp.Compare(a.Position, b.Position) })
	f.merged = int(f.core.Counts().Merged)
	f.core.Record(nowhere{})
	f.run, f.err = f.core.NewRun(), f.core.Err()
}

// next is the run that comes next in the order of one shard, by due time; those that no
// time makes due come last. It is valid until the next one. nil: there is none, or err says why.
func (f *fold) next() *control.Job {
	due := f.core.NextDue()
	if f.drained = f.drained || due == math.MaxInt64; f.drained || f.err != nil {
		return f.nextHalted()
	}
	// Time goes by, so that what is left of an id, due when its first
	// payloads are done, comes in the order of these ends.
	f.ticks++
	f.time = max(f.time+1, due)
	t := f.take()
	if t == nil {
		return nil
	}
	// What waits behind a retry may be due before that, and runs after it.
	due = t.Due.UnixNano()
	if f.reached = max(f.reached, due); f.reached > f.now {
		due = f.reached
	}
	if due > f.now && due <= f.now+f.ticks {
		due = f.now
	}
	t.Due = time.Unix(0, due)
	return f.settle(t)
}

// nextHalted is next for those that no time makes due.
func (f *fold) nextHalted() *control.Job {
	for len(f.halted) > 0 && f.err == nil {
		state := f.halted[0]
		f.halted = f.halted[1:]
		// Before all that is left of the others.
		if !f.core.RunNow(string(state.ID), math.MinInt64, true) {
			continue // went on since
		}
		f.core.Record(nowhere{})
		if t := f.take(); t != nil {
			t.State, t.Due, t.Attempt, t.LastError = inspect.JobHalted, time.Unix(0, state.Due), state.Retry+admin.FirstAttempt, string(state.Error)
			t.Failures = admin.FailuresOf(state.History, t.LastError)
			return f.settle(t)
		}
	}
	return nil
}

// take lets the oldest job run. It returns nil when that can't be read.
func (f *fold) take() *control.Job {
	if !f.core.Take(f.time, f.run) {
		f.err = f.core.Err()
		return nil
	}
	it := f.run.Next(nil, 1)[0]
	t := &control.Job{Partition: f.part, Failures: admin.FailuresOf(it.History, it.LastError), JobInfo: inspect.JobInfo{
		Queue: f.queue, ID: it.ID, Due: time.Unix(0, it.Due), Attempt: it.Retry + admin.FirstAttempt, LastError: it.LastError, Payloads: len(it.Payloads),
	}}
	for _, p := range it.Payloads {
		t.Crashes = max(t.Crashes, f.suspects[p.Ref.Position()].Deaths)
		var e journal.Entry
		if f.err = p.Ref.Read(&e); f.err != nil {
			return nil
		}
		t.TotalBytes += int64(len(e.Payload))
		t.Waiting = append(t.Waiting, admin.PayloadOf(&e))
	}
	if len(t.Waiting) > 0 {
		t.PayloadInfo = t.Waiting[0]
		admin.Hide(&t.PayloadInfo)
	}
	it.Outcome.Verdict = shard.VerdictDone
	f.run.Elapsed = 2 * shard.Quantum // slow: one job at a time, in strict order
	f.core.Finish(f.time, f.run)
	f.core.Record(nowhere{})
	return t
}

// left is what next has not come to.
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

// folded is a queue, in the journals that have something of it.
type folded struct {
	paused
	name  string
	dead  int
	parts []*fold
}

// tasks lists the runs of all parts in the order of one. A task is valid until the next one.
func (q *folded) tasks() iter.Seq[*control.Job] {
	return func(yield func(*control.Job) bool) {
		for more := true; more; {
			var first *fold
			for _, f := range q.parts {
				if f.ahead == nil {
					f.ahead = f.next()
				}
				if f.ahead != nil && (first == nil || before(f.ahead, first.ahead)) {
					first = f
				}
			}
			if first == nil {
				return
			}
			t := first.ahead
			first.ahead = nil
			more = yield(t)
		}
	}
}

// before reports whether t comes first in a list: those that no time makes due come last.
func before(t, o *control.Job) bool {
	if halted := t.State == inspect.JobHalted; halted != (o.State == inspect.JobHalted) {
		return !halted
	}
	return t.Due.Before(o.Due)
}

// rest adds to s what tasks has not come to, and what was merged before.
func (q *folded) rest(s *sum) {
	for _, f := range q.parts {
		if f.ahead != nil {
			s.add(f.ahead, f.now)
		}
		o := f.left()
		s.Merged += f.merged
		s.Halted += o.Halted
		if f.runs && len(f.whole) > 0 {
			s.Paused += o.Due + o.Delayed
			continue
		}
		s.Due, s.Delayed, s.Runs = s.Due+o.Due, s.Delayed+o.Delayed, s.Runs+o.Due+o.Delayed
	}
}

// part is one of the journals that a call is about.
type part struct {
	*journal.View
	names    map[uint32]string
	numbers  map[string]uint32
	suspects map[journal.Position]journal.Suspicion
}

// partsOf are the parts of a call, and the names of all queues, sorted.
func partsOf(views []*journal.View) (parts []part, queues []string) {
	for _, v := range views {
		p := part{v, names(v), make(map[string]uint32), v.Suspects()}
		for number, name := range p.names {
			p.numbers[name], queues = number, append(queues, name)
		}
		parts = append(parts, p)
	}
	slices.Sort(queues)
	return parts, slices.Compact(queues)
}

// folds are the queues of journals, by name.
type folds struct {
	parts   []part
	names   []string
	id      string // only this one, if it is not empty
	runs    bool   // they are listed, and not jobs
	pauses  pauses // of all queues
	configs configs
	now     int64
	err     error // why all ended early
}

// folds looks at the journals at rest, for one queue or all, of which the flags say how they
// behave. A queue that the call names has to be there.
func (c *call) folds(ctx context.Context, queue string, maxPayloads int, do func(*folds) error) error {
	return c.look(ctx, journal.OpenView, func(views []*journal.View) (err error) {
		s := &folds{now: c.now.UnixNano(), runs: c.Name == "replay"}
		s.parts, s.names = partsOf(views)
		s.pauses, s.err = pausesOf(views)
		s.configs, err = readConfigs(c, maxPayloads)
		for _, asked := range append([]string{queue}, slices.Sorted(maps.Keys(s.configs))...) {
			if err == nil && asked != "*" {
				err = known(s.names, asked)
			}
		}
		if err != nil {
			return err
		}
		if queue != "" {
			s.names = []string{queue}
		}
		return cmp.Or(do(s), s.err)
	})
}

// undisturbed is [journal.View.Undisturbed] of all parts.
func (s *folds) undisturbed() {
	for _, p := range s.parts {
		s.err = p.Undisturbed(s.err)
	}
}

// all lists them, one at a time in memory. It is over when s.err is set.
func (s *folds) all() iter.Seq[*folded] {
	return func(yield func(*folded) bool) {
		defer s.undisturbed()
		looked := time.Now()
		for i := 0; i < len(s.names) && s.err == nil; i++ {
			if q := s.fold(s.names[i]); s.err == nil && !yield(q) {
				return
			}
			if s.err == nil && time.Since(looked) > 100*time.Millisecond {
				s.undisturbed()
				looked = time.Now()
			}
		}
	}
}

// fold takes in a queue.
func (s *folds) fold(name string) *folded {
	q := &folded{name: name, paused: s.pauses.of(name)}
	for i, p := range s.parts {
		number, there := p.numbers[name]
		if !there || s.err != nil {
			continue
		}
		q.dead += p.Buried()[number]
		pages := p.PendingPages(number)
		if s.id != "" {
			pages, s.err = only(s.id, pages)
		}
		if s.err != nil || len(pages) == 0 {
			continue
		}
		cfg, known := s.configs[name]
		if !known {
			cfg = s.configs["*"]
		}
		if s.id != "" && len(pages[0]) == 1 { // one payload, which is the newest, or what is known of the newest that was done
			cfg.Merge = shard.MergeSupersede
		}
		f := &fold{folds: s, paused: q.paused, queue: name, time: s.now, suspects: p.suspects, reached: math.MinInt64, core: shard.NewCore(number, cfg)}
		if len(s.parts) > 1 {
			f.part = new(i)
		}
		f.load(pages)
		q.parts = append(q.parts, f)
	}
	return q
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
