package command

import (
	"context"
	"iter"
	"path/filepath"
	"slices"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/control"
)

func inspectLive(ctx context.Context, l *live) error {
	if l.Bool("blocks") {
		return usage("-blocks lists the blocks of a journal that no process has open")
	}
	i, err := ask[control.Figures](ctx, l, control.VerbInspect, control.None{})
	if err == nil {
		err = l.figures(i.Journal)
	}
	if err != nil {
		return err
	}
	var queues []inspect.QueueStats
	err = l.censuses(func(yield func(*census, error) bool) {
		for _, q := range i.Queues {
			queues = append(queues, q.QueueStats)
			if !yield(&census{
				Queue: q.Name, Jobs: q.Jobs, Payloads: q.Payloads, Fresh: q.Fresh, Retrying: q.Retrying, Halted: q.Halted,
				Due: q.Due, Delayed: q.Jobs - q.Halted - q.Due, Dead: q.Dead, Age: q.Age,
			}, nil) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return l.aside(queues)
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
		for _, states := range [][]inspect.JobState{
			{inspect.JobReady, inspect.JobScheduled, inspect.JobRetrying, inspect.JobParked, inspect.JobRunning}, {inspect.JobHalted},
		} {
			if err := l.fill(ctx, list, inspect.JobQuery{Queue: q.Name, States: states}); err != nil {
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

// fill adds jobs of a queue to a list, a page at a time.
func (l *live) fill(ctx context.Context, list *taskList, query inspect.JobQuery) error {
	for list.rows < list.limit {
		query.Limit = min(list.limit-list.rows, control.MaxRows)
		page, err := ask[struct {
			Jobs []task
			Next string
		}](ctx, l, control.VerbJobs, query)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			if err := list.add(&page.Jobs[i]); err != nil {
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
		d, err := ask[struct {
			task
			Why string
		}](ctx, l, control.VerbJob, control.One{Queue: queue, ID: id})
		if err != nil {
			return err
		}
		if d.State != "" {
			found++
			if err := l.detail(&d.task, d.Why); err != nil {
				return err
			}
		}
	}
	n, err := l.deadOf(l.dead(ctx, queues[:1], []string{id}))
	if err != nil {
		return err
	}
	if found+n == 0 && (queues[0].Registered || queues[0].Unclaimed == 0) {
		var e inspect.Explanation
		if queues[0].Registered {
			if e, err = ask[inspect.Explanation](ctx, l, control.VerbExplain, control.One{Queue: queue, ID: id}); err != nil {
				return err
			}
		}
		return noJob(queue, id, e.Newest)
	}
	return l.aside(queues)
}

// detail prints everything about a job.
func (l *live) detail(t *task, why string) error {
	if err := l.task(t); err != nil || l.json {
		return err
	}
	if more := t.Payloads - len(t.list()); more > 0 {
		l.printf("\n%s not shown: an answer has the first thousand, of a MiB\n", count(more, "more payload is", "more payloads are"))
	}
	if t.State == inspect.JobRunning || t.State == inspect.JobParked {
		l.printf("\nnow: %s\n", tame(why))
	}
	return nil
}

// dead lists the morgue of some queues, of all ids or some. It may be gone through more than
// once.
func (l *live) dead(ctx context.Context, queues []inspect.QueueStats, ids []string) iter.Seq2[*grave, error] {
	return func(yield func(*grave, error) bool) {
		for _, q := range queues {
			query := control.DeadQuery{Queue: q.Name, IDs: ids, From: 1}
			for q.Dead > 0 && query.From > 0 {
				page, err := ask[struct {
					Dead []grave
					Next uint64
				}](ctx, l, control.VerbDead, query)
				if err != nil {
					yield(nil, err)
					return
				}
				for i := range page.Dead {
					if !yield(&page.Dead[i], nil) {
						return
					}
				}
				query.From = page.Next
			}
		}
	}
}

func morgueLive(ctx context.Context, l *live) error {
	queues, err := l.of(ctx, "")
	if err != nil {
		return err
	}
	var names []string
	for _, q := range queues {
		names = append(names, q.Name)
	}
	verb, wanted, err := l.chosen(names)
	if err != nil {
		return err
	}
	if wanted.queue != "" {
		queues = slices.DeleteFunc(queues, func(q inspect.QueueStats) bool { return q.Name != wanted.queue })
	}
	found, err := l.find(verb, l.dead(ctx, queues, wanted.ids), wanted)
	if err != nil || verb == "list" {
		return err
	}
	do, done, n := control.DoRequeue, "requeued", 0
	if verb == "delete" {
		do, done = control.DoDeleteDead, "deleted"
	}
	for _, q := range queues {
		for page := range slices.Chunk(found[q.Name], atOnce) {
			act := control.Act{Do: do, Queue: q.Name}
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
