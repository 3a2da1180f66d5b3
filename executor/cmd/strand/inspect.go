package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// figures are those of a journal.
type figures struct {
	Type      string           `json:"type"`
	Format    int              `json:"format"`
	UUID      string           `json:"uuid,omitempty"`
	Epoch     uint64           `json:"epoch"`
	Next      journal.Position `json:"next"`
	Oldest    uint64           `json:"oldest_block"`
	Newest    uint64           `json:"newest_block"`
	Blocks    int              `json:"blocks"`
	Entries   int              `json:"entries"`
	Live      int              `json:"live"`
	Bytes     int              `json:"bytes"`
	LiveBytes int              `json:"live_bytes"`
	DeadBytes int              `json:"dead_bytes"`
	Buried    int              `json:"buried"`
	Queues    int              `json:"queues"`
	FileBytes int64            `json:"file_bytes"`
}

// block is a block of the log.
type block struct {
	Type      string           `json:"type"`
	Seq       uint64           `json:"seq"`
	Epoch     uint64           `json:"epoch"`
	First     journal.Position `json:"first"`
	Next      journal.Position `json:"next"`
	At        moment           `json:"at"`
	Entries   int              `json:"entries"`
	Live      int              `json:"live"`
	Bytes     int              `json:"bytes"`
	LiveBytes int              `json:"live_bytes"`
}

// census counts the jobs of a queue. Fresh, Retrying and Halted add up to Jobs, so
// do Due, Delayed and Halted.
type census struct {
	Type     string `json:"type"`
	Queue    text   `json:"queue"`
	Jobs     int    `json:"jobs"`
	Payloads int    `json:"payloads"`
	Bytes    *int64 `json:"bytes,omitempty"` // nil: a process does not count them
	Fresh    int    `json:"fresh"`
	Retrying int    `json:"retrying"`
	Halted   int    `json:"halted"`
	Due      int    `json:"due"`
	Delayed  int    `json:"delayed"`
	Morgue   int    `json:"morgue"`
	Age      int64  `json:"age_ns"` // of the oldest payload
}

func inspect(_ context.Context, c *call) error {
	v, err := journal.OpenView(c.Args().First())
	if err != nil {
		return err
	}
	defer v.Close()
	if err := c.figures(v.Info()); err != nil {
		return err
	}
	if err := c.blocks(v, c.Bool("blocks")); err != nil {
		return err
	}
	folds, err := c.folds(v, "", configs{"*": shard.Config{}})
	if err != nil {
		return err
	}
	buried := v.Buried()
	return c.censuses(func(yield func(*census, error) bool) {
		for f := range folds.all() {
			n := f.census(c.now)
			if n.Morgue = buried[f.number]; !yield(n, nil) {
				return
			}
		}
		if folds.err != nil {
			yield(nil, folds.err)
		}
	})
}

func (c *call) figures(i journal.Info) error {
	f := figures{
		"journal", i.Format, i.UUID, i.Epoch, i.Next, i.Oldest, i.Newest, i.Blocks, i.Entries, i.Live,
		i.Bytes, i.LiveBytes, i.Bytes - i.LiveBytes, i.Buried, i.Queues, i.FileBytes,
	}
	if c.json {
		return c.object(f)
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
			if err := c.object(block{"block", b.Seq, b.Epoch, b.First, b.Next, moment(b.At), b.Entries, b.Live, b.Bytes, b.LiveBytes}); err != nil {
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
			if err := c.object(n); err != nil {
				return err
			}
			continue
		}
		t.row(show(n.Queue), strconv.Itoa(n.Jobs), strconv.Itoa(n.Fresh), strconv.Itoa(n.Retrying), strconv.Itoa(n.Halted),
			strconv.Itoa(n.Due), strconv.Itoa(n.Delayed), strconv.Itoa(n.Payloads), span(time.Duration(n.Age)), sizeText(n.Bytes), strconv.Itoa(n.Morgue))
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
		Type: "queue", Queue: text(f.queue), Jobs: o.Fresh + o.Retrying + o.Halted, Payloads: f.core.Counts().Payloads, Bytes: &f.bytes,
		Fresh: o.Fresh, Retrying: o.Retrying, Halted: o.Halted, Due: o.Due, Delayed: o.Delayed, Age: int64(age),
	}
}
