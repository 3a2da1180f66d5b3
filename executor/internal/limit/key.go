package limit

import (
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/sorted"
)

const (
	// patience is how long the turn of a job is kept that was called: it waits for a
	// worker, or is not going to come. It doubles as long as none comes, because
	// then the workers are busy.
	patience    = int64(10 * time.Millisecond)
	mostMisses  = 6 // 640 ms
	forgetEvery = int64(time.Second)
	// mostTurns is how often a job of several keys is called in vain before places are kept for it. Fewer
	// cost more starts where all jobs have two keys: 4 one in eight, 8 one in fourteen, 16 one in fifty.
	mostTurns = 8
)

// key is a key of a limit that is in use.
type key struct {
	limit *Limit
	name  string

	running int
	next    int64 // the pace; see the package comment
	paused  int64 // until then

	lines   []*line // of the queues that wait, whose turn is next first
	waiting int     // in all of them
	called  []*waiter
	misses  int     // calls since the last start that came to nothing
	kept    []place // for jobs that wait for this key or another

	sorted.Place       // in Table.agenda, by when something changes by itself
	part         *part // of what a cluster allows; nil: it is this process's alone
}

// line are the jobs of one queue that wait for a key.
type line struct {
	queue string
	jobs  sorted.List[*waiter]
}

// waiter is a job that has come and does not run yet, or not again.
type waiter struct {
	sorted.Place // in line, in the order in which jobs came
	owner        admit.Owner
	key          *key // that it waits for, or whose turn is kept for it; nil: its number is kept, no more
	called       bool // out of the line, and its turn is kept until then
	line         *line
	until        int64 // then the call is over, or the number is forgotten
	wake         func()
	needs        []Need // when there are several
	turns        int    // how often it was called
	since        int64  // when it was first
	kept         []*key // that have a place for it
}

// open reports whether a job may start now that comes after others.
func (k *key) open(now int64, after ahead) bool {
	if k.part != nil { // from may be the time of a start that is over
		return now >= k.paused && k.part.open(now, after)
	}
	return k.from(after) <= now
}

// from is when a job may start that comes after others, or never by itself: before that
// one has to end, or to start.
func (k *key) from(after ahead) int64 {
	if k.part != nil {
		return k.part.from(after)
	}
	law, starts := k.limit.law, int64(after.starts)
	switch {
	case law.concurrent > 0 && law.concurrent-k.running <= after.permits:
		return never
	case law.interval == 0:
		return k.paused
	case starts > law.ahead/law.interval:
		return never
	}
	return max(k.paused, k.next+starts*law.interval-law.ahead)
}

// lacks reports whether a permit is what there is none of.
func (k *key) lacks() bool {
	if k.part != nil {
		return k.part.lacks()
	}
	return k.limit.law.concurrent > 0 && k.limit.law.concurrent <= k.running
}

// begin has a job start.
func (k *key) begin(now int64) {
	k.running++
	k.limit.running++
	k.misses = 0
	if k.part != nil {
		k.part.begin(now)
	} else if k.limit.law.interval > 0 {
		k.next = max(k.next, now) + k.limit.law.interval
	}
}

// pause has no job begin before a time; least says that a longer one of other processes stays.
func (k *key) pause(now, until int64, least bool) {
	k.paused = until
	if k.part != nil {
		k.part.pause.Least = least && (k.part.pause.Least || !k.part.pause.New) // one by hand, of which nobody has heard, counts
		k.part.pause.New, k.part.said = true, now
	}
}

// idle reports whether the key need not be known, and if it will be so by itself,
// when.
func (k *key) idle(now int64) (at int64, idle bool) {
	if k.running > 0 || k.waiting > 0 || len(k.called) > 0 || len(k.kept) > 0 {
		return never, false
	}
	if k.part != nil && (k.part.Turn != never || k.part.claims > 0) {
		return never, false
	}
	at = max(k.next, k.paused)
	return at, at <= now
}

// event is when something changes by itself.
func (k *key) event(now int64) int64 {
	at := int64(never)
	for _, w := range k.called {
		at = min(at, w.until)
	}
	for _, p := range k.kept {
		at = min(at, p.until)
	}
	if k.waiting > 0 {
		_, before := k.turn()
		return min(at, k.from(before))
	}
	if over, _ := k.idle(now); over != never {
		return (over/forgetEvery + 1) * forgetEvery // together with others
	}
	return at
}

// enqueue has a job wait in the line of its queue, at its number.
func (k *key) enqueue(w *waiter) {
	i := slices.IndexFunc(k.lines, func(l *line) bool { return l.queue == w.owner.Queue })
	if i < 0 {
		i = len(k.lines)
		k.lines = append(k.lines, &line{queue: w.owner.Queue})
	}
	w.key, w.line = k, k.lines[i]
	w.line.jobs.Put(w)
	k.waiting++
	k.limit.waiting++
}

// leave takes a job out of the line, or ends its call.
func (k *key) leave(w *waiter) {
	if w.called {
		k.called = slices.DeleteFunc(k.called, func(o *waiter) bool { return o == w })
	} else {
		w.line.jobs.Remove(w)
		k.waiting--
		k.limit.waiting--
		if len(w.line.jobs) == 0 {
			k.lines = slices.DeleteFunc(k.lines, func(l *line) bool { return l == w.line })
		}
	}
	w.called, w.key, w.line = false, nil, nil
}

// turn returns the line whose turn it is, among those whose first job has the fewest turns and places kept
// before it, and how many these are.
func (k *key) turn() (line int, before ahead) {
	for i, l := range k.lines {
		if n := k.places(l.jobs[0].Turn); i == 0 || n.permits < before.permits {
			if line, before = i, n; n.permits == 0 {
				break
			}
		}
	}
	before.permits, before.starts = before.permits+len(k.called), before.starts+len(k.called)
	return line, before
}

// call calls the first job of a line.
func (k *key) call(now int64, line int) *waiter {
	l := k.lines[line]
	w := l.jobs[0]
	k.lines = append(slices.Delete(k.lines, line, line+1), l)
	k.leave(w)
	k.give(w)
	w.called, w.key = true, k
	if w.turns++; w.turns == 1 {
		w.since = now
	}
	w.until = now + patience<<min(k.misses, mostMisses)
	k.called = append(k.called, w)
	return w
}

// reserved are the turns and places that are kept for jobs that came before one.
func (k *key) reserved(number int64) ahead {
	n := k.places(number)
	for _, w := range k.called {
		if w.Turn < number {
			n.permits++
			n.starts++
		}
	}
	return n
}
