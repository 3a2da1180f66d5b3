package dashboard

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/brief"
)

// node is a job on the page that says why one does not run, or who is in its way and is none.
type node struct {
	What                string // in words, before the job
	inspect.Explanation        // of the job; without a State as far as the page did not look, and without an ID: it is about none
	Note                string // in words, behind it
	Now                 time.Time
	tree                *tree
	depth               int
}

// How far the page of a job looks.
const (
	deepest  = 4  // jobs that wait for one another
	mostJobs = 24 // of which the state is asked
	beside   = 8  // holders, waiters or slots of one thing
)

// tree says who waits for whom, beginning with a job.
type tree struct {
	b     *board
	ctx   context.Context
	until time.Time // of what is asked
	left  int       // jobs that may still be asked
	seen  map[[2]string]bool
}

// why is the node of a job, whose template asks for those below it.
func (b *board) why(ctx context.Context, e inspect.Explanation) node {
	now := time.Now()
	return node{Explanation: e, Now: now, tree: &tree{b, ctx, now.Add(b.cfg.PageTimeout / 4), mostJobs, map[[2]string]bool{{e.Queue, e.ID}: true}}}
}

// By is the node of a job that is known by its name, with what that waits for, unless it is there already.
func (n node) By(what, by, note string) node {
	queue, id, ok := admin.JobOf(by)
	if !ok {
		return node{What: what + " " + clip(by, 120), Note: note}
	}
	of := node{what, inspect.Explanation{Queue: queue, ID: id}, note, n.Now, n.tree, n.depth + 1}
	t, at := n.tree, [2]string{queue, id}
	if t.seen[at] || n.depth >= deepest || t.left == 0 {
		return of
	}
	t.seen[at] = true
	t.left--
	ctx, cancel := context.WithDeadline(t.ctx, t.until)
	defer cancel()
	if e, err := t.b.x.Inspect().Explain(ctx, queue, id); err == nil { // what is known is shown
		of.Explanation = e
	}
	return of
}

// Waits reports whether it waits for something that can be shown below it.
func (n node) Waits() bool {
	return n.State == inspect.JobHalted || n.Behind != "" || n.Limit != nil || len(n.Paused)+len(n.Keys)+len(n.Unique)+len(n.Slots) > 0
}

// Left is how much time is left until end; "" if there is no end.
func (n node) Left(end time.Time) string {
	if end.IsZero() {
		return ""
	}
	return brief.Span(max(end.Sub(n.Now), 0)) + " left"
}

func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ", ")
}
