package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"
)

// killProof repeats N1: processes are killed at random moments under load, and
// what they leave is opened by others with other settings, until one drains it.
func killProof(c *campaign) error {
	for c.more() {
		if err := c.trial(killOnce); err != nil {
			return err
		}
	}
	return nil
}

// killOnce is the story of one journal: some deaths, some ordinary ends, and a
// drain at the end.
func killOnce(c *campaign, r *rand.Rand, dir string) error {
	dir = filepath.Join(dir, "jobs.strand")
	o := newOracle()
	number, parked := 0, r.IntN(2) == 0
	for range 1 + r.IntN(12) {
		number++
		if err := liveAndDie(c, r, o, killLife(r, o, randomLife(r, dir, number), parked)); err != nil {
			return fmt.Errorf("life %d: %w", number, err)
		}
		if !c.more() {
			break
		}
	}
	for range 2 { // after a clean end the second one finds nothing to do
		number++
		l := killLife(r, o, drainLife(r, dir, number), parked)
		if r.IntN(8) > 0 { // seldom, because the suspects of the kills may be held for ten seconds
			l.CrashLimit = -1
		}
		if err := drain(o, l, o.hear); err != nil {
			return fmt.Errorf("life %d, the drain: %w", number, err)
		}
		o.end()
	}
	if err := o.ranAgain(); err != nil {
		return err
	}
	for _, crash := range o.crashes {
		c.highest("most run again after one kill (had returned)", crash.again)
		c.highest("most run again after one kill (were running)", crash.running)
	}
	c.count("calls accepted", o.answers["accepted"])
	c.count("lines of the children", o.line)
	c.count("runs with an outcome for each payload", o.parted)
	for outcome, n := range o.events {
		c.count("attempts of events, "+outcome, n)
	}
	calls, repeats, events := o.once()
	c.count("calls with a key", calls)
	c.count("calls with a key made again", repeats)
	c.count("events of numbered sources", int(events))
	return nil
}

// killLife is a life whose calls are to be accepted once, however often they are
// made. In every third one the workers are busier than the jobs: runs are long, and
// a slow job is among the fast ones. In every fifth one few workers have many ids.
func killLife(r *rand.Rand, o *oracle, l life, parked bool) life {
	l.Keyed, l.Sources, l.Parked = true, sources, parked
	l.Again = o.toRepeat(r)
	if r.IntN(5) == 0 {
		l.Wide, l.Workers = true, 1+r.IntN(2)
		return l
	}
	if r.IntN(3) > 0 {
		return l
	}
	l.Busy, l.Workers = true, 1+r.IntN(2)
	for i := range l.Queues {
		q := &l.Queues[i]
		q.Shards, q.Concurrency, q.Batch = 1+r.IntN(2), 1+r.IntN(3), 1
	}
	return l
}

func liveAndDie(c *campaign, r *rand.Rand, o *oracle, l life) error {
	o.begin(l.Number)
	p, err := startLife(l, o.hear)
	if err != nil {
		return err
	}
	time.Sleep(time.Duration(r.IntN(int(200 * time.Millisecond))))
	if r.IntN(10) == 0 {
		_ = p.Stdin.Close()
		if r.IntN(2) == 0 { // killed while it stops
			time.Sleep(time.Duration(r.IntN(int(10 * time.Millisecond))))
			err = p.Killed()
		} else {
			err = p.Wait(10 * time.Second)
			c.count("ordinary ends", 1)
		}
	} else {
		err = p.Killed()
	}
	c.did(1)
	o.end()
	if err == nil && o.dead && !o.clean {
		err = fmt.Errorf("it ended with: %s", o.class)
	}
	return err
}

// drain runs everything to its end and compares. Hear passes the lines on to o.
func drain(o *oracle, l life, hear func(line string) error) error {
	over := o.clean && l.Number == o.drained+1
	o.begin(l.Number)
	p, err := startLife(l, hear)
	if err != nil {
		return err
	}
	if err := p.Wait(60 * time.Second); err != nil {
		return err
	}
	if !o.clean {
		return fmt.Errorf("it ended with: %s", o.class)
	}
	if over && o.began > 0 {
		return fmt.Errorf("%d runs after a drain", o.began)
	}
	o.drained = l.Number
	if err := o.missing(found{}); err != nil {
		return err
	}
	return o.buried()
}
