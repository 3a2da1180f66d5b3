package command

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/executor/internal/each"
)

func jobs(ctx context.Context, c *call) error {
	return c.folds(ctx, c.String("queue"), 0, func(folds *folds) error {
		c.tasks("job", c.limit()).fill(folds)
		return nil
	})
}

func jobsLive(ctx context.Context, c *call) error {
	queues, silent, err := queuesOf(ctx, c.client, c.String("queue"))
	if err = cmp.Or(err, silent); err != nil {
		return err
	}
	list, s := c.tasks("job", c.limit()), &sum{}
	for _, q := range queues {
		s.Runs += q.Jobs
		if q.Paused {
			list.paused = append(list.paused, show([]byte(q.Name)))
		}
		if !q.Registered {
			continue
		}
		for _, states := range [][]inspect.JobState{
			{inspect.JobReady, inspect.JobScheduled, inspect.JobRetrying, inspect.JobParked, inspect.JobRunning}, {inspect.JobHalted},
		} {
			if err := list.ask(ctx, c.client, inspect.JobQuery{Queue: q.Name, States: states}); err != nil {
				return err
			}
		}
	}
	if s.Runs = max(s.Runs, list.rows); list.rows < list.limit { // all of them: others came meanwhile, or have ended
		s.Runs = list.rows
	}
	list.end(s)
	aside(c.output, queues)
	return nil
}

// taskList prints tasks, up to a limit, and says how many it left out.
type taskList struct {
	*table
	payloads    bool // those of runs are named
	limit, rows int
	cut         bool     // not all positions of a run were named
	paused      []string // queues of which no job runs, whatever their states are
}

// tasks lists jobs, or runs.
func (o *output) tasks(kind string, limit int) *taskList {
	what, payloads := "PAYLOADS", kind == "run"
	if payloads {
		what = "POSITIONS"
	}
	return &taskList{o.table(kind, "#", "QUEUE", "ID", "STATE", "DUE", "ATTEMPT", what, "BYTES", "LAST ERROR").begin(), payloads, limit, 0, false, nil}
}

// fill prints tasks, and sums up all of them.
func (l *taskList) fill(folds *folds) {
	s := &sum{}
	for q := range folds.all() {
		// What the shard can count unseen has no ids: of a queue with some that are paused, each run is looked at.
		all := folds.runs && len(q.ids)+len(q.prefixes) > 0
		if len(q.whole) > 0 {
			l.paused = append(l.paused, show([]byte(q.name)))
		}
		if all || l.rows < l.limit {
			for t := range q.tasks() {
				if s.add(t, folds.now); l.rows < l.limit {
					l.add(t)
				}
				if l.rows == l.limit && !all {
					break
				}
			}
		}
		q.rest(s)
	}
	if folds.err == nil {
		l.end(s)
	}
}

// ask adds jobs of a queue of a process, a page at a time.
func (l *taskList) ask(ctx context.Context, process *control.Client, query inspect.JobQuery) error {
	for l.rows < l.limit {
		query.Limit = min(l.limit-l.rows, control.MaxRows)
		page, err := control.Call[control.Jobs](ctx, process, control.VerbJobs, query)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			l.add(&page.Jobs[i])
		}
		if query.Cursor = page.Next; page.Next == "" {
			return nil
		}
	}
	return nil
}

