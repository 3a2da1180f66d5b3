package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/strandjobs/strand/bench/peers/peer"
)

func main() {
	if childMain() {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	peers []peer.Peer
	cases budget
	dir   string
	json  bool
	quick bool

	postgres bool

	report  string // directory
	redraw  string // directory
	compare string // two reports
}

func parse(args []string, errOut io.Writer) (o options, err error) {
	f := flag.NewFlagSet("peers", flag.ContinueOnError)
	f.SetOutput(errOut)
	expr := f.String("run", "", "measure the peers whose name matches this regular expression")
	only := f.String("case", "", "measure only the cases whose description, as the table has it, matches this regular expression")
	f.BoolVar(&o.quick, "quick", false, "only the most telling cases, each for less than a second")
	f.BoolVar(&o.postgres, "postgres", false, "Strand on PostgreSQL beside River on a server like it and beside Strand on its own disk: what a job costs there, too; up to three rounds, in six minutes")
	f.StringVar(&o.dir, "dir", "", "directory for their files, which are removed; what it is on is what is measured; default the system's for temporary files")
	f.StringVar(&o.report, "report", "", "measure Strand's own workloads, too, and write a page, charts and the data into this directory")
	f.StringVar(&o.redraw, "redraw", "", "a directory with a report: write its page and its charts again from its data, and measure nothing")
	f.StringVar(&o.compare, "compare", "", "two directories with reports, separated by a comma: print the ratios that are more than 15 percent apart, fail if there are any, and measure nothing")
	f.BoolVar(&o.json, "json", false, "print one JSON object per case instead of a table")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q; peers are chosen with -run", f.Arg(0))
	}
	name, err := regexp.Compile(*expr)
	if err != nil {
		return o, fmt.Errorf("-run: %w", err)
	}
	all := peer.All()
	if o.postgres {
		all = peer.OnPostgres()
	}
	for _, p := range all {
		if name.MatchString(p.Name) {
			o.peers = append(o.peers, p)
		}
	}
	if len(o.peers) == 0 {
		return o, fmt.Errorf("-run: no peer has a name that matches %q", *expr)
	}
	switch o.cases = full; {
	case o.postgres:
		o.cases = served
		if o.quick {
			o.cases.rounds, o.cases.atMost = 1, 1
		}
	case o.quick:
		o.cases = quick
	}
	if o.cases.only, err = regexp.Compile(*only); err != nil {
		return o, fmt.Errorf("-case: %w", err)
	}
	if len(o.cases.cases()) == 0 {
		o.cases.only = nil
		var known []string
		for _, t := range o.cases.cases() {
			known = append(known, t.Describe())
		}
		return o, fmt.Errorf("-case: no case has a description that matches %q; there are %q", *only, known)
	}
	return o, nil
}

func run(ctx context.Context, args []string, out, errOut io.Writer) error {
	o, err := parse(args, errOut)
	if err != nil {
		return err
	}
	switch {
	case o.compare != "":
		return compare(out, o.compare)
	case o.redraw != "":
		return redraw(o.redraw)
	case o.report != "":
		return o.write(ctx, o.report, errOut)
	}
	var all []outcome
	var each []*series
	before := thisMachine(".")
	err = o.measure(ctx, errOut, func(sofar []*series) { all, each = merge(sofar), sofar })
	switch {
	case !o.json && o.postgres:
		return errors.Join(err, serverTable(out, before, thisMachine("."), each))
	case !o.json:
		return errors.Join(err, table(out, all), ratios(out, standings(each)))
	}
	for _, one := range all {
		err = errors.Join(err, json.NewEncoder(out).Encode(one))
	}
	return err
}
