package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// replica is one life of the program: everything that is open.
type replica struct {
	options
	repo    *repository
	history *history
	target  *target
	blobs   *blobs
	ledger  *ledger
	feed    *feed
	x       *executor.Executor
	queue   *executor.Queue[Change]
	logger  *slog.Logger
}

// maxRetries is many for what may pass, like a full disk. After that the path
// halts, and the program says so.
const maxRetries = 15

// openReplica opens the journal, which may be that of an earlier life.
func openReplica(o options, repo *repository, h *history, complaints io.Writer) (r *replica, err error) {
	r = &replica{options: o, repo: repo, history: h, blobs: newBlobs(repo, o.workers)}
	r.logger = slog.New(slog.NewTextHandler(complaints, &slog.HandlerOptions{Level: slog.LevelError}))
	r.feed = &feed{history: h, file: filepath.Join(o.journal, "fed"), probed: make(chan struct{}, 1)}
	if err := r.claim(); err != nil {
		return nil, err
	}
	if _, err := r.feed.load(); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(o.target)
	if err != nil {
		return nil, err
	}
	r.target = &target{root: root}
	r.x, err = executor.Open(filepath.Join(o.journal, "strand"), executor.Config{
		Workers: o.workers,
		Logger:  r.logger,
		Crash:   executor.Crash{Limit: -1}, // it is -crash that kills, and no job
	})
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	// The journal is ours alone now, so the ledger is, too.
	r.ledger, err = openLedger(filepath.Join(o.journal, "ledger"), h)
	if err == nil {
		r.queue, err = executor.HandleMerged(r.x, "replica", r.handle, executor.QueueConfig[Change]{
			Share:       executor.Share{Shards: o.shards},
			Defaults:    executor.Defaults[Change]{ID: jobID, Score: score},
			MaxRetries:  maxRetries,
			RetryIn:     func(n int) time.Duration { return min(time.Millisecond<<n, time.Second) },
			DeadLetters: executor.DeadLetters[Change]{OnExhausted: executor.OnExhaustedHalt},
		})
	}
	if err != nil {
		return nil, errors.Join(err, r.close(false))
	}
	return r, nil
}

// claim makes the directories, or makes sure that they belong together.
func (r *replica) claim() error {
	if err := errors.Join(os.MkdirAll(r.journal, 0o777), os.MkdirAll(r.options.target, 0o777)); err != nil {
		return wrong("%w", err)
	}
	about := filepath.Join(r.journal, "about")
	mine := fmt.Sprintf("%s\n%s\n", r.history.commits[0], r.options.target)
	found, err := os.ReadFile(about)
	if err == nil && string(found) != mine {
		return wrong("the journal %q is that of another replica (first commit and target: %s); choose another -journal",
			r.journal, strings.ReplaceAll(strings.TrimSpace(string(found)), "\n", ", "))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	content, err := os.ReadDir(r.options.target)
	if err != nil {
		return wrong("%w", err)
	}
	if len(content) > 0 {
		return wrong("the target %q is not empty and was not made with the journal %q", r.options.target, r.journal)
	}
	return os.WriteFile(about, []byte(mine), 0o666)
}

// run works until everything is in the target, or ctx ends.
func (r *replica) run(ctx context.Context, p *progress) error {
	if err := r.x.Start(ctx); err != nil {
		return err
	}
	if err := r.again(ctx); err != nil {
		return err
	}
	show := func() {
		t, _ := r.ledger.counts()
		p.set(t.ended)
	}
	if err := r.feed.run(ctx, r.queue, show); err != nil {
		return err
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := r.queue.Stats(ctx)
		if err = errors.Join(err, r.x.Err()); err != nil {
			return err
		}
		show()
		if s.Jobs == 0 {
			return nil
		}
		if s.Jobs == s.Halted {
			return fmt.Errorf("%d paths failed %d times", s.Halted, maxRetries+1)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// again gives what halted in an earlier life another chance.
func (r *replica) again(ctx context.Context) error {
	var ids []string
	for _, n := range r.ledger.failed() {
		ids = append(ids, jobID(Change{Path: []byte(r.history.paths[n])}))
	}
	_, err := r.x.Inspect().RunNow(ctx, inspect.SelectIDs(r.queue.Name(), ids...))
	return err
}

// errByChance is the failure that -fail asks for.
var errByChance = errors.New("failed by chance")

// handle brings a path up to its newest change. It may run again after it did
// its work, so doing it twice must be the same as doing it once.
func (r *replica) handle(_ context.Context, job executor.Merged[Change]) (err error) {
	newest := job.Latest()
	if len(newest.Path) == 0 {
		return r.feed.noted(job)
	}
	number, known := r.history.number[string(newest.Path)]
	if !known {
		return executor.Cancel(fmt.Errorf("the history has no path %q", newest.Path))
	}
	commits := make([]int, len(job.Payloads))
	for i, p := range job.Payloads {
		commits[i] = p.Value.Commit
	}
	how := runFailed // a panic, too
	r.ledger.begin(number, commits)
	defer func() { r.ledger.end(number, commits, how) }()

	if r.delay > 0 {
		time.Sleep(rand.N(r.delay))
	}
	if r.chance(job) {
		return errByChance // before the work
	}
	switch err = r.apply(newest); {
	case errors.Is(err, errBusy):
		how = runWaits
		return executor.Snooze(2 * time.Millisecond)
	case err != nil:
		if job.Attempt == maxRetries+1 {
			r.logger.Error("gave up", slog.String("path", job.ID), slog.Any("error", err))
		}
		return err
	case r.chance(job):
		return errByChance // after it
	}
	how = runDone
	return nil
}

// chance says whether a run fails by chance. Late retries don't: what is
// tested is order, not patience.
func (r *replica) chance(job executor.Merged[Change]) bool {
	return job.Attempt < maxRetries-3 && rand.Float64()*100 < float64(r.fail)/2
}

func (r *replica) apply(c Change) error {
	name := string(c.Path)
	if c.Mode == modeAbsent || c.Mode == modeSubmodule { // another repository's files
		return r.target.remove(name)
	}
	return r.target.write(name, c.Mode, func(w io.Writer) error { return r.blobs.copyTo(w, c.New) })
}

// close stops everything, in the order of dependence. Clean: with time for what
// runs, so that nothing has to be run again.
func (r *replica) close(clean bool) error {
	err := r.x.Stop(context.Background())
	r.blobs.close()
	if r.ledger != nil {
		err = errors.Join(err, r.ledger.close(clean && err == nil))
	}
	return errors.Join(err, r.target.root.Close())
}
