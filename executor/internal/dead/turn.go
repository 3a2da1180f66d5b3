package dead

import (
	"context"
	"errors"
	"slices"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// letters are dead letters that go in one commit.
type letters struct {
	positions []journal.Position
	ids       []string // of those
	bytes     int

	superseded int // that a newer payload has superseded, so that they stay out

	find func() (letters, error) // looks for them when it is their turn; nil: that was done before

	// since is how many turns were over when the walk began; with each of its own that
	// follows on those it is one more. While it is all there were, no other call has
	// taken what the walk has read.
	since *uint64
}

// walk returns no payloads yet, for a walk through the morgue that begins now.
func (l *Letters) walk() letters { return letters{since: new(l.turns.Load())} }

// none returns no payloads, of the same walk.
func (s *letters) none() letters { return letters{since: s.since, superseded: s.superseded} }

func (s *letters) add(b *journal.Buried) {
	s.positions, s.ids = append(s.positions, b.Entry.Position), append(s.ids, string(b.Entry.ID))
	s.bytes += len(b.Entry.ID) + len(b.Entry.Payload)
}

// split returns those payloads for which is says so, and the others.
func (s *letters) split(is func(i int) bool) (some, others letters) {
	some, others = s.none(), s.none()
	for i, p := range s.positions {
		to := &others
		if is(i) {
			to = &some
		}
		to.positions, to.ids = append(to.positions, p), append(to.ids, s.ids[i])
	}
	return some, others
}

// takeOut calls do in its turn for those payloads that are still dead, if there are any,
// and returns them when do has taken them out. What another call has taken meanwhile it
// leaves out beforehand, all at once, and so it does what a newer payload has superseded.
// When ctx ends before the outcome is known, the turn ends when it is: late is told then
// which of the payloads are out, and which are dead.
func (l *Letters) takeOut(ctx context.Context, some letters, do func(letters) error, late func(out, in letters)) (letters, error) {
	some.superseded = 0
	if len(some.positions) == 0 && some.find == nil {
		return some, nil
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return some.none(), context.Cause(ctx)
	}
	alone := l.turns.Load() == *some.since
	var err error
	if some.find != nil {
		some, err = some.find()
	} else if !alone {
		some, err = l.stillDead(some)
	}
	if err == nil && l.c.Supersedes {
		some, err = l.depart(ctx, some)
	}
	if err != nil || len(some.positions) == 0 {
		l.endTurn()
		return some.none(), err
	}
	if err = do(some); errors.Is(err, journal.ErrUnknown) {
		go func() { // see the census
			defer l.endTurn()
			l.learn(some, late)
		}()
		return some.none(), err
	}
	l.departed(some, err == nil)
	if turns := l.endTurn(); alone {
		*some.since = turns
	}
	if err != nil {
		return some.none(), err
	}
	return some, nil
}

// endTurn ends a turn, and returns how many are over.
func (l *Letters) endTurn() uint64 {
	turns := l.turns.Add(1)
	<-l.turn
	return turns
}

// learn finds out which payloads are out, for a call that could not wait. A log that has
// failed says so itself.
func (l *Letters) learn(some letters, late func(out, in letters)) {
	if l.c.Log.Settled(context.Background()) != nil {
		return
	}
	still, err := l.stillDead(some)
	if err != nil {
		return
	}
	in, out := some.split(func(i int) bool { return slices.Contains(still.positions, some.positions[i]) })
	late(out, in)
	l.departed(out, true)
	l.departed(in, false)
}

// stillDead returns those payloads that are in the morgue.
func (l *Letters) stillDead(some letters) (letters, error) {
	left := some.none()
	for _, p := range some.positions {
		b, err := l.c.Log.BuriedAt(l.c.Number, p)
		if err == nil {
			left.add(&b)
		} else if !errors.Is(err, journal.ErrNotFound) {
			return left, err
		}
	}
	return left, nil
}

// depart returns those payloads of a superseding queue that are still dead letters, with the
// number of those that a newer one has superseded. Of the others no payload runs until
// departed says what became of the dead letter. It does not heed the end of ctx: what a shard
// was asked has to be undone.
func (l *Letters) depart(ctx context.Context, some letters) (letters, error) {
	ok := make([]bool, len(some.positions))
	err := l.eachShard(some, asks(context.WithoutCancel(ctx)), func(c *shard.Core, i int) { ok[i] = c.Depart(some.ids[i], some.positions[i]) })
	left, gone := some.split(func(i int) bool { return ok[i] }) // a call comes before its caller has gone, but for ErrStopped
	left.superseded += len(gone.positions)
	if err != nil {
		l.departed(left, false)
	}
	return left, err
}

// departed ends what depart has begun: gone says whether the dead letters have left the
// morgue.
func (l *Letters) departed(some letters, gone bool) {
	if l.c.Supersedes {
		_ = l.eachShard(some, tells, func(c *shard.Core, i int) { c.Departed(some.ids[i], some.positions[i], gone) })
	}
}

// forget notes that payloads are deleted.
func (l *Letters) forget(some letters) {
	_ = l.eachShard(some, tells, func(c *shard.Core, i int) { c.Forget(some.ids[i], some.positions[i]) })
}

// late returns how many dead letters are late if they are put back now, and of how many
// that is not known.
func (l *Letters) late(ctx context.Context, some letters) (late, unsure int, err error) {
	if l.c.Supersedes {
		return 0, 0, nil
	}
	after, known := make([]bool, len(some.ids)), make([]bool, len(some.ids))
	err = l.eachShard(some, asks(ctx), func(c *shard.Core, i int) { after[i], known[i] = c.Late(some.ids[i], some.positions[i]) })
	if err != nil { // a call may come after its caller has gone
		return 0, 0, err
	}
	for i := range known {
		if !known[i] {
			unsure++
		} else if after[i] {
			late++
		}
	}
	return late, unsure, nil
}

// asks has a shard call f, and waits for that.
func asks(ctx context.Context) func(s *shard.Shard, f func(*shard.Core)) error {
	return func(s *shard.Shard, f func(*shard.Core)) error { return s.Do(ctx, f) }
}

// tells has a shard call f, and does not wait for that.
func tells(s *shard.Shard, f func(*shard.Core)) error {
	s.Tell(f)
	return nil
}

// eachShard has each shard of some payloads call f for its own, with their indexes.
func (l *Letters) eachShard(some letters, has func(*shard.Shard, func(*shard.Core)) error, f func(c *shard.Core, i int)) error {
	of := make([][]int, len(l.c.Shards.All))
	for i, id := range some.ids {
		n := l.c.Shards.Index([]byte(id))
		of[n] = append(of[n], i)
	}
	for n, own := range of {
		if len(own) == 0 {
			continue
		}
		if err := has(l.c.Shards.All[n], func(c *shard.Core) {
			for _, i := range own {
				f(c, i)
			}
		}); err != nil {
			return err
		}
	}
	return nil
}
