package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

func replayFlags() []cli.Flag {
	return append(append(listFlags(), configFlags()...),
		&cli.StringMapFlag{Name: "shape", Usage: "what a run gets, `QUEUE=SHAPE`: events, one payload, if it was registered with Handle; else state, all that wait, the default"},
		&cli.StringMapFlag{Name: "max-payloads", Usage: "most payloads of one run, `QUEUE=N`, 0 is all; 1000 is the default"},
	)
}

// start is the moment that a replay is about.
type start struct {
	Type   string           `json:"type"`
	Epoch  uint64           `json:"epoch"` // that the next start will have
	Block  uint64           `json:"block"`
	Newest journal.Position `json:"newest"`
	At     *moment          `json:"at,omitempty"`
	// Shape is that of all queues when the call did not say which they have: the
	// journal does not know it.
	Shape string `json:"assumed_shape,omitempty"`
}

// sum ends a replay.
type sum struct {
	Type    string `json:"type"`
	Runs    int    `json:"runs"` // without those of halted jobs
	Due     int    `json:"due"`
	Delayed int    `json:"delayed"`
	Halted  int    `json:"halted"`
	Merged  int    `json:"merged"` // payloads that are over at once, equal to others
}

func replay(_ context.Context, c *call) error {
	v, err := journal.OpenView(c.Args().First())
	if err != nil {
		return err
	}
	defer v.Close()
	configs, err := readConfigs(c, defaultMaxPayloads)
	if err != nil {
		return err
	}
	folds, err := c.folds(v, c.String("queue"), configs)
	if err != nil {
		return err
	}
	if err := c.start(v); err != nil {
		return err
	}
	s, err := c.output.tasks("run", true, c.limit()).fill(folds)
	if err != nil {
		return err
	}
	return c.sum(s)
}

func (c *call) start(v *journal.View) error {
	i := v.Info()
	s := start{Type: "start", Epoch: i.Epoch + 1, Newest: i.Next - 1}
	if blocks := v.Blocks(); len(blocks) > 0 {
		last := blocks[len(blocks)-1]
		if s.Block = last.Seq; last.At != 0 {
			s.At = new(moment(last.At))
		}
	}
	if !c.IsSet("shape") {
		s.Shape = "state"
	}
	if c.json {
		return c.object(s)
	}
	c.printf("The next start is number %d. The newest position is %d.\n", s.Epoch, s.Newest)
	if s.Shape != "" {
		c.printf("The journal does not know which queues are of events, one payload a run: -shape QUEUE=events, or '*=events', says so.\n")
	}
	c.printf("\n")
	return nil
}

func (s *sum) add(t *task, now int64) {
	switch {
	case t.Halted:
		s.Halted++
		return
	case t.Due <= now:
		s.Due++
	default:
		s.Delayed++
	}
	s.Runs++
}

// more adds what is not listed.
func (s *sum) more(o shard.Outlook) {
	s.Halted += o.Halted
	s.Due += o.Due
	s.Delayed += o.Delayed
	s.Runs += o.Due + o.Delayed
}

func (c *call) sum(s *sum) error {
	if c.json {
		return c.object(s)
	}
	c.printf("%s: %d due now, %d later; %s", count(s.Runs, "run", "runs"), s.Due, s.Delayed, count(s.Halted, "halted job", "halted jobs"))
	if s.Merged > 0 {
		c.printf("; %s merged into an equal one", count(s.Merged, "payload is", "payloads are"))
	}
	c.printf("\n")
	return nil
}
