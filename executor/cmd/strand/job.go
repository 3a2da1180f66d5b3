package main

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"strconv"

	"github.com/strandjobs/strand/journal"
)

// dead is a payload of the morgue in JSON.
type dead struct {
	Type     string           `json:"type"`
	Queue    text             `json:"queue"`
	ID       text             `json:"id"`
	Position journal.Position `json:"position"`
	Score    score            `json:"score"`
	Due      moment           `json:"due"`
	Enqueued moment           `json:"enqueued_at"`
	Attempt  int              `json:"attempt"` // that failed last
	Reason   text             `json:"reason"`
	At       moment           `json:"at"`
	Restored bool             `json:"restored,omitempty"`
	Failures []failed         `json:"failures,omitempty"`
	Metadata map[string]text  `json:"metadata,omitempty"`
	Payload  text             `json:"payload"`
}

func newDead(queue string, b *journal.Buried) *dead {
	e := &b.Entry
	return &dead{
		"buried", text(queue), e.ID, e.Position, score(e.Score), moment(e.Due), moment(e.AcceptedAt()),
		b.Retry + firstAttempt, text(b.Reason), moment(b.At), e.Restored,
		failures(b.History, b.Reason), metadata(e.Metadata), e.Payload,
	}
}

func job(_ context.Context, c *call) error {
	queue, id := c.Args().Get(1), c.Args().Get(2)
	v, err := journal.OpenView(c.Args().First())
	if err != nil {
		return err
	}
	defer v.Close()
	configs, err := readConfigs(c, 0)
	if err != nil {
		return err
	}
	folds, err := c.folds(v, queue, configs)
	if err != nil {
		return err
	}
	folds.id = id
	found := 0
	for f := range folds.all() {
		for t := range f.tasks() {
			found++
			if err := c.task(t); err != nil {
				return err
			}
		}
	}
	if folds.err != nil {
		return folds.err
	}
	n, err := c.deadOf(queue, buriedOf(v, queue, id))
	if err == nil && found+n == 0 {
		return usage("queue %q has no job %q, neither waiting nor in the morgue", queue, id)
	}
	return err
}

// task prints everything about a job.
func (c *call) task(t *task) error {
	if c.json {
		return c.object(newWaiting("job", t, true))
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
	c.printf("\n")
	list := c.output.table("POSITION", "SCORE", "ENQUEUED", "PAYLOAD")
	for _, e := range t.Payloads {
		list.row(fmt.Sprint(e.Position), fmt.Sprint(e.Score), c.dueText(e.AcceptedAt()), showPayload(e.Payload, c.Bool("full")))
	}
	if err := list.end(); err != nil {
		return err
	}
	if err := c.history(t.Failures); err != nil {
		return err
	}
	return c.pairs("metadata", func(yield func(*journal.Entry, error) bool) {
		for i := range t.Payloads {
			if !yield(&t.Payloads[i], nil) {
				return
			}
		}
	})
}

// deadOf prints what of a job is in the morgue, and returns how much that is.
func (c *call) deadOf(queue string, dead iter.Seq2[journal.Buried, error]) (n int, err error) {
	list := c.graves()
	for b, err := range dead {
		if err != nil {
			return n, err
		}
		if n++; n == 1 && !c.json {
			c.printf("\nin the morgue:\n")
		}
		if err := list.add(queue, &b); err != nil {
			return n, err
		}
	}
	if err := list.end(); err != nil || c.json {
		return n, err
	}
	if err := c.histories(dead); err != nil {
		return n, err
	}
	return n, c.pairs("their metadata", func(yield func(*journal.Entry, error) bool) {
		for b, err := range dead {
			if !yield(&b.Entry, err) {
				return
			}
		}
	})
}

// buriedOf lists what of a job is in the morgue.
func buriedOf(v *journal.View, queue, id string) iter.Seq2[journal.Buried, error] {
	number, known := v.Queues()[queue]
	return func(yield func(journal.Buried, error) bool) {
		for b, err := range v.Morgue() {
			mine := known && b.Entry.Queue == number && bytes.Equal(b.Entry.ID, []byte(id))
			if (err != nil || mine) && !yield(b, err) {
				return
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

func (g *graves) add(queue string, b *journal.Buried) error {
	if g.json {
		return g.object(newDead(queue, b))
	}
	if g.t == nil {
		g.t = g.table("QUEUE", "ID", "POSITION", "SCORE", "ENQUEUED", "BURIED", "ATTEMPT", "REASON", "PAYLOAD")
	}
	e := &b.Entry
	g.t.row(show([]byte(queue)), show(e.ID), fmt.Sprint(e.Position), fmt.Sprint(e.Score), g.dueText(e.AcceptedAt()), g.dueText(b.At),
		strconv.Itoa(b.Retry+firstAttempt), showPayload([]byte(b.Reason), g.full), showPayload(e.Payload, g.full))
	return nil
}

func (g *graves) end() error {
	if g.t == nil {
		return nil
	}
	return g.t.end()
}
