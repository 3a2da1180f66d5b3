package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor"
)

// diskProof repeats B3 and B4 on a file system of one or two MiB: when it is
// full, calls are refused, nothing that was accepted is lost, handlers go on,
// and work goes on by itself when there is room: because the disk became larger,
// or because of nothing but jobs that ended.
// On every second disk processes die while it is full, and start again; see
// crowdOnce.
func diskProof(c *campaign) error {
	for c.more() {
		err := c.trial(func(c *campaign, r *rand.Rand, dir string) error {
			if r.IntN(2) == 0 {
				return crowdOnce(c, r, dir)
			}
			return fillOnce(c, r, dir)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// recovery is how long after room came back the first call must be accepted,
// on a machine that has other work.
const recovery = 3 * time.Second

func fillOnce(c *campaign, r *rand.Rand, dir string) error {
	o, copies := newOracle(), 0
	err := onSmallDisk(c, r, dir, tinyMode, o, func(words []string) (err error) {
		if words[0] != "c" {
			return errNotHeard
		}
		copies++ // of the journal at this moment
		in, err := contents(words[1])
		if err == nil {
			err = errors.Join(o.missing(in), o.again(in))
		}
		if err != nil {
			err = fmt.Errorf("copy %d, %s: %w", copies, words[1], err)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case copies != 4:
		return fmt.Errorf("%d copies of the journal, want 4", copies)
	case o.answers["full"] == 0:
		return errors.New("the disk was never full")
	}
	return nil
}

// errNotHeard is what a listener says of a line that is not for it.
var errNotHeard = errors.New("not heard")

// onSmallDisk has a child live on a small disk, to its end. Hear gets its lines first,
// and what is not for it the oracle.
func onSmallDisk(c *campaign, r *rand.Rand, dir, mode string, o *oracle, hear func(words []string) error) error {
	l := randomLife(r, filepath.Join(dir, "small", "jobs.strand"), 1)
	l.Mode, l.CrashLimit = mode, -1
	if err := os.Mkdir(filepath.Dir(l.Dir), 0o700); err != nil {
		return err
	}
	o.begin(1)
	p, err := startLife(l, func(line string) error {
		words := strings.Fields(line)
		if words[0] == "t" {
			var n int
			_, err := fmt.Sscan(words[2], &n)
			c.highest(words[1], n)
			if words[1] == walBytes {
				c.count("lives with a log before the file", 1)
			}
			return err
		}
		if err := hear(words); err != errNotHeard {
			return err
		}
		return o.hear(line)
	})
	if err != nil {
		return err
	}
	if err := p.Wait(60 * time.Second); err != nil {
		return err
	}
	o.end()
	c.did(1)
	c.count("calls refused", o.answers["full"])
	c.count("calls accepted", o.answers["accepted"])
	if !o.clean {
		return fmt.Errorf("life %d ended with: %s", o.life, o.class)
	}
	return nil
}

// filler is the child on its small disk.
type filler struct {
	*producer
	gate chan struct{} // closed: handlers may end
	done chan struct{} // one for each that has
	hand atomic.Int64  // handlers that run
	ids  int
	next uint64
}

// fillDisk is the life of the child.
func fillDisk(l life) int {
	more, err := smallDisk(filepath.Dir(l.Dir), 1<<20+int(l.Seed%(1<<20)))
	if err != nil {
		say("z no small disk: %v", err)
		return 0
	}
	f := startFiller(l, executor.QueueConfig[[]byte]{Share: executor.Share{Shards: 3}})
	if f == nil {
		return 0
	}
	if l.Seed%2 == 0 {
		more = func() error { return nil } // ended jobs have to do
	}
	f.fillAndRecover(more)
	f.drain()
	f.copyTo("end")
	f.stop()
	return 0
}

// startFiller starts the executor of a filler; nil when it does not.
func startFiller(l life, cfg executor.QueueConfig[[]byte]) *filler {
	f := &filler{
		ids:      50,
		producer: &producer{actor: newActor(l), r: rand.New(rand.NewPCG(l.Seed, 0))},
		gate:     make(chan struct{}), done: make(chan struct{}, 1<<20),
	}
	var err error
	if f.x, err = f.open(nil); err != nil {
		say("z open: %v", err)
		return nil
	}
	if l.Number > 1 && errors.Is(f.x.SetSourceOffset(context.Background(), "started", int64(l.Number)), executor.ErrFull) {
		say("b") // and that is known before the first queue is registered
	}
	queue, err := executor.HandleMerged(f.x, sequenceQueues[0], f.handle, cfg)
	if err == nil {
		f.queues[sequenceQueues[0]] = queue
		err = f.x.Start(context.Background())
	}
	if err != nil {
		say("z start: %v", err)
		return nil
	}
	return f
}

// fillAndRecover is the story: full, handlers go on, room, accepted again.
func (f *filler) fillAndRecover(more func() error) {
	for f.call() == nil {
	}
	for range 3 {
		_ = f.call()
	}
	f.sayWAL()
	f.copyTo("full")
	close(f.gate)
	for range 10 {
		select {
		case <-f.done:
		case <-time.After(5 * time.Second):
			say("x no handler ends while the disk is full")
			return
		}
	}
	f.copyTo("running")
	if err := more(); err != nil {
		say("x no room: %v", err)
		return
	}
	start := time.Now()
	for f.call() != nil {
		if time.Since(start) > recovery {
			say("x not accepted %v after there was room", time.Since(start))
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	say("t milliseconds-to-recover %d", time.Since(start).Milliseconds())
	f.copyTo("accepted")
}

// walBytes is the figure of a log before the file.
const walBytes = "bytes-of-a-log-before-the-file"

// sayWAL says whether there is a log before the file.
func (f *filler) sayWAL() {
	if info, err := os.Stat(filepath.Join(f.Dir, walFile)); err == nil {
		say("t %s %d", walBytes, info.Size())
	}
}

// call enqueues one payload that is refused only for want of room, and in time.
func (f *filler) call() error {
	took, err := f.enqueueWithin(5 * time.Second)
	if err == nil {
		return nil
	}
	if !errors.Is(err, executor.ErrFull) {
		say("x refused with another error: %v", err)
	}
	say("t milliseconds-to-refuse %d", took.Milliseconds())
	return err
}

func (f *filler) enqueueWithin(patience time.Duration) (took time.Duration, err error) {
	f.next++
	id := fmt.Sprintf("p%d", f.r.IntN(f.ids))
	op, number := f.ops.Add(1), f.next
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	say("i %d %s %s:%d", op, sequenceQueues[0], id, number)
	start := time.Now()
	r, err := f.queues[sequenceQueues[0]].Enqueue(ctx, id, writePayload(number))
	took = time.Since(start)
	if err == nil {
		say("a %d %t %d:%d", op, r.Durable, r.Position, r.MergedInto)
		return took, nil
	}
	say("e %d %s %v", op, class(err), err)
	return took, err
}

func (f *filler) handle(_ context.Context, job executor.Merged[[]byte]) error {
	run := f.runs.Add(1)
	f.hand.Add(1)
	<-f.gate
	f.hand.Add(-1)
	var line strings.Builder
	for _, p := range job.Payloads {
		number, err := readPayload(p.Value)
		if err != nil {
			say("x payload %d: %v", p.Position, err)
		}
		fmt.Fprintf(&line, " %d:%d", p.Position, number)
	}
	say("s %d %s %s%s", run, job.Queue, job.ID, line.String())
	say("f %d over", run)
	f.done <- struct{}{}
	return nil
}

// copyTo leaves a copy of the journal where the parent can see it: what a
// crash at this moment would leave.
func (f *filler) copyTo(name string) {
	to := filepath.Join(filepath.Dir(filepath.Dir(f.Dir)), name)
	if err := f.x.Copy(context.Background(), to); err != nil {
		say("x copy: %v", err)
		return
	}
	say("c %s", to)
}
