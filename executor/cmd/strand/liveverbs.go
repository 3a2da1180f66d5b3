package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/strandjobs/strand/executor/internal/control"
)

// health is how an executor is, in JSON.
type health struct {
	Type      string `json:"type"`
	Trouble   text   `json:"trouble,omitempty"`
	Workers   int    `json:"workers"`
	Busy      int    `json:"busy"`
	Stuck     int    `json:"stuck"`
	Paused    bool   `json:"paused"`
	Payloads  int    `json:"payloads"`
	CommitAge int64  `json:"commit_age_ns"`
	Silent    text   `json:"silent,omitempty"` // why there are no figures of queues
}

// queueHealth is how one of its queues is.
type queueHealth struct {
	Type       string `json:"type"`
	Queue      text   `json:"queue"`
	Registered bool   `json:"registered"`
	Paused     bool   `json:"paused"`
	Jobs       int    `json:"jobs"`
	Running    int    `json:"running"`
	Parked     int    `json:"parked"`
	Halted     int    `json:"halted"`
	Morgue     int    `json:"morgue"`
	Lag        int64  `json:"lag_ns"`
	Age        int64  `json:"age_ns"`
}

func statusLive(ctx context.Context, l *live) error {
	s, _, err := l.status(ctx)
	if err != nil {
		return err
	}
	if l.json {
		if err := l.object(health{"status", text(s.Trouble), s.Workers, s.Busy, s.Stuck, s.Paused, s.Payloads, s.CommitAge, text(s.Silent)}); err != nil {
			return err
		}
		for _, q := range s.Queues {
			if s.Silent != "" {
				break
			}
			if err := l.object(queueHealth{"queue", q.Name, q.Registered, q.Paused, q.Jobs, q.Running, q.Parked, q.Halted, q.Dead, q.Lag, q.Age}); err != nil {
				return err
			}
		}
		return nil
	}
	trouble := "none"
	if s.Trouble != "" {
		trouble = tame(s.Trouble)
	}
	t := l.table("EXECUTOR", tame(l.Args().First()))
	t.row("trouble", trouble)
	t.row("paused", yesNo(s.Paused))
	t.row("workers", fmt.Sprintf("%d: %d busy, %d stuck", s.Workers, s.Busy, s.Stuck))
	t.row("backlog", count(s.Payloads, "payload", "payloads"))
	t.row("commit", "under way for "+span(time.Duration(s.CommitAge)))
	if err := t.end(); err != nil {
		return err
	}
	if s.Silent != "" {
		l.printf("\nThe shards do not say how the queues are: %s. strand running DIR -stack asks none of them.\n", tame(s.Silent))
		return nil
	}
	l.printf("\n")
	t = l.table("QUEUE", "PAUSED", "JOBS", "RUNNING", "PARKED", "HALTED", "LAG", "AGE", "MORGUE")
	for _, q := range s.Queues {
		t.row(show(q.Name), yesNo(q.Paused), strconv.Itoa(q.Jobs), strconv.Itoa(q.Running), strconv.Itoa(q.Parked), strconv.Itoa(q.Halted),
			span(time.Duration(q.Lag)), span(time.Duration(q.Age)), strconv.Itoa(q.Dead))
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

// atWork is what a worker has in hand, in JSON.
type atWork struct {
	Type    string   `json:"type"`
	Queue   text     `json:"queue"`
	Worker  int      `json:"worker"`
	Since   moment   `json:"since"`
	Age     int64    `json:"age_ns"`
	Stuck   bool     `json:"stuck,omitempty"`
	Done    int64    `json:"done,omitempty"`
	Total   int64    `json:"total,omitempty"`
	Message text     `json:"message,omitempty"`
	Jobs    []inHand `json:"jobs"`
	More    int      `json:"more_jobs,omitempty"`
	Stack   text     `json:"stack,omitempty"`
}

type inHand struct {
	ID       text   `json:"id"`
	Attempt  int    `json:"attempt"`
	Position uint64 `json:"position"`
	Payloads int    `json:"payloads"`
}

// mostRunning is how many workers an answer has.
const mostRunning = 1000

func runningLive(ctx context.Context, l *live) error {
	list, err := ask[control.RunningList](ctx, l, control.VerbRunning, control.RunningQuery{
		Queue: []byte(l.String("queue")), Stacks: l.Bool("stack"), Limit: min(l.limit(), mostRunning),
	})
	if err != nil {
		return err
	}
	if l.json {
		for i := range list.Running {
			if err := l.object(newAtWork(&list.Running[i])); err != nil {
				return err
			}
		}
		return nil
	}
	t := l.table("WORKER", "QUEUE", "ID", "ATTEMPT", "FOR", "POSITION", "PAYLOADS", "SAYS")
	for i := range list.Running {
		r := &list.Running[i]
		for n, j := range r.Jobs {
			age := ""
			if n == 0 {
				age = span(time.Duration(r.Age))
			}
			t.row(strconv.Itoa(r.Worker), show(r.Queue), show(j.ID), strconv.Itoa(j.Attempt), age, fmt.Sprint(j.Position), strconv.Itoa(j.Payloads), says(r, n))
		}
	}
	if err := t.end(); err != nil {
		return err
	}
	l.printf("\n%s at work\n", count(len(list.Running)+list.More, "worker", "workers"))
	if list.More > 0 {
		l.printf("%d of them are not shown\n", list.More)
	}
	for i := range list.Running {
		if r := &list.Running[i]; r.Stack != "" {
			l.printf("\nworker %d:\n", r.Worker)
			for line := range strings.Lines(r.Stack) {
				l.printf("%s\n", tame(strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "    ")))
			}
		}
	}
	return nil
}

func newAtWork(r *control.Running) *atWork {
	a := &atWork{
		Type: "running", Queue: r.Queue, Worker: r.Worker, Since: moment(r.Since), Age: r.Age, Stuck: r.Stuck, Message: r.Message, More: r.More,
		Stack: text(r.Stack),
	}
	if r.Progress != nil {
		a.Done, a.Total = r.Progress[0], r.Progress[1]
	}
	for _, j := range r.Jobs {
		a.Jobs = append(a.Jobs, inHand{j.ID, j.Attempt, j.Position, j.Payloads})
	}
	return a
}

// says is what there is to say of the first job of a worker: what its handler does.
func says(r *control.Running, n int) string {
	var said []string
	if n == 0 && r.Stuck {
		said = append(said, "stuck")
	}
	if n == 0 && r.Progress != nil {
		said = append(said, fmt.Sprintf("%d of %d", r.Progress[0], r.Progress[1]))
	}
	if n == 0 && len(r.Message) > 0 {
		said = append(said, showStart(r.Message, "-json"))
	}
	if len(said) == 0 {
		return "-"
	}
	return strings.Join(said, ", ")
}

// reason is why a job does not run, in JSON.
type reason struct {
	Type      string   `json:"type"`
	Queue     text     `json:"queue"`
	ID        text     `json:"id"`
	State     string   `json:"state"`
	Due       *moment  `json:"due,omitempty"`
	Attempt   int      `json:"attempt"`
	LastError text     `json:"last_error,omitempty"`
	Payloads  int      `json:"payload_count"`
	Morgue    int      `json:"morgue,omitempty"`
	Paused    []string `json:"paused,omitempty"`
	Behind    text     `json:"behind,omitempty"`
	Waits     []text   `json:"waits_for,omitempty"`
	More      int      `json:"more,omitempty"`
}

func explainLive(ctx context.Context, l *live) error {
	queue, id := []byte(l.Args().Get(1)), []byte(l.Args().Get(2))
	e, err := ask[control.Explanation](ctx, l, control.VerbExplain, control.One{Queue: queue, ID: id})
	if err != nil {
		return err
	}
	if !l.json {
		l.printf("%s\n", tame(e.Text))
		return nil
	}
	r := reason{"explain", queue, id, e.State, nil, e.Attempt, e.LastError, e.Payloads, e.Dead, e.Paused, e.Behind, nil, e.More}
	if e.Due != 0 {
		r.Due = new(moment(e.Due))
	}
	for _, w := range e.Waits {
		r.Waits = append(r.Waits, text(w))
	}
	return l.object(r)
}

func eventsFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "queue", Usage: "only these `QUEUE`s"},
		&cli.StringSliceFlag{Name: "kind", Usage: "only these `KIND`s: accepted, started, done, failed, buried, …"},
		&cli.StringFlag{Name: "after", Usage: "go on behind the event with this `TOKEN`"},
		&cli.IntFlag{Name: "limit", Usage: "end after `N` events, 0 is never", Validator: notBelowZero},
	}
}

