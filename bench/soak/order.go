package main

import (
	"fmt"
	"strings"
)

// start checks a run against the order of its id.
func (o *oracle) start(name, queue, id string, places []string) error {
	s := o.strands[queue+" "+id]
	if s == nil {
		return fmt.Errorf("%s/%s ran and was never enqueued", queue, id)
	}
	if s.running != nil {
		return fmt.Errorf("two runs of %s/%s overlap: %v and %v", queue, id, s.running.numbers, places)
	}
	r := &run{strand: s, queue: queue, started: o.line}
	for _, text := range places {
		var number uint64
		position, digits, _ := strings.Cut(text, ":")
		if _, err := fmt.Sscan(digits, &number); err != nil {
			return fmt.Errorf("payload %q: %w", text, err)
		}
		if _, known := s.index[number]; !known {
			return fmt.Errorf("payload %d of %s/%s ran and was never enqueued", number, queue, id)
		}
		r.numbers, r.positions = append(r.numbers, number), append(r.positions, position)
	}
	s.running, o.runs[name] = r, r
	o.began++
	if s.merging {
		return nil
	}
	if s.began && !s.passed { // what ended before is recorded by now
		o.record(s, s.items[s.index[r.numbers[0]]])
	}
	return o.sequence(s, r.numbers)
}

// sequence is the order oracle. Inside a life an id goes on right after what
// ended, with no gap. In a new life it begins at most right after what ended
// before, and never before what is durably settled.
func (o *oracle) sequence(s *strand, numbers []uint64) error {
	first := s.index[numbers[0]]
	from := s.next
	if !s.began {
		if first < s.durable {
			return fmt.Errorf("%s: payload %d runs again, although its end was on disk", s.name, numbers[0])
		}
		o.rewind(s, first)
		from = s.durable
	}
	if first < from {
		return fmt.Errorf("%s: payload %d runs again after it ended in this life", s.name, numbers[0])
	}
	s.began = true
	for _, number := range numbers {
		at := s.index[number]
		if at < from {
			return fmt.Errorf("%s: the payloads of a run are out of order: %v", s.name, numbers)
		}
		for i := from; i < at; i++ {
			if it := s.items[i]; !o.mayMiss(it, s.items[at]) {
				return fmt.Errorf("%s: payload %d runs before payload %d, which was accepted earlier", s.name, number, it.number)
			}
		}
		if s.items[at].state == refused {
			return fmt.Errorf("%s: payload %d runs, but its call was refused", s.name, number)
		}
		if err := o.comeBack(s.items[at]); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		from = at + 1
	}
	// Up to here everything is over or waits in this run.
	s.next = first
	return nil
}

// rewind takes back what ended before and runs again after a crash.
func (o *oracle) rewind(s *strand, first int) {
	for i := s.durable; i < len(s.items); i++ {
		if it := s.items[i]; i >= first && it.ended && !it.apart {
			o.takeBack(it)
		}
	}
}

// takeBack takes in that a crash has taken the end of a payload.
func (o *oracle) takeBack(it *item) {
	it.ended, it.apart = false, false
	if c := o.crashes[it.endedIn]; c != nil {
		c.again++
	}
}

// ranAgain returns what a kill made run again although its result was on disk.
func (o *oracle) ranAgain() error {
	for life, crash := range o.crashes {
		if crash.again > crash.open {
			return fmt.Errorf("life %d: %d payloads ran again, only %d results were open", life, crash.again, crash.open)
		}
	}
	return nil
}

// mayMiss reports whether a run may pass over it to reach what runs. A crash
// may have taken what was not durable, but never from the middle of a life.
func (o *oracle) mayMiss(it, runs *item) bool {
	switch it.state {
	case refused, unknown:
		return true
	case accepted:
		return it.ended || (it.life < runs.life && it.life < o.life)
	}
	return it.ended
}

