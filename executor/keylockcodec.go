package executor

import (
	"math"
	"time"

	"github.com/strandjobs/strand/executor/internal/statekey"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
)

func (l *locks) written(c lock.Change) journal.Set {
	if c.Ended {
		return journal.Set{Key: statekey.LockKey(c.Lock.Number)}
	}
	l.binding.Lock()
	defer l.binding.Unlock()
	return l.set(c.Lock)
}

// set is what the journal has of a key-lock. binding is held.
func (l *locks) set(h *lock.KeyLock) journal.Set {
	now := time.Now()
	zero := now.UnixNano() - int64(now.Sub(l.base))
	until := int64(h.Until)
	if until != 0 {
		until = zero + min(until, math.MaxInt64-zero)
	}
	k := statekey.KeyLock{
		Number: h.Number, Position: h.Position, OnRun: h.OnRun, Since: zero + int64(h.Since), Until: until, Owner: h.Owner, Key: h.Key,
	}
	return k.Set()
}

// parse takes a key-lock from the journal, and when it ends on the wall clock.
func (l *locks) parse(s journal.Set, now time.Time) (h *lock.KeyLock, until int64, err error) {
	k, err := statekey.ParseKeyLock(s)
	if err != nil {
		return nil, 0, statekey.Refused(s.Key, err)
	}
	zero := now.UnixNano() - int64(now.Sub(l.base))
	h = &lock.KeyLock{
		Number: k.Number, Position: k.Position, OnRun: k.OnRun, Since: time.Duration(k.Since - zero), Owner: k.Owner, Key: k.Key,
	}
	if k.Until != 0 {
		h.Until = time.Duration(k.Until - zero)
	}
	return h, k.Until, nil
}
