package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor"
)

// eventRetries is how often an event is run again before it is buried.
const eventRetries = 3

// tries are the failures of an event. They are its own, and come with it into the next
// life, except for the newest that a crash has taken.
type tries struct {
	triedIn int // life of the last attempt
	spent   int // failures before it, and its own
	sure    int // of these, on disk
}

// try takes in another attempt.
func (t *tries) try(life, attempt int) error {
	spent := attempt - 1
	if spent > t.spent || spent < t.sure || (life == t.triedIn && spent < t.spent) {
		return fmt.Errorf("attempt %d after %d failures, of which %d are on disk", attempt, t.spent, t.sure)
	}
	t.triedIn, t.spent = life, spent
	return nil
}

// startEvent is start for an event.
func (o *oracle) startEvent(name, queue, id, attempt string, places []string) error {
	if err := o.start(name, queue, id, places); err != nil {
		return err
	}
	r := o.runs[name]
	n, err := strconv.Atoi(attempt)
	if err == nil {
		err = r.strand.items[r.strand.index[r.numbers[0]]].try(o.life, n)
	}
	if err != nil {
		return fmt.Errorf("%s: payload %d: %w", r.strand.name, r.numbers[0], err)
	}
	return nil
}

// record takes in that everything of a strand is recorded that ended before this line,
// and if first, which begins now, has begun before in this life, how often it failed.
func (o *oracle) record(s *strand, first *item) {
	failed := first.triedIn == o.life && first.spent > first.sure
	if !failed && s.next <= s.durable && len(s.apart) == 0 {
		return
	}
	at := settlement{line: o.line, strand: s, next: s.next, apart: s.apart}
	s.apart = nil
	if failed {
		at.event, at.spent = first, first.spent
	}
	o.settled = append(o.settled, at)
}

// isDurable takes in that what was recorded is on disk.
func (at settlement) isDurable() {
	at.strand.durable = max(at.strand.durable, at.next)
	for _, it := range at.apart {
		it.gone = true
	}
	if at.event != nil {
		at.event.sure = max(at.event.sure, at.spent)
	}
}

// handleEvent is the handler of the queue of events.
func (a *actor) handleEvent(ctx context.Context, job executor.Job[[]byte]) error {
	run := a.runs.Add(1)
	number, err := readPayload(job.Payload)
	if err != nil {
		say("x payload %d of %s/%s: %v", job.Position, job.Queue, job.ID, err)
	}
	if (job.Attempt == 1) != (job.LastError == "") || !isOf(job.LastError, number) {
		say("x attempt %d of payload %d of %s/%s has the last error %q", job.Attempt, number, job.Queue, job.ID, job.LastError)
	}
	say("p %d %s %s %d %d:%d", run, job.Queue, job.ID, job.Attempt, job.Position, number)
	r := rand.New(rand.NewPCG(a.Seed, uint64(run)))
	a.pause(ctx, r)
	return endEvent(r, run, job.Attempt, number)
}

// isOf reports whether an error was made for the payload of a number, by endEvent, or is
// none.
func isOf(text string, number uint64) bool {
	return text == "" || strings.HasSuffix(text, fmt.Sprint(" luck with ", number))
}

// endEvent draws what becomes of an event, and says it: it is done, over (discarded),
// failed, to be run again (snoozed), or cancelled, which is what the last failure means,
// too. One of sixteen never succeeds.
func endEvent(r *rand.Rand, run int64, attempt int, number uint64) error {
	p := r.IntN(100)
	if number%16 == 0 {
		p %= 18
	}
	failure := "failed"
	if attempt > eventRetries {
		failure = "cancelled"
	}
	switch {
	case p < 15:
		say("f %d %s", run, failure)
		return fmt.Errorf("no luck with %d", number)
	case p < 18:
		say("f %d %s", run, failure)
		panic(fmt.Sprint("no luck with ", number))
	case p < 24:
		say("f %d again", run)
		return executor.Snooze(time.Duration(r.IntN(int(5 * time.Millisecond))))
	case p < 27:
		say("f %d cancelled", run)
		return executor.Cancel(errors.New(fmt.Sprint("never any luck with ", number)))
	case p < 30:
		say("f %d over", run)
		return executor.Discard()
	}
	say("f %d done", run)
	return nil
}
