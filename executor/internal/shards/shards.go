// Package shards has the shards of one queue: it says which of them an id belongs to, and
// visits them for a caller.
//
// The shard of an id stays the same while the process lives, and no producer can tell which
// it is. A visit is a call on the goroutine of a shard; one for many ids is cut into short
// ones, so that nothing else waits for long. It may take place after its caller has gone.
// A Set does not change once jobs run, and all goroutines may use it. Census (goroutines, timers): none.
package shards

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Set is the shards of a queue.
type Set struct {
	First uint32 // the number of the first one in the executor; the others follow
	All   []*shard.Shard
	N     int // how many there will be

	seed maphash.Seed
}

// New returns a set that will have n shards.
func New(seed maphash.Seed, n int) *Set { return &Set{N: n, seed: seed} }

// Index says which of the shards an id belongs to.
func (s *Set) Index(id []byte) int { return int(maphash.Bytes(s.seed, id) % uint64(s.N)) }

// Route is the number in the executor of the shard that an id belongs to.
func (s *Set) Route(id []byte) uint32 { return s.First + uint32(s.Index(id)) }

// Of returns the shard that an id belongs to.
func (s *Set) Of(id string) *shard.Shard { return s.All[maphash.String(s.seed, id)%uint64(s.N)] }

// Tell has all shards call f, and does not wait for it.
func (s *Set) Tell(f func(c *shard.Core)) {
	for _, a := range s.All {
		a.Tell(f)
	}
}

// Begun is the error of what has begun: when ctx ends before it is over, it goes on or not.
func Begun(ctx context.Context, err error) error {
	if err != nil && context.Cause(ctx) != nil {
		err = fmt.Errorf("%w: %w", journal.ErrUnknown, err)
	}
	return err
}

// Pass waits until the shards are done with all that they have been told, which has begun.
func (s *Set) Pass(ctx context.Context) error {
	var group errgroup.Group
	for _, a := range s.All {
		group.Go(func() error { return a.Do(ctx, func(*shard.Core) {}) })
	}
	return Begun(ctx, group.Wait())
}

// Visit calls f on the shard i, and returns what f does.
func (s *Set) Visit(ctx context.Context, i int, f func(c *shard.Core) (int, error)) (int, error) {
	type answer struct {
		n   int
		err error
	}
	answers := make(chan answer, 1) // a call may come after its caller has gone
	if err := s.All[i].Do(ctx, func(c *shard.Core) {
		n, err := f(c)
		answers <- answer{n, err}
	}); err != nil {
		return 0, err
	}
	a := <-answers
	return a.n, a.err
}

// idsAtOnce is how many ids a visit to a shard is about, at most.
const idsAtOnce = 100

// VisitIDs calls f on the shards of some ids, with a few of them at a time, and adds up
// what it returns, also when it ends with an error.
func (s *Set) VisitIDs(ctx context.Context, ids []string, f func(c *shard.Core, ids []string) (int, error)) (n int, err error) {
	byShard := make([][]string, len(s.All))
	for _, id := range ids {
		i := s.Index([]byte(id))
		byShard[i] = append(byShard[i], id)
	}
	for i, mine := range byShard {
		for some := range slices.Chunk(mine, idsAtOnce) {
			did, err := s.Visit(ctx, i, func(c *shard.Core) (int, error) { return f(c, some) })
			if n += did; err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// placesAtOnce is how many places for jobs a visit to a shard looks at.
const placesAtOnce = 200

// Scan calls f for all jobs, a few of a shard at a time, and adds up what it returns. goOn gets the sum, and
// what went wrong, after each visit: Scan ends with its error.
func (s *Set) Scan(ctx context.Context, now func() int64, f func(c *shard.Core, now int64, v *shard.View) int,
	goOn func(n int, err error) (int, error)) (n int, err error) {
	for i := range s.All {
		for after, more := shard.Cursor(0), true; more; {
			if err := context.Cause(ctx); err != nil {
				return n, err
			}
			last, goesOn := after, false // of this visit alone, which may come after its caller has gone
			did, err := s.Visit(ctx, i, func(c *shard.Core) (n int, err error) {
				now := now()
				last, goesOn = c.Scan(last, placesAtOnce, now, func(v *shard.View) { n += f(c, now, v) })
				return n, nil
			})
			if n, err = goOn(n+did, err); err != nil {
				return n, err
			}
			after, more = last, goesOn
		}
	}
	return n, nil
}
