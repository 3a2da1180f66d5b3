package limit

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/strandjobs/strand/executor/internal/quota"
	"github.com/strandjobs/strand/executor/internal/sorted"
)

const (
	askAgain = int64(time.Second)           // how soon others hear of what has changed
	askAnew  = 3600 * askAgain              // a row stays for longer than that
	atLeast  = int64(10 * time.Millisecond) // a start is good for, however late it has come
	mostAsks = 512                          // in one call
)

// part is what this process has of a key of a cluster's limit; see package quota.
type part struct {
	key     *key
	permits int
	share   int     // it gives back what is above that as soon as jobs end
	anew    int64   // when shares are others; never: there is enough for all
	claims  int     // jobs that wait for another key, and need a permit then; see Table.claim
	first   *waiter // whose permits of other keys are claimed
	claimed []*key
	starts  []start // that it may use, the first one first
	unused  int     // of the last ones, whose time was over
	after   int64   // see quota.Ask

	asking bool        // an ask is under way
	known  bool        // there was an answer
	asked  int64       // when
	retry  int64       // no ask for more before that
	failed int64       // none at all before that
	told   [2]int      // permits and wants, as others know them
	begun  bool        // a job has begun since
	pause  quota.Pause // that others don't know
	said   int64       // when

	sorted.Place // in Table.asks, by when to ask; never: nobody knows of this part
}

// start is a time at which a job may begin, and the last one.
type start struct{ from, until int64 }

// open is [key.open].
func (p *part) open(now int64, after ahead) bool {
	law := p.key.limit.law
	return p.known && (law.concurrent == 0 || p.permits-p.key.running > after.permits) && (law.interval == 0 || p.usable(now) > after.starts)
}

// usable is how many starts there are for now.
func (p *part) usable(now int64) (n int) {
	for _, s := range p.starts {
		if s.from <= now && now <= s.until {
			n++
		}
	}
	return n
}

// from is [key.from].
func (p *part) from(after ahead) int64 {
	k := p.key
	switch {
	case !p.known, k.limit.law.concurrent > 0 && p.permits-k.running <= after.permits, k.limit.law.interval > 0 && len(p.starts) <= after.starts:
		return never
	case k.limit.law.interval > 0:
		return max(k.paused, p.starts[after.starts].from)
	}
	return k.paused
}

func (p *part) begin(now int64) {
	p.begun = true
	if p.key.limit.law.interval > 0 {
		p.drop(now)
		p.starts, p.unused = p.starts[1:], 0
	}
}

// drop forgets starts whose time is over.
func (p *part) drop(now int64) {
	before := len(p.starts)
	p.starts = slices.DeleteFunc(p.starts, func(s start) bool { return s.until < now })
	p.unused += before - len(p.starts)
}

// forget reports whether nobody here or elsewhere needs to know of the part any longer.
func (p *part) forget(now int64) bool {
	wants := p.wants()
	if p.key.limit.law.concurrent == 0 { // what has started needs no more
		wants -= p.key.running
	}
	if p.drop(now); p.asking || p.pause.New || wants > 0 || p.told != [2]int{} || p.unused > 0 {
		return false
	}
	p.known, p.begun, p.starts = false, false, nil
	return true
}

// jobs is how many run or wait.
func (p *part) jobs() int { return p.key.running + p.key.waiting + len(p.key.called) }

// wants is for how many jobs it wants a permit.
func (p *part) wants() int { return p.jobs() + p.claims }

// lacks reports whether there is no permit for another job.
func (p *part) lacks() bool { return p.key.limit.law.concurrent > 0 && p.permits <= p.key.running }

// yield gives back what is not its share, before another job takes it.
func (p *part) yield() {
	if used := p.key.running + len(p.key.called); p.permits > p.share {
		p.permits = max(p.share, min(used, p.permits))
	}
}

// plan sets when this part asks the cluster for permits next, if it has to.
func (p *part) plan(now int64) {
	k := p.key
	p.drop(now)
	wants := p.wants()
	short := wants > k.running && (!p.known || k.limit.law.concurrent > 0 && p.permits < min(wants, k.limit.law.concurrent) ||
		k.limit.law.interval > 0 && len(p.starts) < p.jobs()-k.running)
	switch {
	case p.asking:
		return
	case p.pause.New, p.unused > 0 && len(p.starts) == 0, p.permits < p.told[0] && p.permits < p.told[1]: // others may wait for it
		p.Turn = max(p.failed, now)
	case short:
		p.Turn = max(p.retry, now)
	case p.begun, k.paused > now && wants > k.running, k.limit.law.concurrent > 0 && p.told != [2]int{p.permits, wants}:
		p.Turn = p.asked + askAgain
	case p.told != [2]int{}:
		p.Turn = p.asked + askAnew
	case p.known && now < p.asked+askAgain: // its jobs may wait for another key first
		p.Turn = p.asked + askAgain
	default:
		k.limit.table.asks.Remove(p)
		p.Turn = never
		return
	}
	if p.permits > k.running+len(k.called) { // others may have their turn then, also who did not want it before
		p.Turn = min(p.Turn, max(min(p.anew, p.asked+askAgain), p.failed))
	}
	if n := len(p.starts); n > 0 { // what is not used is given back
		p.Turn = min(p.Turn, max(p.starts[n-1].until+1, p.failed))
	}
	k.limit.table.asks.Put(p)
}

