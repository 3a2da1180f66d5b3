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
	"path/filepath"
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

	report  string // directory
	compare string // two reports
}

func parse(args []string, errOut io.Writer) (o options, err error) {
	f := flag.NewFlagSet("peers", flag.ContinueOnError)
	f.SetOutput(errOut)
	expr := f.String("run", "", "measure the peers whose name matches this regular expression")
	f.BoolVar(&o.quick, "quick", false, "only the most telling cases, each for less than a second")
	f.StringVar(&o.dir, "dir", "", "directory for their files, which are removed; what it is on is what is measured; default the system's for temporary files")
	f.StringVar(&o.report, "report", "", "measure Strand's own workloads, too, and write a page, charts and the data into this directory")
	f.StringVar(&o.compare, "compare", "", "two directories with reports, separated by a comma: print what differs by more than 15 percent, and measure nothing")
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
	for _, p := range peer.All() {
		if name.MatchString(p.Name) {
			o.peers = append(o.peers, p)
		}
	}
	if len(o.peers) == 0 {
		return o, fmt.Errorf("-run: no peer has a name that matches %q", *expr)
	}
	o.cases = full
	if o.quick {
		o.cases = quick
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
	case o.report != "":
		return o.write(ctx, o.report, errOut)
	}
	all, err := o.measure(ctx, errOut)
	if err != nil {
		return err
	}
	if !o.json {
		return table(out, medians(all))
	}
	for _, one := range all {
		if err := json.NewEncoder(out).Encode(one); err != nil {
			return err
		}
	}
	return nil
}

// measure carries all cases out, one at a time. One that fails says so in its
// outcome.
func (o *options) measure(ctx context.Context, progress io.Writer) (all []outcome, err error) {
	dir, err := os.MkdirTemp(o.dir, "strand-peers-")
	if err != nil {
		return nil, fmt.Errorf("-dir: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o711); err != nil { // PostgreSQL's user has to pass
		return nil, err
	}
	tasks := o.cases.tasks(o.peers)
	bar := newBar(len(tasks), progress)
	for _, t := range tasks {
		bar.Describe(fmt.Sprintf("%-28s", t.Peer))
		all = append(all, t.inChild(ctx, dir))
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		_ = bar.Add(1) // a bar that can't be drawn is no reason to stop
	}
	return all, nil
}
