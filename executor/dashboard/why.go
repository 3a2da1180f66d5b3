package dashboard

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
)

// node is a part of why a job does not run: what it waits for, and below it what
// that waits for.
type node struct {
	What      string // in words, before the job if there is one
	Queue, ID string // of the job; "": it is about none
	State     inspect.JobState
	Note      string // in words, behind it
	Below     []node
}

// How far the page of a job looks.
const (
	deepest  = 4  // jobs that wait for one another
	mostJobs = 24 // of which the state is asked
	beside   = 8  // holders, waiters or slots of one thing
)

// tree says who waits for whom, beginning with a job.
type tree struct {
	b    *board
	ctx  context.Context
	now  time.Time
	left int // jobs that may still be asked
	seen map[[2]string]bool
}

func (b *board) why(ctx context.Context, e inspect.Explanation) node {
	t := &tree{b, ctx, time.Now(), mostJobs, map[[2]string]bool{{e.Queue, e.ID}: true}}
	return t.job("", e, 0)
}

// job is the node of a job of which is known what it waits for.
func (t *tree) job(what string, e inspect.Explanation, depth int) node {
	n := node{What: what, Queue: e.Queue, ID: e.ID, State: e.State}
	for _, p := range e.Paused {
		whose := strings.Replace("its "+p, "its executor", "the executor", 1)
		n.Below = append(n.Below, node{What: "a pause of " + whose, Note: "until a person resumes it"})
	}
	switch e.State {
	case inspect.JobScheduled:
		n.Note = "due " + ago(e.Due, t.now)
	case inspect.JobRetrying:
		n.Note = "attempt " + strconv.Itoa(e.Attempt) + " is due " + ago(e.Due, t.now)
	case inspect.JobReady:
		n.Note = "waits for a worker"
		if e.Turn != nil {
			n.Note += ": " + e.Turn.String()
		}
	case inspect.JobHalted:
		n.Below = append(n.Below, node{What: "a person who runs it",
			Note: "its retries are used up, or it ended the process, and OnExhaustedHalt stops it"})
	case inspect.JobSuspected:
		n.Note = "ran at the last deaths of the process: waits for a turn of its own, or for room on the disk to give it up"
	case inspect.JobDead:
		n.Note = plural(e.Dead, "payload in the morgue", "payloads in the morgue")
	}
	for _, k := range e.Keys {
		n.Below = append(n.Below, t.key(k, depth))
	}
	for _, l := range e.Unique {
		n.Below = append(n.Below, t.lease(l, depth))
	}
	if e.Behind != "" {
		n.Below = append(n.Below, t.name("comes after", e.Behind, "", depth))
	}
	for i, s := range e.Slots {
		if i == beside {
			n.Below = append(n.Below, more(len(e.Slots)-beside+e.More, "slot", "slots"))
			break
		}
		n.Below = append(n.Below, t.name("slot "+clip(s.Slot, 60)+" is out with", s.By, t.until(s.Until), depth))
	}
	if l := e.Limit; l != nil {
		n.Below = append(n.Below, node{What: "limit " + clip(l.Limit, 60), Note: limitNote(*l, t.now)})
	}
	return n
}

func limitNote(l inspect.LimitKey, now time.Time) string {
	var parts []string
	if l.Key != "" {
		parts = append(parts, "key "+clip(l.Key, 60))
	}
	running := strconv.Itoa(l.Running)
	if l.Config.Concurrent > 0 {
		running += " of " + strconv.Itoa(l.Config.Concurrent)
	}
	parts = append(parts, running+" run", strconv.Itoa(l.Waiting)+" wait")
	if !l.Paused.IsZero() {
		parts = append(parts, "paused until "+ago(l.Paused, now))
	} else if !l.Until.IsZero() {
		parts = append(parts, "the next may start "+ago(l.Until, now))
	}
	return strings.Join(parts, ", ")
}

func (t *tree) key(k inspect.KeyLockStatus, depth int) node {
	n := node{What: "key " + clip(k.Key, 80)}
	for i, l := range k.Locks {
		if i == beside {
			n.Below = append(n.Below, more(len(k.Locks)-beside+k.MoreLocks, "lock", "locks"))
			break
		}
		n.Below = append(n.Below, t.name("locked by", l.By, join("since "+ago(l.Since, t.now), t.until(l.Until)), depth))
	}
	for _, by := range k.Called[:min(len(k.Called), beside)] {
		n.Below = append(n.Below, t.name("kept for", by, "its turn has come", depth))
	}
	n.Note = inLine(len(k.Waiting) + k.MoreWaiting)
	return n
}

func (t *tree) lease(l inspect.LeaseStatus, depth int) node {
	n := node{What: "lease " + clip(l.Key, 80), Note: inLine(len(l.Waiters) + l.More)}
	switch {
	case l.By != "":
		note := "for " + span(l.HeldFor)
		if l.Remaining > 0 {
			note += ", " + span(l.Remaining) + " left"
		}
		n.Below = append(n.Below, t.name("held by", l.By, note, depth))
	case l.Called != "":
		n.Below = append(n.Below, t.name("kept for", l.Called, "it waits for a worker", depth))
	}
	return n
}

func inLine(n int) string {
	if n <= 1 {
		return ""
	}
	return strconv.Itoa(n) + " in line"
}

func more(n int, one, many string) node { return node{Note: "and " + plural(n, one, many) + " more"} }

func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ", ")
}

// until returns how much time is left until end; "" if there is no end.
func (t *tree) until(end time.Time) string {
	if end.IsZero() {
		return ""
	}
	return span(max(end.Sub(t.now), 0)) + " left"
}

// name is the node of a job that is known by its name, with what that waits for.
func (t *tree) name(what, by, note string, depth int) node {
	queue, id, ok := admin.JobOf(by)
	if !ok {
		return node{What: what + " " + clip(by, 120), Note: note}
	}
	n := node{What: what, Queue: queue, ID: id, Note: note}
	at := [2]string{queue, id}
	if t.seen[at] || depth >= deepest || t.left == 0 {
		return n
	}
	t.seen[at] = true
	t.left--
	e, err := t.b.x.Inspect().Explain(t.ctx, queue, id)
	if err != nil {
		return n // what is known is shown
	}
	n = t.job(what, e, depth+1)
	n.Note = join(note, n.Note)
	return n
}
