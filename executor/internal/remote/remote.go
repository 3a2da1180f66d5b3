// Package remote answers what the strand command asks of a process that runs, over the socket
// of package control. It shows and does nothing that an [inspect.Inspector] would not; some of
// it with more figures, so that the command prints what it prints of a journal at rest.
//
// It needs who looks and who acts, and of the executor itself little. Any number of calls may be
// under way at a time; control bounds them, and what they answer. Census: see control, and Listen.
package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/look"
	"github.com/strandjobs/strand/executor/internal/tell"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Config says who answers.
type Config struct {
	Executor
	inspect.Inspector
	Look   *look.Inspector
	Read   func(context.Context, events.Filter) (*tell.Reader, error)
	Dir    string // as the process has opened it
	Logger *slog.Logger

	Starting func() bool // it has not begun to run jobs
}

// Executor is what is asked of an executor itself.
type Executor interface {
	Err() error
	Copy(ctx context.Context, dir string) error
	Compact(ctx context.Context) error
}

// Listen answers on the socket of the journal in Config.Dir, and returns what ends that. On a full
// disk, where what makes room has to run, a goroutine tries again each second until then.
func Listen(cfg Config) (end func(), err error) {
	l, err := control.Listen(cfg.Dir)
	if err == nil {
		return serve(l, cfg).Close, nil
	}
	if !full(err) {
		return nil, err
	}
	cfg.Logger.Warn("there is no control socket until there is room: the disk is full", slog.String("dir", cfg.Dir), slog.Any("error", err))
	var later sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	later.Go(func() { listenLater(ctx, cfg) })
	return func() { cancel(); later.Wait() }, nil
}

func full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// listenLater tries again until there is a socket, and answers on it until ctx ends.
func listenLater(ctx context.Context, cfg Config) {
	for told := false; ctx.Err() == nil; {
		l, err := control.Listen(cfg.Dir)
		switch {
		case err == nil:
			defer serve(l, cfg).Close()
			cfg.Logger.Info("there is a control socket now: the disk has room", slog.String("dir", cfg.Dir))
			<-ctx.Done()
		case !full(err) && !told:
			told = true
			cfg.Logger.Warn("there is no control socket", slog.String("dir", cfg.Dir), slog.Any("error", err))
		}
		pause, over := context.WithTimeout(ctx, time.Second)
		<-pause.Done()
		over()
	}
}

// serve answers on l until the server is closed.
func serve(l net.Listener, cfg Config) *control.Server {
	c := &cfg
	s := &control.Server{
		Hello: control.Hello{PID: os.Getpid(), Dir: c.Dir},
		Looks: map[string]control.Handler{
			control.VerbInspect: control.Verb(c.inspect),
			control.VerbStatus:  control.Verb(c.status),
			control.VerbJobs:    control.Verb(c.jobs),
			control.VerbJob:     control.Verb(c.job),
			control.VerbDead:    control.Verb(c.dead),
			control.VerbExplain: control.Verb(func(ctx context.Context, one control.One) (inspect.Explanation, error) {
				return c.Look.Explain(ctx, one.Queue, one.ID)
			}),
			control.VerbRunning: control.Verb(c.Look.Running),
		},
		Acts: map[string]control.Handler{control.VerbAct: control.Verb(c.act)},
		Chores: map[string]control.Handler{
			control.VerbCopy:    control.Verb(c.copy),
			control.VerbCompact: control.Verb(c.compact),
		},
		Streams: map[string]control.Stream{control.VerbEvents: c.events},
		Panicked: func(v any, stack []byte) {
			c.Logger.Error("a call over the control socket panicked", slog.Any("panic", v), slog.String("stack", string(stack)))
		},
	}
	s.Serve(l)
	return s
}

func (c *Config) inspect(ctx context.Context, _ control.None) (control.Figures, error) {
	a := control.Figures{Journal: c.Look.Log.Info()}
	s, err := c.stats(ctx)
	for i := 0; i < len(s.Queues) && err == nil; i++ {
		a.Queues = append(a.Queues, control.Census{QueueStats: s.Queues[i]})
		if s.Queues[i].Registered {
			err = c.census(ctx, &a.Queues[i])
		}
	}
	return a, err
}

