package lock

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// ElectionConfig describes one leader flag. The zero value works.
type ElectionConfig struct {
	// Prefix of the flag's key in the table ("leader/cron"). "" = "leader".
	Prefix string
	// Lease is how long a leader stays leader without extending. 0 = 3 min;
	// negative is refused.
	Lease time.Duration
	// AutoExtend lets the table extend the lease of a leader every third of its length until it resigns, so that a
	// leader that is busy stays leader. false = only IsLeader extends, so that a leader that hangs loses the flag.
	AutoExtend bool
}

// Election is a leader flag: at most one of its candidates is the leader. It is a
// key of a [Table] and can be seen there; elections of the same name, prefix and
// table are the same flag. All methods may be called by any number of goroutines.
type Election struct {
	table *Table
	key   string
	cfg   ElectionConfig
}

// NewElection returns the leader flag of that name. It returns [ErrEmptyKey] or
// [ErrConfig].
func (t *Table) NewElection(name string, cfg ElectionConfig) (*Election, error) {
	if name == "" {
		return nil, ErrEmptyKey
	}
	if cfg.Lease < 0 {
		return nil, errDuration
	}
	cfg.Lease = cmp.Or(cfg.Lease, 3*time.Minute)
	return &Election{t, cmp.Or(cfg.Prefix, "leader") + "/" + name, cfg}, nil
}

// Leader says who leads now, and gives a channel that is closed at the next change: a new leader, or none. A caller
// that loops over the two sees the newest leader, and each one in between if it is quick enough. Owner is the
// candidate, Token the fencing token of the reign, larger than that of all earlier ones; 0: nobody leads.
func (e *Election) Leader() (leader Held, changed <-chan struct{}) {
	var o op
	t := e.table
	t.enter(&o)
	defer t.done(&o)
	at := t.entry(e.key)
	t.idle.remove(&at.idle)
	if at.changed == nil {
		at.changed = make(chan struct{})
	}
	if at.lease != nil {
		leader = t.heldLocked(at.lease, &o)
	}
	return leader, at.changed
}

// Candidate returns the one who takes part under id. Candidates with the same id are one party: when one of them leads
// all do. It returns [ErrEmptyKey] for an empty id.
func (e *Election) Candidate(id string) (*Candidate, error) {
	if id == "" {
		return nil, fmt.Errorf("%w: candidate of %q", ErrEmptyKey, e.key)
	}
	c := &Candidate{election: e, id: id, campaign: make(chan struct{}, 1)}
	c.length.Store(int64(e.cfg.Lease))
	return c, nil
}

// Candidate takes part in an [Election]. Whether it leads is known to the table
// alone. All methods may be called by any number of goroutines.
type Candidate struct {
	election *Election
	id       string
	campaign chan struct{} // holds one value while a Campaign waits; the second one waits for it
	length   atomic.Int64  // of a lease, a time.Duration
}

// options are those of a request for the flag.
func (c *Candidate) options() Options {
	return Options{Owner: c.id, TTL: time.Duration(c.length.Load()), extends: c.election.cfg.AutoExtend}
}

// IsLeader may change the lease; to ask without changing anything, use Epoch. IsLeader takes the flag if it is free,
// and extends the lease if the candidate leads. False means that another candidate leads, or that others wait in
// Campaign. A leader whose lease ran out while it was not asking is told false once another one has the flag.
func (c *Candidate) IsLeader() bool {
	var o op
	opt := c.options()
	t := c.election.table
	t.enter(&o)
	defer t.done(&o)
	if at := t.entries[c.election.key]; c.leadsLocked(at) {
		at.lease.extends = at.lease.extends || opt.extends
		t.extend(at.lease, opt.TTL, &o)
		return true
	}
	return t.try(opt, []string{c.election.key}, &o) != nil
}

func (c *Candidate) leadsLocked(at *entry) bool {
	return at != nil && at.lease != nil && at.lease.owner == c.id
}

// Campaign waits until the candidate leads, in the order of arrival among all who campaign, or ctx ends; the error is
// then as for [Table.Acquire], a [DeadlockError] included when another Candidate of the same id campaigns too. One that
// leads already does not wait.
func (c *Candidate) Campaign(ctx context.Context) error {
	over, err := done(ctx)
	if err != nil {
		return err
	}
	select {
	case c.campaign <- struct{}{}:
		defer func() { <-c.campaign }()
	case <-over:
		return ctxError(ctx, []string{c.election.key})
	}
	if end(ctx) != nil {
		return ctxError(ctx, []string{c.election.key})
	}
	if c.IsLeader() {
		return nil
	}
	_, err = c.election.table.Acquire(ctx, c.options(), c.election.key)
	return err
}

// lease returns the lease of the reign, or an error that is [ErrNotLeader].
func (c *Candidate) lease() (Lease, error) {
	var o op
	t := c.election.table
	t.enter(&o)
	defer t.done(&o)
	if at := t.entries[c.election.key]; c.leadsLocked(at) {
		return t.lease(at.lease), nil
	}
	return Lease{}, fmt.Errorf("%w: %q of %q", ErrNotLeader, c.id, c.election.key)
}

// Epoch is the fencing token of the reign, and 0 when the candidate does not lead.
// It does not extend the lease.
func (c *Candidate) Epoch() uint64 {
	l, _ := c.lease()
	return l.token
}

// Context returns a child of parent that is canceled, with the reason as its cause, when the reign ends. It returns
// [ErrNotLeader], and nothing else, when the candidate does not lead. An unusable parent is no error: see
// [Lease.Context]. Call the returned function when done.
func (c *Candidate) Context(parent context.Context) (context.Context, context.CancelFunc, error) {
	l, err := c.lease()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := l.Context(parent)
	return ctx, cancel, nil
}

// Resign gives the flag to the next who campaigns. It returns [ErrNotLeader],
// without effect, when the candidate does not lead.
func (c *Candidate) Resign() error {
	l, err := c.lease()
	if err != nil {
		return err
	}
	if err := l.Unlock(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	return nil
}

// SetLease makes the present and later leases of this candidate last d. Only the leader may. It returns, without
// effect, [ErrNotLeader] otherwise, and [ErrConfig] when d is not positive.
func (c *Candidate) SetLease(d time.Duration) error {
	if d <= 0 {
		return errDuration
	}
	l, err := c.lease()
	if err != nil {
		return err
	}
	if err := l.Extend(d); err != nil {
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	c.length.Store(int64(d))
	return nil
}
