package postgres

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor"
)

// err is Err of the executor of [Open]. Before Start and after Stop there is no attempt at a lease.
func (n *Node) err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	if n.state == started {
		errs = append(errs, n.leasing.failing("postgres: connection: leases can't be renewed or taken"))
	}
	if n.state != stopping {
		errs = append(errs, n.limiting.failing("postgres: limits of the cluster can't be asked for"))
		errs = append(errs, n.outbox.trouble.failing("postgres: the inbox can't be written"))
	}
	if n.holder != "" {
		errs = append(errs, fmt.Errorf("postgres: nothing newer than %v can be cleared from the tables, because of %s", n.snapshot, n.holder))
	}
	for _, number := range slices.Sorted(maps.Keys(n.failed)) {
		errs = append(errs, fmt.Errorf("partition %d: %w", number, n.failed[number].err))
	}
	for _, number := range slices.Sorted(maps.Keys(n.held)) {
		for _, err := range n.held[number].failing() {
			if err != nil {
				errs = append(errs, fmt.Errorf("partition %d: %w", number, err))
			}
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
	errs = []error{p.store.trouble.failing("the server can't be used"), p.taker.trouble.failing("the inbox can't be taken in")}
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

// trouble is what goes wrong with something, and since when, by the last attempt at it.
type trouble struct {
	mu    sync.Mutex
	since time.Time
	err   error // nil: nothing
}

// note notes what has become of an attempt that began at a time.
func (t *trouble) note(began time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.since = began
	}
	t.err = err
}

// failing returns an error that says what can't be done, since when, and why; nil: it can.
func (t *trouble) failing(what string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		return nil
	}
	return fmt.Errorf("%s since %s: %w", what, t.since.Format(time.RFC3339), t.err)
}

// explain adds to err, that of a call whose time is over, what it has waited for.
func (t *trouble) explain(err error, what string) error {
	if why := t.failing(what); why != nil {
		return fmt.Errorf("%w: %w", err, why)
	}
	return err
}
