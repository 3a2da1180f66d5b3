package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/strandjobs/strand/journal"
)

// figures are those of a journal.
type figures struct {
	journal.Info
	DeadBytes int
}

// block is a block of the log.
type block struct {
	Type      string
	Seq       uint64
	Epoch     uint64
	First     journal.Position
	Next      journal.Position
	At        time.Time
	Entries   int
	Live      int
	Bytes     int
	LiveBytes int
}

// census counts the jobs of a queue, by the names of the executor's own figures. Fresh, Retrying
// and Halted add up to Jobs, so do Due, Delayed and Halted.
type census struct {
	Queue      string
	Registered bool `wire:"-"`
	Unclaimed  int  `wire:"-"`
	Jobs       int  `wire:"length"`
	Payloads   int
	Bytes      *int64 // nil: a process does not count them
	Fresh      int
	Retrying   int `wire:"retries"`
	Halted     int
	Due        int
	Delayed    int
	Dead       int           `wire:"morgue_length"`
	Age        time.Duration `wire:"age"` // of the oldest payload
}

func inspectAtRest(_ context.Context, c *call) error {
	folds, err := c.folds("", 0)
	if err != nil {
		return err
	}
	defer folds.Close()
	if err := c.figures(folds.Info()); err != nil {
		return err
	}
	if err := c.blocks(folds.View, c.Bool("blocks")); err != nil {
		return err
	}
	buried := folds.Buried()
	return c.censuses(func(yield func(*census, error) bool) {
		for f := range folds.all() {
			n := f.census(c.now)
			if n.Dead = buried[f.number]; !yield(n, nil) {
				return
			}
		}
		if folds.err != nil {
			yield(nil, folds.err)
		}
	})
}

func (c *call) figures(i journal.Info) error {
	f := figures{i, i.Bytes - i.LiveBytes}
	if c.json {
		return c.row("journal", f)
	}
	t := c.output.table("JOURNAL", tame(c.Args().First()))
	t.row("format", strconv.Itoa(f.Format))
	t.row("uuid", cmp.Or(f.UUID, "none: it is older than these"))
	t.row("epoch", fmt.Sprintf("%d (times opened)", f.Epoch))
	t.row("next position", fmt.Sprint(f.Next))
	t.row("log", fmt.Sprintf("%s, %s: %d live, %d ended", c.extent(i), count(f.Entries, "entry", "entries"), f.Live, f.Entries-f.Live))
	t.row("log bytes", fmt.Sprintf("%s: %s live, %s dead", bytesText(int64(f.Bytes)), bytesText(int64(f.LiveBytes)), bytesText(int64(f.DeadBytes))))
	t.row("file", bytesText(f.FileBytes))
	return t.end()
}

func (c *call) extent(i journal.Info) string {
	if i.Blocks == 0 {
		return fmt.Sprintf("no blocks, the last one was %d", i.Newest)
	}
	return fmt.Sprintf("%s (%d to %d)", count(i.Blocks, "block", "blocks"), i.Oldest, i.Newest)
}

func (c *call) blocks(v *journal.View, all bool) error {
	if !all {
		return nil
	}
	var t *table
	if !c.json {
		c.printf("\n")
		t = c.output.table("BLOCK", "EPOCH", "BEGUN", "FIRST", "NEXT", "ENTRIES", "LIVE", "BYTES", "LIVE BYTES")
	}
	for _, b := range v.Blocks() {
		if c.json {
			if err := c.object(block{"block", b.Seq, b.Epoch, b.First, b.Next, time.Unix(0, b.At), b.Entries, b.Live, b.Bytes, b.LiveBytes}); err != nil {
				return err
			}
			continue
		}
		t.row(fmt.Sprint(b.Seq), fmt.Sprint(b.Epoch), timeText(b.At), fmt.Sprint(b.First), fmt.Sprint(b.Next),
			strconv.Itoa(b.Entries), strconv.Itoa(b.Live), bytesText(int64(b.Bytes)), bytesText(int64(b.LiveBytes)))
	}
	if c.json {
		return nil
	}
	return t.end()
}

func (c *call) censuses(all iter.Seq2[*census, error]) error {
	var t *table
	if !c.json {
		c.printf("\n")
		t = c.output.table("QUEUE", "JOBS", "FRESH", "RETRYING", "HALTED", "DUE", "DELAYED", "PAYLOADS", "AGE", "BYTES", "MORGUE")
	}
	for n, err := range all {
		if err != nil {
			return err
		}
		if c.json {
			if err := c.row("queue", n); err != nil {
				return err
			}
			continue
		}
		t.row(show([]byte(n.Queue)), strconv.Itoa(n.Jobs), strconv.Itoa(n.Fresh), strconv.Itoa(n.Retrying), strconv.Itoa(n.Halted),
			strconv.Itoa(n.Due), strconv.Itoa(n.Delayed), strconv.Itoa(n.Payloads), span(n.Age), sizeText(n.Bytes), strconv.Itoa(n.Dead))
	}
	if c.json {
		return nil
	}
	return t.end()
}

func sizeText(bytes *int64) string {
	if bytes == nil {
		return "-"
	}
	return bytesText(*bytes)
}

// census counts what is in f, whose runs have all payloads of their job.
func (f *fold) census(now time.Time) *census {
	o := f.left()
	age := time.Duration(0)
	if oldest := f.core.Oldest(); oldest != 0 {
		age = max(now.Sub(time.Unix(0, oldest)), 0)
	}
	return &census{
		Queue: f.queue, Jobs: o.Fresh + o.Retrying + o.Halted, Payloads: f.core.Counts().Payloads, Bytes: &f.bytes,
		Fresh: o.Fresh, Retrying: o.Retrying, Halted: o.Halted, Due: o.Due, Delayed: o.Delayed, Age: age,
	}
}