func (l *taskList) add(t *control.Job) {
	l.rows++
	row := *t
	if !l.payloads {
		row.Failures, row.InHand, row.Waiting = nil, nil, nil
	}
	due := l.dueText(t.Due.UnixNano())
	if t.State == inspect.JobHalted {
		due = "never, until a person says so"
	}
	what := strconv.Itoa(t.Payloads)
	if l.payloads { // the first few are named
		const most = 4
		first := t.Waiting[:min(len(t.Waiting), most)]
		shown := each.Of(first, func(p inspect.PayloadInfo) string { return fmt.Sprint(p.Position) })
		if more := len(t.Waiting) - most; more > 0 {
			l.cut, shown = true, append(shown, fmt.Sprintf("+%d", more))
		}
		what = strings.Join(shown, " ")
	}
	state, size := string(t.State), brief.Bytes(t.TotalBytes)
	if t.BytesAtLeast {
		size = "over " + size
	}
	if t.Crashes > 0 {
		state += fmt.Sprintf(", ran in %s", brief.Count(t.Crashes, "crash", "crashes"))
	}
	failure := "-"
	if t.LastError != "" {
		failure = showStart([]byte(t.LastError), "-json")
	}
	l.row(row, strconv.Itoa(l.rows), show([]byte(t.Queue)), show([]byte(t.ID)), state, due, strconv.Itoa(t.Attempt), what, size, failure)
}

func (l *taskList) end(s *sum) {
	if l.table.end(); !l.json {
		l.printf("\n")
		if l.cut {
			l.printf("+N: so many more positions; -json names all\n")
		}
		if left := s.Runs + s.Halted + s.Paused - l.rows; left > 0 {
			l.printf("%d more are not shown; -limit 0 shows all\n", left)
		}
	}
	if l.payloads {
		l.sum(s)
	} else if !l.json {
		l.printf("%s\n", brief.Count(s.Runs+s.Halted, "job", "jobs"))
		if len(l.paused) > 0 {
			l.printf("paused: %s\n", strings.Join(l.paused, ", "))
		}
	}
}

func job(ctx context.Context, c *call) error {
	queue, id := c.Args().Get(1), c.Args().Get(2)
	if queue == "" { // which would be all of them
		return errNoName
	}
	d := details{c.output, c.Bool("full")}
	return c.folds(ctx, queue, 0, func(folds *folds) error {
		folds.id = id
		found, newest := 0, (*float64)(nil)
		for q := range folds.all() {
			for _, f := range q.parts {
				newest = cmp.Or(f.core.Status(id).Newest, newest)
			}
			for t := range q.tasks() {
				found++
				d.task(t)
				e := inspect.Explanation{Queue: queue, ID: id, State: inspect.JobPaused, Attempt: t.Attempt, LastError: t.LastError, Paused: q.over(id), Newest: newest}
				if t.State == inspect.JobHalted {
					e.State = t.State
				}
				if len(e.Paused) > 0 {
					d.why(e.String())
				}
			}
		}
		if folds.err != nil {
			return folds.err
		}
		n, err := d.dead(gravesOf(folds.parts, chosen{queue: queue, ids: []string{id}}))
		if err != nil || found+n > 0 {
			return err
		}
		return noJob(queue, id, newest)
	})
}

func jobLive(ctx context.Context, c *call) error {
	one := control.One{Queue: c.Args().Get(1), ID: c.Args().Get(2)}
	queues, silent, err := queuesOf(ctx, c.client, one.Queue)
	if err != nil {
		return err
	}
	d, found, registered := details{c.output, c.Bool("full")}, 0, queues[0].Registered
	if registered {
		job, err := control.Call[control.Whole](ctx, c.client, control.VerbJob, one)
		if err != nil {
			return err
		}
		if job.State != "" {
			found++
			if d.task(&job.Job); !c.json {
				if more := job.Payloads - len(job.InHand) - len(job.Waiting); more > 0 {
					c.printf("\n%s not shown: an answer has the first thousand, of a MiB\n", brief.Count(more, "more payload is", "more payloads are"))
				}
				if job.State == inspect.JobRunning || job.State == inspect.JobParked || queues[0].Paused {
					d.why(job.Why)
				}
			}
		}
	}
	n, err := d.dead(gravesIn(ctx, c.client, queues[:1], []string{one.ID}))
	switch {
	case err != nil:
		return err
	case found+n > 0 || !registered && queues[0].Unclaimed > 0:
		aside(c.output, queues)
		return nil
	case !registered:
		return cmp.Or(silent, noJob(one.Queue, one.ID, nil))
	}
	e, err := control.Call[inspect.Explanation](ctx, c.client, control.VerbExplain, one)
	return cmp.Or(err, noJob(one.Queue, one.ID, e.Newest))
}