func (o *oracle) finish(name, outcome string) error {
	r := o.runs[name]
	if r == nil {
		return fmt.Errorf("run %s ended and had not begun", name)
	}
	delete(o.runs, name)
	s := r.strand
	s.running, s.passed = nil, outcome == "done"
	if r.queue == eventQueue {
		o.events[outcome]++
	}
	switch outcome {
	case "failed":
		s.items[s.index[r.numbers[0]]].spent++
		return nil
	case "again":
		return nil
	}
	for i, number := range r.numbers {
		o.over(r, i, outcome)
		s.next = s.index[number] + 1
	}
	return nil
}

// over ends one payload of a run.
func (o *oracle) over(r *run, i int, outcome string) *item {
	it := r.strand.items[r.strand.index[r.numbers[i]]]
	it.ended, it.endedIn, it.started = true, o.life, r.started
	o.ends[r.queue+" "+r.positions[i]] = outcome
	return it
}

// found is what stands in a journal: numbers by strand.
type found map[string]map[uint64]bool

// missing returns what must be in the journal, or must have ended, and has
// not; and what must not be there, and is. An empty found means that
// everything must have ended.
func (o *oracle) missing(in found) error {
	var lives cut
	for _, s := range o.strands {
		for _, it := range s.items {
			present := in[s.name][it.number]
			if present && it.state == refused {
				return fmt.Errorf("%s: payload %d is in the journal, but its call was refused", s.name, it.number)
			}
			over := it.ended && (!s.merging || it.started > it.owed)
			if it.owed > 0 && !present && !over {
				return fmt.Errorf("%s: payload %d was accepted, did not run to its end, and is lost", s.name, it.number)
			}
			if s.merging {
				continue
			}
			lives.see(it, present || it.ended)
			if err := whole(it.op, in); err != nil {
				return err
			}
		}
	}
	return lives.err()
}

// again returns what would run again although its end is on disk.
func (o *oracle) again(in found) error {
	for _, s := range o.strands {
		for _, it := range s.items[:s.durable] {
			if in[s.name][it.number] {
				return fmt.Errorf("%s: payload %d would run again, although its end is on disk", s.name, it.number)
			}
		}
	}
	return nil
}

// cut finds out whether what a crash took is the end of what was accepted in
// a life. The keys are lives, the values positions.
type cut struct{ newestThere, oldestGone map[int]uint64 }

func (c *cut) see(it *item, there bool) {
	if c.newestThere == nil {
		c.newestThere, c.oldestGone = map[int]uint64{}, map[int]uint64{}
	}
	switch gone := c.oldestGone[it.life]; {
	case it.position == 0: // its caller was not told
	case there:
		c.newestThere[it.life] = max(c.newestThere[it.life], it.position)
	case gone == 0 || it.position < gone:
		c.oldestGone[it.life] = it.position
	}
}

func (c *cut) err() error {
	for life, gone := range c.oldestGone {
		if newest := c.newestThere[life]; newest > gone {
			return fmt.Errorf("position %d is lost, and position %d, which was accepted later, is not", gone, newest)
		}
	}
	return nil
}

// whole checks that a call is in effect with all its items or with none.
func whole(call *op, in found) error {
	there := 0
	for i, s := range call.strands {
		if in[s.name][call.numbers[i]] || s.items[s.index[call.numbers[i]]].ended {
			there++
		}
	}
	if there > 0 && there < len(call.numbers) {
		return fmt.Errorf("a call enqueued %d items and %d of them are in effect: %v", len(call.numbers), there, call.numbers)
	}
	return nil
}

// buried compares the morgue with the outcomes.
func (o *oracle) buried() error {
	for place, outcome := range o.ends {
		if (outcome == "cancelled") != o.morgue[place] {
			return fmt.Errorf("%s ended as %q; in the morgue: %t", place, outcome, o.morgue[place])
		}
	}
	for place := range o.morgue {
		if o.ends[place] != "cancelled" {
			return fmt.Errorf("%s is in the morgue and was not cancelled", place)
		}
	}
	return nil
}
