package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/strandjobs/strand/bench/baseline"
	"github.com/strandjobs/strand/executor"
)

// replay opens a journal with many pending jobs, in a process of its own, so
// that its peak memory is that of the replay.
func replay() workload {
	return workload{
		name: "replay", durability: "sync", n: 1_000_000, rounds: 5,
		figures: func(int) []figure {
			return []figure{
				{unit: "jobs/s", baseline: "bbolt/scan", goal: goal{value: 1e6}},
				{suffix: "/rss", unit: "MiB", baseline: "bbolt/scan", lower: true},
			}
		},
		prepare:  prepareReplay,
		subject:  func(ctx context.Context, l *lab) (measured, error) { return l.child(ctx, childReplay) },
		baseline: func(ctx context.Context, l *lab) (measured, error) { return l.child(ctx, childScan) },
	}
}

func prepareReplay(ctx context.Context, l *lab) error {
	if err := baseline.Fill(l.dir, l.n); err != nil {
		return err
	}
	ids := l.ids
	if l.n > len(ids) {
		ids = makeIDs(l.n)
	}
	work := newLoad(l.n, ids)
	ctx, s, err := l.open(ctx, filepath.Join(l.dir, "jobs.strand"), work.handle)
	if err != nil {
		return err
	}
	return s.stop(work.bulk(ctx, s.q, bulkProducers))
}

// childVariable tells a process that it is a child, and what to do.
const childVariable = "STRAND_BENCH_CHILD"

const (
	childReplay = "replay"
	childScan   = "scan"
)

// order is what a child is told, report what it says.
type (
	order struct {
		Kind, Dir string
		N, Shards int
	}
	report struct {
		Seconds, PeakMiB float64
		Error            string
	}
)

// child does the work in another process.
func (l *lab) child(ctx context.Context, kind string) (measured, error) {
	self, err := os.Executable()
	if err != nil {
		return measured{}, err
	}
	what, err := json.Marshal(order{kind, l.dir, l.n, l.shards})
	if err != nil {
		return measured{}, err
	}
	command := exec.CommandContext(ctx, self)
	command.Env = append(os.Environ(), childVariable+"="+string(what))
	var errOut bytes.Buffer
	command.Stderr = &errOut
	out, err := command.Output()
	if err != nil {
		return measured{}, fmt.Errorf("child: %w: %s", err, bytes.TrimSpace(errOut.Bytes()))
	}
	var r report
	if err := json.Unmarshal(out, &r); err != nil {
		return measured{}, fmt.Errorf("child: %w in %q", err, out)
	}
	if r.Error != "" {
		return measured{}, errors.New(r.Error)
	}
	return measured{[]float64{float64(l.n) / r.Seconds, r.PeakMiB}, r.Seconds}, nil
}

// childMain reports whether this process is a child, after its work.
func childMain() bool {
	what, is := os.LookupEnv(childVariable)
	if !is {
		return false
	}
	var o order
	var r report
	err := json.Unmarshal([]byte(what), &o)
	if err == nil {
		var took time.Duration
		took, err = o.carryOut()
		r.Seconds, r.PeakMiB = took.Seconds(), peakMiB()
	}
	if err != nil {
		r.Error = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		os.Exit(exitFailed) // nobody is listening
	}
	return true
}

func (o order) carryOut() (time.Duration, error) {
	if o.Kind == childScan {
		return baseline.Scan(o.Dir, o.N)
	}
	start := time.Now()
	l := &lab{shards: o.Shards}
	ctx, s, err := l.open(context.Background(), filepath.Join(o.Dir, "jobs.strand"), func(context.Context, executor.Job[[]byte]) error { return nil })
	if err != nil {
		return 0, err
	}
	stats, err := s.q.Stats(ctx) // every shard answers after it has loaded
	took := time.Since(start)
	if err == nil && stats.Payloads != o.N {
		err = fmt.Errorf("%d payloads came back, want %d", stats.Payloads, o.N)
	}
	return took, s.stop(err)
}
