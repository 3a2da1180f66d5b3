package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/executor/internal/each"
	"github.com/strandjobs/strand/journal"
)

// errAtRest is a command that needs a journal which no process has open.
var errAtRest = errors.New("it works only on a journal at rest")

// errNotRunning is a command that needs a process.
var errNotRunning = errors.New("no process has the journal open")

// answerTime is how long a process may take for an answer, and helloTime for the first.
const (
	answerTime = 2 * time.Minute
	helloTime  = 10 * time.Second
)

func aboveZero(d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("it is %v, and must be above zero", d)
	}
	return nil
}

func notBelowZero(n int) error {
	if n < 0 {
		return fmt.Errorf("it is %d, and must not be below zero", n)
	}
	return nil
}

// call carries a command out: on the journal, or if a process has that open, in it.
func (v verb) call(ctx context.Context, c *call) error {
	err := v.do(ctx, c)
	locked, ok := errors.AsType[*journal.LockedError](err)
	if !ok || c.Buffered() > 0 { // it was opened while we were at it
		return err
	}
	dir := c.Args().First()
	patience := cmp.Or(c.Duration("timeout"), answerTime)
	first := control.Connect(dir, min(helloTime, patience))
	defer first.Close()
	hello, failed := control.Call[control.Hello](ctx, first, control.VerbHello, control.None{})
	switch {
	case errors.Is(failed, control.ErrNobody):
		return err
	case failed != nil && locked.PID == 0: // not with err, which says what to do when nobody answers
		return fmt.Errorf("another process has the journal open; asked over its socket: %w", failed)
	case failed != nil:
		return fmt.Errorf("process %d has the journal open; asked over its socket: %w", locked.PID, failed)
	case locked.PID != 0 && hello.PID != locked.PID:
		return fmt.Errorf("%w; process %d answers on the socket there, which is another one", err, hello.PID)
	case v.live == nil:
		return fmt.Errorf("%w: strand %s: %w", err, v.name, errAtRest)
	}
	c.client = control.Connect(dir, patience)
	defer c.client.Close()
	return v.live(ctx, c)
}

// onlyLive sends a command on to the process that has the journal open.
func onlyLive(_ context.Context, c *call) error {
	dir := c.Args().First()
	_, err := os.Stat(dir)
	if err == nil {
		err = journal.InUse(dir)
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("strand %s asks a process, and this user may not see whether one has the journal open: %w; "+
			"call it as the user of that process, or as root", c.Name, err)
	case err != nil:
		return err
	}
	return fmt.Errorf("strand %s asks a process, and %w: %s", c.Name, errNotRunning, dir)
}

// queuesOf returns the queues of a process with a name, or all if there is none. silent is why of these only the
// names, and what is in the morgue, is known.
func queuesOf(ctx context.Context, process *control.Client, queue string) (list []inspect.QueueStats, silent, err error) {
	s, err := control.Call[control.Health](ctx, process, control.VerbStatus, control.None{})
	if err != nil {
		return nil, nil, err
	}
	if s.Silent != "" {
		silent = fmt.Errorf("the shards do not say how the queues are: %s", s.Silent)
	}
	var names []string
	for _, q := range s.Queues {
		if names = append(names, q.Name); queue == "" || queue == q.Name {
			list = append(list, q)
		}
	}
	return list, silent, known(names, queue)
}

// aside tells which queues the process has not registered: it knows only how much they
// have.
func aside(o *output, queues []inspect.QueueStats) {
	for _, q := range queues {
		if q.Registered || q.Unclaimed == 0 {
			continue
		}
		o.say("unregistered", struct {
			Queue    string
			Payloads int
		}{q.Name, q.Unclaimed}, "The process has not registered the queue %s, which has %s.\n", show([]byte(q.Name)), brief.Count(q.Unclaimed, "payload", "payloads"))
	}
}

func statusLive(ctx context.Context, c *call) error {
	s, err := control.Call[control.Health](ctx, c.client, control.VerbStatus, control.None{})
	if err != nil {
		return err
	}
	if c.json {
		all := s.Queues
		if s.Queues = nil; s.Silent != "" {
			all = nil
		}
		c.row("status", s)
		for _, q := range all {
			c.row("queue", q)
		}
		return nil
	}
	c.facts("EXECUTOR", c.Args().First(), [][2]string{
		{"trouble", cmp.Or(tame(s.Trouble), "none")},
		{"paused", yesNo[s.Paused]},
		{"workers", fmt.Sprintf("%d: %d busy, %d stuck", s.Workers, s.Busy, s.Stuck)},
		{"backlog", map[bool]string{false: brief.Count(s.Total().Payloads, "payload", "payloads"),
			true: "not known"}[s.Silent != ""]},
		{"commit", "under way for " + brief.Span(s.Journal.CommitAge)},
	})
	if s.Silent != "" {
		c.printf("\nThe shards do not say how the queues are: %s. strand running DIR -stack asks none of them.\n", tame(s.Silent))
		return nil
	}
	c.printf("\n")
	t := c.table("", "QUEUE", "PAUSED", "JOBS", "RUNNING", "RETRYING", "PARKED", "HALTED", "LAG", "AGE", "MORGUE").begin()
	for _, q := range s.Queues {
		t.row(nil, show([]byte(q.Name)), pausedOf(&q), strconv.Itoa(q.Jobs), strconv.Itoa(q.Running), strconv.Itoa(q.Retrying),
			strconv.Itoa(q.Parked), strconv.Itoa(q.Halted), brief.Span(q.Lag), brief.Span(q.Age), strconv.Itoa(q.Dead))
	}
	t.end()
	aside(c.output, s.Queues)
	return nil
}

