package world

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// payload is what all queues of a world carry. N is the number of the call that it came
// with; in a queue that merges equal payloads there is none, and V tells them apart.
type payload struct {
	N    int    `json:"n,omitempty"`
	V    int    `json:"v,omitempty"`
	Plan string `json:"p,omitempty"` // what the handler does with it; see act
	Key  string `json:"k,omitempty"`
	Sum  []int  `json:"s,omitempty"` // the numbers of what was folded into it
	Fill string `json:"f,omitempty"` // takes room
	ID   string `json:"i,omitempty"` // where the queue computes it
	Rank int    `json:"r,omitempty"` // what the queue computes score and due time from
	Flap bool   `json:"l,omitempty"` // a codec may refuse it now and then
}

// numbers are those of the payloads that p stands for.
func (p payload) numbers() []int { return append([]int{p.N}, p.Sum...) }

// known says what the ledger knows of a payload's acceptance.
type known int

const (
	tried   known = iota // its call is under way
	maybe                // its call could not say, or what would accept it may not be on disk
	acked                // its call said so, or it was seen
	refused              // its call said no: it must never be seen
)

// place is where the last census has found a payload.
type place int

const (
	nowhere place = iota
	waits         // or runs
	dead
)

func (p place) String() string { return [...]string{"nowhere", "waiting or running", "dead"}[p] }

// item is a payload of which the world knows.
type item struct {
	n         int
	queue, id string
	value     payload
	state     known
	pos       uint64 // 0: not known
	guess     bool   // pos may be that of another one with equal bytes, whose call was under way, too
	score     float64
	sure      bool // it is on disk, as far as anybody was told
	life      int  // in which it was accepted
	epoch     int  // of the step after which that was known

	place place
	seen  int    // the epoch of the census that has found it there
	hint  string // how it may have ended: what is nowhere must have one
	told  string // how it has ended, for good: it must not be seen again
	doom  int    // the epoch in which something happened that may bury it; 0: nothing did

	due   time.Time // not before; zero: at once
	vague bool      // or at a later moment, as the clock was set
	alone bool      // its job has no other payload
	born  int       // the epoch of its call
	said  int       // that in which the call has returned; 0: not yet
	last  *run      // the last one that has returned nil, for it at least
	fruit []*run    // those that have returned nil, and have staged something

	at       time.Time // of its call
	answered time.Time // when that was accepted for certain; zero: not known
	over     time.Time // when a run of it has returned nil
	begun    time.Time // when a handler got it for the first time
	ran      int       // the life in which that was

	head    *item             // the first one of its call; nil: not known
	died    time.Time         // as its dead letter says
	meta    map[string]string // nil: not known
	back    *span             // when it was put back; nil: it was not
	lived   int               // the epoch of the last census that has not found it dead
	grave   burial            // of one that is dead
	again   retryAt           // when it is due, if it has failed
	ended   int               // the epoch in which a call of a handler with it has ended
	passed  *item             // what began before it, where it may have closed a circle; nil: nothing did
	slot    int               // of its last run
	kept    keptSlot          // by its last run, for the next one
	tomb    keptSlot          // with which it was buried
	cleared attempt           // in which its handler gave that back
	buried  bool              // it was dead once, or may have been between two censuses
	hurried bool              // a person has had to do with it
	forgot  bool              // a person may have deleted its id since it was accepted
	bygone  bool              // and has: what comes of the id since then is newer

	given    int  // the life in which it was said to have failed for the last time, since it ran; 0: it was not
	hintLife int  // of hint
	revive   bool // somebody may have put it back from the morgue
	revived  int  // how often, since the last census
	booked   bool // its end is in the account of its queue
	calls    int  // of handlers that got it
	deaths   int  // of processes since
	moved    int  // the epoch in which a handler, or a person, had last to do with it
}

func (i *item) String() string {
	return fmt.Sprintf("payload n=%d of %s/%s (position %d, %s, hint %q, told %q)", i.n, i.queue, i.id, i.pos, i.place, i.hint, i.told)
}

