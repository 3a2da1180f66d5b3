package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/strandjobs/strand/executor"
)

// feed enqueues the events of the history, each exactly once, however often
// the process dies. Every chunk ends with a mark that says how far it goes.
// Both are accepted in one call of EnqueueMany, so a crash leaves both in the
// journal or none. The handler of the mark writes the figure to a file.
//
// After a start the file may be behind, if the last marks have not run. So the
// feed enqueues a probe under the id of the marks, with a higher score than any
// mark: jobs of one id run in order, so when the probe has run, all marks have.
//
// Without this the events between the file and the truth would be enqueued a
// second time. That would do the target no harm, because the newest change of
// each path would still come last, but order could not be checked so strictly.
type feed struct {
	history *history
	file    string
	probed  chan struct{} // has room for one
}

// chunkSize is how many events go into one commit of the journal.
const chunkSize = 100

// first is a due time before all others: marks don't queue up behind files.
var first = time.Unix(1, 0)

func score(c Change) float64 {
	switch {
	case c.Probe:
		return math.MaxFloat64
	case len(c.Path) == 0:
		return float64(c.Fed)
	default:
		return float64(c.Commit)
	}
}

// load returns how many events were enqueued, as far as the file knows.
func (f *feed) load() (n int, err error) {
	text, err := os.ReadFile(f.file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var commit string
	if _, err := fmt.Sscan(string(text), &n, &commit); err != nil {
		return 0, fmt.Errorf("%s: %w", f.file, err)
	}
	if n > len(f.history.events) || f.commit(n) != commit {
		return 0, wrong("the history was rewritten: it has no commit %s in its old place any more; begin again with a new -journal and -target", commit)
	}
	return n, nil
}

// commit names the commit of the last of n events.
func (f *feed) commit(n int) string { return f.history.commits[f.history.events[n-1].Commit] }

// noted is the handler of the marks.
func (f *feed) noted(job executor.Merged[Change]) error {
	known, err := f.load()
	if err != nil {
		return err
	}
	fed := known
	for _, p := range job.Payloads {
		fed = max(fed, p.Value.Fed)
	}
	if fed > known {
		if err := f.save(fed); err != nil {
			return err
		}
	}
	if job.Latest().Probe {
		select {
		case f.probed <- struct{}{}:
		default:
		}
	}
	return nil
}

// save makes the figure durable, because the mark is gone after that.
func (f *feed) save(n int) error {
	fresh, err := os.CreateTemp(filepath.Dir(f.file), filepath.Base(f.file)+"-*")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(fresh, n, f.commit(n))
	if err = errors.Join(err, fresh.Sync(), fresh.Close()); err != nil {
		return errors.Join(err, os.Remove(fresh.Name()))
	}
	return os.Rename(fresh.Name(), f.file)
}

// run finds out where it was and enqueues the rest. It calls tick from time to
// time.
func (f *feed) run(ctx context.Context, q *executor.Queue[Change], tick func()) error {
	if _, err := q.EnqueueMany(ctx, []executor.Item[Change]{{Payload: Change{Probe: true}, Due: first}}); err != nil {
		return err
	}
	select {
	case <-f.probed:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	n, err := f.load()
	for err == nil && n < len(f.history.events) {
		chunk := f.history.events[n:min(n+chunkSize, len(f.history.events))]
		n += len(chunk)
		items := make([]executor.Item[Change], 0, chunkSize+1)
		for _, c := range chunk {
			items = append(items, executor.Item[Change]{Payload: c})
		}
		items = append(items, executor.Item[Change]{Payload: Change{Fed: n}, Due: first})
		_, err = q.EnqueueMany(ctx, items)
		tick()
	}
	return err
}