// happened is an event in JSON.
type happened struct {
	Type     string `json:"type"`
	Kind     string `json:"kind"`
	At       moment `json:"at"`
	Queue    text   `json:"queue"`
	ID       text   `json:"id"`
	Position uint64 `json:"position,omitempty"`
	Payloads int    `json:"payload_count,omitempty"`
	Attempt  int    `json:"attempt,omitempty"`
	Took     int64  `json:"took_ns,omitempty"`
	Delay    int64  `json:"delay_ns,omitempty"`
	Error    text   `json:"error,omitempty"`
	Done     int64  `json:"done,omitempty"`
	Total    int64  `json:"total,omitempty"`
	Token    string `json:"token"`
}

// missed says that events were lost to this reader.
type missed struct {
	Type   string `json:"type"`
	Missed string `json:"missed"`
}

// errEnough ends a list of events.
var errEnough = errors.New("enough")

func eventsLive(ctx context.Context, l *live) error {
	query := control.EventsQuery{Kinds: l.StringSlice("kind"), After: l.String("after")}
	for _, q := range l.StringSlice("queue") {
		query.Queues = append(query.Queues, []byte(q))
	}
	n := l.Int("limit")
	err := control.Follow(ctx, l.client, control.VerbEvents, query, func(e control.Event) error {
		if err := l.event(&e); err != nil {
			return err
		}
		if n--; n == 0 {
			return errEnough
		}
		return l.flush() // somebody watches
	})
	if errors.Is(err, errEnough) || ctx.Err() != nil {
		return nil // the person has seen it
	}
	return err
}

func (l *live) event(e *control.Event) error {
	switch {
	case l.json && e.Missed != "":
		return l.object(missed{"missed", e.Missed})
	case l.json:
		return l.object(happened{
			"event", e.Kind, moment(e.Time), e.Queue, e.ID, e.Position, e.Payloads, e.Attempt, e.Took, e.Delay, e.Error, e.Done, e.Total, e.Token,
		})
	case e.Missed != "":
		l.printf("%s\n", tame(e.Missed))
		return nil
	}
	l.printf("%s  %-11s  %s %s", timeText(e.Time), e.Kind, show(e.Queue), show(e.ID))
	if e.Attempt > 0 {
		l.printf("  attempt %d", e.Attempt)
	}
	if e.Took > 0 {
		l.printf("  after %s", span(time.Duration(e.Took)))
	}
	if len(e.Error) > 0 {
		l.printf("  %s", showStart(e.Error, "-json"))
	}
	l.printf("\n")
	return nil
}
