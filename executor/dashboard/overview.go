package dashboard

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
)

// processed is how many payloads handlers were done with.
func processed(q inspect.QueueStats) uint64 { return q.Done + q.Discarded }

// cells are what moves on a page, by the name of its place, as it is shown there.
type cells map[string]string

// totalCells are those of all queues together.
func totalCells(s inspect.Stats) cells {
	t := s.Total()
	return cells{
		"lag": lag(t.Lag), "age": lag(t.Age), "busy": fmt.Sprintf("%d / %d", s.Busy, s.Workers), "enqueued": number(t.Jobs),
		"fresh": number(t.Fresh), "retries": number(t.Retrying), "dead": number(t.Dead), "parked": number(t.Parked),
		"halted": number(t.Halted), "processed": number(processed(t)), "failed": number(t.Failed),
	}
}

// lag is how late the oldest job is: where none is, a dash reads quicker than a zero.
func lag(d time.Duration) string {
	if d <= 0 {
		return "–"
	}
	return span(d)
}

// place begins the names of a queue's cells.
func place(queue string) string {
	sum := fnv.New64a()
	sum.Write([]byte(queue))
	return hex.EncodeToString(sum.Sum(nil))
}

func queueCells(into cells, q inspect.QueueStats) {
	at := place(q.Name) + "."
	for name, text := range map[string]string{
		"lag": lag(q.Lag), "age": lag(q.Age), "jobs": number(q.Jobs), "payloads": number(q.Payloads), "fresh": number(q.Fresh),
		"retrying": number(q.Retrying),
		"running":  number(q.Running), "parked": number(q.Parked), "halted": number(q.Halted), "dead": number(q.Dead),
		"processed": number(processed(q)), "failed": number(q.Failed), "waiting": number(max(q.Jobs-q.Running, 0)),
	} {
		into[at+name] = text
	}
}

// overview is the first page.
type overview struct {
	inspect.Stats
	Total inspect.QueueStats
	Shape string // of the table of queues: it is another one when queues come or go
}

// figure is a number with its name, or in a table its column, and the place where
// the newest one goes.
type figure struct {
	Name, Place, Text string
	Tone              string // "bad" and "warn" are for what should be none
	Tab               string // of the queue's page that lists what is counted
}

// Zero reports whether there is none.
func (f figure) Zero() bool { return f.Text == "0" || f.Text == "–" }

// Figures are the totals.
func (o overview) Figures() []figure {
	c := totalCells(o.Stats)
	return []figure{
		{Name: "Lag", Place: "lag", Text: c["lag"]}, {Name: "Age", Place: "age", Text: c["age"]}, {Name: "Busy", Place: "busy", Text: c["busy"]},
		{Name: "Enqueued", Place: "enqueued", Text: c["enqueued"]}, {Name: "Fresh", Place: "fresh", Text: c["fresh"]},
		{Name: "Retries", Place: "retries", Text: c["retries"]}, {Name: "Parked", Place: "parked", Text: c["parked"]},
		{Name: "Halted", Place: "halted", Text: c["halted"], Tone: "warn"},
		{Name: "Dead", Place: "dead", Text: c["dead"], Tone: "bad"},
		{Name: "Processed", Place: "processed", Text: c["processed"]}, {Name: "Failed", Place: "failed", Text: c["failed"]},
	}
}

// columns of the table of queues, what is to be seen to first: a phone shows the first ones.
var columns = []figure{
	{Name: "Lag", Place: "lag"}, {Name: "Age", Place: "age"}, {Name: "Enqueued", Place: "jobs", Tab: "waiting"},
	{Name: "Dead", Place: "dead", Tab: "morgue", Tone: "bad"}, {Name: "Retries", Place: "retrying", Tab: "retrying"},
	{Name: "Halted", Place: "halted", Tab: "halted", Tone: "warn"}, {Name: "Running", Place: "running", Tab: "running"},
	{Name: "Parked", Place: "parked", Tab: "parked"}, {Name: "Fresh", Place: "fresh", Tab: "fresh"},
	{Name: "Failed", Place: "failed"}, {Name: "Processed", Place: "processed"},
}

// Columns are those of the table of queues, and Row has what is in them.
func (overview) Columns() []figure { return columns }

func (overview) Row(q inspect.QueueStats) []figure { return figuresAt(q, columns) }

// figuresAt are figures of a queue, by their places in it.
func figuresAt(q inspect.QueueStats, places []figure) []figure {
	c, at := make(cells), place(q.Name)+"."
	queueCells(c, q)
	row := slices.Clone(places)
	for i := range row {
		row[i].Place = at + row[i].Place
		row[i].Text = c[row[i].Place]
	}
	return row
}

func (h *handler) overview(w http.ResponseWriter, r *http.Request) error {
	stats, err := h.x.Stats(r.Context())
	if err != nil {
		return err
	}
	if stats.Queues, err = seen(h, r, stats.Queues, statsName); err != nil {
		return err
	}
	can, err := h.can(r, "", Pause, Resume)
	if err != nil {
		return err
	}
	o := overview{stats, stats.Total(), shapeOf(stats)}
	return h.show(w, r, http.StatusOK, "overview.html", page{
		Title: "Overview", Here: "./", Content: o, Can: can,
	})
}

func statsName(q inspect.QueueStats) string { return q.Name }

// shapeOf changes when the rows of the table do, or what is paused.
func shapeOf(s inspect.Stats) string {
	sum := fnv.New64a()
	for _, q := range s.Queues {
		sum.Write([]byte(strconv.Quote(q.Name) + strconv.FormatBool(q.Paused) + strconv.FormatBool(q.Registered)))
	}
	return hex.EncodeToString(sum.Sum(nil))
}
