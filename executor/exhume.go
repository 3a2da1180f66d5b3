package executor

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/strandjobs/strand/journal"
)

// exhuming has the calls that take payloads out of the morgue of a queue go one after
// the other, commit by commit and not call by call: a call for one payload does not wait
// for one for a million. A call looks for its payloads beforehand, and not in its turn.
type exhuming struct {
	turn  chan struct{} // has room for the call whose turn it is; those that wait come in order
	turns atomic.Uint64 // that are over
}

func (e *exhuming) init() { e.turn = make(chan struct{}, 1) }

// begin returns no payloads yet, for a walk through the morgue that begins now.
func (e *exhuming) begin() dead { return dead{since: new(e.turns.Load())} }

// dead are payloads in the morgue that go in one commit.
type dead struct {
	positions []journal.Position
	ids       []string // of those
	bytes     int

	superseded int // that a newer payload has superseded, so that they stay out

	// since is how many turns were over when the walk began; with each of its own that
	// follows on those it is one more. While it is all there were, no other call has
	// taken what the walk has read.
	since *uint64
}

func (d *dead) add(b *journal.Buried) {
	d.positions, d.ids = append(d.positions, b.Entry.Position), append(d.ids, string(b.Entry.ID))
	d.bytes += len(b.Entry.ID) + len(b.Entry.Payload)
}

// none returns no payloads, of the same walk.
func (d *dead) none() dead { return dead{since: d.since} }

func (d *dead) part(from, to int) dead {
	return dead{positions: d.positions[from:to], ids: d.ids[from:to], since: d.since}
}

// takeOut calls do in its turn for those payloads that are still dead, if there are any,
// and returns them when do has taken them out. What another call has taken meanwhile it
// leaves out beforehand, all at once, and so it does what a newer payload has superseded.
// When ctx ends before the outcome is known, the turn ends when it is: late is told then
// which of the payloads are out, and which are dead.
func (q *queue) takeOut(ctx context.Context, some dead, do func(dead) error, late func(out, in dead)) (dead, error) {
	if len(some.positions) == 0 {
		return some, nil
	}
	e := &q.exhuming
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		return some.none(), context.Cause(ctx)
	}
	alone := e.turns.Load() == *some.since
	var err error
	if !alone {
		some, err = q.stillDead(some)
	}
	if err == nil && q.supersedes() {
		some, err = q.depart(ctx, some)
	}
	if err != nil || len(some.positions) == 0 {
		e.end()
		return dead{since: some.since, superseded: some.superseded}, err
	}
	if err = do(some); errors.Is(err, journal.ErrUnknown) {
		go func() { // see the census
			defer e.end()
			q.learn(some, late)
		}()
		return some.none(), err
	}
	q.departed(some, err == nil)
	if turns := e.end(); alone {
		*some.since = turns
	}
	if err != nil {
		return some.none(), err
	}
	return some, nil
}

// end ends a turn, and returns how many are over.
func (e *exhuming) end() uint64 {
	turns := e.turns.Add(1)
	<-e.turn
	return turns
}

// learn finds out which payloads are out, for a call that could not wait. A log that has
// failed says so itself.
func (q *queue) learn(some dead, late func(out, in dead)) {
	if q.x.log.Settled(context.Background()) != nil {
		return
	}
	in, err := q.stillDead(some)
	if err != nil {
		return
	}
	out := some.none()
	for i, p := range some.positions {
		if !slices.Contains(in.positions, p) {
			out.positions, out.ids = append(out.positions, p), append(out.ids, some.ids[i])
		}
	}
	late(out, in)
	q.departed(out, true)
	q.departed(in, false)
}

// stillDead returns those payloads that are in the morgue.
func (q *queue) stillDead(some dead) (dead, error) {
	left := some.none()
	for _, p := range some.positions {
		switch b, err := q.x.log.BuriedAt(q.number, p); {
		case err == nil:
			left.add(&b)
		case !errors.Is(err, journal.ErrNotFound):
			return left, err
		}
	}
	return left, nil
}
