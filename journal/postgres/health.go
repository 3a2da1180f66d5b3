package postgres

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor"
)

// Err returns why partitions that this node should serve are not served, or what the inbox has for
// them is not taken in, each by its number; what executor.Executor.Err says of each; which ones have
// something for a queue that this node does not have, half a minute late at most; which ones another
// node gets when handlers have returned that take longer than Config.Executor.StopTimeout; why the last attempt to write the inbox has failed; and
// since when the node can't renew its leases or get new ones, if its last attempt to do so has
// failed; and who holds a [Snapshot] for more than an hour. nil: there is nothing to say. It goes on trying by itself, but after [ErrBehind]. Before
// Start and after Stop there is no attempt.
func (n *Node) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	if n.outage.err != nil && n.state == started {
		errs = append(errs, fmt.Errorf("postgres: connection: leases can't be renewed or taken since %s: %w",
			n.outage.since.Format(time.RFC3339), n.outage.err))
	}
	if err := n.outbox.failing(); err != nil && n.state != stopping {
		errs = append(errs, fmt.Errorf("postgres: the inbox can't be written: %w", err))
	}
	errs = append(errs, n.snapshot.failing())
	for _, number := range slices.Sorted(maps.Keys(n.failed)) {
		errs = append(errs, fmt.Errorf("partition %d: %w", number, n.failed[number].err))
	}
	for _, number := range slices.Sorted(maps.Keys(n.held)) {
		p := n.held[number]
		if p.ready.Load() {
			if err := p.taker.failing(); err != nil {
				errs = append(errs, fmt.Errorf("partition %d: the inbox can't be taken in: %w", number, err))
			}
			if err := p.x.Err(); err != nil && p.serving() && !errors.Is(err, executor.ErrClosed) {
				errs = append(errs, fmt.Errorf("partition %d: %w", number, err))
			}
			others := p.taker.unserved()
			for _, queue := range slices.Sorted(maps.Keys(others)) {
				errs = append(errs, fmt.Errorf("partition %d: %d wait for queue %q, which this node does not have: register it, or stop this node", number, others[queue], queue))
			}
			if count := p.lingering(); count > 0 {
				errs = append(errs, fmt.Errorf("partition %d: another node gets it when %d handlers have returned", number, count))
			}
		} else if time.Since(p.began) > n.cfg.Lease {
			what := "it is being opened"
			if p.settingUp.Load() {
				what = "Setup has not returned"
			}
			errs = append(errs, fmt.Errorf("partition %d: not served since %s: %s", number, p.began.Format(time.RFC3339), what))
		}
	}
	return errors.Join(errs...)
}

// outage is for how long the leases can't be tended, and why; nil: they can.
type outage struct {
	since time.Time
	err   error
}

// noteTended notes what has become of an attempt that began at a time.
func (n *Node) noteTended(began time.Time, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.outage.err == nil {
		n.outage.since = began
	}
	n.outage.err = err
}
