package main

import (
	"fmt"
	"strings"
)

// oracle knows from the lines of all lives on one journal what must be true of
// it. It survives the children and is the truth.
type oracle struct {
	life    int
	line    int
	began   int                // runs of this life
	drained int                // the last life that left nothing
	strands map[string]*strand // by "queue id"
	ops     map[string]*op     // of this life
	runs    map[string]*run    // of this life, those that have not ended
	settled []settlement       // recorded in this life, not known to be durable
	crashes map[int]*crash     // by life
	ends    map[string]string  // the last outcome, by "queue position"
	morgue  map[string]bool    // what a drain found there
	dead    bool               // the life is over
	clean   bool               // and everything that ended in it is durable
	answers map[string]int     // calls by how they ended
	events  map[string]int     // attempts of events by how they ended
	parted  int                // runs with an outcome for each payload
	class   string             // how the last life ended, after "z"
	account
}

// strand is what the oracle knows of one id.
type strand struct {
	name    string
	merging bool
	items   []*item // in the order of the calls
	index   map[uint64]int
	running *run

	// Of this life: whether the id ran, and what comes next when all that
	// ended is left out. Items below durable never run again.
	began   bool
	next    int
	durable int
	apart   []*item // that ended so, and may not be recorded yet
	passed  bool    // its last event is done: the next one may be in the same run, of which nothing is recorded yet
}

// item is one payload. A merging queue has one for all calls with equal bytes.
type item struct {
	number   uint64
	life     int
	state    itemState
	intended int // line of the last call
	started  int // line of the start of the last run that ended it
	ended    bool
	endedIn  int  // life
	tries         // of an event
	apart    bool // it ended while one before it in its run did not
	gone     bool // and that is on disk
	owed     int  // line of the last call that must not be lost; 0: none
	position uint64
	op       *op
}

type itemState uint8

const (
	unknown  itemState = iota // no answer, or one that says nothing
	refused                   // must never be seen
	accepted                  // async: a crash may take it, with everything later
	durable                   // must never be lost
)

type op struct {
	strands  []*strand
	numbers  []uint64
	intended int
	life     int
}

type run struct {
	strand    *strand
	queue     string
	numbers   []uint64
	positions []string
	started   int
}

// settlement is a result that was recorded before a line: everything of the
// strand before next is over, and the event behind that, if it is one, has failed
// so often.
type settlement struct {
	line   int
	strand *strand
	next   int
	event  *item
	spent  int
	apart  []*item // of the strand, behind next
}

// crash counts what one kill made run again.
type crash struct {
	running int // payloads in the hands of handlers
	again   int // payloads whose handler had returned
	open    int // payloads whose handler had returned, without proof that this is durable
}

func newOracle() *oracle {
	return &oracle{
		strands: map[string]*strand{}, crashes: map[int]*crash{},
		ends: map[string]string{}, morgue: map[string]bool{}, answers: map[string]int{}, events: map[string]int{}, account: newAccount(),
	}
}

// begin starts the account of another life.
func (o *oracle) begin(number int) {
	o.began = 0
	o.life, o.ops, o.runs, o.settled = number, map[string]*op{}, map[string]*run{}, nil
	o.dead, o.clean, o.class = false, false, ""
	o.account.begin()
	for _, s := range o.strands {
		s.running, s.began, s.passed, s.apart = nil, false, false, nil
	}
}

// end closes the account of a life, killed or not.
func (o *oracle) end() {
	c := &crash{}
	o.crashes[o.life] = c
	for _, r := range o.runs {
		c.running += len(r.numbers)
	}
	for _, s := range o.strands {
		if s.merging {
			continue
		}
		if o.clean && s.began {
			settlement{strand: s, next: s.next, apart: s.apart}.isDurable()
			for _, it := range s.items[s.durable:] {
				if it.triedIn == o.life { // else a crash may have taken the last
					it.sure = it.spent
				}
			}
		}
		for i := s.durable; i < len(s.items); i++ {
			if it := s.items[i]; it.ended && it.endedIn == o.life {
				c.open++
			}
		}
	}
}

func (o *oracle) strand(queue, id string) *strand {
	name := queue + " " + id
	s := o.strands[name]
	if s == nil {
		s = &strand{name: name, merging: queue == mergingQueue, index: map[uint64]int{}}
		o.strands[name] = s
	}
	return s
}

