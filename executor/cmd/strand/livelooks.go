package main

import (
	"context"
	"iter"
	"math"
	"path/filepath"
	"slices"

	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/journal"
)

func inspectLive(ctx context.Context, l *live) error {
	if l.Bool("blocks") {
		return usage("-blocks lists the blocks of a journal that no process has open")
	}
	i, err := ask[control.Inspection](ctx, l, control.VerbInspect, control.None{})
	if err != nil {
		return err
	}
	err = l.figures(journal.Info{
		Format: i.Format, UUID: i.UUID, Epoch: i.Epoch, Next: journal.Position(i.Next), Oldest: i.Oldest, Newest: i.Newest, Blocks: i.Blocks,
		Entries: i.Entries, Live: i.Live, Bytes: i.Bytes, LiveBytes: i.LiveBytes, Buried: i.Buried, Queues: i.QueueN, FileBytes: i.FileBytes,
	})
	if err != nil {
		return err
	}
	if err := l.blocks(nil, false); err != nil {
		return err
	}
	err = l.censuses(func(yield func(*census, error) bool) {
		for _, q := range i.Queues {
			if !yield(&census{
				Type: "queue", Queue: q.Name, Jobs: q.Jobs, Payloads: q.Payloads, Fresh: q.Jobs - q.Retrying - q.Halted,
				Retrying: q.Retrying, Halted: q.Halted, Due: q.Due, Delayed: q.Jobs - q.Halted - q.Due, Morgue: q.Dead, Age: q.Age,
			}, nil) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return l.aside(i.Queues)
}

// doing is what a job of a process does beside what one at rest can.
func doing(state string) string {
	if state == "running" || state == "parked" {
		return state
	}
	return ""
}

// taskOf is a job of a process, without its payloads.
func taskOf(queue []byte, j *control.Job) *task {
	return &task{
		Queue: string(queue), ID: string(j.ID), Due: j.Due, Attempt: j.Attempt, LastError: string(j.LastError), Halted: j.State == "halted",
		doing: doing(j.State), more: j.Payloads, moreBytes: j.Bytes, atLeast: j.AtLeast,
	}
}

func jobsLive(ctx context.Context, l *live) error {
	queues, err := l.of(ctx, l.String("queue"))
	if err != nil {
		return err
	}
	list, s := l.tasks("job", false, l.limit()), &sum{}
	for _, q := range queues {
		s.Runs += q.Jobs
		if !q.Registered {
			continue
		}
		for _, halted := range []bool{false, true} {
			if err := l.fill(ctx, list, q.Name, halted); err != nil {
				return err
			}
		}
	}
	s.Runs = max(s.Runs, list.rows) // they came meanwhile
	if err := list.end(s); err != nil {
		return err
	}
	if !l.json {
		l.printf("%s\n", count(s.Runs, "job", "jobs"))
	}
	return l.aside(queues)
}

// fill adds the jobs of a queue to a list, a page at a time.
func (l *live) fill(ctx context.Context, list *taskList, queue []byte, halted bool) error {
	query := control.JobsQuery{Queue: queue, Halted: halted}
	for list.rows < list.limit {
		query.Limit = min(list.limit-list.rows, control.MaxRows)
		page, err := ask[control.JobsPage](ctx, l, control.VerbJobs, query)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			if err := list.add(taskOf(queue, &page.Jobs[i])); err != nil {
				return err
			}
		}
		if query.Cursor = page.Next; page.Next == "" {
			return nil
		}
	}
	return nil
}

func jobLive(ctx context.Context, l *live) error {
	queue, id := l.Args().Get(1), l.Args().Get(2)
	queues, err := l.of(ctx, queue)
	if err != nil {
		return err
	}
	found := 0
	if queues[0].Registered {
		d, err := ask[control.Detail](ctx, l, control.VerbJob, control.One{Queue: []byte(queue), ID: []byte(id)})
		if err != nil {
			return err
		}
		if d.State != "" {
			found++
			if err := l.detail(&d); err != nil {
				return err
			}
		}
	}
	n, err := l.deadOf(queue, l.dead(ctx, queues[:1], []string{id}))
	if err != nil {
		return err
	}
	if found+n == 0 && (queues[0].Registered || queues[0].Unclaimed == 0) {
		return usage("queue %q has no job %q, neither waiting nor in the morgue", queue, id)
	}
	return l.aside(queues)
}

// detail prints everything about a job.
func (l *live) detail(d *control.Detail) error {
	t := taskOf([]byte(l.Args().Get(1)), &d.Job)
	t.Failures = failures(d.History, t.LastError)
	for i := range d.List {
		if p := &d.List[i]; !p.Unsent {
			t.Payloads = append(t.Payloads, entryOf(p))
			t.moreBytes -= int64(p.Size)
		}
	}
	t.more = d.Payloads - len(t.Payloads)
	if err := l.task(t); err != nil || l.json {
		return err
	}
	if t.more > 0 {
		l.printf("\n%s not shown: an answer has the first thousand, of a MiB\n", count(t.more, "more payload is", "more payloads are"))
	}
	if t.doing != "" {
		l.printf("\nnow: %s\n", tame(d.Why))
	}
	return nil
}

func entryOf(p *control.Payload) journal.Entry {
	return journal.Entry{
		Kind: journal.KindEnqueued, Position: journal.Position(p.Position), Score: math.Float64frombits(p.Score), Accepted: p.Accepted,
		Restored: p.Restored, Metadata: p.Metadata, Payload: p.Payload,
	}
}

// dead lists the morgue of some queues, by their number, of all ids or some. It may be
// gone through more than once.
func (l *live) dead(ctx context.Context, queues []control.Queue, ids []string) iter.Seq2[journal.Buried, error] {
	queues = slices.SortedFunc(slices.Values(queues), func(a, b control.Queue) int { return int(a.Number) - int(b.Number) })
	wanted := make([][]byte, len(ids))
	for i, id := range ids {
		wanted[i] = []byte(id)
	}
	return func(yield func(journal.Buried, error) bool) {
		for _, q := range queues {
			query := control.DeadQuery{Queue: q.Name, IDs: wanted, From: 1}
			for q.Dead > 0 && query.From > 0 {
				page, err := ask[control.DeadPage](ctx, l, control.VerbDead, query)
				if err != nil {
					yield(journal.Buried{}, err)
					return
				}
				for i := range page.Dead {
					d := &page.Dead[i]
					e := entryOf(&d.Payload)
					e.Queue, e.ID, e.Due = q.Number, d.ID, d.Due
					if !yield(journal.Buried{Entry: e, Retry: d.Retry, Reason: string(d.Reason), At: d.At, History: d.History}, nil) {
						return
					}
				}
				query.From = page.Next
			}
		}
	}
}

func morgueLive(ctx context.Context, l *live) error {
	s, names, err := l.status(ctx)
	if err != nil {
		return err
	}
	verb, wanted, err := l.chosen(names)
	if err != nil {
		return err
	}
	if wanted.queue != "" {
		s.Queues = slices.DeleteFunc(s.Queues, func(q control.Queue) bool { return string(q.Name) != wanted.queue })
	}
	found, err := l.listMorgue(names, l.dead(ctx, s.Queues, wanted.ids), wanted)
	if err != nil || verb == "list" {
		return err
	}
	do, done, n := control.DoRequeue, "requeued", 0
	if verb == "delete" {
		do, done = control.DoDeleteDead, "deleted"
	}
	for _, number := range inOrder(names) {
		for page := range slices.Chunk(found[number], atOnce) {
			act := control.Act{Do: do, Queue: []byte(names[number])}
			for _, p := range page {
				act.Positions = append(act.Positions, uint64(p))
			}
			did, err := l.act(ctx, act)
			if n += did; err != nil {
				return l.partly(ctx, n, "payload", done, "", err)
			}
		}
	}
	return l.moved(n, done)
}

func copyLive(ctx context.Context, l *live) error {
	to := l.Args().Get(1)
	there, err := filepath.Abs(to)
	if err != nil {
		return err
	}
	if _, err := ask[control.None](ctx, l, control.VerbCopy, control.Copy{To: there}); err != nil {
		return err
	}
	return l.copied(to)
}

func compactLive(ctx context.Context, l *live) error {
	c, err := ask[control.Compacted](ctx, l, control.VerbCompact, control.None{})
	if err != nil {
		return err
	}
	return l.compacted(c.Before, c.After)
}
