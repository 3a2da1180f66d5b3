// Strand-postgres makes schemas in PostgreSQL, checks them, moves the jobs of a journal there and
// back, and looks into them, as the command strand looks into a journal at rest:
//
//	strand-postgres migrate | import DIR | export NEWDIR | repartition N | check
//	strand-postgres status | jobs | job QUEUE ID | morgue | running | explain QUEUE ID
//
// With -h it says how.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/command"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/postgres"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, cancel) // a second one is not waited for
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr, time.Now())
	cancel()
	os.Exit(status)
}

// Exit statuses.
const (
	fine = iota
	isDamaged
	notDone
	isUnknown
)

const synopsis = `strand-postgres migrate | import DIR | export NEWDIR | repartition N | check
strand-postgres status | jobs | job QUEUE ID | morgue [list [QUEUE [ID...]]] | running | explain QUEUE ID
  [-url URL] [-schema NAME] [-partitions N] [-before TEXT] [-highest] [-single-server]`

const help = synopsis + `

  migrate        make the schema, or bring it up to date
  import DIR     put a journal, or what export made, into a schema that was not used
  export NEWDIR  write the partitions as journals
  repartition N  make N partitions of those that there are, with all that is in them
  check          read all partitions: is what they have sound?

  status         nodes, partitions and who owns them, the inbox, and jobs by queue and state
  jobs, job      what waits, in the order in which it is due; everything about one job
  morgue         the dead letters
  running        what runs only nodes know, and the dashboard of each shows: this says which
  explain        why a job does not run: its owner is asked, through the inbox, for which the role
                 needs the rights of a caller, and -before if the nodes have a Config.Partition

Flags may stand anywhere:

  -url URL         postgres://USER:PASSWORD@HOST:PORT/DATABASE; what is not in it, or all, is
                   taken from PGHOST, PGUSER, PGPASSWORD, ~/.pgpass and so on, as psql does
  -schema NAME     default strand
  -partitions N    for migrate: how many to make, 16 without it; for the others: how many
                   there have to be
  -before TEXT     for import and repartition: what of an id stands before the first TEXT
                   decides which partition it goes to, and without TEXT in it the whole id;
                   as Config.Partition of the nodes does
  -highest         for repartition: of the offsets that a source has in several partitions
                   the highest counts, because no call with a lower one is under way
  -single-server   accept a server without a synchronous standby, for import and repartition

A journal is a directory of package journal: strand looks into it, and strand export and
import make JSON lines of it and back. Stop its program, and all nodes: import, export and
repartition refuse while one is at work. Import does not change DIR, and export does not change the
schema; they tell on standard error how far they are. Interrupted, or killed at any moment,
they have done all or nothing; what stays beside NEWDIR of an export that was killed, with
.export- in its name, may be removed. A Config.Partition that -before can't say needs a program
that calls postgres.Import, or Repartition, itself.

What looks changes nothing, needs no node, and sees one moment, also on a standby. It prints what
strand prints of a journal: jobs -h lists flags, as -json. The role needs SELECT of the tables.

To another number of partitions in another schema: export, migrate -schema OTHER
-partitions N, import -schema OTHER.

Exit status: 0 all is well, 1 something is damaged, 2 it was not done, 3 it may have been
done: the text says how to find out.`

// call is one call of the command.
type call struct {
	url     string
	cfg     postgres.Config
	highest bool
	words   []string // the verb and its arguments
	looks   bool     // as strand does
	now     time.Time
}

// run is the whole command, for main and for the tests.
func run(ctx context.Context, args []string, out, errs io.Writer, now time.Time) int {
	c := call{now: now}
	err := c.parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(out, help)
		return fine
	}
	if err != nil {
		fmt.Fprintf(errs, "strand-postgres: %s\n%s\n", tame(err.Error()), synopsis)
		return notDone
	}
	if c.looks {
		return c.look(ctx, out, errs)
	}
	err = c.do(ctx, out)
	if err == nil {
		return fine
	}
	status, advice := c.judge(err)
	fmt.Fprintf(errs, "strand-postgres: %v\n%s", inWords{err}, advice)
	return status
}

// judge returns the exit status for an error of do, and what else is to be said.
func (c *call) judge(err error) (status int, advice string) {
	status = notDone
	if errors.Is(err, journal.ErrCorrupt) {
		status = isDamaged
	}
	switch {
	case errors.Is(err, journal.ErrUnknown):
		return isUnknown, "Once the server answers, check tells whether it is there. If it is not, call it again.\n"
	case len(c.words) == 2: // import, export or repartition
		advice = fmt.Sprintf("Nothing was %sed.\n", c.words[0])
	}
	if errors.Is(err, executor.ErrNotOwned) {
		advice += "The ids were divided otherwise: give the -before, or Config.Partition, of the nodes that they are from.\n"
	}
	return status, advice
}

