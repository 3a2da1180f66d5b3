// Package command is the strand command, for executor/cmd/strand, and for programs that look with its
// words, its output and its exit statuses into journals that no directory has.
package command

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/executor/internal/each"
	"github.com/strandjobs/strand/journal"
)

// Exit statuses.
const (
	fine    = 0
	isHurt  = 1 // the journal is damaged
	noClear = 2 // it could not be looked at
)

// errDamaged is returned by commands that have already said what is wrong.
var errDamaged = errors.New("damaged")

// errUsage is a call that makes no sense.
var errUsage = errors.New("wrong call")

func usage(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errUsage, fmt.Sprintf(format, args...))
}

// Program is a command that looks into journals. The zero value is strand.
type Program struct {
	// Name is what the usage and errors call the program. Default "strand".
	Name string

	// Run calls Look once, if the arguments are right. Look opens the journals of all partitions and calls look with
	// them. Then no argument is a directory, and the verbs are status, jobs, job and morgue, which lists. Default nil:
	// the journal in the directory that is the first argument, or the process that has it open.
	Look func(ctx context.Context, verb string, look func([]*journal.View) error) error
}

// verbs are those of the program.
func (p Program) verbs() []verb {
	if p.Look == nil {
		return commands
	}
	var all []verb
	for _, v := range commands {
		switch v.name {
		case "status":
			v.usage, v.description, v.do = "partitions, and jobs by queue and state", "", inspectAtRest
		case "morgue":
			v.usage, v.args, v.flags = "the dead letters", "[list [QUEUE [ID...]]]", "full"
		case "jobs", "job":
		default:
			continue
		}
		v.live, v.args = nil, strings.TrimSpace(strings.TrimPrefix(v.args, "DIR"))
		all = append(all, v)
	}
	return all
}

// call is one call of the command.
type call struct {
	*cli.Command
	*output
	program Program
	in      io.Reader
	client  *control.Client // of the process that has the journal open; nil: it is at rest
}

// look calls f with the journals that the call is about: what open returns for its directory, or those
// of the program.
func (c *call) look(ctx context.Context, open func(dir string) (*journal.View, error), f func([]*journal.View) error) error {
	if c.program.Look != nil {
		return c.program.Look(ctx, c.Name, f)
	}
	v, err := open(c.Args().First())
	if err != nil {
		return err
	}
	return errors.Join(f([]*journal.View{v}), v.Close())
}

// defaultLimit is how many lines a list has without -limit.
const defaultLimit = 50

// limit is how many lines are printed.
func (c *call) limit() int {
	if !c.IsSet("limit") && !c.json {
		return defaultLimit
	}
	return cmp.Or(c.Int("limit"), math.MaxInt)
}

// Run carries out one call, which is args[1:], and returns its exit status: 0 all is well, 1 a
// journal is damaged, 2 it could not be looked at or the call is wrong.
func (p Program) Run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer, now time.Time) int {
	o := &output{Writer: bufio.NewWriterSize(out, 64<<10), now: now}
	o.json = slices.Contains(args, "-json") || slices.Contains(args, "--json") // also for what is wrong with the call
	p.Name = cmp.Or(p.Name, "strand")
	if p.Look != nil && len(args) > 1 && !slices.Contains(args, "-h") && !slices.Contains(args, "--help") {
		args = slices.Insert(slices.Clone(args), 2, p.Name) // in the place of the directory
	}
	root := &cli.Command{
		Name: p.Name, Usage: "look into a journal and take care of it", UsageText: p.Name + " COMMAND DIR [ARGUMENT...] [-FLAG...]",
		Description: "The journal's directory is always the first argument of a command.",
		Writer:      out, ErrWriter: errs,
		ExitErrHandler: func(context.Context, *cli.Command, error) {}, // we do it, once
		OnUsageError:   func(_ context.Context, _ *cli.Command, err error, _ bool) error { return usage("%v", err) },
	}
	root.Commands = each.Of(p.verbs(), func(v verb) *cli.Command { return v.command(p, o, in) })
	err := p.misnamed(args)
	if err == nil {
		err = root.Run(ctx, args)
	}
	if err = cmp.Or(err, o.Flush()); err != nil && !errors.Is(err, errDamaged) {
		o.fail(p, errs, err)
	}
	return status(err)
}

// misnamed returns an error when the first argument is no command; cli would rather
// complain about a flag behind it.
func (p Program) misnamed(args []string) error {
	known := func(v verb) bool { return v.name == args[1] }
	if len(args) < 2 || strings.HasPrefix(args[1], "-") || slices.Contains([]string{"help", "h"}, args[1]) || slices.ContainsFunc(p.verbs(), known) {
		return nil
	}
	return usage("there is no command %q; it comes first; %s help lists all", args[1], p.Name)
}

