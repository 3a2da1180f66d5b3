package command

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/journal"
)

// grave is a payload of the morgue.
type grave struct {
	Queue, ID string
	inspect.DeadPayload
}

func graveOf(queue string, b *journal.Buried) *grave {
	return &grave{queue, string(b.Entry.ID), inspect.DeadPayload{
		PayloadInfo: infoOf(&b.Entry), Attempt: b.Retry + firstAttempt, Error: b.Reason, At: time.Unix(0, b.At),
		Failures: control.Failures(b.History, b.Reason),
	}}
}

func job(ctx context.Context, c *call) error {
	queue, id := c.Args().Get(1), c.Args().Get(2)
	return c.folds(ctx, queue, 0, func(folds *folds) error {
		folds.id = id
		found, newest := 0, (*float64)(nil)
		for q := range folds.all() {
			for _, f := range q.parts {
				newest = cmp.Or(f.core.Status(id).Newest, newest)
			}
			for t := range q.tasks() {
				found++
				if err := c.task(t); err != nil {
					return err
				}
			}
		}
		if folds.err != nil {
			return folds.err
		}
		n, err := c.deadOf(gravesOf(folds.parts, chosen{queue, []string{id}}))
		if err != nil || found+n > 0 {
			return err
		}
		return noJob(queue, id, newest)
	})
}

// noJob says what is known of an id without a job: the score of its newest state that was done, if
// there was one.
func noJob(queue, id string, newest *float64) error {
	done := ""
	if newest != nil {
		done = "; newest done: score " + strconv.FormatFloat(*newest, 'f', -1, 64)
	}
	return usage("queue %q has no job %q, neither waiting nor in the morgue%s", queue, id, done)
}

// task prints everything about a job.
func (c *call) task(t *task) error {
	if c.json {
		return c.row("job", t)
	}
	l := c.output.tasks("job", false, 1)
	if err := l.add(t); err != nil {
		return err
	}
	if err := l.t.end(); err != nil {
		return err
	}
	if t.LastError != "" {
		c.printf("last error: %s\n", show([]byte(t.LastError)))
	}
	if t.Partition != nil {
		c.printf("partition: %d\n", *t.Partition)
	}
	c.printf("\n")
	list := c.output.table("POSITION", "SCORE", "ENQUEUED", "PAYLOAD")
	for _, p := range t.list() {
		list.row(fmt.Sprint(p.Position), fmt.Sprint(p.Score), c.dueText(p.EnqueuedAt.UnixNano()), showPayload(p.Raw, c.Bool("full")))
	}
	if err := list.end(); err != nil {
		return err
	}
	if err := c.history(t.Failures); err != nil {
		return err
	}
	return c.pairs("metadata", func(yield func(inspect.PayloadInfo, error) bool) {
		for _, p := range t.list() {
			if !yield(p, nil) {
				return
			}
		}
	})
}

// deadOf prints what of a job is in the morgue, and returns how much that is.
func (c *call) deadOf(dead iter.Seq2[*grave, error]) (n int, err error) {
	list := c.graves()
	for g, err := range dead {
		if err != nil {
			return n, err
		}
		if n++; n == 1 && !c.json {
			c.printf("\nin the morgue:\n")
		}
		if err := list.add(g); err != nil {
			return n, err
		}
	}
	if err := list.t.end(); err != nil || c.json {
		return n, err
	}
	if err := c.histories(dead); err != nil {
		return n, err
	}
	return n, c.pairs("their metadata", func(yield func(inspect.PayloadInfo, error) bool) {
		for g, err := range dead {
			var p inspect.PayloadInfo
			if err == nil {
				p = g.PayloadInfo
			}
			if !yield(p, err) {
				return
			}
		}
	})
}

// gravesOf lists what is chosen of the morgue of journals at rest.
func gravesOf(parts []part, s chosen) iter.Seq2[*grave, error] {
	return func(yield func(*grave, error) bool) {
		for _, p := range parts {
			for b, err := range p.Morgue() {
				queue := p.names[b.Entry.Queue]
				if err == nil && !s.has(queue, string(b.Entry.ID)) {
					continue
				}
				if !yield(graveOf(queue, &b), err) || err != nil {
					return
				}
			}
		}
	}
}

// graves prints payloads of the morgue. The titles come with the first.
type graves struct {
	*output
	full bool
	t    *table
}

func (c *call) graves() *graves { return &graves{output: c.output, full: c.Bool("full")} }

func (g *graves) add(d *grave) error {
	if g.json {
		return g.row("dead", d)
	}
	if g.t == nil {
		g.t = g.table("QUEUE", "ID", "POSITION", "SCORE", "ENQUEUED", "DIED", "ATTEMPT", "ERROR", "PAYLOAD")
	}
	g.t.row(show([]byte(d.Queue)), show([]byte(d.ID)), fmt.Sprint(d.Position), fmt.Sprint(d.Score), g.dueText(d.EnqueuedAt.UnixNano()),
		g.dueText(d.At.UnixNano()), strconv.Itoa(d.Attempt), showPayload([]byte(d.Error), g.full), showPayload(d.Raw, g.full))
	return nil
}
