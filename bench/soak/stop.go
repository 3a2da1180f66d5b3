package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor"
)

const (
	// stopGrace is how long after its deadline Stop may return: handlers get
	// that long to react to the end of their context.
	stopGrace = 100 * time.Millisecond
	// stopSlack is for a machine that has other work: only what is later than
	// that fails, and what is later than stopGrace is counted. Stop itself gives a
	// disk another second.
	stopSlack = 2 * time.Second
)

// stopProof repeats N11: a stop at a random moment under load returns in time,
// loses nothing that was accepted, and leaves no goroutine behind.
func stopProof(c *campaign) error {
	for c.more() {
		if err := c.trial(stopOnce); err != nil {
			return err
		}
	}
	return nil
}

// crowd is the load on one executor.
type crowd struct {
	mu       sync.Mutex
	accepted map[uint64]bool
	ended    map[uint64]bool
	release  func()        // lets the deaf handlers go
	released chan struct{} // closed by release
}

func stopOnce(c *campaign, r *rand.Rand, dir string) error {
	dir = filepath.Join(dir, "jobs.strand")
	before := runtime.NumGoroutine()
	l := randomLife(r, dir, 1)
	l.Compact = false // which a stop has to wait for
	x, err := l.open(nil)
	if err != nil {
		return err
	}
	load := &crowd{accepted: map[uint64]bool{}, ended: map[uint64]bool{}, released: make(chan struct{})}
	load.release = sync.OnceFunc(func() { close(load.released) })
	defer load.release()
	queue, err := executor.HandleMerged(x, sequenceQueues[0], load.handler(uint64(r.Int64())), executor.QueueConfig[[]byte]{
		Share: executor.Share{Shards: 1 + r.IntN(6)}, RetryIn: func(int) time.Duration { return time.Millisecond },
	})
	if err == nil {
		err = x.Start(context.Background())
	}
	if err != nil {
		return errors.Join(err, x.Stop(context.Background()))
	}
	var producers sync.WaitGroup
	for g := range 1 + r.IntN(4) {
		producers.Go(func() { load.produce(queue, uint64(g)) })
	}
	time.Sleep(time.Duration(r.IntN(int(30 * time.Millisecond))))
	patience := time.Duration(r.IntN(int(40 * time.Millisecond)))
	// A stop that waits for the deaf ones is to be seen, not to be waited for.
	defer time.AfterFunc(patience+stopGrace+2*stopSlack, load.release).Stop()
	late, err := stopIn(x, patience, 1+r.IntN(2))
	load.release()
	producers.Wait()
	c.did(1)
	c.highest("microseconds after the deadline, at most", int(late.Microseconds()))
	if late > stopGrace {
		c.count("stops later than 100 ms after the deadline", 1)
	}
	switch {
	case late > stopGrace+stopSlack:
		return fmt.Errorf("the stop returned %v after its deadline", late)
	case errors.Is(err, executor.ErrStuck):
		c.count("stops that left a handler behind", 1)
	case err != nil:
		return err
	}
	// Handlers that were left behind keep the journal locked.
	if err := goroutinesLeft(before); err != nil {
		return err
	}
	in, err := contents(dir)
	if err != nil {
		return err
	}
	return load.lost(c, in)
}

// stopIn stops x from several goroutines at once. It returns how long after
// the deadline the last of them came back.
func stopIn(x *executor.Executor, patience time.Duration, callers int) (late time.Duration, err error) {
	deadline := time.Now().Add(patience)
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	errs := make([]error, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() { errs[i] = x.Stop(ctx) })
	}
	all.Wait()
	return max(0, time.Since(deadline)), errs[0]
}

// handler is quick most of the time, slow sometimes, and now and then deaf to
// the end of its context.
func (l *crowd) handler(seed uint64) func(context.Context, executor.Merged[[]byte]) error {
	return func(ctx context.Context, job executor.Merged[[]byte]) error {
		r := rand.New(rand.NewPCG(seed, job.Payloads[0].Position))
		pause := time.Duration(r.IntN(int(20 * time.Millisecond)))
		switch p := r.IntN(100); {
		case p < 10:
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		case p < 11:
			<-l.released
		case p < 20 && job.Attempt < 4:
			return errors.New("no luck")
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, p := range job.Payloads {
			number, err := readPayload(p.Value)
			if err != nil {
				return err
			}
			l.ended[number] = true
		}
		return nil
	}
}

func (l *crowd) produce(queue *executor.Queue[[]byte], index uint64) {
	for number := index * 1e6; ; number++ {
		id := fmt.Sprintf("p%d.%d", index, number%50)
		if _, err := queue.Enqueue(context.Background(), id, writePayload(number)); err != nil {
			return
		}
		l.mu.Lock()
		l.accepted[number] = true
		l.mu.Unlock()
	}
}

// lost compares what was accepted with what ended or waits in the journal. A
// handler that was left behind may still end after that: it can only add.
func (l *crowd) lost(c *campaign, in found) error {
	there := map[uint64]bool{}
	for _, numbers := range in {
		for number := range numbers {
			there[number] = true
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.count("payloads accepted", len(l.accepted))
	for number := range l.accepted {
		if !there[number] && !l.ended[number] {
			return fmt.Errorf("payload %d was accepted, did not run to its end, and is lost", number)
		}
	}
	return nil
}

// goroutinesLeft waits for the number of goroutines to come back to what it
// was. Handlers that Stop left behind end by themselves.
func goroutinesLeft(before int) error {
	for deadline := time.Now().Add(2 * time.Second); ; time.Sleep(time.Millisecond) {
		n := runtime.NumGoroutine()
		if n <= before {
			return nil
		}
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<16)
			return fmt.Errorf("%d goroutines before, %d after:\n%s", before, n, stacks[:runtime.Stack(stacks, true)])
		}
	}
}
