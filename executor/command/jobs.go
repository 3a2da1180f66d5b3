package command

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/control"
)

// defaultLimit is how many lines a list has without -limit.
const defaultLimit = 50

// limit is how many lines are printed.
func (c *call) limit() int {
	if !c.IsSet("limit") && !c.json {
		return defaultLimit
	}
	return cmp.Or(c.Int("limit"), math.MaxInt)
}

func jobs(ctx context.Context, c *call) error {
	return c.folds(ctx, c.String("queue"), 0, func(folds *folds) error {
		c.tasks("job", c.limit()).fill(folds)
		return nil
	})
}

func jobsLive(ctx context.Context, c *call) error {
	queues, err := c.of(ctx, c.String("queue"))
	if err != nil {
		return err
	}
	list, s := c.tasks("job", c.limit()), &sum{}
	for _, q := range queues {
		s.Runs += q.Jobs
		if !q.Registered {
			continue
		}
		for _, states := range [][]inspect.JobState{
			{inspect.JobReady, inspect.JobScheduled, inspect.JobRetrying, inspect.JobParked, inspect.JobRunning}, {inspect.JobHalted},
		} {
			if err := c.fill(ctx, list, inspect.JobQuery{Queue: q.Name, States: states}); err != nil {
				return err
			}
		}
	}
	s.Runs = max(s.Runs, list.rows) // they came meanwhile
	list.end(s)
	c.aside(queues)
	return nil
}

// fill adds jobs of a queue to a list, a page at a time.
func (c *call) fill(ctx context.Context, list *taskList, query inspect.JobQuery) error {
	for list.rows < list.limit {
		query.Limit = min(list.limit-list.rows, control.MaxRows)
		page, err := control.Call[control.Jobs](ctx, c.client, control.VerbJobs, query)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			list.add(&page.Jobs[i])
		}
		if query.Cursor = page.Next; page.Next == "" {
			return nil
		}
	}
	return nil
}

// taskList prints tasks, up to a limit, and says how many it left out.
type taskList struct {
	*table
	payloads    bool // those of runs are named
	limit, rows int
	cut         bool // not all positions of a run were named
}

// tasks lists jobs, or runs.
func (o *output) tasks(kind string, limit int) *taskList {
	what, payloads := "PAYLOADS", kind == "run"
	if payloads {
		what = "POSITIONS"
	}
	return &taskList{o.table(kind, "#", "QUEUE", "ID", "STATE", "DUE", "ATTEMPT", what, "BYTES", "LAST ERROR").begin(), payloads, limit, 0, false}
}

// fill prints tasks, and sums up all of them.
func (l *taskList) fill(folds *folds) {
	s := &sum{}
	for q := range folds.all() {
		if l.rows < l.limit {
			for t := range q.tasks() {
				s.add(t, folds.now)
				if l.add(t); l.rows == l.limit {
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
		var shown []string
		for _, p := range t.Waiting[:min(len(t.Waiting), most)] {
			shown = append(shown, fmt.Sprint(p.Position))
		}
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
		if left := s.Runs + s.Halted - l.rows; left > 0 {
			l.printf("%d more are not shown; -limit 0 shows all\n", left)
		}
	}
	if l.payloads {
		l.sum(s)
	} else if !l.json {
		l.printf("%s\n", brief.Count(s.Runs+s.Halted, "job", "jobs"))
	}
}