// hear takes in one line. An error is a broken promise, or a line that makes
// no sense.
func (o *oracle) hear(line string) error {
	o.line++
	words := strings.Fields(line)
	if len(words) == 0 {
		return fmt.Errorf("an empty line")
	}
	kind, rest := words[0], words[1:]
	switch {
	case kind == "i" && len(rest) > 2:
		return o.intend(rest[0], rest[1], rest[2:])
	case kind == "a" && len(rest) > 2:
		return o.accept(rest[0], rest[1] == "true", rest[2:])
	case kind == "d" && len(rest) > 1:
		return o.acceptBefore(rest[0], rest[1:])
	case kind == "y" && len(rest) == 2:
		o.announce(rest[0], rest[1])
		return nil
	case (kind == "n" && len(rest) == 3) || (kind == "w" && len(rest) == 2):
		return o.hearMark(kind, rest)
	case kind == "e" && len(rest) > 1:
		return o.refuse(rest[0], rest[1])
	case kind == "s" && len(rest) > 3:
		return o.start(rest[0], rest[1], rest[2], rest[3:])
	case kind == "p" && len(rest) == 5:
		return o.startEvent(rest[0], rest[1], rest[2], rest[3], rest[4:])
	case kind == "f" && len(rest) == 2:
		return o.finish(rest[0], rest[1])
	case kind == "f" && len(rest) > 2:
		return o.finishEach(rest[0], rest[1:])
	case kind == "m" && len(rest) == 3:
		position, _, _ := strings.Cut(rest[2], ":")
		o.morgue[rest[0]+" "+position] = true
		return nil
	case kind == "z":
		o.dead, o.clean, o.class = true, len(rest) == 0, strings.Join(rest, " ")
		return nil
	case kind == "o":
		return nil
	}
	return fmt.Errorf("the child says: %s", line)
}

func (o *oracle) intend(name, queue string, items []string) error {
	call := &op{intended: o.line, life: o.life}
	for _, text := range items {
		var number uint64
		id, digits, _ := strings.Cut(text, ":")
		if _, err := fmt.Sscan(digits, &number); err != nil {
			return fmt.Errorf("item %q: %w", text, err)
		}
		s := o.strand(queue, id)
		i, known := s.index[number]
		if !known {
			i = len(s.items)
			s.index[number] = i
			s.items = append(s.items, &item{number: number})
		}
		it := s.items[i]
		it.life, it.intended, it.op = o.life, o.line, call
		if it.state == refused {
			it.state = unknown // asked again
		}
		call.strands, call.numbers = append(call.strands, s), append(call.numbers, number)
	}
	o.ops[name] = call
	o.account.intend(name, queue, items, call)
	return nil
}

func (o *oracle) hearMark(kind string, words []string) error {
	var mark int64
	if _, err := fmt.Sscan(words[len(words)-1], &mark); err != nil {
		return fmt.Errorf("mark %q: %w", words, err)
	}
	if kind == "w" {
		return o.stand(words[0], mark)
	}
	o.number(words[0], words[1], mark)
	return nil
}

// acceptBefore takes in that a call was accepted when it was made before. There was no
// commit for that, so nothing else is on disk because of it.
func (o *oracle) acceptBefore(name string, places []string) error {
	if err := o.account.accept(name, true, places); err != nil {
		return err
	}
	o.answers["said to be duplicates"]++
	return o.places(name, true, places)
}

func (o *oracle) accept(name string, onDisk bool, places []string) error {
	if err := o.account.accept(name, false, places); err != nil {
		return err
	}
	o.answers["accepted"]++
	if err := o.places(name, onDisk, places); err != nil || !onDisk {
		return err
	}
	call, n := o.ops[name], 0
	for ; n < len(o.settled) && o.settled[n].line < call.intended; n++ {
		o.settled[n].isDurable()
	}
	o.settled = o.settled[n:]
	return nil
}

// places takes in where the items of a call are.
func (o *oracle) places(name string, onDisk bool, places []string) error {
	call := o.ops[name]
	if call == nil || len(places) != len(call.numbers) {
		return fmt.Errorf("an answer to call %s, which was not made", name)
	}
	for i, s := range call.strands {
		it := s.items[s.index[call.numbers[i]]]
		var position uint64
		if _, err := fmt.Sscanf(places[i], "%d:", &position); err != nil {
			return fmt.Errorf("receipt %q: %w", places[i], err)
		}
		if err := it.stands(s, position); err != nil {
			return err
		}
		if onDisk {
			it.state, it.owed = durable, max(it.owed, call.intended)
		} else if it.state != durable {
			it.state = accepted
		}
	}
	return nil
}

func (o *oracle) refuse(name, class string) error {
	call := o.ops[name]
	if call == nil {
		return fmt.Errorf("an error of call %s, which was not made", name)
	}
	o.answers[class]++
	if tells, err := o.account.refuse(name, class); err != nil || !tells || class == unknownClass {
		return err
	}
	for i, s := range call.strands {
		if it := s.items[s.index[call.numbers[i]]]; !s.merging && it.state == unknown {
			it.state = refused
		}
	}
	return nil
}

// stands takes in at which position a payload is. A payload that was enqueued once
// is at one, in all lives.
func (it *item) stands(s *strand, position uint64) error {
	if !s.merging && it.position != 0 && it.position != position {
		return fmt.Errorf("%s: payload %d is at position %d, and also at %d: it was accepted twice", s.name, it.number, it.position, position)
	}
	it.position = position
	return nil
}