// putBack notes that somebody has put a payload back, which was dead at the last census, or that
// it may have died and come back since.
func (i *item) putBack(census time.Time) {
	from := i.at
	if i.back != nil {
		from = i.back.from
	}
	if i.place == dead && !census.IsZero() { // this process has had one
		from = census
	}
	i.back = &span{from, time.Now()}
}

// span is what lies between two moments.
type span struct{ from, to time.Time }

// before reports whether i has to run before other.
func (i *item) before(other *item) bool {
	if i.score != other.score {
		return i.score < other.score
	}
	return i.pos < other.pos
}

// plainScore stands for the time that is the score of what came without one: those that
// a script gives are below it, or above.
const plainScore = 1e9

// spot is a position of an id: each partition of a cluster has its own.
type spot struct {
	id  string
	pos uint64
}

// ledger is what the world knows of all payloads: what calls have said, and what was
// seen. The lock of the world guards it.
type ledger struct {
	items []*item
	byN   map[int]*item
	byPos map[spot]*item
	named map[int]*item // by the number of their line
	next  int           // the number of the next payload that no script has a number for
}

func newLedger() *ledger {
	return &ledger{byN: make(map[int]*item), byPos: make(map[spot]*item), named: make(map[int]*item), next: 1_000_000}
}

// add has a payload in the ledger.
func (l *ledger) add(i *item) *item {
	l.items = append(l.items, i)
	if i.value.N != 0 {
		l.byN[i.value.N] = i
	}
	if i.n != 0 {
		l.named[i.n] = i
	}
	if i.score == 0 {
		i.score = plainScore
	}
	if i.at.IsZero() {
		i.at = time.Now()
	}
	return i
}

// add notes a payload whose call is about to be made, while persons act perhaps.
func (w *world) add(i *item) *item {
	for _, d := range w.doing {
		if d.means(i) {
			w.touch(i, d.action)
		}
	}
	w.spoil(i)
	return w.ledger.add(i)
}

func (l *ledger) number() int {
	l.next++
	return l.next
}

// find returns what the ledger has of a payload that was seen, at a position or as a part
// of what is there; nil: nothing that could be it.
func (l *ledger) find(queue, id string, pos uint64, v payload) (all []*item, strange string) {
	if v.N == 0 {
		i := l.byPos[spot{id, pos}]
		if i == nil {
			if i = l.candidate(queue, id, v); i != nil {
				i.guess = true
			}
		}
		if i == nil {
			return nil, fmt.Sprintf("position %d of %s/%s: %+v came from nowhere", pos, queue, id, v)
		}
		return []*item{i}, l.meet(i, queue, id, pos)
	}
	for part, n := range v.numbers() {
		i := l.byN[n]
		if i == nil {
			return nil, fmt.Sprintf("position %d of %s/%s: n=%d came from nowhere", pos, queue, id, n)
		}
		at := pos
		if part > 0 || len(v.Sum) > 0 {
			at = 0 // folded: whose the position is, is told by the first
		}
		if strange := l.meet(i, queue, id, at); strange != "" {
			return nil, strange
		}
		all = append(all, i)
	}
	return all, ""
}

// candidate is a payload whose call could not say whether it was accepted, or at which
// position: rather one that was, as what is in an inbox, and was not told to have ended.
func (l *ledger) candidate(queue, id string, v payload) *item {
	var first, over *item
	for _, i := range l.items {
		if i.state == refused || i.pos != 0 || i.queue != queue || i.id != id || !same(i.value, v) {
			continue
		}
		switch {
		case i.told != "":
			over = cmp.Or(over, i)
		case i.state == acked:
			return i
		default:
			first = cmp.Or(first, i)
		}
	}
	return cmp.Or(first, over)
}

// attempt of a job, in a life.
type attempt struct{ life, n int }

