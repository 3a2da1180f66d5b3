// Replica replays the history of a git repository into a directory: one job for
// every path that a commit changed, in order per path, in parallel over paths.
// At the end the directory has to be the tree of HEAD.
//
//	go run ./bench/replica                        # the repository it stands in
//	go run ./bench/replica -workers 8 -fail 5%    # one run in twenty fails
//	go run ./bench/replica -crash 10              # killed ten times on the way
//
// It exits with 1 if the result is wrong, and with 2 if it was called wrongly.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status(err))
}

// errShown is returned when everything has been said already.
var errShown = errors.New("already shown")

func status(err error) int {
	if exit, ok := errors.AsType[exitError](err); ok {
		return int(exit)
	}
	_, usage := errors.AsType[usageError](err)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case usage:
		fmt.Fprintln(os.Stderr, "replica:", err)
		return 2
	case !errors.Is(err, errShown):
		fmt.Fprintln(os.Stderr, "replica:", err)
	}
	return 1
}

// options are the flags.
type options struct {
	repo, target, journal  string
	workers, shards, crash int
	fail                   percent
	delay                  time.Duration
}

// percent is a flag: 5 or 5%.
type percent float64

func (p *percent) String() string { return strconv.FormatFloat(float64(*p), 'g', -1, 64) + "%" }

func (p *percent) Set(s string) error {
	v, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err != nil || !(v >= 0 && v <= 90) {
		return errors.New("it must be from 0% to 90%")
	}
	*p = percent(v)
	return nil
}

func parse(args []string, help io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("replica", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.repo, "repo", ".", "work tree of the git repository, or a directory in it")
	flags.StringVar(&o.target, "target", "", "directory that becomes the replica (default: a new temporary one)")
	flags.StringVar(&o.journal, "journal", "", "directory of the journal; run again with the same one to go on (default: beside the target)")
	flags.IntVar(&o.workers, "workers", 4, "jobs that run at a time, each with a git of its own")
	flags.IntVar(&o.shards, "shards", 16, "parts that the paths are divided into")
	flags.Var(&o.fail, "fail", "how many runs fail by chance, 5% or 5")
	flags.IntVar(&o.crash, "crash", 0, "kill the process this many times and start it again")
	flags.DurationVar(&o.delay, "delay", 200*time.Microsecond, "longest pause, by chance, of a run")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		flags.SetOutput(help)
		flags.PrintDefaults()
		return o, err
	} else if err != nil {
		return o, wrong("%w; see -help", err)
	}
	switch {
	case flags.NArg() > 0:
		return o, wrong("unexpected argument %q; see -help", flags.Arg(0))
	case o.workers < 1 || o.workers > 1024:
		return o, wrong("-workers is %d, it must be from 1 to 1024", o.workers)
	case o.shards < 1 || o.shards > 4096:
		return o, wrong("-shards is %d, it must be from 1 to 4096", o.shards)
	case o.crash < 0 || o.delay < 0:
		return o, wrong("-crash and -delay must not be below 0")
	}
	return o, nil
}

// directories fills in where things are put: beside the one that was given, and
// in a new place if none was.
func (o *options) directories() error {
	if o.target == "" && o.journal == "" {
		dir, err := os.MkdirTemp("", "strand-replica-")
		if err != nil {
			return err
		}
		o.target = filepath.Join(dir, "target")
	}
	if o.target == "" {
		o.target = filepath.Clean(o.journal) + ".target"
	}
	if o.journal == "" {
		o.journal = filepath.Clean(o.target) + ".journal"
	}
	var errs [2]error
	o.target, errs[0] = filepath.Abs(o.target)
	o.journal, errs[1] = filepath.Abs(o.journal)
	return errors.Join(errs[:]...)
}

func run(ctx context.Context, args []string, out, complaints *os.File) error {
	o, err := parse(args, complaints)
	if err != nil {
		return err
	}
	repo, err := openRepository(o.repo)
	if err != nil {
		return err
	}
	h, err := readHistory(repo)
	if err != nil {
		return err
	}
	if err := o.directories(); err != nil { // now that there is something to put there
		return err
	}
	if o.crash > 0 {
		return crash(ctx, o, len(h.events), out, complaints)
	}
	return replicate(ctx, o, repo, h, out, complaints)
}

// replicate does the job and prints the summary.
func replicate(ctx context.Context, o options, repo *repository, h *history, out, complaints *os.File) error {
	r, err := openReplica(o, repo, h, complaints)
	if err != nil {
		return err
	}
	if err := r.run(ctx, newProgress(complaints, len(h.events))); err != nil {
		err = errors.Join(err, r.close(true))
		return fmt.Errorf("%w; to go on: -target %q -journal %q", err, o.target, o.journal)
	}
	if err := r.x.Stop(context.WithoutCancel(ctx)); err != nil {
		return errors.Join(err, r.close(false))
	}
	v, err := verify(repo, r.target.root)
	if err = errors.Join(err, r.close(true)); err != nil {
		return err
	}
	return r.summary(out, v)
}
