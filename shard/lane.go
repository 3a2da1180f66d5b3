package shard

import (
	"bytes"
	"slices"

	"github.com/strandjobs/strand/journal"
)

// Payload is one accepted payload of an id.
type Payload struct {
	Score float64 // under MergeSupersede NaN if nobody gave it
	Ref   journal.Ref
}

// before is the order in which payloads reach the handler.
func (p Payload) before(q Payload) bool {
	return p.Score < q.Score || (p.Score == q.Score && p.Ref.Position() < q.Ref.Position())
}

// lane is one id that has something to do. There may be millions: what only
// few of them need, or for a short time, stands behind a pointer, and a lane
// fills a line of the cache.
type lane struct {
	due  int64      // Unix ns; of the payloads that wait
	one  Payload    // that waits; zero when none does or they are in a bag
	rest *laneExtra // nil: new, waiting, and with one payload at most

	number     number
	prev, next number // see standing

	standing standing // in the agenda
	halted   bool
	unpinned bool // its due time has to be written down when that is possible
	loose    bool // loaded has to look at it again
}

// laneExtra is what a lane has beside one payload that waits.
type laneExtra struct {
	id    string      // of one that has had a turn and waits for the next; "": it has to be read
	item  *Item       // where its payloads are handed out; nil while all of them wait
	bag   *bag        // the waiting payloads when they are more than one
	past  *runHistory // nil until a state is written
	retry int32       // −1 new, 0 failed once, …
}

// What lanes have in common that have nothing of it. It is never written to.
var (
	newRest = laneExtra{retry: -1}
	nothing runHistory
)

// runHistory is what a job remembers of its runs, and of those that gather for the next.
type runHistory struct {
	state   journal.Ref     // the state in the log that describes it, if any
	pending int             // 1 + index of a newer state in the change that gathers
	pulled  bool            // while loading: the due time is an earlier one than that of state
	err     string          // the last error; "": the last run did not fail
	crashed bool            // if halted: because it kills the process
	history journal.History // of failures, if there is an error; see failures
	// held are failed payloads under Config.Block, in order; they run alone.
	// What waits behind them has its own due time, see over.
	held []Payload

	resting bool // state says only how long the id rests: the first payload may be due later
	// A job that waits while its id rests is due at the later one of its own due time and the
	// end of the rest. They are kept apart: when the clock is set, each goes by rules of its own.
	own, restEnd int64 // restEnd 0: its due time is its own
	ran          int64 // when a run of it was last, in this process, that failed, was put off, or whose rest was cut short
	bounded      bool
	limit        int64 // if bounded, of those that wait: see Config.Quiet
	decided      bool  // if bounded: it came back from the morgue, and is due by itself
}

// hasState reports whether the log has, or is about to have, a state of the job.
func (p *runHistory) hasState() bool { return !p.state.IsZero() || p.pending > 0 }

// pinned reports whether a state says when the job is due, whatever its payloads say.
func (p *runHistory) pinned() bool { return p.hasState() && !p.resting }

// failures returns the last error, "" if the last run did not fail, and what has failed so far.
func (p *runHistory) failures() (last string, all journal.History) {
	if p.err == "" {
		return "", nil
	}
	return p.err, p.history
}

// dueAfter notes that a job with a due time of its own is not due before a rest is over, and returns when it is. p is of
// remember, and not of known.
func (p *runHistory) dueAfter(own, restEnd int64) int64 {
	p.own, p.restEnd = own, restEnd
	return max(own, restEnd)
}

// take removes the first payload of those that wait; there is one.
func (l *lane) take() Payload {
	b := l.bag()
	if b == nil {
		p := l.one
		l.one = Payload{}
		return p
	}
	p := b.take()
	if b.len() == 0 {
		l.rest.bag = nil
	}
	return p
}

