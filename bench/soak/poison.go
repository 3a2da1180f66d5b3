package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/strandjobs/strand/executor"
)

// mostDeaths is how often a job may take its process with it: three times, and once
// more where a busy machine had it begin late and end early.
const mostDeaths = 4

const poisonID, innocents = "poison", 40

// poisonProof repeats N10: a job that ends its process, in one of the ways
// that no recover catches, is in the morgue after at most four deaths, and
// every other id completes.
func poisonProof(c *campaign) error {
	for c.more() {
		if err := c.trial(poisonOnce); err != nil {
			return err
		}
	}
	return nil
}

func poisonOnce(c *campaign, r *rand.Rand, dir string) error {
	dir = filepath.Join(dir, "jobs.strand")
	o := newOracle()
	seed, deaths := r.Uint64(), 0
	for number := 1; ; number++ {
		l := randomLife(r, dir, number)
		l.Mode, l.Seed, l.Reports = poisonMode, seed, r.IntN(2) == 0
		o.begin(number)
		p, err := startLife(l, o.hear)
		if err != nil {
			return err
		}
		broken, died := p.End(30 * time.Second)
		o.end()
		if broken != nil {
			return fmt.Errorf("life %d: %w", number, broken)
		}
		if died == nil {
			break
		}
		if deaths++; deaths > mostDeaths {
			return fmt.Errorf("the job ended %d processes and is still there: %s", deaths, p.LastWords())
		}
	}
	c.did(1)
	c.highest("deaths of one job", deaths)
	c.count("deaths", deaths)
	if !o.clean {
		return fmt.Errorf("the last life ended with: %s", o.class)
	}
	if len(o.morgue) != 1 {
		return fmt.Errorf("%d payloads in the morgue, want the poison alone", len(o.morgue))
	}
	in, err := contents(dir)
	if err != nil {
		return err
	}
	if queue := sequenceQueues[0]; len(in) != 1 || len(in[queue+" "+poisonID]) != 1 {
		return fmt.Errorf("in the journal at the end: %v, want the poison alone", in)
	}
	return o.missing(in)
}

// takePoison is the life of the child.
func takePoison(l life) int {
	a := newActor(l)
	var err error
	if a.x, err = a.open(nil); err != nil {
		say("z open: %v", err)
		return 0
	}
	queue, err := executor.HandleMerged(a.x, sequenceQueues[0], a.swallow, executor.QueueConfig[[]byte]{
		Share: executor.Share{Shards: l.Queues[0].Shards, Concurrency: l.Queues[0].Concurrency},
	})
	if err != nil {
		say("z register: %v", err)
		return 0
	}
	a.queues[sequenceQueues[0]] = queue
	p := &producer{actor: a, r: rand.New(rand.NewPCG(l.Seed, 0))}
	if l.Number == 1 {
		at := p.r.IntN(innocents)
		for i := range innocents {
			id := fmt.Sprintf("p%d", i)
			if i == at {
				id = poisonID
			}
			item := executor.Item[[]byte]{ID: id, Payload: writePayload(uint64(i))}
			p.enqueue(sequenceQueues[0], []executor.Item[[]byte]{item}, fmt.Sprintf(" %s:%d", id, i), nil)
		}
	}
	if err := a.x.Start(context.Background()); err != nil {
		say("z start: %v", err)
		return 0
	}
	a.drain()
	a.stop()
	return 0
}

// swallow ends the process if the job is the poison.
func (a *actor) swallow(_ context.Context, job executor.Merged[[]byte]) error {
	run := a.runs.Add(1)
	number, err := readPayload(job.Payloads[0].Value)
	if err != nil {
		return err
	}
	say("s %d %s %s %d:%d", run, job.Queue, job.ID, job.Payloads[0].Position, number)
	time.Sleep(time.Duration(number%4) * time.Millisecond)
	if job.ID != poisonID {
		say("f %d over", run)
		return nil
	}
	switch a.Seed % 4 {
	case 0:
		os.Exit(7)
	case 1:
		go func() { panic("this one is not recovered") }()
	case 2:
		m := map[int]int{}
		for range 8 {
			go func() {
				for i := 0; ; i++ {
					m[i%2] = i
				}
			}()
		}
	case 3:
		self, _ := os.FindProcess(os.Getpid())
		_ = self.Kill()
	}
	time.Sleep(20 * time.Second)
	return errors.New("survived")
}