// status is the exit status for an error.
func status(err error) int {
	switch {
	case err == nil:
		return fine
	case errors.Is(err, errDamaged), errors.Is(err, journal.ErrCorrupt):
		return isHurt
	}
	return noClear
}

// verb is one command.
type verb struct {
	name, args, usage, description string
	least, most                    int                                // arguments; most −1 means any number
	flags                          string                             // of flagsOf, beside json, and timeout if it may be live
	do                             func(context.Context, *call) error // at rest
	live                           func(context.Context, *call) error // in a process that runs; nil: only at rest
}

// usageText has the flags where the root has them.
func (v verb) usageText(p Program) string {
	return strings.Join(strings.Fields(p.Name+" "+v.name+" "+v.args+" [-FLAG...]"), " ")
}

func (v verb) command(p Program, o *output, in io.Reader) *cli.Command {
	flags := "json " + v.flags
	if v.live != nil {
		flags += " timeout"
	}
	c := &cli.Command{
		Name: v.name, UsageText: v.usageText(p), Usage: v.usage, Description: v.description, Flags: flagsOf(flags),
		OnUsageError: func(_ context.Context, _ *cli.Command, err error, _ bool) error { return usage("%v", err) },
	}
	c.Action = func(ctx context.Context, c *cli.Command) error {
		o.json = c.Bool("json")
		if n := c.Args().Len(); n < v.least || (v.most >= 0 && n > v.most) {
			if p.Look != nil {
				n--
			}
			return usage("%s; got %d arguments", v.usageText(p), n)
		}
		return v.call(ctx, &call{Command: c, output: o, program: p, in: in})
	}
	return c
}

// flagsOf returns flags by their names here: a few mean something else in one of the commands.
func flagsOf(names string) []cli.Flag {
	all := map[string]cli.Flag{
		"json": &cli.BoolFlag{Name: "json", Usage: "print JSON, one object a line"},
		"timeout": &cli.DurationFlag{Name: "timeout", Value: answerTime, Validator: aboveZero,
			Usage: "how long a process that has the journal open may take for one answer"},
		"blocks": &cli.BoolFlag{Name: "blocks", Usage: "list every block"},
		"queue":  &cli.StringFlag{Name: "queue", Usage: "only this `QUEUE`"},
		"limit": &cli.IntFlag{Name: "limit", Validator: notBelowZero,
			Usage: fmt.Sprintf("at most `N` lines, 0 is all; without it %d, and with -json all", defaultLimit)},
		"full": &cli.BoolFlag{Name: "full", Usage: "payloads, errors and metadata in full length (with -json always)"},
		"merge": &cli.StringMapFlag{Name: "merge", Usage: "what becomes of equal payloads, `QUEUE=POLICY`: KeepAll, the default, MinScore, " +
			"KeepFirst, KeepLast or Supersede; QUEUE * is all others"},
		"on-failure": &cli.StringMapFlag{Name: "on-failure", Usage: "what a failure means for later payloads, `QUEUE=POLICY`: Merge or Block"},
		"shape": &cli.StringMapFlag{Name: "shape", Usage: "what a run gets, `QUEUE=SHAPE`: events, one payload (Handle); state, the newest " +
			"(HandleLatest); merged, all that wait, the default"},
		"max-payloads": &cli.StringMapFlag{Name: "max-payloads", Usage: "most payloads of one run, `QUEUE=N`, 0 is all; 1000 is the default"},
		"all-dead":     &cli.BoolFlag{Name: "all", Usage: "with delete: also without naming an id"},
		"all":          &cli.BoolFlag{Name: "all", Usage: "all jobs of the queue, without naming an id"},
		"failed":       &cli.BoolFlag{Name: "failed", Usage: "only what waits for a retry, or is halted; what runs is left alone"},
		"reason":       &cli.StringFlag{Name: "reason", Usage: "`TEXT` that their last error will have; not with -failed"},
		"prefix":       &cli.StringFlag{Name: "prefix", Usage: "all ids of the queue that begin with `TEXT`, those to come, too"},
		"stack":        &cli.BoolFlag{Name: "stack", Usage: "with the stacks of their handlers"},
		"queues":       &cli.StringSliceFlag{Name: "queue", Usage: "only these `QUEUE`s"},
		"kind":         &cli.StringSliceFlag{Name: "kind", Usage: "only these `KIND`s: accepted, started, done, failed, buried, …"},
		"after":        &cli.StringFlag{Name: "after", Usage: "go on behind the event with this `TOKEN`"},
		"events":       &cli.IntFlag{Name: "limit", Usage: "end after `N` events, 0 is never", Validator: notBelowZero},
	}
	return each.Of(strings.Fields(names), func(name string) cli.Flag { return all[name] })
}

