package command

import (
	"context"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

func replayFlags() []cli.Flag {
	return append(append(listFlags(), configFlags()...),
		&cli.StringMapFlag{Name: "shape", Usage: "what a run gets, `QUEUE=SHAPE`: events, one payload (Handle); state, the newest (HandleLatest); merged, all that wait, the default"},
		&cli.StringMapFlag{Name: "max-payloads", Usage: "most payloads of one run, `QUEUE=N`, 0 is all; 1000 is the default"},
	)
}

// start is the moment that a replay is about.
type start struct {
	Type   string
	Epoch  uint64 // that the next start will have
	Block  uint64
	Newest journal.Position
	At     *time.Time `wire:",omit"`
	// Shape is that of all queues when the call did not say which they have: the
	// journal does not know it.
	Shape string `wire:"assumed_shape,omit"`
}

// sum ends a replay.
type sum struct {
	Type    string
	Runs    int // without those of halted jobs
	Due     int
	Delayed int
	Halted  int
	Merged  int // payloads that are over at once, equal to others
}

func replay(ctx context.Context, c *call) error {
	return c.folds(ctx, c.String("queue"), defaultMaxPayloads, func(folds *folds) error {
		if err := c.start(folds.parts[0].View); err != nil {
			return err
		}
		s, err := c.output.tasks("run", true, c.limit()).fill(folds)
		if err != nil {
			return err
		}
		return c.sum(s)
	})
}

func (c *call) start(v *journal.View) error {
	i := v.Info()
	s := start{Type: "start", Epoch: i.Epoch + 1, Newest: i.Next - 1}
	if blocks := v.Blocks(); len(blocks) > 0 {
		last := blocks[len(blocks)-1]
		if s.Block = last.Seq; last.At != 0 {
			s.At = new(time.Unix(0, last.At))
		}
	}
	if !c.IsSet("shape") {
		s.Shape = "merged"
	}
	if c.json {
		return c.object(s)
	}
	c.printf("The next start is number %d. The newest position is %d.\n", s.Epoch, s.Newest)
	if s.Shape != "" {
		c.printf("The journal does not know which queues have one payload a run: -shape QUEUE=events, or state, or '*=events', says so.\n")
	}
	c.printf("\n")
	return nil
}

func (s *sum) add(t *task, now int64) {
	switch {
	case t.State == inspect.JobHalted:
		s.Halted++
		return
	case t.due <= now:
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