func same(a, b payload) bool {
	return a.N == b.N && a.V == b.V && a.Plan == b.Plan && a.Key == b.Key && a.Fill == b.Fill && a.Flap == b.Flap && slices.Equal(a.Sum, b.Sum)
}

// meet notes that a payload was seen, and says what is wrong with that.
func (l *ledger) meet(i *item, queue, id string, pos uint64) (strange string) {
	switch {
	case i.queue != queue || i.id != id:
		return fmt.Sprintf("moved: %v is at %s/%s", i, queue, id)
	case i.state == refused:
		return fmt.Sprintf("refused and accepted all the same: %v", i)
	case i.told != "":
		return fmt.Sprintf("over and back: %v", i)
	case pos != 0 && i.pos != 0 && i.pos != pos:
		return fmt.Sprintf("doubled: %v is at %d, too", i, pos)
	}
	if pos != 0 && i.pos == 0 {
		i.pos = pos
		l.byPos[spot{id, pos}] = i
	}
	i.state, i.sure = acked, true // nothing runs, or is shown, before it is on disk
	return ""
}

// accepted notes what a call said.
func (w *world) accepted(i *item, pos uint64, durable bool) {
	switch i.state {
	case tried, maybe:
		i.state = acked
	}
	if pos != 0 {
		delete(w.ledger.byPos, spot{i.id, i.pos})
		i.pos, i.guess = pos, false
		w.ledger.byPos[spot{i.id, pos}] = i
	}
	if i.answered.IsZero() && pos != 0 { // it may be in an inbox
		i.answered = time.Now()
	}
	i.sure = i.sure || durable
	if i.epoch, i.moved = w.epoch, w.epoch; i.life != -w.life { // negative: the figures may count it already
		i.life = w.life
	}
}

// swap is for payloads with equal bytes, of calls at the same time: what was seen of the
// one was the other.
func (w *world) swap(i, other *item) {
	*i, *other = *other, *i
	i.n, i.life, other.n, other.life = other.n, other.life, i.n, i.life
	for _, one := range []*item{i, other} {
		if one.pos == 0 {
			one.state = maybe
		} else {
			w.ledger.byPos[spot{one.id, one.pos}] = one
		}
	}
	for _, r := range w.running {
		for n := range r.items {
			switch r.items[n] {
			case i:
				r.items[n] = other
			case other:
				r.items[n] = i
			}
		}
	}
}

// unguess has what was seen of a payload be another's, whose call may have been accepted.
func (w *world) unguess(i *item) {
	if other := w.ledger.candidate(i.queue, i.id, i.value); i.guess && other != nil {
		w.swap(i, other)
	}
}

// guessed has what was seen of an equal payload, whose call could not say whether it was
// accepted, be that of one that was accepted.
func (w *world) guessed(i *item) {
	for _, other := range w.ledger.items {
		if i.pos == 0 && other.guess && other.queue == i.queue && other.id == i.id && same(other.value, i.value) {
			w.swap(i, other)
			return
		}
	}
}

// forget is about what a crash may have taken: what was not on disk for certain.
func (l *ledger) forget() {
	for _, i := range l.items {
		i.passed = nil // how the circle was closed
		if i.state == tried {
			i.state = maybe
		}
		if i.state == acked && !i.sure {
			i.state = maybe
			delete(l.byPos, spot{i.id, i.pos})
			i.pos = 0
		}
	}
}

// twin reports whether a payload with equal bytes stands, or has stood, in the place of i.
func (l *ledger) twin(i *item, found map[*item]place) bool {
	return slices.ContainsFunc(l.items, func(other *item) bool {
		return other != i && other.queue == i.queue && other.id == i.id && same(other.value, i.value) && other.state != refused &&
			(found[other] != nowhere || other.place != nowhere || other.hint != "" && other.hint != "merged")
	})
}

// always is a pause that is the same each time.
func always(d time.Duration) func(int) time.Duration {
	return func(int) time.Duration { return d }
}
