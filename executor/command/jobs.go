package command

import (
	"context"
	"fmt"
	"strconv"

	"github.com/urfave/cli/v3"

	"github.com/strandjobs/strand/executor/inspect"
)

// defaultLimit is how many lines a list has without -limit.
const defaultLimit = 50

func listFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "queue", Usage: "only this `QUEUE`"},
		&cli.IntFlag{Name: "limit", Usage: fmt.Sprintf("at most `N` lines, 0 is all; without it %d, and with -json all", defaultLimit), Validator: notBelowZero},
	}
}

func fullFlag() cli.Flag {
	return &cli.BoolFlag{Name: "full", Usage: "payloads, errors and metadata in full length (with -json always)"}
}

func jobsFlags() []cli.Flag { return append(listFlags(), configFlags()...) }
func jobFlags() []cli.Flag  { return append(configFlags(), fullFlag()) }

// limit is how many lines are printed.
func (c *call) limit() int {
	n := c.Int("limit")
	switch {
	case !c.IsSet("limit") && !c.json:
		return defaultLimit
	case n <= 0:
		return int(^uint(0) >> 1)
	}
	return n
}

func jobs(ctx context.Context, c *call) error {
	return c.folds(ctx, c.String("queue"), 0, func(folds *folds) error {
		s, err := c.output.tasks("job", false, c.limit()).fill(folds)
		if err == nil && !c.json {
			c.printf("%s\n", count(s.Runs+s.Halted, "job", "jobs"))
		}
		return err
	})
}

// taskList prints tasks, up to a limit, and says how many it left out.
type taskList struct {
	*output
	kind        string
	payloads    bool
	limit, rows int
	cut         bool // not all positions of a run were named
	t           *table
}

func (o *output) tasks(kind string, payloads bool, limit int) *taskList {
	l := &taskList{output: o, kind: kind, payloads: payloads, limit: limit}
	if !o.json {
		what := "PAYLOADS"
		if payloads {
			what = "POSITIONS"
		}
		l.t = o.table("#", "QUEUE", "ID", "STATE", "DUE", "ATTEMPT", what, "BYTES", "LAST ERROR")
	}
	return l
}

// fill prints tasks, and sums up all of them.
func (l *taskList) fill(folds *folds) (*sum, error) {
	s := &sum{Type: "summary"}
	for q := range folds.all() {
		for _, f := range q.parts {
			s.Merged += f.merged
		}
		if l.rows < l.limit {
			for t := range q.tasks() {
				s.add(t, folds.now)
				if err := l.add(t); err != nil {
					return nil, err
				}
				if l.rows == l.limit {
					break
				}
			}
		}
		q.rest(s)
	}
	if folds.err != nil {
		return nil, folds.err
	}
	return s, l.end(s)
}

func (l *taskList) add(t *task) error {
	l.rows++
	if l.json {
		row := *t
		if !l.payloads {
			row.Failures, row.InHand, row.Waiting = nil, nil, nil
		}
		return l.row(l.kind, row)
	}
	due := l.dueText(t.Due.UnixNano())
	if t.State == inspect.JobHalted {
		due = "never, until a person says so"
	}
	what := strconv.Itoa(t.Payloads)
	if l.payloads {
		what = l.positions(t)
	}
	state, size := string(t.State), bytesText(t.Bytes)
	if t.BytesAtLeast {
		size = "over " + size
	}
	if t.Crashes > 0 {
		state += fmt.Sprintf(", ran in %s", count(t.Crashes, "crash", "crashes"))
	}
	l.t.row(strconv.Itoa(l.rows), show([]byte(t.Queue)), show([]byte(t.ID)), state, due, strconv.Itoa(t.Attempt),
		what, size, errorText(t.LastError))
	return nil
}

func (l *taskList) end(s *sum) error {
	if l.json {
		return nil
	}
	if err := l.t.end(); err != nil {
		return err
	}
	l.printf("\n")
	if l.cut {
		l.printf("+N: so many more positions; -json names all\n")
	}
	if left := s.Runs + s.Halted - l.rows; left > 0 {
		l.printf("%d more are not shown; -limit 0 shows all\n", left)
	}
	return nil
}

// positions names the payloads of a run, the first few of them.
func (l *taskList) positions(t *task) string {
	const most = 4
	s := ""
	for i, e := range t.Waiting {
		if i == most {
			l.cut = true
			return fmt.Sprintf("%s +%d", s, len(t.Waiting)-most)
		}
		if i > 0 {
			s += " "
		}
		s += fmt.Sprint(e.Position)
	}
	return s
}

func errorText(s string) string {
	if s == "" {
		return "-"
	}
	return showStart([]byte(s), "-json")
}
