package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/internal/backdoor"
	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// ErrControlSocket is returned by Open when Config.ControlSocket is set and there can't be
// one; the text says why, and what to do.
var ErrControlSocket = errors.New("executor: no control socket")

// openListening is openWith in a directory, with a socket in it if one is wanted.
func openListening(dir string, cfg Config, openLog func(journal.Config) (*journal.Log, error)) (*Executor, error) {
	x, err := openWith(dir, cfg, nil, openLog)
	if err != nil || !cfg.ControlSocket {
		return x, err
	}
	l, err := control.Listen(dir)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrControlSocket, err), x.log.Close())
	}
	c := &controls{x: x, i: x.Inspect()}
	x.control = &control.Server{
		Hello: control.Hello{PID: os.Getpid(), Dir: dir},
		Looks: map[string]control.Handler{
			control.VerbInspect: control.Verb(c.inspect),
			control.VerbStatus:  control.Verb(c.status),
			control.VerbJobs:    control.Verb(c.jobs),
			control.VerbJob:     control.Verb(c.job),
			control.VerbDead:    control.Verb(c.dead),
			control.VerbExplain: control.Verb(func(ctx context.Context, one control.One) (Explanation, error) {
				return x.Explain(ctx, one.Queue, one.ID)
			}),
			control.VerbRunning: control.Verb(c.i.Running),
		},
		Acts: map[string]control.Handler{
			control.VerbAct:   control.Verb(c.act),
			control.VerbPause: control.Verb(c.pause),
		},
		Chores: map[string]control.Handler{
			control.VerbCopy:    control.Verb(c.copy),
			control.VerbCompact: control.Verb(c.compact),
		},
		Streams: map[string]control.Stream{control.VerbEvents: c.events},
		Panicked: func(v any, stack []byte) {
			x.cfg.Logger.Error("a call over the control socket panicked", slog.Any("panic", v), slog.String("stack", string(stack)))
		},
	}
	x.control.Serve(l)
	return x, nil
}

// openElsewhere is openWith without a directory.
func openElsewhere(dir string, cfg Config, witness backdoor.Witness, openLog func(journal.Config) (*journal.Log, error)) (*Executor, error) {
	if cfg.ControlSocket {
		return nil, fmt.Errorf("%w: ControlSocket is set, and an executor in memory, or over a log of OpenLog, has no directory for it", ErrConfig)
	}
	return openWith(dir, cfg, witness, openLog)
}

// controls are what the strand command asks for. It shows and does nothing that the
// Inspector would not; some of it with more figures, so that the command prints what it
// prints of a journal at rest.
type controls struct {
	x *Executor
	i *Inspector
}

// figures are those of the journal and of its queues.
type figures struct {
	Journal journal.Info
	Queues  []censusRow // all that the journal knows
}

type censusRow struct {
	QueueStats
	Due int // jobs that are due, but for those that are halted
}

func (c *controls) inspect(ctx context.Context, _ control.None) (figures, error) {
	a := figures{Journal: c.x.log.Info()}
	s, err := c.stats(ctx)
	for i := 0; i < len(s.Queues) && err == nil; i++ {
		a.Queues = append(a.Queues, censusRow{QueueStats: s.Queues[i]})
		if s.Queues[i].Registered {
			err = c.census(ctx, &a.Queues[i])
		}
	}
	return a, err
}

// stats are those of all queues that the journal knows.
func (c *controls) stats(ctx context.Context) (Stats, error) {
	s, err := c.x.Stats(ctx)
	if err == nil {
		s.Queues = append(s.Queues, c.names(s.Queues)...)
		slices.SortFunc(s.Queues, func(a, b QueueStats) int { return strings.Compare(a.Name, b.Name) })
	}
	return s, err
}

// names are the queues that the journal knows beside some, without what their shards count.
func (c *controls) names(beside []QueueStats) (list []QueueStats) {
	registered := make(map[string]bool)
	for _, q := range c.x.registered() {
		registered[q.name] = true
	}
	for name, number := range c.x.log.Queues() {
		if slices.ContainsFunc(beside, func(q QueueStats) bool { return q.Name == name }) {
			continue
		}
		all, one := c.x.pauses.Of(name)
		list = append(list, QueueStats{Name: name, Registered: registered[name], Dead: c.x.log.Buried(number), Paused: all || one})
	}
	return list
}

// census counts the jobs of a queue as a journal at rest has them: none of them runs.
func (c *controls) census(ctx context.Context, to *censusRow) error {
	q, err := c.x.lookup(to.Name)
	if err != nil {
		return err
	}
	now := c.x.clock().UnixNano()
	var all shard.Outlook
	w := newWalk(q)
	w.want = func(v *shard.View) bool { // on one shard after the other; after an error nobody asks
		switch {
		case v.State == shard.StateHalted:
			all.Halted++
			return false
		case v.Retry >= 0:
			all.Retrying++
		default:
			all.Fresh++
		}
		if v.Due <= now {
			all.Due++
		}
		return false
	}
	if err := w.all(ctx); err != nil {
		return err
	}
	to.Jobs, to.Fresh, to.Retrying, to.Halted, to.Due = all.Fresh+all.Retrying+all.Halted, all.Fresh, all.Retrying, all.Halted, all.Due
	return nil
}

// silence is how long status waits for the shards.
const silence = 2 * time.Second

// health is how the executor is.
type health struct {
	Stats
	Trouble string // what Executor.Err says
	Silent  string `wire:",omit"` // why shards did not say how the queues are
}

