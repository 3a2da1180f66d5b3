package command

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/journal"
)

// figures are those of a journal.
type figures struct {
	journal.Info
	DeadBytes int
}

func inspectAtRest(ctx context.Context, c *call) error {
	return c.folds(ctx, "", 0, func(folds *folds) error {
		if c.program.Look == nil {
			v := folds.parts[0].View
			printFigures(c, v.Info())
			if c.Bool("blocks") {
				blocks(c.output, v)
			}
		}
		t := censuses(c.output)
		for q := range folds.all() {
			t.census(q.census(c.now))
		}
		t.end()
		return nil
	})
}

func inspectLive(ctx context.Context, c *call) error {
	if c.Bool("blocks") {
		return usage("-blocks lists the blocks of a journal that no process has open")
	}
	i, err := control.Call[control.Figures](ctx, c.client, control.VerbInspect, control.None{})
	if err != nil {
		return err
	}
	printFigures(c, i.Journal)
	var queues []inspect.QueueStats
	t := censuses(c.output)
	for _, q := range i.Queues {
		t.census(q)
		queues = append(queues, q.QueueStats)
	}
	t.end()
	aside(c.output, queues)
	return nil
}

func printFigures(c *call, i journal.Info) {
	f := figures{i, i.Bytes - i.LiveBytes}
	if c.json {
		c.row("journal", f)
		return
	}
	blocks := fmt.Sprintf("no blocks, the last one was %d", i.Newest)
	if i.Blocks > 0 {
		blocks = fmt.Sprintf("%s (%d to %d)", brief.Count(i.Blocks, "block", "blocks"), i.Oldest, i.Newest)
	}
	c.facts("JOURNAL", c.Args().First(), [][2]string{
		{"format", strconv.Itoa(f.Format)},
		{"uuid", cmp.Or(f.UUID, "none: it is older than these")},
		{"epoch", fmt.Sprintf("%d (times opened)", f.Epoch)},
		{"next position", fmt.Sprint(f.Next)},
		{"log", fmt.Sprintf("%s, %s: %d live, %d ended", blocks, brief.Count(f.Entries, "entry", "entries"), f.Live, f.Entries-f.Live)},
		{"log bytes", fmt.Sprintf("%s: %s live, %s dead", brief.Bytes(int64(f.Bytes)), brief.Bytes(int64(f.LiveBytes)), brief.Bytes(int64(f.DeadBytes)))},
		{"file", brief.Bytes(f.FileBytes)},
	})
}

func blocks(o *output, v *journal.View) {
	t := o.table("block", "BLOCK", "EPOCH", "BEGUN", "FIRST", "NEXT", "ENTRIES", "LIVE", "BYTES", "LIVE BYTES").under("\n").begin()
	for _, b := range v.Blocks() {
		t.row(b, fmt.Sprint(b.Seq), fmt.Sprint(b.Epoch), timeText(b.At.UnixNano()), fmt.Sprint(b.First), fmt.Sprint(b.Next),
			strconv.Itoa(b.Entries), strconv.Itoa(b.Live), brief.Bytes(int64(b.Bytes)), brief.Bytes(int64(b.LiveBytes)))
	}
	t.end()
}

func censuses(o *output) *table {
	return o.table("queue", "QUEUE", "PAUSED", "JOBS", "FRESH", "RETRYING", "HALTED", "DUE", "DELAYED", "PAYLOADS", "AGE", "BYTES", "MORGUE").under("\n").begin()
}

func (t *table) census(n control.Census) {
	size := "-"
	if n.Bytes != nil {
		size = brief.Bytes(*n.Bytes)
	}
	t.row(n, show([]byte(n.Name)), pausedOf(&n.QueueStats), strconv.Itoa(n.Jobs), strconv.Itoa(n.Fresh), strconv.Itoa(n.Retrying), strconv.Itoa(n.Halted),
		strconv.Itoa(n.Due), strconv.Itoa(n.Delayed), strconv.Itoa(n.Payloads), brief.Span(n.Age), size, strconv.Itoa(n.Dead))
}

// census counts what is in q, whose runs have all payloads of their job.
func (q *folded) census(now time.Time) control.Census {
	n := control.Census{QueueStats: inspect.QueueStats{Name: q.name, Dead: q.dead}, Bytes: new(int64)}
	n.Paused, n.PausedIDs, n.PausedPrefixes = len(q.whole) > 0, len(q.ids), len(q.prefixes)
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
