package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/strandjobs/strand/bench/peers/peer"
)

// campaign measures all cases, one at a time, round by round: in each of them
// every case has its turn, and in each case every peer, beside Strand. So all
// see the same machine, and what disturbs it for a minute is in one round only.
type campaign struct {
	budget
	cases [][]*series // by case, then by peer
	hung  map[string]int
	dir   string
	begun time.Time
	bar   *progressbar.ProgressBar
}

// hungAtMost is how often a peer may not end in time before nothing more is
// asked of it.
const hungAtMost = 3

var errGivenUp = fmt.Errorf("it was given up after it had not ended in time for %d times", hungAtMost)

// measure carries all cases out. What fails says so in its outcome. Whenever
// all peers have had their turn it hands over what there is so far.
func (o *options) measure(ctx context.Context, progress io.Writer, sofar func([]*series)) (err error) {
	c := &campaign{budget: o.cases, hung: map[string]int{}, begun: time.Now()}
	if c.dir, err = os.MkdirTemp(o.dir, "strand-peers-"); err != nil {
		return fmt.Errorf("-dir: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.dir)) }()
	if c.dir, err = filepath.Abs(c.dir); err != nil {
		return err
	}
	if err := os.Chmod(c.dir, 0o711); err != nil { // PostgreSQL's user has to pass
		return err
	}
	for _, t := range c.budget.cases() {
		c.cases = append(c.cases, t.of(o.peers))
	}
	all := slices.Concat(c.cases...)
	c.bar = newBar(len(all)*c.rounds, progress)
	defer func() { _ = c.bar.Finish() }() // a bar that can't be drawn is no reason to stop
	for round := range c.atMost {
		if c.list != nil && round > 0 && time.Since(c.begun)*time.Duration(round+1)/time.Duration(round) > c.limit {
			return nil
		}
		for _, same := range c.cases {
			err := c.turn(ctx, round, same)
			sofar(all)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// turn is one round of one case. Who comes first changes.
func (c *campaign) turn(ctx context.Context, round int, same []*series) error {
	due := c.due(round, same)
	if round >= c.rounds {
		c.bar.ChangeMax(c.bar.GetMax() + len(due))
	}
	for i := range due {
		s := due[(i+round)%len(due)]
		c.bar.Describe(fmt.Sprintf("%-28s", s.task.Peer))
		o := c.carryOut(ctx, s)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		o.Round = round
		s.rounds = append(s.rounds, o)
		_ = c.bar.Add(1)
	}
	return nil
}

func (c *campaign) carryOut(ctx context.Context, s *series) outcome {
	if s.givenUp() {
		return s.rounds[len(s.rounds)-1]
	}
	t := s.task
	t.N = s.jobs()
	if c.hung[t.Peer] >= hungAtMost {
		o := t.begin()
		o.Failed = errGivenUp.Error()
		return o
	}
	o, err := t.inChild(ctx, c.dir)
	if errors.Is(err, errHung) {
		c.hung[t.Peer]++
	}
	return o
}

// due returns which series of a case have a part in a round: all of them at
// first, then those that are not steady, and what they are compared with.
func (c *campaign) due(round int, same []*series) (due []*series) {
	if round < c.rounds {
		return same
	}
	if time.Since(c.begun) > c.limit || same[0].task.Shape == idle {
		return nil // the latencies of all rounds are put together
	}
	for _, s := range same {
		if s.givenUp() {
			continue
		}
		mine := standard(s, same)
		if mine == nil || mine == s {
			continue
		}
		if !spreadOf(mine.over(s)).steady() {
			if !slices.Contains(due, mine) {
				due = append(due, mine)
			}
			due = append(due, s)
		}
	}
	return due
}

// standard returns Strand's own series of the same promise and case; nil: there
// is none.
func standard(s *series, same []*series) *series {
	name := map[peer.Promise]string{peer.Synced: "Strand", peer.Memory: "Strand, in memory"}[s.promise]
	return ownSeries(name, s.task, same)
}

// ownSeries returns the series of one of Strand's own kinds in a case; nil: there is
// none.
func ownSeries(name string, t task, same []*series) *series {
	i := slices.IndexFunc(same, func(other *series) bool { return other.task.Peer == name && other.task.sameCase(t) })
	if i < 0 {
		return nil
	}
	return same[i]
}

func newBar(total int, progress io.Writer) *progressbar.ProgressBar {
	return progressbar.NewOptions(total, progressbar.OptionSetWriter(progress), progressbar.OptionSetPredictTime(true),
		progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30))
}
