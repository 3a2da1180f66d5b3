package command

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

func inspectAtRest(ctx context.Context, c *call) error {
	return c.folds(ctx, "", 0, func(folds *folds) error {
		if c.program.Look == nil {
			v := folds.parts[0].View
			if err := c.figures(v.Info()); err != nil {
				return err
			}
			if err := c.blocks(v, c.Bool("blocks")); err != nil {
				return err
			}
		}
		return c.censuses(func(yield func(*census, error) bool) {
			for q := range folds.all() {
				if !yield(q.census(c.now), nil) {
					return
				}
			}
			if folds.err != nil {
				yield(nil, folds.err)
			}
		})
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
	return t.end()
}

func sizeText(bytes *int64) string {
	if bytes == nil {
		return "-"
	}
	return bytesText(*bytes)
}

// census counts what is in q, whose runs have all payloads of their job.
func (q *folded) census(now time.Time) *census {
	n := &census{Queue: q.name, Bytes: new(int64), Dead: q.dead}
	for _, f := range q.parts {
		o := f.left()
		n.Fresh, n.Retrying, n.Halted = n.Fresh+o.Fresh, n.Retrying+o.Retrying, n.Halted+o.Halted
		n.Due, n.Delayed = n.Due+o.Due, n.Delayed+o.Delayed
		n.Payloads += f.core.Counts().Payloads
		*n.Bytes += f.bytes
		if oldest := f.core.Oldest(); oldest != 0 {
			n.Age = max(n.Age, now.Sub(time.Unix(0, oldest)))
		}
	}
	n.Jobs = n.Fresh + n.Retrying + n.Halted
	return n
}
