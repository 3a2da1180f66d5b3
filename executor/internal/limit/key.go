package limit

import (
	"math"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/quota"
	"github.com/strandjobs/strand/executor/internal/sorted"
)

// never is a time that does not come by itself.
const never = math.MaxInt64

const (
	// patience is how long the turn of a job is kept that was called: it waits for a
	// worker, or is not going to come. It doubles as long as none comes, because
	// then the workers are busy.
	patience    = int64(10 * time.Millisecond)
	mostMisses  = 6 // 640 ms
	forgetEvery = int64(time.Second)
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
	misses  int // calls since the last start that came to nothing

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
}

// free is how many jobs may start now.
func (k *key) free(now int64) int {
	if now < k.paused {
		return 0
	}
	if k.part != nil {
		return k.part.free(now)
	}
	free := math.MaxInt
	if k.limit.law.concurrent > 0 {
		free = max(k.limit.law.concurrent-k.running, 0)
	}
	if k.limit.law.interval > 0 {
		lead := now + k.limit.law.ahead - max(k.next, now)
		if lead < 0 {
			return 0
		}
		free = min(free, int(lead/k.limit.law.interval)+1)
	}
	return free
}

// from is when n jobs may start, or never by themselves: before that one has to end,
// or to start.
func (k *key) from(n int) int64 {
	if k.part != nil {
		return k.part.from(n)
	}
	if k.limit.law.concurrent > 0 && k.limit.law.concurrent-k.running < n {
		return never
	}
	at := k.paused
	if k.limit.law.interval > 0 {
		lead := int64(n-1) * k.limit.law.interval
		if lead > k.limit.law.ahead {
			return never
		}
		at = max(at, k.next+lead-k.limit.law.ahead)
	}
	return at
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
		k.part.pause, k.part.said = quota.Pause{New: true, Least: least}, now
	}
}

// idle reports whether the key need not be known, and if it will be so by itself,
// when.
func (k *key) idle(now int64) (at int64, idle bool) {
	if k.running > 0 || k.waiting > 0 || len(k.called) > 0 {
		return never, false
	}
	if k.part != nil && k.part.Turn != never {
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
	if k.waiting > 0 {
		return min(at, k.from(len(k.called)+1))
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

// call calls the first job of the queue whose turn it is.
func (k *key) call(now int64) *waiter {
	l := k.lines[0]
	w := l.jobs[0]
	copy(k.lines, k.lines[1:])
	k.lines[len(k.lines)-1] = l
	k.leave(w)
	w.called, w.key = true, k
	w.until = now + patience<<min(k.misses, mostMisses)
	k.called = append(k.called, w)
	return w
}

// reserved is how many turns are kept for jobs that came before one.
func (k *key) reserved(number int64) (n int) {
	for _, w := range k.called {
		if w.Turn < number {
			n++
		}
	}
	return n
}
