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
	if s := n.snapshot; s.Holder != "" {
		errs = append(errs, fmt.Errorf("postgres: nothing newer than %v can be cleared from the tables, because of %s", s.Age, s.Holder))
	}
	for _, number := range slices.Sorted(maps.Keys(n.failed)) {
		errs = append(errs, fmt.Errorf("partition %d: %w", number, n.failed[number].err))
	}
	for _, number := range slices.Sorted(maps.Keys(n.held)) {
		for _, err := range n.held[number].failing() {
			errs = append(errs, fmt.Errorf("partition %d: %w", number, err))
		}
	}
	return errors.Join(errs...)
}

// failing returns what Err says of a partition.
func (p *partition) failing() (errs []error) {
	switch {
	case !p.ready.Load() && time.Since(p.began) <= p.n.cfg.Lease:
		return nil
	case !p.ready.Load() && p.settingUp.Load():
		return []error{fmt.Errorf("not served since %s: Setup has not returned", p.began.Format(time.RFC3339))}
	case !p.ready.Load():
		return []error{fmt.Errorf("not served since %s: it is being opened", p.began.Format(time.RFC3339))}
	}
	if err := p.taker.failing(); err != nil {
		errs = append(errs, fmt.Errorf("the inbox can't be taken in: %w", err))
	}
	if err := p.x.Err(); err != nil && p.serving() && !errors.Is(err, executor.ErrClosed) {
		errs = append(errs, err)
	}
	others := p.taker.unserved()
	for _, queue := range slices.Sorted(maps.Keys(others)) {
		errs = append(errs, fmt.Errorf("%d wait for queue %q, which this node does not have: register it, or stop this node", others[queue], queue))
	}
	if count := p.lingering(); count > 0 {
		errs = append(errs, fmt.Errorf("another node gets it when %d handlers have returned", count))
	}
	return errs
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
