package keylock

import (
	"context"
	"slices"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/journal"
)

// Coming are the keys of payloads that are on their way to the journal: they count from
// before the payloads are accepted, because these may run before the call is back. Nil:
// there are none.
type Coming struct {
	keys   *Keys
	holds  [][]*Lock  // by payload
	of     *Condition // of served
	served []string   // what the queue's own service has locked
}

// Coming returns that of a call without a payload yet.
func (k *Keys) Coming() *Coming { return &Coming{keys: k} }

// Lock locks the keys of the next payload of a call. The ledger is held.
func (p *Coming) Lock(c *Condition, id string, keys []string) {
	var holds []*Lock
	for _, key := range keys {
		holds = append(holds, p.keys.Lock(key, admit.Owner{Queue: c.Queue, ID: id}, c.TTL))
	}
	p.holds = append(p.holds, holds)
}

// Sets binds the locks to the positions of their payloads. Those that have been
// unlocked by now are not written: the log has their end first.
func (p *Coming) Sets(first journal.Position) (sets []journal.Set) {
	if p == nil {
		return nil
	}
	k := p.keys
	k.binding.Lock()
	defer k.binding.Unlock()
	for i, holds := range p.holds {
		position := first + journal.Position(i)
		for _, h := range holds {
			if h.Position == gone {
				continue
			}
			h.Position = position
			k.with[position] = append(k.with[position], h)
			if !k.volatile {
				sets = append(sets, k.setOf(h))
			}
		}
	}
	return sets
}

// Serve locks keys with the service of a queue.
func (p *Coming) Serve(ctx context.Context, c *Condition, keys []string) error {
	p.of, p.served = c, keys
	return c.lockServed(ctx, keys)
}

// Withdraw unlocks what came with a call that was refused.
func (p *Coming) Withdraw() {
	if p == nil {
		return
	}
	if p.served != nil {
		p.of.withdrawServed(p.served)
	} else {
		p.keys.ledger.Do(nil, func() { p.keys.Drop(slices.Concat(p.holds...)...) })
	}
}