// ask is what to ask now. What it gives back is used by nobody here from then on.
func (p *part) ask(now int64) quota.Ask {
	k, wants := p.key, p.wants()
	if now >= p.asked+askAgain {
		p.permits = min(p.permits, wants)
	}
	a := quota.Ask{Concurrent: k.limit.law.concurrent, Interval: k.limit.law.interval, Ahead: k.limit.law.ahead, Holds: p.permits, Wants: wants, Pauses: p.pause}
	if k.limit.law.interval > 0 {
		a.Starts, a.Uses = max(p.jobs()-k.running-len(p.starts), 0), k.running+len(p.starts)
		if len(p.starts) == 0 {
			a.Unused, a.After = p.unused, p.after
		}
		p.unused = 0 // they go back once: who does not hear whether they have may not say so again
	}
	if p.pause.New {
		a.Pauses.For, a.Pauses.Age = max(k.paused-now, 0), now-p.said
	}
	p.told = [2]int{max(p.told[0], p.permits), max(p.told[1], wants)} // or no answer comes
	p.asking, p.begun, p.pause.New = true, false, false
	return a
}

// hear takes in an answer, which was asked for at sent; ok is false if none came.
func (p *part) hear(sent, now int64, of quota.Ask, a quota.Answer, ok bool) {
	k := p.key
	p.asking, p.asked = false, sent
	if !ok {
		p.failed = now + askAgain
		p.retry = p.failed
		if of.Pauses.New {
			p.pause.Least = of.Pauses.Least && (p.pause.Least || !p.pause.New)
			p.pause.New = true
		}
		return
	}
	p.known, p.permits, p.share, p.retry, p.anew = true, a.Permits, a.Share, now+a.Retry, never
	if len(a.Starts) < of.Starts && k.waiting > 0 && k.lines[0].jobs[0].needs != nil {
		p.retry += rand.Int64N(int64(quota.Grace)) // else processes that need the same starts have one each, again and again
	}
	if a.Anew > 0 {
		p.anew = now + a.Anew
	}
	if a.Paused > 0 {
		p.retry = min(p.retry, now+askAgain) // it may be ended elsewhere
	}
	p.told = [2]int{a.Permits, of.Wants}
	if k.limit.law.concurrent == 0 {
		p.told = [2]int{}
	}
	p.after, p.unused = a.After, 0
	for _, at := range a.Starts {
		p.starts = append(p.starts, start{from: now + at, until: max(sent+at+int64(quota.Grace), now+at+atLeast)})
	}
	slices.SortFunc(p.starts, func(a, b start) int { return cmp.Compare(a.from, b.from) })
	if !p.pause.New {
		k.paused = now + a.Paused
	}
}

// obey has others hear at once of a limit that is another one.
func (p *part) obey(now int64) {
	if most := p.key.limit.law.concurrent; most > 0 {
		p.share = min(p.share, most)
		p.yield()
	}
	p.begun, p.retry, p.asked = true, now, now-askAgain
}

// lapse has the part begin anew: what it had is others'.
func (p *part) lapse() { p.permits, p.share, p.starts, p.known, p.begun = 0, 0, nil, false, true }

// Commonly has the limits that are made from now on with Config.Cluster be those of all processes of a cluster.
func (l *Limits) Commonly() {
	l.asks = make(chan struct{}, 1)
	l.Do(func(t *Table, _ int64) { t.common = true })
}

// Lapse says that the cluster may have taken this process, which runs no job then, for dead: what it had is others'.
func (l *Limits) Lapse() {
	l.Do(func(t *Table, now int64) {
		t.lapses++
		for _, of := range t.shared {
			for _, k := range of.keys {
				k.part.lapse()
				t.settle(now, k)
			}
		}
	})
}

// Keep agrees with the other processes on what jobs wait for, until ctx ends.
func (l *Limits) Keep(ctx context.Context, with quota.Processes) {
	for ctx.Err() == nil {
		var r round
		l.Do(r.begin)
		if len(r.parts) == 0 {
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(min(r.next-r.sent, askAnew))):
			case <-l.asks: // an ask is due before
			}
			continue
		}
		answers, err := r.agree(ctx, with)
		l.Do(func(t *Table, now int64) { r.end(t, now, answers, err == nil && r.lapses == t.lapses) })
	}
}

// round is one call for several keys.
type round struct {
	keys       []string
	asks       []quota.Ask
	parts      []*part
	sent, next int64 // when it was made, and when the next one is due
	lapses     int   // until then
}

func (r *round) begin(t *Table, now int64) {
	r.sent, r.next, r.lapses, r.parts = now, never, t.lapses, t.due(now)
	for _, p := range r.parts {
		of := p.key.limit.name
		r.keys, r.asks = append(r.keys, strconv.Itoa(len(of))+":"+of+p.key.name), append(r.asks, p.ask(now))
	}
	if len(t.asks) > 0 {
		r.next = t.asks[0].Turn
	}
	t.expects = r.next
}

// end takes in the answers; ok is false if none came in time.
func (r *round) end(t *Table, now int64, answers []quota.Answer, ok bool) {
	for i, p := range r.parts {
		var a quota.Answer
		if ok {
			a = answers[i]
		}
		p.hear(r.sent, now, r.asks[i], a, ok)
		t.settle(now, p.key)
	}
}

func (r *round) agree(ctx context.Context, with quota.Processes) (answers []quota.Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(askAgain))
	defer cancel()
	err = with.Rows(ctx, r.keys, func(now time.Time, lives func(string) bool, rows []quota.Stored) ([]quota.Stored, error) {
		answers = answers[:0]
		for i, s := range rows {
			row, err := s.Read()
			if err != nil {
				return nil, err
			}
			answers = append(answers, row.Agree(now.UnixNano(), with.Self, lives, r.asks[i]))
			rows[i] = row.Stored(now)
		}
		return rows, nil
	})
	return answers, err
}
