package look

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/shard"
)

// jobsPerVisit is how many jobs a visit to a shard looks at.
const jobsPerVisit = 1024

// Walk goes through the jobs of a queue in visits to its shards, each of some tens
// of microseconds. What takes longer, to read ids from the disk say, is done
// between the visits, by the caller.
type Walk struct {
	q Queue

	// none reports that a shard with these figures has no job that is wanted, and Want
	// whether a job may be. Both are called on the shard, and only compare numbers.
	none func(shard.Counts) bool
	Want func(*shard.View) bool
	// take is given those that were wanted, with their ids.
	take func(shard int, v *shard.View) error

	patience context.Context // how long it may take, if not as long as ctx of the call; see patient
	back     bool            // the jobs that came last come first

	at       []shard.Cursor // by shard
	over     []bool
	examined int
	late     bool // patience is over: it has ended before its end

	found []shard.View // of the last visit, to be used again
}

// NewWalk returns one that has not begun.
func NewWalk(q Queue) *Walk {
	return &Walk{q: q, at: make([]shard.Cursor, len(q.Shards.All)), over: make([]bool, len(q.Shards.All))}
}

// errLate is the cause of a context whose patience is over.
var errLate = errors.New("executor: this takes longer than it may")

// patient returns a context that ends with ctx, or when patience is over; 0: never.
func patient(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	if patience == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, patience, errLate)
}

// All goes through everything, unless its patience ends before: some jobs of each
// shard, then some more, since what was accepted together stands together on the disk,
// and is read together.
func (w *Walk) All(ctx context.Context) error {
	for left := true; left; {
		left = false
		for s := range w.at {
			if w.over[s] {
				continue
			}
			if err := w.step(ctx, s, jobsPerVisit); err != nil || w.late {
				return err
			}
			left = left || !w.over[s]
		}
	}
	return nil
}

// step goes through up to n jobs of a shard when its turn has come, or is late.
func (w *Walk) step(ctx context.Context, s, n int) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	until := cmp.Or(w.patience, ctx)
	err := w.q.in.Paced(until, func() (cost time.Duration, err error) {
		if w.late = context.Cause(until) != nil; w.late {
			return 0, context.Cause(ctx)
		}
		v := &visit{Walk: w, at: w.at[s], n: n, found: w.found[:0]}
		if err := w.q.Shards.All[s].Do(ctx, v.scan); err != nil {
			return 0, w.q.in.Border(err)
		}
		began := time.Now()
		w.at[s], w.over[s], w.found = v.at, v.over, v.found
		w.examined += v.examined
		err = w.takeAll(ctx, s, v.found)
		return v.took + time.Since(began), err
	})
	if guard.Is(err, errLate) { // the cause may be another one, and the user's
		w.late, err = true, nil
	}
	return err
}

// takeAll hands on what a visit has found, with their ids. Those whose payload has ended since
// then are looked at once more, where the shard itself says what they are called: before any is
// taken, as a page that goes on behind the last one taken needs them in the order of their places.
func (w *Walk) takeAll(ctx context.Context, s int, found []shard.View) error {
	var lost []shard.Cursor
	for i := range found {
		v := &found[i]
		if v.ID != "" {
			continue
		}
		id, _, err := v.First.PeekID()
		if err != nil {
			return w.q.in.Border(err)
		}
		if v.ID = string(id); v.ID == "" {
			lost = append(lost, v.Cursor)
		}
	}
	if len(lost) > 0 {
		again := &visit{Walk: w}
		if err := w.q.Shards.All[s].Do(ctx, func(c *shard.Core) { again.look(c, lost) }); err != nil {
			return w.q.in.Border(err)
		}
		found = append(slices.DeleteFunc(found, func(v shard.View) bool { return v.ID == "" }), again.found...)
		slices.SortFunc(found, func(a, b shard.View) int { return cmp.Compare(a.Cursor, b.Cursor) })
	}
	for i := range found {
		if err := w.take(s, &found[i]); err != nil {
			return err
		}
	}
	return nil
}

// visit is what happens on a shard. It belongs to the shard until it is over, and to
// nobody if the caller has gone meanwhile.
type visit struct {
	*Walk
	at       shard.Cursor
	n        int
	over     bool
	examined int
	found    []shard.View
	took     time.Duration
}

func (v *visit) scan(c *shard.Core) {
	began := time.Now()
	if v.none != nil && v.none(c.Counts()) {
		v.over = true
		return
	}
	scan := c.Scan
	if v.back {
		scan = c.ScanBack
	}
	last, more := scan(v.at, v.n, v.q.in.Now(), func(job *shard.View) {
		v.examined++
		if v.Want(job) {
			v.found = append(v.found, *job)
		}
	})
	v.at, v.over = last, !more
	v.took = time.Since(began)
}

// look is scan for some jobs that were found before.
func (v *visit) look(c *shard.Core, places []shard.Cursor) {
	now := v.q.in.Now()
	for _, at := range places {
		var job shard.View
		if c.Look(at, now, &job) && v.Want(&job) {
			c.Identify(&job)
			v.found = append(v.found, job)
		}
	}
}
