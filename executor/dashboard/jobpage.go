package dashboard

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/brief"
)

// jobPage is all that there is to see of an id.
type jobPage struct {
	inspect.JobDetail
	Job                     bool // there is one, and not only dead payloads
	Why                     node
	Moments                 []happening
	Tab                     string // of the queue's list that it is on
	PausedID, ShowsPayloads bool
	Running                 *inspect.Running
}

// happening is a point on the time line of a job.
type happening struct {
	At         time.Time
	Kind, What string // Kind is "bad", "good", "next" or ""
	Text       string
}

func (s pages) job(r *http.Request) (page, error) {
	q := r.URL.Query()
	d, err := s.x.Inspect().Job(r.Context(), q.Get("queue"), q.Get("id"))
	if err != nil {
		return page{}, err
	}
	s.showPayloads(r, &d, shownAll)
	p := jobPage{JobDetail: d, Job: d.State != inspect.JobDead, Tab: "waiting", ShowsPayloads: s.cfg.ShowPayload != nil}
	p.PausedID = slices.Contains(d.Explanation.Paused, "id")
	if !p.Job {
		p.Tab = morgue
	}
	p.Why = s.why(r, d.Explanation)
	// What the worker says that has the job in hand, if there is one.
	list, _ := s.x.Inspect().Running(r.Context(), inspect.RunningQuery{Queue: d.Queue, Limit: brief.MaxRows})
	for i, running := range list.Running {
		if slices.ContainsFunc(running.Jobs, func(j inspect.RunningJob) bool { return j.ID == d.ID }) {
			p.Running = &list.Running[i]
		}
	}
	p.Moments = moments(p)
	return page{
		Title: d.ID, Content: p, of: d.Queue, verbs: []Verb{RunNow, Cancel, Delete, Pause, Resume, Requeue, DeleteDead},
	}, r.Context().Err() // of payloads, for example, there is no more behind the end of the time
}

// What is on a time line.
const (
	mostEnqueued = 5
	mostMoments  = 20 // dead payloads
)

// moments are what has happened to a job, and what will, in order.
func moments(p jobPage) (all []happening) {
	add := func(at time.Time, kind, text string, what ...string) {
		all = append(all, happening{at, kind, strings.Join(what, ""), text})
	}
	rows := slices.Concat(p.InHand, p.Waiting)
	slices.SortStableFunc(rows, func(a, b inspect.PayloadInfo) int { return a.EnqueuedAt.Compare(b.EnqueuedAt) })
	for _, row := range rows[:min(len(rows), mostEnqueued)] {
		add(row.EnqueuedAt, "", "", "Payload ", number(row.Position), " enqueued")
	}
	if more := len(rows) - mostEnqueued; more > 0 {
		add(rows[len(rows)-1].EnqueuedAt, "", "", "… and ", plural(more+p.More, "payload", "payloads"), " more until")
	}
	for _, f := range p.Failures {
		add(f.At, "bad", f.Error, "Attempt ", number(f.Attempt), " failed")
	}
	for _, row := range p.Dead[:min(len(p.Dead), mostMoments)] {
		add(row.EnqueuedAt, "", "", "Payload ", number(row.Position), " enqueued")
		for _, f := range row.Failures {
			if !f.At.Equal(row.At) {
				add(f.At, "bad", f.Error, "Attempt ", number(f.Attempt), " of payload ", number(row.Position), " failed")
			}
		}
		add(row.At, "bad", row.Error, "Payload ", number(row.Position), " went to the morgue, in attempt ", number(row.Attempt))
	}
	if p.Running != nil {
		add(p.Running.Since, "good", "", "Worker ", number(p.Running.Worker), " began with it")
	}
	slices.SortStableFunc(all, func(a, b happening) int { return a.At.Compare(b.At) })
	if p.Job && p.Running == nil && p.State != inspect.JobHalted {
		add(p.Due, "next", "", "Attempt ", number(p.Attempt), " is due")
	}
	return all
}

// find looks for an id in all queues.
func (s pages) find(r *http.Request) (page, error) {
	q := r.URL.Query()
	content := struct {
		ID     string
		Found  []inspect.Explanation
		Queues []string
		Late   bool
	}{ID: q.Get("id")}
	p, err := page{Title: "Find " + content.ID}, error(nil)
	content.Found, content.Queues, content.Late, err = s.lookFor(r, q.Get("queue"), content.ID)
	if len(content.Found) == 1 && !content.Late {
		p.to = "job?" + string(query("queue", content.Found[0].Queue, "id", content.ID))
	}
	p.Content = content
	return p, err
}

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
	r     *http.Request
	until time.Time // of what is asked
	left  int       // jobs that may still be asked
	seen  map[[2]string]bool
}

// why is the node of a job, whose template asks for those below it.
func (b *board) why(r *http.Request, e inspect.Explanation) node {
	now := time.Now()
	return node{Explanation: e, Now: now, tree: &tree{b, r, now.Add(b.cfg.PageTimeout / 4), mostJobs, map[[2]string]bool{{e.Queue, e.ID}: true}}}
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
	ctx, cancel := context.WithDeadline(t.r.Context(), t.until)
	defer cancel()
	if t.b.may(t.r, Action{Verb: View, Queue: queue}) != nil {
		return of // its name is in the explanation
	}
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