// stats are those of all queues that the journal knows.
func (c *Config) stats(ctx context.Context) (inspect.Stats, error) {
	s, err := c.Look.Stats(ctx)
	if err == nil {
		s.Queues = append(s.Queues, c.names(s.Queues)...)
		slices.SortFunc(s.Queues, func(a, b inspect.QueueStats) int { return strings.Compare(a.Name, b.Name) })
	}
	return s, err
}

// names are the queues that the journal knows beside some, without what their shards count.
func (c *Config) names(beside []inspect.QueueStats) (list []inspect.QueueStats) {
	for name, number := range c.Look.Log.Queues() {
		if slices.ContainsFunc(beside, func(q inspect.QueueStats) bool { return q.Name == name }) {
			continue
		}
		_, unknown := c.Look.Lookup(name)
		list = append(list, inspect.QueueStats{Name: name, Registered: unknown == nil, Dead: c.Look.Log.Buried(number), Paused: c.Look.Pauses.Of(name)})
	}
	return list
}

// census counts the jobs of a queue as a journal at rest has them: none of them runs.
func (c *Config) census(ctx context.Context, to *control.Census) error {
	ctx, q, err := c.Look.Queue(ctx, to.Name)
	if err != nil {
		return err
	}
	now := c.Look.Now()
	to.Fresh, to.Retrying, to.Halted = 0, 0, 0
	w := look.NewWalk(q)
	w.Want = func(v *shard.View) bool { // on one shard after the other; after an error nobody asks
		switch {
		case v.Halted:
			to.Halted++
			return false
		case v.Retry >= 0:
			to.Retrying++
		default:
			to.Fresh++
		}
		if v.Due <= now {
			to.Due++
		}
		return false
	}
	err = w.All(ctx)
	to.Jobs, to.Delayed = to.Fresh+to.Retrying+to.Halted, to.Fresh+to.Retrying-to.Due
	return err
}

// silence is how long status waits for the shards.
const silence = 2 * time.Second

// status answers also when no shard does, or the disk does not: then a person asks.
func (c *Config) status(ctx context.Context, _ control.None) (a control.Health, _ error) {
	x := c.Look
	if err := c.Err(); err != nil {
		a.Trouble = err.Error()
	} else if c.Starting() {
		a.Trouble = "it is starting: jobs do not run yet, and those of a queue count when it is registered"
	}
	short, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	var err error
	if a.Stats, err = c.stats(short); err != nil {
		a.Stats = inspect.Stats{Stuck: x.Watchdog.Stuck(), Journal: inspect.JournalStats{CommitAge: x.Log.Stats().CommitAge}, Queues: c.names(nil)}
		a.Workers, a.Busy = x.Dispatcher.Load()
		a.Paused = x.Pauses.Of("")
		a.Silent = err.Error()
	}
	return a, nil
}

func (c *Config) events(ctx context.Context, request func(v any) error, send func(line any) error) error {
	var f events.Filter
	if err := request(&f); err != nil {
		return err
	}
	r, err := c.Read(ctx, f)
	if err == nil {
		err = send(nil) // from here on it sees all
	}
	if err != nil {
		return err
	}
	r.Each(func(e events.Event, missed error) bool {
		line := control.Event{Event: e}
		if missed != nil {
			line = control.Event{Missed: missed.Error()}
		}
		err = send(line)
		return err == nil
	})
	return err
}

// act answers with how many were affected also when it went wrong after them.
func (c *Config) act(ctx context.Context, a admin.Act) (did admin.Affected, err error) {
	which, err := a.Selection()
	if err == nil {
		did.Requeued, err = c.Act(ctx, a.Do, which, a.Reason)
	}
	if err != nil && did.Back > 0 {
		did.Trouble, err = err.Error(), nil
	}
	return did, err
}

func (c *Config) copy(ctx context.Context, to control.Copy) (control.None, error) {
	switch {
	case to.To == "":
		return control.None{}, fmt.Errorf("%w: to is missing", inspect.ErrInvalidQuery)
	case !filepath.IsAbs(to.To):
		return control.None{}, fmt.Errorf("%w: the directory for the copy is %q; it must be absolute", inspect.ErrInvalidQuery, brief.Clip(to.To))
	}
	return control.None{}, c.Copy(ctx, to.To)
}

func (c *Config) compact(ctx context.Context, _ control.None) (a control.Compacted, err error) {
	a.Before = c.Look.Log.Info().FileBytes
	err = c.Compact(ctx)
	a.After = c.Look.Log.Info().FileBytes
	return a, err
}

