package executor

import (
	"fmt"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor/internal/gate"
	"github.com/strandjobs/strand/executor/internal/statekey"
	"github.com/strandjobs/strand/journal"
)

// IdempotencyKey makes a call safe to repeat. The key is any string of 1 to 512 bytes,
// for example the id of the request. If a call with the same key was accepted before in
// the same queue, within Config.Advanced.IdempotencyTTL, the call enqueues nothing and
// returns the receipts of the first one with Duplicate set. So a caller that got
// ErrUnknown can make the same call again, also from the next process: the key is in
// the commit of the payload. Calls with one key at the same time wait for each other,
// and one is accepted.
//
// What a handler enqueues with a key is enqueued again when the handler is retried
// after Config.Advanced.IdempotencyTTL: the default retries go on for 20 days. What
// follows the success of a job needs no key: see [Queue.FollowUp].
//
// A key belongs to the queue, whatever the id. Where several senders make up keys, put
// the sender into the key; otherwise a second sender with the same key is taken for the
// first. The payloads of the calls are not compared, except that [Queue.EnqueueMany]
// returns ErrInvalidKey for another number of items than the first call had.
func IdempotencyKey(key string) Option { return Option{kind: optionIdempotency, name: key} }

const (
	// sweepsPerTTL is how often in IdempotencyTTL expired keys are looked for: at
	// most one in so many has expired and is still there, as long as keyed calls
	// come.
	sweepsPerTTL = 16

	// sweepStep is how many keys one call looks at, which takes about as long as to
	// commit. In memory all are looked at: there is nothing to wait for, and the
	// call that goes on would have to sort them again.
	sweepStep = 512
)

func (x *Executor) expired(k statekey.Idempotency) bool {
	return time.Since(time.Unix(0, k.At)) >= x.cfg.Advanced.IdempotencyTTL
}

// acceptedBefore returns where the call begins that came with the key before, 0
// when there was none. The caller is inside the gate of the key.
func (x *Executor) acceptedBefore(c *conditions, n int) (first journal.Position, err error) {
	k, found, err := x.readKey(c.stateKey)
	if err != nil || !found || x.expired(k) {
		return 0, err
	}
	if n != k.N {
		return 0, fmt.Errorf("%w: %q came with %d items before, now it has %d", ErrInvalidKey, c.key, k.N, n)
	}
	return k.First, nil
}

func (x *Executor) readKey(stateKey string) (k statekey.Idempotency, found bool, err error) {
	value, err := x.log.Get(stateKey)
	if err != nil || value == nil {
		return k, false, err
	}
	if k, err = statekey.ParseIdempotency(value); err != nil {
		return k, false, statekey.Refused(stateKey, err)
	}
	return k, true, nil
}

// sweeper says where the search for expired keys goes on.
type sweeper struct {
	// mu is held by the caller that searches; others do not wait for it.
	mu   sync.Mutex
	from string    // the next state key to look at; empty between two passes
	next time.Time // of the next pass
}

// sweepKeys takes expired keys out of the journal with one of the next commits.
// There is no list of them by age: it would have to be written, too, and keys live
// long. Callers take turns in going through them all, again and again.
func (x *Executor) sweepKeys() {
	s := &x.sweeper
	if !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	now := time.Now()
	if s.from == "" && now.Before(s.next) {
		return
	}
	var change journal.Change
	var inside []*gate.Gate
	seen := 0
	from := s.from
	s.from = ""
	for set, err := range x.log.Keys(statekey.IdempotencyPrefix, from) {
		if err != nil {
			break // of the disk; the next write returns it
		}
		if seen == sweepStep && !x.volatile {
			s.from = set.Key
			break
		}
		seen++
		if g := x.enterExpired(set); g != nil {
			inside = append(inside, g)
			change.Sets = append(change.Sets, journal.Set{Key: set.Key})
		}
	}
	if s.from == "" {
		s.next = now.Add(x.cfg.Advanced.IdempotencyTTL / sweepsPerTTL)
	}
	if len(inside) > 0 {
		x.log.Record(&change) // and what comes through the gates from now on is written later
	}
	for _, g := range inside {
		x.gates.Leave(g)
	}
}

// enterExpired enters the gate of an expired key. Nil: it has not expired, or a
// call is about to use it again.
func (x *Executor) enterExpired(set journal.Set) *gate.Gate {
	if k, err := statekey.ParseIdempotency(set.Value); err != nil || !x.expired(k) {
		return nil
	}
	g := x.gates.TryEnter(set.Key)
	if g == nil {
		return nil
	}
	if k, found, err := x.readKey(set.Key); err != nil || !found || !x.expired(k) {
		x.gates.Leave(g)
		return nil
	}
	return g
}
