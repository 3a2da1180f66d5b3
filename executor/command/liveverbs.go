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
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/control"
)

func statusLive(ctx context.Context, l *live) error {
	s, err := l.health(ctx)
	if err != nil {
		return err
	}
	if l.json {
		all := s.Queues
		if s.Queues = nil; s.Silent != "" {
			all = nil
		}
		l.row("status", s)
		for _, q := range all {
			l.row("queue", q)
		}
		return nil
	}
	l.facts("EXECUTOR", [][2]string{
		{"trouble", cmp.Or(tame(s.Trouble), "none")},
		{"paused", yesNo(s.Paused)},
		{"workers", fmt.Sprintf("%d: %d busy, %d stuck", s.Workers, s.Busy, s.Stuck)},
		{"backlog", brief.Count(s.Total().Payloads, "payload", "payloads")},
		{"commit", "under way for " + span(s.Journal.CommitAge)},
	})
	if s.Silent != "" {
		l.printf("\nThe shards do not say how the queues are: %s. strand running DIR -stack asks none of them.\n", tame(s.Silent))
		return nil
	}
	l.printf("\n")
	t := l.table("", "QUEUE", "PAUSED", "JOBS", "RUNNING", "RETRYING", "PARKED", "HALTED", "LAG", "AGE", "MORGUE").begin()
	for _, q := range s.Queues {
		t.row(nil, show([]byte(q.Name)), pausedOf(&q), strconv.Itoa(q.Jobs), strconv.Itoa(q.Running), strconv.Itoa(q.Retrying),
			strconv.Itoa(q.Parked), strconv.Itoa(q.Halted), span(q.Lag), span(q.Age), strconv.Itoa(q.Dead))
	}
	t.end()
	l.aside(s.Queues)
	return nil
}

// pausedOf is what is paused of a queue: all of it, or so many ids and prefixes of ids.
func pausedOf(q *inspect.QueueStats) string {
	if q.Paused || q.PausedIDs+q.PausedPrefixes == 0 {
		return yesNo(q.Paused)
	}
	return brief.Count(q.PausedIDs, "id", "ids") + ", " + brief.Count(q.PausedPrefixes, "prefix", "prefixes")
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

func runningLive(ctx context.Context, l *live) error {
	list, err := ask[inspect.RunningList](ctx, l, control.VerbRunning, inspect.RunningQuery{
		Queue: l.String("queue"), Stacks: l.Bool("stack"), Limit: min(l.limit(), inspect.MaxListLimit),
	})
	if err != nil {
		return err
	}
	if l.json {
		for _, r := range list.Running {
			l.row("running", r)
		}
		return nil
	}
	t := l.table("", "WORKER", "QUEUE", "ID", "ATTEMPT", "FOR", "POSITION", "PAYLOADS", "SAYS").begin()
	for _, r := range list.Running {
		age, said := span(r.Age), says(&r)
		for _, j := range r.Jobs {
			t.row(nil, strconv.Itoa(r.Worker), show([]byte(r.Queue)), show([]byte(j.ID)), strconv.Itoa(j.Attempt), age, fmt.Sprint(j.Position),
				strconv.Itoa(j.Payloads), said)
			age, said = "", "-" // with the first job of a worker
		}
	}
	t.end()
	l.printf("\n%s at work\n", brief.Count(len(list.Running)+list.More, "worker", "workers"))
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
	if err == nil {
		l.say("explain", e, "%s\n", tame(e.String()))
	}
	return err
}

func eventsFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "queue", Usage: "only these `QUEUE`s"},
		&cli.StringSliceFlag{Name: "kind", Usage: "only these `KIND`s: accepted, started, done, failed, buried, …"},
		&cli.StringFlag{Name: "after", Usage: "go on behind the event with this `TOKEN`"},
		&cli.IntFlag{Name: "limit", Usage: "end after `N` events, 0 is never", Validator: notBelowZero},
	}
}

// errEnough ends a list of events.
var errEnough = errors.New("enough")

func eventsLive(ctx context.Context, l *live) error {
	query := events.Filter{Queues: l.StringSlice("queue"), After: l.String("after")}
	for _, name := range l.StringSlice("kind") {
		query.Kinds = append(query.Kinds, events.Kind(name))
	}
	n := l.Int("limit")
	err := control.Follow(ctx, l.client, control.VerbEvents, query, func(e control.Event) error {
		l.event(&e)
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

func (l *live) event(e *control.Event) {
	switch {
	case e.Missed != "":
		l.say("missed", struct{ Missed string }{e.Missed}, "%s\n", tame(e.Missed))
		return
	case l.json:
		l.row("event", e)
		return
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
}