// takeOut takes payloads out of a lane, in order: those that failed and are held, and
// others if they are meant, too.
func (l *lane) takeOut(r *Removal, andOthers bool) (held, others []Payload) {
	means := func(p Payload) bool { return r.means(p.Ref.Position()) }
	if p := l.past(); p != nil {
		p.held = slices.DeleteFunc(p.held, func(h Payload) bool {
			if means(h) {
				held = append(held, h)
			}
			return means(h)
		})
	}
	switch b := l.bag(); {
	case !andOthers:
	case b != nil:
		others = b.takeOut(means)
		if b.len() == 0 {
			l.rest.bag = nil
		}
	case !l.one.Ref.IsZero() && means(l.one):
		others, l.one = []Payload{l.one}, Payload{}
	}
	return held, others
}

// first returns the payload that take would return.
func (l *lane) first() Payload {
	if b := l.bag(); b != nil {
		return b.first()
	}
	return l.one
}

// id returns the id of the lane, from wherever it stands.
func (l *lane) id(r *entryReader) []byte {
	switch {
	case r.err != nil:
		return nil // it may even be one that should have been dropped
	case l.rest == nil:
		return r.id(l.one.Ref)
	case l.item() != nil:
		return []byte(l.item().ID)
	case l.holds():
		return r.id(l.held()[0].Ref)
	case l.n() == 0: // while loading
		return r.id(l.past().state)
	}
	return r.id(l.first().Ref)
}

// has reports whether id is the id of the lane.
func (l *lane) has(r *entryReader, id []byte) bool {
	if it := l.item(); it != nil {
		return it.ID == string(id)
	}
	if known := l.extra().id; known != "" {
		return known == string(id)
	}
	return bytes.Equal(l.id(r), id)
}

// extra is for those who only look.
func (l *lane) extra() *laneExtra {
	if l.rest == nil {
		return &newRest
	}
	return l.rest
}

func (l *lane) item() *Item       { return l.extra().item }
func (l *lane) bag() *bag         { return l.extra().bag }
func (l *lane) past() *runHistory { return l.extra().past }
func (l *lane) retry() int        { return int(l.extra().retry) }

// known is past for those who only look.
func (l *lane) known() *runHistory {
	if p := l.past(); p != nil {
		return p
	}
	return &nothing
}

// n returns the number of payloads that wait, without held ones.
func (l *lane) n() int {
	if b := l.bag(); b != nil {
		return b.len()
	}
	if l.one.Ref.IsZero() {
		return 0
	}
	return 1
}

// held are the failed payloads that run alone.
func (l *lane) held() []Payload { return l.known().held }

func (l *lane) holds() bool { return len(l.held()) > 0 }

// upNext is the first payload of the next run; zero if none waits.
func (l *lane) upNext() Payload {
	if l.holds() {
		return l.held()[0]
	}
	return l.first()
}

// payload returns the payload at a position if it waits, is held or runs; zero: it does not.
func (l *lane) payload(at journal.Position) (ref journal.Ref) {
	is := func(p Payload) bool { ref = p.Ref; return ref.Position() == at }
	if it := l.item(); it != nil && slices.ContainsFunc(it.Payloads[it.settled:], is) || l.hasAny(is) {
		return ref
	}
	return journal.Ref{}
}

// hasAny reports whether a payload that is meant waits, or is held.
func (l *lane) hasAny(means func(Payload) bool) bool {
	if b := l.bag(); b != nil {
		for h := range b.order.all {
			if !h.gone && means(h.Payload) {
				return true
			}
		}
	}
	return slices.ContainsFunc(l.held(), means) || !l.one.Ref.IsZero() && means(l.one)
}

// allDue reports whether each payload that waits was accepted with a due time that
// is over. It may say false of a few that have been many.
func (l *lane) allDue(now int64) bool {
	b := l.bag()
	return b != nil && b.due <= now
}

// empty reports whether nothing waits.
func (l *lane) empty() bool { return l.n() == 0 && !l.holds() }

// about is the position of the payload that a state is about.
func (l *lane) about() journal.Position {
	if it := l.item(); it != nil && l.n() == 0 {
		return it.Payloads[0].Ref.Position()
	}
	return l.one.Ref.Position()
}

func (l *lane) more() *laneExtra {
	if l.rest == nil {
		l.rest = new(newRest)
	}
	return l.rest
}

func (l *lane) remember() *runHistory {
	r := l.more()
	if r.past == nil {
		r.past = new(runHistory)
	}
	return r.past
}