// parkedIs says what a state means.
const parkedIs = `A parked job waits for a lock, a slot, a limit or its turn, or its id or a prefix of
the id is paused: strand job and strand explain say which.`

var commands = []verb{
	{name: "inspect", args: "DIR", least: 1, most: 1, do: inspectAtRest, live: inspectLive,
		usage: "figures of a journal: blocks, bytes, jobs by queue and state", flags: "blocks"},
	{name: "jobs", args: "DIR", least: 1, most: 1, do: jobs, live: jobsLive, flags: "queue limit merge on-failure",
		usage:       "jobs that would run, in their order",
		description: parkedIs},
	{name: "job", args: "DIR QUEUE ID", least: 3, most: 3, do: job, live: jobLive, flags: "merge on-failure full",
		usage: "everything about one job, and what of it is in the morgue"},
	{name: "replay", args: "DIR", least: 1, most: 1, do: replay, flags: "queue limit merge on-failure shape max-payloads",
		usage: "the runs that the next start would make, changing nothing",
		description: `Each run is listed as if those before it succeed. A start divides the ids of a
queue among its shards at random; each shard keeps the order shown here. Jobs
that were running at the last two deaths of the process are held back, and run
one at a time. What the code says about a queue is not in the journal. Without
-shape each is taken for one of HandleMerged or HandleBatch; -shape orders=events
says that orders is one of Handle, -shape mirrors=state that mirrors is one of
HandleLatest, and -shape '*=events' that all others are of Handle. Give
-merge, -on-failure and -max-payloads where they are not the defaults.`},
	{name: "check", args: "DIR", least: 1, most: 1, do: check,
		usage: "is it sound? exit status 0: yes, 1: damaged, 2: could not look"},
	{name: "copy", args: "DIR NEWDIR", least: 2, most: 2, do: copyJournal, live: copyJournal,
		usage: "copy a journal"},
	{name: "compact", args: "DIR", least: 1, most: 1, do: compact, live: compact,
		usage: "make the file of a journal as small as what is in it"},
	{name: "salvage", args: "DIR NEWDIR", least: 2, most: 2, do: salvage,
		usage: "write what is intact of a damaged journal to a new one"},
	{name: "export", args: "DIR", least: 1, most: 1, do: export,
		usage: "print a journal as JSON lines, for import"},
	{name: "import", args: "NEWDIR", least: 1, most: 1, do: importJournal,
		usage: "make a journal from what export printed, read from standard input"},
	{name: "morgue", args: "DIR [list|requeue|delete [QUEUE [ID...]]]", least: 1, most: -1, do: morgue, live: morgueLive, flags: "full all-dead",
		usage: "the dead letters: list, put back, delete"},
	{name: "status", args: "DIR", least: 1, most: 1, do: onlyLive, live: statusLive,
		usage:       "how a running executor is: workers, trouble, lag of its queues",
		description: parkedIs + "\nPARKED leaves out what is only paused: PAUSED says of how many ids and prefixes."},
	{name: "running", args: "DIR", least: 1, most: 1, do: onlyLive, live: runningLive, flags: "queue limit stack",
		usage: "what the workers of a running executor have in hand"},
	{name: "explain", args: "DIR QUEUE ID", least: 3, most: 3, do: onlyLive, live: explainLive,
		usage: "why a job of a running executor does not run"},
	{name: "events", args: "DIR", least: 1, most: 1, do: onlyLive, live: eventsLive, flags: "queues kind after events",
		usage: "what happens to jobs in a running executor, as it happens"},
	{name: "run", args: "DIR QUEUE [ID...]", least: 2, most: -1, do: onlyLive, live: actOnJobs, flags: "all",
		usage: "make waiting and halted jobs of a running executor due now"},
	{name: "retry", args: "DIR QUEUE [ID...]", least: 2, most: -1, do: onlyLive, live: actOnJobs, flags: "all",
		usage: "as run, with the retries that are left: halted jobs get one more"},
	{name: "cancel", args: "DIR QUEUE [ID...]", least: 2, most: -1, do: onlyLive, live: actOnJobs, flags: "all failed reason",
		usage: "send jobs of a running executor to the morgue"},
	{name: "delete", args: "DIR QUEUE [ID...]", least: 2, most: -1, do: onlyLive, live: actOnJobs, flags: "all failed",
		usage: "end jobs of a running executor for good"},
	{name: "pause", args: "DIR [QUEUE [ID...]]", least: 1, most: -1, do: pause, live: pause, flags: "prefix",
		usage: "keep an executor, a queue or ids of it from running jobs, also after a restart; -prefix: those that begin so"},
	{name: "resume", args: "DIR [QUEUE [ID...]]", least: 1, most: -1, do: pause, live: pause, flags: "prefix",
		usage: "let go on what was paused in the same way"},
}
