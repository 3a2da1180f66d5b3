// Strand-postgres moves the jobs of a journal into PostgreSQL and back, and makes and checks
// schemas there:
//
//	strand-postgres migrate | import DIR | export NEWDIR | check
//
// With -h it says how.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/postgres"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, cancel) // a second one is not waited for
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
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

const synopsis = `strand-postgres migrate | import DIR | export NEWDIR | check
  [-url URL] [-schema NAME] [-partitions N] [-before TEXT] [-single-server]`

const help = synopsis + `

  migrate        make the schema, or bring it up to date
  import DIR     put a journal, or what export made, into a schema that was not used
  export NEWDIR  write the partitions as journals
  check          read all partitions: is what they have sound?

Flags may stand anywhere:

  -url URL         postgres://USER:PASSWORD@HOST:PORT/DATABASE; what is not in it, or all, is
                   taken from PGHOST, PGUSER, PGPASSWORD, ~/.pgpass and so on, as psql does
  -schema NAME     default strand
  -partitions N    for migrate: how many to make, 16 without it; for the others: how many
                   there have to be
  -before TEXT     for import: what of an id stands before the first TEXT decides which
                   partition it goes to, and without TEXT in it the whole id; as
                   Config.Partition of the nodes does
  -single-server   accept a server without a synchronous standby, for import

A journal is a directory of package journal: strand looks into it, and strand export and
import make JSON lines of it and back. Stop its program, and all nodes: import and export
refuse while one is at work. Import does not change DIR, and export does not change the
schema; both tell on standard error how far they are. Interrupted, or killed at any moment,
they have done all or nothing; what stays beside NEWDIR of an export that was killed, with
.export- in its name, may be removed. A Config.Partition that -before can't say needs a program
that calls postgres.Import itself.

From n partitions to a multiple of n: export, migrate -schema OTHER -partitions N, import
-schema OTHER. From one journal any number will do.

Exit status: 0 all is well, 1 something is damaged, 2 it was not done, 3 it may have been
done: the text says how to find out.`

// call is one call of the command.
type call struct {
	url, schema, before string
	partitions          int
	single              bool
	words               []string // the verb and its argument
}

// run is the whole command, for main and for the tests.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	var c call
	err := c.parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(out, help)
		return fine
	}
	if err != nil {
		fmt.Fprintf(errs, "strand-postgres: %s\n%s\n", tame(err.Error()), synopsis)
		return notDone
	}
	err = c.do(ctx, out)
	if err == nil {
		return fine
	}
	status, advice := c.judge(err)
	fmt.Fprintf(errs, "strand-postgres: %s\n%s", tame(inFlags.Replace(err.Error())), advice)
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
		return isUnknown, "Once the server answers, check tells whether it is there. If it is not, import again.\n"
	case len(c.words) == 2: // import or export
		advice = fmt.Sprintf("Nothing was %sed.\n", c.words[0])
	}
	if errors.Is(err, executor.ErrNotOwned) {
		advice += "The ids were divided otherwise: import with the -before, or Config.Partition, of the nodes that they are from.\n"
	}
	return status, advice
}

// inFlags has the library's words for what to do, and the command's.
var inFlags = strings.NewReplacer("run Migrate", "run strand-postgres migrate", "say SingleServer", "give -single-server",
	"Config.Partitions is", "-partitions is")

// parse takes flags before and after other words.
func (c *call) parse(args []string) error {
	f := flag.NewFlagSet("strand-postgres", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&c.url, "url", "", "")
	f.StringVar(&c.schema, "schema", "", "")
	f.StringVar(&c.before, "before", "", "")
	f.IntVar(&c.partitions, "partitions", 0, "")
	f.BoolVar(&c.single, "single-server", false, "")
	for {
		if err := f.Parse(args); err != nil {
			return err
		}
		if f.NArg() == 0 {
			break
		}
		c.words, args = append(c.words, f.Arg(0)), f.Args()[1:]
	}
	if word(c.words) == "help" {
		return flag.ErrHelp
	}
	want, known := map[string]int{"migrate": 1, "check": 1, "import": 2, "export": 2}[word(c.words)]
	switch {
	case !known:
		return fmt.Errorf("there is no command %q; -h lists them", word(c.words))
	case len(c.words) != want:
		return fmt.Errorf("%s takes %d argument(s), got %d", c.words[0], want-1, len(c.words)-1)
	case c.before != "" && c.words[0] != "import":
		return errors.New("-before is for import")
	}
	return nil
}

func word(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

func (c *call) do(ctx context.Context, out io.Writer) error {
	cfg := postgres.Config{Schema: c.schema, Partitions: c.partitions, SingleServer: c.single}
	if c.before != "" {
		cfg.Partition = func(id string) string {
			part, _, _ := strings.Cut(id, c.before)
			return part
		}
	}
	var moved postgres.Moved
	var err error
	said := ""
	switch c.words[0] {
	case "migrate":
		if err := postgres.Migrate(ctx, c.url, postgres.Schema{Name: c.schema, Partitions: c.partitions}); err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "schema %q is as it should be\n", cmp.Or(c.schema, "strand"))
		return err
	case "import":
		moved, err = postgres.Import(ctx, c.url, cfg, c.words[1])
		said = "imported and compared"
	case "export":
		moved, err = postgres.Export(ctx, c.url, cfg, c.words[1])
		said = "exported and compared"
	case "check":
		moved, err = postgres.Check(ctx, c.url, cfg)
		said = "sound"
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
