package submit

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor/internal/each"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/statekey"
	"github.com/strandjobs/strand/journal"
)

// Book keeps idempotency keys and the offsets of sources in the journal, and lets calls that name the
// same one through one after the other. Any goroutine may call its methods.
type Book struct {
	*engine.Engine
	TTL time.Duration // of a key
	Now func() time.Time

	gates gates

	// mu is held by the caller that looks for expired keys; others do not wait for it. It guards
	// what follows.
	mu   sync.Mutex
	from string    // the next state key to look at; empty between two passes
	next time.Time // of the next pass
}

// Source is where a call comes from: the offset must be above all that were accepted.
type Source struct {
	Name   string
	Offset int64
}

// SetKey gives the call its idempotency key, which belongs to a queue.
func (c *Conditions) SetKey(queue, key string) {
	c.Key, c.stateKey = key, statekey.IdempotencyKey(queue, key)
}

// gates returns the names of the gates of a call, always in the same order.
func (c *Conditions) gates() []string {
	names := append(each.Of(c.Sources, func(s Source) string { return statekey.OffsetPrefix + s.Name }), c.stateKey, c.Alone)
	slices.Sort(names)
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// sets returns what is written with n payloads that are accepted.
func (c *Conditions) sets(now time.Time, first journal.Position, n int) (sets []journal.Set) {
	if c.Key != "" {
		sets = append(sets, journal.Set{Key: c.stateKey, Value: statekey.Idempotency{At: now.UnixNano(), First: first, N: n}.Encode()})
	}
	for _, s := range c.Sources {
		sets = append(sets, journal.Set{Key: statekey.OffsetPrefix + s.Name, Value: statekey.Offset(s.Offset)})
	}
	return sets
}

// enter goes through the gates of a call. leave has to follow, also after an error: the cause of
// ctx, or Failure.
func (b *Book) enter(ctx context.Context, c *Conditions) error {
	over := guard.Done(ctx)
	for _, name := range c.gates() {
		g := b.gates.enter(name, over, b.Failed)
		switch {
		case g == nil && guard.Over(over):
			return guard.Cause(ctx)
		case g == nil:
			return b.Failure()
		}
		c.inside = append(c.inside, g)
	}
	return nil
}

// leave lets the next calls in.
func (b *Book) leave(c *Conditions) {
	for _, g := range c.inside {
		b.gates.leave(g)
	}
	c.inside = nil
}

// Gates counts the names that are in use.
func (b *Book) Gates() int {
	b.gates.mu.Lock()
	defer b.gates.mu.Unlock()
	return len(b.gates.named)
}

// before returns what the call has accepted that came with the key of this one; N is 0 if there
// was none. The caller is inside.
func (b *Book) before(c *Conditions) (statekey.Idempotency, error) {
	if c.Key == "" {
		return statekey.Idempotency{}, nil
	}
	k, found, err := read(b.Log, c.stateKey, statekey.ParseIdempotency)
	if err != nil || !found || b.expired(k) {
		return statekey.Idempotency{}, err
	}
	return k, nil
}

// read returns what the journal has under a key.
func read[V any](log *journal.Log, key string, parse func([]byte) (V, error)) (v V, found bool, err error) {
	value, err := log.Get(key)
	if err != nil || value == nil {
		return v, false, err
	}
	if v, err = parse(value); err != nil {
		return v, false, statekey.Refused(key, err)
	}
	return v, true, nil
}

func (b *Book) expired(k statekey.Idempotency) bool { return b.Now().Sub(time.Unix(0, k.At)) >= b.TTL }

// Offset returns the last offset of a source.
func (b *Book) Offset(name string) (offset int64, found bool, err error) {
	return read(b.Log, statekey.OffsetPrefix+name, statekey.ParseOffset)
}

// Put writes the offset of a source; nil: it is forgotten. One of which stays is true stays; without
// stays, none does. The errors are those of enter and of the journal.
func (b *Book) Put(ctx context.Context, name string, offset []byte, stays func(last int64) bool) error {
	c := &Conditions{Sources: []Source{{Name: name}}}
	defer b.leave(c) // the next one inside reads what is committed, and a later commit comes later
	if err := b.enter(ctx, c); err != nil {
		return err
	}
	if stays != nil {
		if last, found, err := b.Offset(name); err != nil || found && stays(last) {
			return err
		}
	}
	return b.Log.Put(ctx, journal.Set{Key: statekey.OffsetPrefix + name, Value: offset})
}

const (
	// sweepsPerTTL is how often in TTL expired keys are looked for.
	sweepsPerTTL = 16

	// sweepStep is how many keys one call looks at, which takes about as long as to commit. In memory all
	// are looked at: there is nothing to wait for, and the call that goes on would have to sort them again.
	sweepStep = 512
)

// sweep takes expired keys out of the journal with one of the next commits.
// There is no list of them by age: it would have to be written, too, and keys live
// long. Callers take turns in going through them all, again and again.
func (b *Book) sweep() {
	if !b.mu.TryLock() {
		return
	}
	defer b.mu.Unlock()
	now := time.Now()
	if b.from == "" && now.Before(b.next) {
		return
	}
	var change journal.Change
	var gone Conditions
	seen := 0
	from := b.from
	b.from = ""
	for set, err := range b.Log.Keys(statekey.IdempotencyPrefix, from) {
		if err != nil {
			break // of the disk; the next write returns it
		}
		if seen == sweepStep && !b.Volatile {
			b.from = set.Key
			break
		}
		seen++
		if g := b.enterExpired(set); g != nil {
			gone.inside = append(gone.inside, g)
			change.Sets = append(change.Sets, journal.Set{Key: set.Key})
		}
	}
	if b.from == "" {
		b.next = now.Add(b.TTL / sweepsPerTTL)
	}
	if len(gone.inside) > 0 {
		b.Log.Record(&change) // and what comes through the gates from now on is written later
	}
	b.leave(&gone)
}

// enterExpired enters the gate of an expired key. Nil: it has not expired, or a
// call is about to use it again.
func (b *Book) enterExpired(set journal.Set) *gate {
	if k, err := statekey.ParseIdempotency(set.Value); err != nil || !b.expired(k) {
		return nil
	}
	g := b.gates.tryEnter(set.Key)
	if g == nil {
		return nil
	}
	if k, found, err := read(b.Log, set.Key, statekey.ParseIdempotency); err != nil || !found || !b.expired(k) {
		b.gates.leave(g)
		return nil
	}
	return g
}

// gates let one call at a time through under each name, from before it looks at the journal until it
// is known what became of what it wrote. A name takes memory only meanwhile. No user code is called,
// and nothing waits but enter.
type gates struct {
	// mu guards what follows and the users of each gate. Nothing is called under it.
	mu    sync.Mutex
	named map[string]*gate
}

// gate is one name. It exists while a call uses it.
type gate struct {
	name  string
	turn  chan struct{} // holds a token while a call is inside
	users int           // inside, or waiting
}

// enter waits until no call is inside, or until one of the channels is closed: nil then.
func (s *gates) enter(name string, over, lost <-chan struct{}) *gate {
	g := s.use(name)
	select {
	case g.turn <- struct{}{}:
		return g
	case <-over:
	case <-lost:
	}
	s.quit(g)
	return nil
}

// tryEnter is enter for a caller that has no need to. Nil: another one uses the gate.
func (s *gates) tryEnter(name string) *gate {
	g := s.use(name)
	select {
	case g.turn <- struct{}{}:
		return g
	default:
		s.quit(g)
		return nil
	}
}

// leave lets the next one in.
func (s *gates) leave(g *gate) {
	<-g.turn
	s.quit(g)
}

func (s *gates) use(name string) *gate {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.named[name]
	if g == nil {
		g = &gate{name: name, turn: make(chan struct{}, 1)}
		if s.named == nil {
			s.named = make(map[string]*gate)
		}
		s.named[name] = g
	}
	g.users++
	return g
}

func (s *gates) quit(g *gate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.users--; g.users == 0 {
		delete(s.named, g.name)
	}
}