// status answers also when no shard does, or the disk does not: then a person asks.
func (c *controls) status(ctx context.Context, _ control.None) (a health, _ error) {
	x := c.x
	if err := x.Err(); err != nil {
		a.Trouble = err.Error()
	}
	short, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	var err error
	if a.Stats, err = c.stats(short); err != nil {
		a.Stats = Stats{Stuck: x.watchdog.Stuck(), Journal: JournalStats{CommitAge: x.log.Stats().CommitAge}, Queues: c.names(nil)}
		a.Workers, a.Busy = x.dispatcher.Load()
		a.Paused, _ = x.pauses.Of("")
		a.Silent = err.Error()
	}
	return a, nil
}

// eventLine is one line of a stream: an event, or how many were missed before it.
type eventLine struct {
	events.Event
	Missed string `wire:",omit"` // in words
}

func (c *controls) events(ctx context.Context, request func(v any) error, send func(line any) error) error {
	var f events.Filter
	if err := request(&f); err != nil {
		return err
	}
	r, err := c.x.reader(ctx, f)
	if err == nil {
		err = send(nil) // from here on it sees all
	}
	if err != nil {
		return err
	}
	r.Each(func(e events.Event, missed error) bool {
		if missed != nil {
			err = send(eventLine{Missed: missed.Error()})
		} else {
			err = send(eventLine{Event: e})
		}
		return err == nil
	})
	return err
}

func (c *controls) act(ctx context.Context, a control.Act) (control.Affected, error) {
	which, err := meant(a)
	if err != nil {
		return control.Affected{}, err
	}
	switch a.Do {
	case control.DoCancel:
		return affected(c.i.Cancel(ctx, which, a.Reason))
	case control.DoRequeue:
		back, err := c.i.Requeue(ctx, which)
		did, err := affected(back.Back, err)
		did.Superseded, did.Late, did.Unsure = back.Superseded, back.Late, back.Unsure
		return did, err
	}
	do := map[string]func(context.Context, Selection) (int, error){
		control.DoRun: c.i.RunNow, control.DoRetry: c.i.RetryNow, control.DoDelete: c.i.Delete, control.DoDeleteDead: c.i.DeleteDead,
		control.DoKillFailed: c.i.KillFailed, control.DoDeleteFailed: c.i.DeleteFailed,
	}[a.Do]
	if do != nil {
		return affected(do(ctx, which))
	}
	return control.Affected{}, fmt.Errorf("%w: there is nothing called %q to do", ErrInvalidQuery, clip(a.Do))
}

// meant returns what an action is about. All has to be said: a list that came out empty
// means nothing.
func meant(a control.Act) (Selection, error) {
	said := 0
	for _, is := range [...]bool{a.All, len(a.IDs) > 0, len(a.Positions) > 0} {
		if is {
			said++
		}
	}
	which := SelectQueue(a.Queue)
	switch {
	case a.Do == "":
		return which, fmt.Errorf("%w: do is missing", ErrInvalidQuery)
	case which.queue == "":
		return which, fmt.Errorf("%w: queue is missing", ErrInvalidQuery)
	case said == 0:
		return which, fmt.Errorf("%w: all, ids or positions is missing: which of queue %q are meant", ErrInvalidQuery, clip(which.queue))
	case said > 1:
		return which, fmt.Errorf("%w: it has to be one of all, ids and positions of queue %q", ErrInvalidQuery, clip(which.queue))
	case len(a.IDs) > 0:
		which = SelectIDs(which.queue, a.IDs...)
	case len(a.Positions) > 0 && a.Do != control.DoRequeue && a.Do != control.DoDeleteDead:
		return which, fmt.Errorf("%w: positions are for dead payloads, not to %.20q", ErrInvalidQuery, a.Do)
	}
	for _, p := range a.Positions {
		which.of = append(which.of, journal.Position(p))
	}
	slices.Sort(which.of)
	return which, nil
}

// affected is the answer also when something went wrong after so many.
func affected(n int, err error) (control.Affected, error) {
	if err != nil && n > 0 {
		return control.Affected{N: n, Trouble: err.Error()}, nil
	}
	return control.Affected{N: n}, err
}

func (c *controls) pause(ctx context.Context, p control.Pause) (a control.Affected, err error) {
	which := SelectPrefix(p.Queue, p.Prefix)
	switch {
	case p.All && (p.Queue != "" || p.IDs != nil || p.Prefix != ""):
		return a, fmt.Errorf("%w: all means the executor; queue, ids and prefix are not for it", ErrInvalidQuery)
	case p.All:
		return affected(c.x.pause(ctx, "", p.On))
	case p.Queue == "":
		return a, fmt.Errorf("%w: queue is missing; all means the executor", ErrInvalidQuery)
	case p.IDs != nil && (len(p.IDs) == 0 || p.Prefix != ""):
		return a, fmt.Errorf("%w: ids is empty, or beside prefix; without both the queue is meant", ErrInvalidQuery)
	case p.IDs != nil:
		which = SelectIDs(p.Queue, p.IDs...)
	}
	return affected(c.i.pause(ctx, which, p.On))
}

func (c *controls) copy(ctx context.Context, to control.Copy) (control.None, error) {
	if to.To == "" {
		return control.None{}, fmt.Errorf("%w: to is missing: the directory for the copy", ErrInvalidQuery)
	}
	if !filepath.IsAbs(to.To) {
		return control.None{}, fmt.Errorf("%w: the directory for the copy is %q; it must be absolute", ErrInvalidQuery, clip(to.To))
	}
	return control.None{}, c.x.Copy(ctx, to.To)
}

func (c *controls) compact(ctx context.Context, _ control.None) (a control.Compacted, err error) {
	a.Before = c.x.log.Info().FileBytes
	err = c.x.Compact(ctx)
	a.After = c.x.log.Info().FileBytes
	return a, err
}