// inFlags has the library's words for what to do, and the command's.
var inFlags = strings.NewReplacer("run Migrate", "run strand-postgres migrate", "say SingleServer", "give -single-server",
	"Config.Partitions is", "-partitions is", "say that the highest counts", "give -highest")

// parse takes flags before and after other words.
func (c *call) parse(args []string) error {
	f := flag.NewFlagSet("strand-postgres", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&c.url, "url", "", "")
	f.StringVar(&c.cfg.Schema, "schema", "", "")
	before := f.String("before", "", "")
	f.IntVar(&c.cfg.Partitions, "partitions", 0, "")
	f.BoolVar(&c.cfg.SingleServer, "single-server", false, "")
	f.BoolVar(&c.highest, "highest", false, "")
	if err := f.Parse(c.ours(args, f)); err != nil {
		return err
	}
	verb := strings.Join(c.words[:min(len(c.words), 1)], "")
	want, known := map[string]int{"migrate": 1, "check": 1, "import": 2, "export": 2, "repartition": 2, "running": 1, "explain": 3,
		"status": 0, "jobs": 0, "job": 0, "morgue": 0}[verb] // 0: flags and arguments are those of strand
	c.looks = known && want == 0
	flags := slices.IndexFunc(c.words, func(w string) bool { return strings.HasPrefix(w, "-") })
	switch {
	case flags >= 0 && !c.looks:
		return cmp.Or(f.Parse(c.words[flags:]), fmt.Errorf("%q is no flag", c.words[flags]))
	case verb == "help":
		return flag.ErrHelp
	case !known:
		return fmt.Errorf("there is no command %q; -h lists them", verb)
	case !c.looks && len(c.words) != want:
		return fmt.Errorf("%s takes %d argument(s), got %d", verb, want-1, len(c.words)-1)
	case *before != "" && verb != "import" && verb != "repartition" && verb != "explain":
		return errors.New("-before is for import, repartition and explain")
	case c.highest && verb != "repartition":
		return errors.New("-highest is for repartition")
	case *before != "":
		c.cfg.Partition = func(id string) string {
			part, _, _ := strings.Cut(id, *before)
			return part
		}
	}
	return nil
}

// ours are the flags of f among args, with their values; the rest are words.
func (c *call) ours(args []string, f *flag.FlagSet) (ours []string) {
	for i := 0; i < len(args); i++ {
		name, _, valued := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		if !strings.HasPrefix(args[i], "-") || f.Lookup(name) == nil {
			c.words = append(c.words, args[i])
			continue
		}
		ours = append(ours, args[i])
		if !valued && name != "single-server" && name != "highest" && i+1 < len(args) {
			i++
			ours = append(ours, args[i])
		}
	}
	return ours
}

func (c *call) do(ctx context.Context, out io.Writer) error {
	var moved postgres.Moved
	var err error
	said := "sound"
	if len(c.words) == 2 {
		said = c.words[0] + "ed and compared"
	}
	switch c.words[0] {
	case "migrate":
		if err = postgres.Migrate(ctx, c.url, c.cfg); err == nil {
			fmt.Fprintf(out, "schema %q is as it should be\n", cmp.Or(c.cfg.Schema, "strand"))
		}
		return err
	case "import":
		moved, err = postgres.Import(ctx, c.url, c.cfg, c.words[1])
	case "export":
		moved, err = postgres.Export(ctx, c.url, c.cfg, c.words[1])
	case "repartition":
		var to int
		if to, err = strconv.Atoi(c.words[1]); err == nil {
			moved, err = postgres.Repartition(ctx, c.url, c.cfg, to, c.highest)
		}
	case "running":
		return c.running(ctx, out)
	case "explain":
		return c.explain(ctx, out)
	case "check":
		moved, err = postgres.Check(ctx, c.url, c.cfg)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s: %d live entries, %d in the morgue, %d state keys, %d queues; %d partitions\n",
		said, moved.Live, moved.Buried, moved.Keys, moved.Queues, moved.Partitions)
	return err
}

// tame leaves nothing in s that a terminal could take for a command, but lines and tabs.
func tame(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (r < ' ' || r >= 0x7f && r < 0xa0) {
			return '?'
		}
		return r
	}, s)
}

// inWords is an error in the words of the command.
type inWords struct{ error }

func (e inWords) Error() string { return tame(inFlags.Replace(e.error.Error())) }
func (e inWords) Unwrap() error { return e.error }

