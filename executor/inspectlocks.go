package executor

import (
	"cmp"
	"slices"
	"strings"

	"github.com/strandjobs/strand/executor/internal/listing"
	"github.com/strandjobs/strand/executor/internal/slots"
)

// LockedKeys lists keys that [Locks] of any queue, or people, have locked: in their
// order, from the one behind after on, which is "" for the first page, up to limit of
// them, as in [JobQuery]. It also says how many there are behind these. Those that a
// Locks.Service keeps are not known. While the keys are gone through, jobs with Locks
// wait: about 1 ms for 30,000. It returns ErrInvalidQuery, and ErrClosed when a Stop has
// ended.
func (i *Inspector) LockedKeys(after string, limit int) (page []KeyLockStatus, more int, err error) {
	x := i.x
	return keyPage(i, after, limit, x.keys.Keys, x.keyStatus)
}

// Leases lists the keys of [Unique] that jobs have or wait for, as LockedKeys does
// those of Locks.
func (i *Inspector) Leases(after string, limit int) (page []LeaseStatus, more int, err error) {
	x := i.x
	return keyPage(i, after, limit, x.leases.Table.Keys, x.leaseStatus)
}

// keyPage reads a page of keys, and what is to be said of each.
func keyPage[S any](i *Inspector, after string, limit int, all func() []string, status func(string) S) (page []S, more int, err error) {
	if err := i.usable(); err != nil {
		return nil, 0, err
	}
	if limit, err = listLimit(limit); err != nil {
		return nil, 0, err
	}
	i.x.ledger.View(func() {
		var keys []string
		keys, more = listing.FirstKeys(all(), after, limit)
		for _, key := range keys {
			page = append(page, status(key))
		}
	})
	return page, more, nil
}

// Slots lists which jobs have which value of the [Slots] that the queues use: up to
// limit of them, as in [JobQuery], and how many there are beyond. It returns
// ErrInvalidQuery, and ErrClosed when a Stop has ended.
func (i *Inspector) Slots(limit int) (held []SlotHeld, more int, err error) {
	if err := i.usable(); err != nil {
		return nil, 0, err
	}
	if limit, err = listLimit(limit); err != nil {
		return nil, 0, err
	}
	seen := make(map[slots.Sequence]bool) // several queues may share one
	for _, q := range i.x.registered() {
		for _, source := range q.slots {
			if seen[source] {
				continue
			}
			seen[source] = true
			for _, h := range source.Holders() {
				held = append(held, slotHeld(h))
			}
		}
	}
	slices.SortFunc(held, func(a, b SlotHeld) int {
		return cmp.Or(strings.Compare(a.Slot, b.Slot), strings.Compare(a.By, b.By))
	})
	more = max(len(held)-limit, 0)
	return held[:len(held)-more], more, nil
}