// noJob says what is known of an id without a job: the score of its newest state that was done, if
// there was one.
func noJob(queue, id string, newest *float64) error {
	return usage("queue %q has no job %q, neither waiting nor in the morgue%s", queue, id, brief.Newest(newest))
}

// details prints jobs and dead letters, with all that there is to say of them.
type details struct {
	*output
	full bool // and in full length
}

// why says what a job waits for, or that it runs.
func (d details) why(text string) {
	if !d.json {
		d.printf("\nnow: %s\n", tame(text))
	}
}

// task prints everything about a job.
func (d details) task(t *control.Job) {
	if d.json {
		d.row("job", t)
		return
	}
	l := d.tasks("job", 1)
	l.add(t)
	l.table.end()
	if t.LastError != "" {
		d.printf("last error: %s\n", show([]byte(t.LastError)))
	}
	if t.Partition != nil {
		d.printf("partition: %d\n", *t.Partition)
	}
	d.printf("\n")
	payloads := slices.Concat(t.InHand, t.Waiting) // as far as they are known
	list := d.table("", "POSITION", "SCORE", "ENQUEUED", "PAYLOAD").begin()
	for _, p := range payloads {
		list.row(nil, fmt.Sprint(p.Position), fmt.Sprint(p.Score), d.dueText(p.EnqueuedAt.UnixNano()), showPayload(p.Raw, d.full))
	}
	list.end()
	failures := d.table("", "ATTEMPT", "AT", "ERROR").under("\nfailures:\n")
	d.failures(failures, t.Failures)
	failures.end()
	metadata := d.table("", "POSITION", "KEY", "VALUE").under("\nmetadata:\n")
	for _, p := range payloads {
		d.pairs(metadata, &p)
	}
	metadata.end()
}

// dead prints what of a job is in the morgue, and returns how much that is.
func (d details) dead(all iter.Seq2[*inspect.DeadPayload, error]) (n int, err error) {
	list := d.graves().under("\nin the morgue:\n")
	failures := d.table("", "POSITION", "ATTEMPT", "AT", "ERROR").under("\ntheir failures:\n")
	metadata := d.table("", "POSITION", "KEY", "VALUE").under("\ntheir metadata:\n")
	for _, t := range []*table{list, failures, metadata} { // one after the other, because there may be many
		for g, err := range all {
			switch {
			case err != nil:
				return n, err
			case t == list:
				d.grave(list, g)
				n++
			case t == failures:
				d.failures(failures, g.Failures, fmt.Sprint(g.Position))
			default:
				d.pairs(metadata, &g.PayloadInfo)
			}
		}
		if t.end(); d.json {
			break
		}
	}
	return n, nil
}

// failures adds those of a payload, behind cells that say which.
func (d details) failures(t *table, all []inspect.Failure, cells ...string) {
	for _, f := range all {
		t.row(nil, append(slices.Clip(cells), strconv.Itoa(f.Attempt), d.dueText(f.At.UnixNano()), showPayload([]byte(f.Error), d.full))...)
	}
}

// pairs adds the metadata of a payload.
func (d details) pairs(t *table, p *inspect.PayloadInfo) {
	for _, key := range slices.Sorted(maps.Keys(p.Metadata)) {
		t.row(nil, fmt.Sprint(p.Position), showKey(key), showPayload([]byte(p.Metadata[key]), d.full))
	}
}

// showKey shows a key of metadata. A process says one that is no UTF-8 in quotes.
func showKey(key string) string {
	if plain, err := strconv.Unquote(key); err == nil && !utf8.ValidString(plain) {
		return key
	}
	return show([]byte(key))
}
