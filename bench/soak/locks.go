package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"
)

// lockProof has processes killed while they hold a thousand locks, counters and
// slots, and jobs wait for them. What the next one finds must be what the jobs
// that survived explain, and the last one must run them all.
func lockProof(c *campaign) error {
	for c.more() {
		if err := c.trial(lockOnce); err != nil {
			return err
		}
	}
	return nil
}

func lockOnce(c *campaign, r *rand.Rand, parent string) error {
	dir := filepath.Join(parent, "jobs.strand")
	l := newLedger()
	number := 1
	for last := 1 + r.IntN(12); number <= last; number++ {
		if err := holdAndDie(c, r, l, lockLife(r, dir, number)); err != nil {
			return fmt.Errorf("life %d: %w", number, err)
		}
		if err := l.survey(dir, filepath.Join(parent, "copy")); err != nil {
			return fmt.Errorf("after life %d: %w", number, err)
		}
		if !c.more() {
			number++
			break
		}
	}
	end := lockLife(r, dir, number)
	end.Mode = unlockMode
	l.begin()
	if err := drain(l.oracle, end, l.hear); err != nil {
		return fmt.Errorf("life %d, the drain: %w%s", number, err, l.stuck())
	}
	if l.held > 0 {
		return fmt.Errorf("%d locks and slots are held after all jobs are over", l.held)
	}
	l.end()
	c.count("calls accepted", l.answers["accepted"])
	c.count("runs with a slot", l.reservations)
	c.count("jobs that ended with a slot", len(l.sold))
	return nil
}

func holdAndDie(c *campaign, r *rand.Rand, l *ledger, x life) error {
	l.oracle.begin(x.Number)
	l.begin()
	p, err := startLife(x, l.hear)
	if err != nil {
		return err
	}
	select {
	case <-l.enough:
	case <-time.After(20 * time.Second):
		return errors.Join(fmt.Errorf("it does not hold %d locks, counters and slots after 20 s", heldAtLeast), p.Killed())
	}
	time.Sleep(time.Duration(r.IntN(int(50 * time.Millisecond))))
	if r.IntN(10) == 0 { // killed while it stops
		_ = p.Stdin.Close()
		time.Sleep(time.Duration(r.IntN(int(10 * time.Millisecond))))
	}
	err = p.Killed()
	c.did(1)
	l.end()
	if x.Number > 1 {
		c.count("locks, counters and slots found after the kills", l.found)
		if l.found < heldAtLeast {
			c.count(fmt.Sprintf("kills with less than %d held", heldAtLeast), 1)
		}
	}
	if err == nil && l.dead && !l.clean {
		err = fmt.Errorf("it ended with: %s", l.class)
	}
	return err
}