// What an answer over the socket has at most, beside its rows.
const (
	answerBytes    = 1 << 20 // of payloads, or one of them; and of an error
	answerPayloads = 20_000  // that are looked at to say how large jobs are
	jobPayloads    = 1000    // of these, of one job
)

func (c *Config) jobs(ctx context.Context, query inspect.JobQuery) (a control.Jobs, err error) {
	limit := query.Limit
	if limit < 1 || limit > control.MaxRows {
		return a, fmt.Errorf("%w: the limit is %d, it must be from 1 to %d", inspect.ErrInvalidQuery, limit, control.MaxRows)
	}
	ctx, q, err := c.Look.Queue(ctx, query.Queue)
	if err != nil {
		return a, err
	}
	query.Order = inspect.OrderDue
	page, err := c.Look.Page(ctx, query)
	room := answerPayloads
	for i := 0; i < len(page.Jobs) && err == nil; i++ {
		row := control.Job{JobInfo: page.Jobs[i], TotalBytes: int64(page.Jobs[i].Bytes), BytesAtLeast: page.Jobs[i].Payloads > 1}
		admin.Hide(&row.PayloadInfo)
		if row.BytesAtLeast && room > 0 {
			err = c.Look.Paced(ctx, func() (time.Duration, error) {
				began := time.Now()
				d, err := q.Detail(ctx, row.ID, min(room, jobPayloads), new(look.Room))
				room -= weigh(&row, &d)
				return time.Since(began), err
			})
		}
		a.Jobs = append(a.Jobs, row)
	}
	a.Next = page.Next
	return a, err
}

// weigh adds up the bytes of the payloads that a detail has, and returns how many those are.
func weigh(r *control.Job, d *inspect.JobDetail) int {
	all := slices.Concat(d.InHand, d.Waiting)
	r.TotalBytes, r.BytesAtLeast = 0, d.More > 0
	for _, p := range all {
		r.TotalBytes += int64(p.Bytes)
	}
	return len(all)
}

func (c *Config) job(ctx context.Context, one control.One) (a control.Whole, err error) {
	ctx, q, err := c.Look.Queue(ctx, one.Queue)
	if err == nil {
		err = engine.CheckID(one.ID)
	}
	if err != nil {
		return a, err
	}
	d, err := q.Detail(ctx, one.ID, jobPayloads, &look.Room{Left: answerBytes})
	if err != nil || d.State == "" {
		return a, err
	}
	a.JobInfo, a.Failures = d.JobInfo, d.Failures
	admin.Hide(&a.PayloadInfo)
	weigh(&a.Job, &d)
	unshown := func(p inspect.PayloadInfo) bool { return p.Raw == nil }
	a.InHand, a.Waiting = slices.DeleteFunc(d.InHand, unshown), slices.DeleteFunc(d.Waiting, unshown)
	why, err := c.Look.Explain(ctx, one.Queue, one.ID)
	a.Why = why.String()
	return a, err
}

func (c *Config) dead(ctx context.Context, query control.DeadQuery) (a control.DeadLetters, err error) {
	if ctx, err = guard.Context(ctx); err != nil {
		return a, err
	}
	number, known := c.Look.Log.Queues()[query.Queue]
	if !known {
		return a, fmt.Errorf("%w: the journal has none called %q", engine.ErrUnknownQueue, brief.Clip(query.Queue))
	}
	ids := make(map[string]bool)
	for _, id := range query.IDs {
		ids[id] = true
	}
	room, examined := look.Room{Left: answerBytes}, 0
	err = c.Look.EachDead(ctx, number, journal.Position(query.From), func(b *journal.Buried) bool {
		if examined++; examined > look.MaxExamined || len(a.Dead) == control.MaxDead {
			a.Next = uint64(b.Entry.Position)
			return false
		}
		if len(ids) > 0 && !ids[string(b.Entry.ID)] {
			return true
		}
		d := room.DeadPayload(query.Queue, b, answerBytes)
		room.Left = max(room.Left-len(d.Error)-len(b.History), 0)
		if d.Raw == nil { // it is the first of the next page
			a.Next = uint64(b.Entry.Position)
			return false
		}
		a.Dead = append(a.Dead, d)
		return true
	})
	return a, err
}
