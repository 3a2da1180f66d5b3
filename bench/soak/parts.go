package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/strandjobs/strand/executor"
)

// finishEach takes in that the payloads of a run fared differently. The next run begins
// with the first of them that is not over, and those behind it that are over have ended
// apart.
func (o *oracle) finishEach(name string, outcomes []string) error {
	r := o.runs[name]
	if r == nil || len(outcomes) != len(r.numbers) {
		return fmt.Errorf("%d outcomes of run %s", len(outcomes), name)
	}
	delete(o.runs, name)
	o.parted++
	s, waits := r.strand, false
	s.running, s.passed = nil, false
	for i, outcome := range outcomes {
		if outcome == "again" {
			waits = true
			continue
		}
		it := o.over(r, i, outcome)
		if it.apart = waits; waits {
			s.apart = append(s.apart, it)
		} else {
			s.next = s.index[r.numbers[i]] + 1
		}
	}
	return nil
}

// comeBack takes in that a payload runs, which may have ended apart.
func (o *oracle) comeBack(it *item) error {
	switch {
	case !it.ended:
		return nil
	case it.endedIn == o.life:
		return fmt.Errorf("payload %d runs again after it ended in this life", it.number)
	case it.gone:
		return fmt.Errorf("payload %d runs again, although its end was on disk", it.number)
	}
	o.takeBack(it)
	return nil
}

// endEach draws what becomes of each payload of a job, and returns errors for those that
// are not done.
func endEach(r *rand.Rand, run int64, job executor.Merged[[]byte]) error {
	each := executor.PayloadErrors{}
	var outcomes strings.Builder
	for _, p := range job.Payloads {
		outcome := "over"
		switch v := r.IntN(10); {
		case v < 3 && job.Attempt < 4:
			outcome, each[p.Position] = "again", errors.New("no luck")
		case v == 3:
			outcome, each[p.Position] = "cancelled", executor.Cancel(errors.New("not wanted"))
		case v == 4:
			each[p.Position] = executor.Discard()
		}
		outcomes.WriteString(" " + outcome)
	}
	say("f %d%s", run, outcomes.String())
	return each
}
