// Strand-postgres moves the jobs of a journal into PostgreSQL and back, and makes and checks
// schemas there.
//
//	strand-postgres migrate               make the schema, or bring it up to date
//	strand-postgres import DIR            put a journal, or what export made, into the schema
//	strand-postgres export NEWDIR         write the partitions as journals
//	strand-postgres check                 is what the partitions have sound?
//
// Flags may stand anywhere:
//
//	-url URL            of the database; without it PGHOST, PGUSER, PGPASSWORD and so on count
//	-schema NAME        default strand
//	-partitions N       for migrate: how many to make, 16 without it; for the others: how many
//	                    there have to be
//	-before TEXT        for import: what of an id stands before the first TEXT decides which
//	                    partition it goes to, and without TEXT in it the whole id; as
//	                    Config.Partition of the nodes does
//	-single-server      accept a server without a synchronous standby
//
// A journal is one of package journal: strand looks into it, and strand export and import
// make JSON lines of it and back. No process may have it open, and no node may be up, but
// for migrate and check. A Config.Partition that -before can't say needs a program that
// calls Import itself. Exit status: 0 all is well, 1 it is damaged, 2 it was not done.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/postgres"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	cancel()
	os.Exit(status)
}

// Exit statuses.
const (
	fine = iota
	isDamaged
	notDone
)

const help = `strand-postgres migrate | import DIR | export NEWDIR | check
  [-url URL] [-schema NAME] [-partitions N] [-before TEXT] [-single-server]`

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
	if err == nil {
		err = c.do(ctx, out)
	}
	if err == nil {
		return fine
	}
	fmt.Fprintf(errs, "strand-postgres: %s\n", tame(err.Error()))
	if errors.Is(err, journal.ErrCorrupt) {
		return isDamaged
	}
	return notDone
}

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
	want, known := map[string]int{"migrate": 1, "check": 1, "import": 2, "export": 2}[word(c.words)]
	switch {
	case !known:
		return fmt.Errorf("there is no command %q\n%s", word(c.words), help)
	case len(c.words) != want:
		return fmt.Errorf("%s takes %d argument(s), got %d\n%s", c.words[0], want-1, len(c.words)-1, help)
	case c.before != "" && c.words[0] != "import":
		return fmt.Errorf("-before is for import\n%s", help)
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
		_, err = fmt.Fprintln(out, "the schema is as it should be")
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

// tame leaves nothing in s that a terminal could take for a command, but lines.
func tame(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0) {
			return '?'
		}
		return r
	}, s)
}