// pausedOf is what is paused of a queue: all of it, or so many ids and prefixes of ids.
func pausedOf(q *inspect.QueueStats) string {
	if q.Paused || q.PausedIDs+q.PausedPrefixes == 0 {
		return yesNo[q.Paused]
	}
	return brief.Count(q.PausedIDs, "id", "ids") + ", " + brief.Count(q.PausedPrefixes, "prefix", "prefixes")
}

var yesNo = map[bool]string{true: "yes", false: "no"}

func runningLive(ctx context.Context, c *call) error {
	list, err := control.Call[inspect.RunningList](ctx, c.client, control.VerbRunning, inspect.RunningQuery{
		Queue: c.String("queue"), Stacks: c.Bool("stack"), Limit: min(c.limit(), brief.MaxRows),
	})
	if err != nil {
		return err
	}
	if c.json {
		for _, r := range list.Running {
			c.row("running", r)
		}
		if list.More > 0 {
			c.row("more", struct{ Workers int }{list.More})
		}
		return nil
	}
	t := c.table("", "WORKER", "QUEUE", "ID", "ATTEMPT", "FOR", "POSITION", "PAYLOADS", "SAYS").begin()
	for _, r := range list.Running {
		age, said := brief.Span(r.Age), says(&r)
		for _, j := range r.Jobs {
			t.row(nil, strconv.Itoa(r.Worker), show([]byte(r.Queue)), show([]byte(j.ID)), strconv.Itoa(j.Attempt), age, fmt.Sprint(j.Position),
				strconv.Itoa(j.Payloads), said)
			age, said = "", "-" // with the first job of a worker
		}
		if r.More > 0 {
			t.row(nil, "", "", fmt.Sprintf("+%d", r.More)) // more jobs of the worker
		}
	}
	t.end()
	c.printf("\n%s at work\n", brief.Count(len(list.Running)+list.More, "worker", "workers"))
	if list.More > 0 {
		c.printf("%d of them are not shown\n", list.More)
	}
	for _, r := range list.Running {
		if r.Stack != "" {
			c.printf("\nworker %d:\n", r.Worker)
			for line := range strings.Lines(r.Stack) {
				c.printf("%s\n", tame(strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "    ")))
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

func explainLive(ctx context.Context, c *call) error {
	e, err := control.Call[inspect.Explanation](ctx, c.client, control.VerbExplain, control.One{Queue: c.Args().Get(1), ID: c.Args().Get(2)})
	if err == nil {
		c.say("explain", e, "%s\n", tame(e.String()))
	}
	return err
}

// errEnough ends a list of events.
var errEnough = errors.New("enough")

func eventsLive(ctx context.Context, c *call) error {
	query := events.Filter{Queues: c.StringSlice("queue"), After: c.String("after")}
	query.Kinds = each.Of(c.StringSlice("kind"), func(name string) events.Kind { return events.Kind(name) })
	n := c.Int("limit")
	err := control.Follow(ctx, c.client, control.VerbEvents, query, func(e control.Event) error {
		text := fmt.Sprintf("%s  %-11s  %s %s", timeText(e.Time.UnixNano()), e.Kind, show([]byte(e.Queue)), show([]byte(e.ID)))
		if e.Attempt > 0 {
			text += fmt.Sprintf("  attempt %d", e.Attempt)
		}
		if e.Duration > 0 {
			text += "  after " + brief.Span(e.Duration)
		}
		if e.Error != "" {
			text += "  " + showStart([]byte(e.Error), "-json")
		}
		if e.Missed != "" {
			c.say("missed", struct{ Missed string }{e.Missed}, "%s\n", tame(e.Missed))
		} else {
			c.say("event", &e, "%s\n", text)
		}
		if n--; n == 0 {
			return errEnough
		}
		return c.Flush() // somebody watches
	})
	if errors.Is(err, errEnough) || ctx.Err() != nil {
		return nil // the person has seen it
	}
	return err
}