// look looks into the partitions as strand looks into a journal at rest.
func (c *call) look(ctx context.Context, out, errs io.Writer) int {
	asJSON := slices.Contains(c.words, "-json") || slices.Contains(c.words, "--json")
	p := command.Program{Name: "strand-postgres", Look: func(ctx context.Context, verb string, look func([]*journal.View) error) error {
		err := postgres.Look(ctx, c.url, c.cfg, func(s postgres.Stats, views []*journal.View) error {
			if verb == "status" {
				c.status(out, s, asJSON)
			}
			err, rows := look(views), 0
			for _, p := range s.Partitions {
				rows += p.Inbox + p.Refused
			}
			if verb != "status" && rows > 0 {
				fmt.Fprintf(errs, "strand-postgres: %d rows of the inbox are in no partition yet, and are not in this list\n", rows)
			}
			return err
		})
		if err != nil {
			return inWords{err}
		}
		return nil
	}}
	return p.Run(ctx, append([]string{p.Name}, c.words...), nil, out, errs, c.now)
}

// status prints what the server knows of nodes and partitions.
func (c *call) status(out io.Writer, s postgres.Stats, asJSON bool) {
	lines, text := json.NewEncoder(io.Discard), out
	if asJSON {
		lines, text = json.NewEncoder(out), io.Discard
	}
	t := tabwriter.NewWriter(text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tID")
	for _, id := range slices.Sorted(maps.Keys(s.Nodes)) {
		_ = lines.Encode(map[string]any{"type": "node", "id": id, "name": tame(s.Nodes[id])})
		fmt.Fprintf(t, "%s\t%s\n", tame(s.Nodes[id]), id)
	}
	fmt.Fprintln(t, "\nPARTITION\tOWNER\tSINCE\tEPOCH\tINBOX\tREFUSED")
	for _, p := range s.Partitions {
		owner, since := c.owner(p)
		line := map[string]any{"type": "partition", "partition": p.Partition, "epoch": p.Epoch, "inbox": p.Inbox, "refused": p.Refused}
		if p.Owner != "" {
			line["owner"], line["name"], line["since"] = p.Owner, owner, p.Since
		}
		_ = lines.Encode(line)
		fmt.Fprintf(t, "%d\t%s\t%s\t%d\t%d\t%d\n", p.Partition, owner, since, p.Epoch, p.Inbox, p.Refused)
	}
	_ = t.Flush()
	if s.SnapshotHolder != "" {
		fmt.Fprintf(text, "\nold rows have been kept for %v because of %s\n", s.SnapshotAge, tame(s.SnapshotHolder))
	}
}

// owner says who has a partition, and since when.
func (c *call) owner(p postgres.PartitionStats) (name, since string) {
	switch {
	case p.Owner == "":
		return "nobody", "-"
	case p.Since == nil:
		return tame(cmp.Or(p.Name, p.Owner)), "before version 2.2"
	}
	return tame(cmp.Or(p.Name, p.Owner)), fmt.Sprintf("%s (%v ago)", p.Since.UTC().Format(time.RFC3339), max(c.now.Sub(*p.Since), 0).Truncate(time.Second))
}

// running says who can answer what only nodes know.
func (c *call) running(ctx context.Context, out io.Writer) error {
	return postgres.Look(ctx, c.url, c.cfg, func(s postgres.Stats, _ []*journal.View) (err error) {
		for _, p := range s.Partitions {
			says := "has no owner: nothing of it runs"
			if owner, since := c.owner(p); p.Owner != "" {
				says, err = fmt.Sprintf("is owned by %s, since %s", owner, since), errOwner
			}
			fmt.Fprintf(out, "partition %d %s\n", p.Partition, says)
		}
		return err
	})
}

// errOwner is why there is no answer.
var errOwner = errors.New("what runs, only nodes know: ask their dashboards, each of which shows all of it")

// explain has the owner of a job say why it does not run.
func (c *call) explain(ctx context.Context, out io.Writer) error {
	cfg := c.cfg
	cfg.SingleServer, cfg.Executor.Logger = true, slog.New(slog.DiscardHandler) // a question may be lost with a server
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	x, err := postgres.Open(ctx, c.url, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = x.Stop(ctx) }()
	n := postgres.NodeOf(x)
	number, err := n.PartitionOf(c.words[2])
	s, failed := n.Stats(ctx)
	if err = cmp.Or(err, failed); err != nil {
		return err
	}
	if s.Partitions[number].Owner == "" {
		_, err = fmt.Fprintf(out, "partition %d has no owner: nothing of it runs\n", number)
		return err
	}
	why, err := x.Inspect().Explain(ctx, c.words[1], c.words[2])
	if err == nil {
		fmt.Fprintln(out, why)
	}
	return err
}
