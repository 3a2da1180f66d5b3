package format

// Floor keeps the scores of entries that come without one of their own in the order
// of their positions: it is the highest of them so far. Entries share it by
// [Entry.Floor]. Its methods are for a holder of the log's lock, under which positions
// are given out.
type Floor struct {
	// Clock returns the time in Unix nanoseconds. It is called under the log's lock.
	// Nil: no score is raised.
	Clock func() int64

	score float64
}

// Raise has no entry that comes after this get a score below this one.
func (f *Floor) Raise(score float64) { f.score = max(f.score, score) }

// Settle gives e its score, which is not below that of any entry before it. One that
// comes after an entry which was made later, because its caller had to wait or was
// overtaken, is accepted now. Unless it was put off, it is due now, too: so its score is
// what the journal need not write. While the clock is behind the floor, the
// score alone is raised, to the floor.
//
// now is the time, if it is known, or 0: entries of one call are accepted at one time.
func (f *Floor) Settle(e *Entry, now *int64) {
	if f.Clock == nil || e.Score >= f.score {
		f.score = e.Score
		return
	}
	if *now == 0 {
		*now = f.Clock()
	}
	if e.Score = f.score; ScoreOf(*now) < f.score {
		return
	}
	if e.Due == e.Accepted {
		e.Due = *now
	}
	e.Accepted, e.Score = *now, ScoreOf(*now)
	f.score = e.Score
}
