package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/control"
)

func statusLive(ctx context.Context, l *live) error {
	s, err := l.health(ctx)
	if err != nil {
		return err
	}
	if l.json {
		all := s.Queues
		s.Queues = nil
		err := l.row("status", s)
		for i := 0; i < len(all) && err == nil && s.Silent == ""; i++ {
			err = l.row("queue", all[i])
		}
		return err
	}
	t := l.table("EXECUTOR", tame(l.Args().First()))
	t.row("trouble", cmp.Or(tame(s.Trouble), "none"))
	t.row("paused", yesNo(s.Paused))
	t.row("workers", fmt.Sprintf("%d: %d busy, %d stuck", s.Workers, s.Busy, s.Stuck))
	t.row("backlog", count(s.Total().Payloads, "payload", "payloads"))
	t.row("commit", "under way for "+span(s.Journal.CommitAge))
	if err := t.end(); err != nil {
		return err
	}
	if s.Silent != "" {
		l.printf("\nThe shards do not say how the queues are: %s. strand running DIR -stack asks none of them.\n", tame(s.Silent))
		return nil
	}
	l.printf("\n")
	t = l.table("QUEUE", "PAUSED", "JOBS", "RUNNING", "RETRYING", "PARKED", "HALTED", "LAG", "AGE", "MORGUE")
	for _, q := range s.Queues {
		row := []string{show([]byte(q.Name)), yesNo(q.Paused)}
		for _, n := range []int{q.Jobs, q.Running, q.Retrying, q.Parked, q.Halted} {
			row = append(row, strconv.Itoa(n))
		}
		t.row(append(row, span(q.Lag), span(q.Age), strconv.Itoa(q.Dead))...)
	}
	if err := t.end(); err != nil {
		return err
	}
	return l.aside(s.Queues)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func runningFlags() []cli.Flag {
	return append(listFlags(), &cli.BoolFlag{Name: "stack", Usage: "with the stacks of their handlers"})
}

// mostRunning is how many workers an answer has.
const mostRunning = inspect.MaxListLimit

func runningLive(ctx context.Context, l *live) error {
	list, err := ask[inspect.RunningList](ctx, l, control.VerbRunning, inspect.RunningQuery{
		Queue: l.String("queue"), Stacks: l.Bool("stack"), Limit: min(l.limit(), mostRunning),
	})
	if err != nil {
		return err
	}
	if l.json {
		for _, r := range list.Running {
			if err := l.row("running", r); err != nil {
				return err
			}
		}
		return nil
	}
	t := l.table("WORKER", "QUEUE", "ID", "ATTEMPT", "FOR", "POSITION", "PAYLOADS", "SAYS")
	for _, r := range list.Running {
		age, said := span(r.Age), says(&r)
		for _, j := range r.Jobs {
			t.row(strconv.Itoa(r.Worker), show([]byte(r.Queue)), show([]byte(j.ID)), strconv.Itoa(j.Attempt), age, fmt.Sprint(j.Position),
				strconv.Itoa(j.Payloads), said)
			age, said = "", "-" // with the first job of a worker
		}
	}
	if err := t.end(); err != nil {
		return err
	}
	l.printf("\n%s at work\n", count(len(list.Running)+list.More, "worker", "workers"))
	if list.More > 0 {
		l.printf("%d of them are not shown\n", list.More)
	}
	for _, r := range list.Running {
		if r.Stack != "" {
			l.printf("\nworker %d:\n", r.Worker)
			for line := range strings.Lines(r.Stack) {
				l.printf("%s\n", tame(strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "    ")))
			}
		}
	}
	return nil
}

// says is what there is to say of a worker: what its handler does.
func says(r *inspect.Running) string {
	var said []string
	if r.Stuck {
		said = append(said, "stuck")
	}
	if p := r.Progress; p != nil {
		said = append(said, fmt.Sprintf("%d of %d", p.Done, p.Total))
		if p.Message != "" {
			said = append(said, showStart([]byte(p.Message), "-json"))
		}
	}
	return cmp.Or(strings.Join(said, ", "), "-")
}

func explainLive(ctx context.Context, l *live) error {
	e, err := ask[inspect.Explanation](ctx, l, control.VerbExplain, control.One{Queue: l.Args().Get(1), ID: l.Args().Get(2)})
	switch {
	case err != nil:
		return err
	case l.json:
		return l.row("explain", e)
	}
	l.printf("%s\n", tame(e.String()))
	return nil
}

func eventsFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "queue", Usage: "only these `QUEUE`s"},
		&cli.StringSliceFlag{Name: "kind", Usage: "only these `KIND`s: accepted, started, done, failed, buried, …"},
		&cli.StringFlag{Name: "after", Usage: "go on behind the event with this `TOKEN`"},
		&cli.IntFlag{Name: "limit", Usage: "end after `N` events, 0 is never", Validator: notBelowZero},
	}
}

// happened is an event, or says how many were lost to this reader before it.
type happened struct {
	events.Event
	Missed string `wire:",omit"`
}

// errEnough ends a list of events.
var errEnough = errors.New("enough")

func eventsLive(ctx context.Context, l *live) error {
	query := events.Filter{Queues: l.StringSlice("queue"), After: l.String("after")}
	for _, name := range l.StringSlice("kind") {
		query.Kinds = append(query.Kinds, events.Kind(name))
	}
	n := l.Int("limit")
	err := control.Follow(ctx, l.client, control.VerbEvents, query, func(e happened) error {
		if err := l.event(&e); err != nil {
			return err
		}
		if n--; n == 0 {
			return errEnough
		}
		return l.Flush() // somebody watches
	})
	if errors.Is(err, errEnough) || ctx.Err() != nil {
		return nil // the person has seen it
	}
	return err
}

func (l *live) event(e *happened) error {
	switch {
	case l.json && e.Missed != "":
		return l.row("missed", struct{ Missed string }{e.Missed})
	case l.json:
		return l.row("event", e)
	case e.Missed != "":
		l.printf("%s\n", tame(e.Missed))
		return nil
	}
	l.printf("%s  %-11s  %s %s", timeText(e.Time.UnixNano()), e.Kind, show([]byte(e.Queue)), show([]byte(e.ID)))
	if e.Attempt > 0 {
		l.printf("  attempt %d", e.Attempt)
	}
	if e.Duration > 0 {
		l.printf("  after %s", span(e.Duration))
	}
	if e.Error != "" {
		l.printf("  %s", showStart([]byte(e.Error), "-json"))
	}
	l.printf("\n")
	return nil
}
