package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// account is what the oracle knows of calls that are to be accepted once: those
// with a key, and those with the mark of a numbered source.
type account struct {
	keyed map[string]*keyedCall // by key
	asked []string              // keys, in the order of the first calls
	marks map[string]*source    // by name

	key  map[string]*keyedCall // by call of this life
	mark map[string]marked     // the same
}

// keyedCall is what became of the calls with one key.
type keyedCall struct {
	again
	asks     int
	accepted string // its positions, once a call was accepted; "" before
	doubtful bool   // no answer, and others may have been accepted since
}

// source is a numbered source. Between two calls all up to accepted is in effect,
// and nothing above.
type source struct {
	accepted, asked int64
	open            map[*item]*place // of calls without an answer
}

type place struct {
	mark   int64
	strand *strand
}

type marked struct {
	*source
	at int64
}

func newAccount() account {
	return account{keyed: map[string]*keyedCall{}, marks: map[string]*source{}}
}

func (a *account) begin() { a.key, a.mark = map[string]*keyedCall{}, map[string]marked{} }

// announce takes in that a call has a key.
func (a *account) announce(op, key string) {
	c := a.keyed[key]
	if c == nil {
		c = &keyedCall{again: again{Key: key}}
		a.keyed[key] = c
		a.asked = append(a.asked, key)
	}
	a.key[op] = c
}

// number takes in that a call has a mark.
func (a *account) number(op, name string, mark int64) {
	s := a.source(name)
	s.asked = max(s.asked, mark)
	a.mark[op] = marked{s, mark}
}

func (a *account) source(name string) *source {
	if a.marks[name] == nil {
		a.marks[name] = &source{open: map[*item]*place{}}
	}
	return a.marks[name]
}

// intend takes in the call itself.
func (a *account) intend(op, queue string, items []string, call *op) {
	if c := a.key[op]; c != nil {
		c.asks++
		c.Queue, c.Items = queue, strings.Join(items, " ")
	}
	if m, is := a.mark[op]; is && m.at > m.accepted {
		for i, s := range call.strands {
			m.open[s.items[s.index[call.numbers[i]]]] = &place{m.at, s}
		}
	}
}

// accept checks an answer that says that a call was accepted, now or before.
func (a *account) accept(op string, before bool, places []string) error {
	if m, is := a.mark[op]; is {
		if m.at <= m.accepted {
			return fmt.Errorf("mark %d was accepted, and %d was before: %v are taken twice", m.at, m.accepted, places)
		}
		m.accepted = m.at
		clear(m.open)
	}
	c := a.key[op]
	if c == nil {
		if before {
			return fmt.Errorf("call %s has no key, and was answered as a duplicate", op)
		}
		return nil
	}
	text := strings.Join(places, " ")
	switch {
	case !before && c.accepted != "":
		return fmt.Errorf("the call with key %s was accepted at %s, and again at %s", c.Key, c.accepted, text)
	case before && c.accepted != "" && c.accepted != text:
		return fmt.Errorf("the call with key %s was accepted at %s, and is now said to be at %s", c.Key, c.accepted, text)
	case before && c.asks < 2:
		return fmt.Errorf("the first call with key %s is a duplicate", c.Key)
	}
	c.accepted, c.doubtful = text, false
	return nil
}

// refuse takes in an error. It reports whether that says anything of the items: a
// call that is made again may be refused although the first was accepted.
func (a *account) refuse(op, class string) (tells bool, err error) {
	if m, is := a.mark[op]; is && class == "stale" && m.at > m.accepted {
		return true, fmt.Errorf("mark %d is stale, but only %d was accepted: events are skipped", m.at, m.accepted)
	}
	if c := a.key[op]; c != nil {
		if class == unknownClass {
			c.doubtful = true
		}
		return c.asks < 2, nil
	}
	return true, nil
}

// stand takes in how far a source has come in the journal that was opened. That
// settles what became of the calls without an answer.
func (a *account) stand(name string, mark int64) error {
	s := a.source(name)
	if mark < s.accepted {
		return fmt.Errorf("the mark of %s went back from %d to %d: events would be taken twice", name, s.accepted, mark)
	}
	if mark > s.asked {
		return fmt.Errorf("the mark of %s is %d, and no producer has asked for more than %d: events are skipped", name, mark, s.asked)
	}
	s.accepted = mark
	for it, at := range s.open {
		if at.mark <= mark {
			it.state, it.owed = durable, max(it.owed, it.intended)
			continue
		}
		it.state = refused
		it.op = &op{strands: []*strand{at.strand}, numbers: []uint64{it.number}} // the rest may be asked for in other calls
	}
	clear(s.open)
	return nil
}

// toRepeat returns calls to be made again by the next life: those without an
// answer, in their order, and some of the others.
func (a *account) toRepeat(r *rand.Rand) (calls []again) {
	var done []again
	for _, key := range a.asked {
		switch c := a.keyed[key]; {
		case c.Items == "" || c.doubtful: // killed before the call, or too late to be made again
		case c.accepted == "":
			calls = append(calls, c.again)
		default:
			done = append(done, c.again)
		}
	}
	newest := done[max(0, len(done)-20):]
	for range min(20, len(done)-len(newest)) {
		calls = append(calls, done[r.IntN(len(done)-len(newest))])
	}
	return append(calls, newest...)
}

// once counts the calls that were to be accepted once, and were.
func (a *account) once() (calls, repeats int, events int64) {
	for c := range maps.Values(a.keyed) {
		if c.accepted != "" {
			calls, repeats = calls+1, repeats+c.asks-1
		}
	}
	for _, s := range slices.Collect(maps.Values(a.marks)) {
		events += s.accepted
	}
	return calls, repeats, events
}
