package dashboard

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/brief"
)

// figure is what pages call a figure, and what that means. Text is how it is shown in its Place,
// where it moves.
type figure struct {
	Name, Meaning string
	Tab           string // of the queue's page that lists what is counted
	Tone          string // "bad" and "warn" are for what should be none
	Place, Text   string
}

// words are all figures.
var words = []figure{
	{Name: "Lag", Meaning: "How long the oldest job that could run has been due"},
	{Name: "Age", Meaning: "How long ago the oldest payload was accepted that is not over, whatever it waits for"},
	{Name: "Busy", Meaning: "Workers that have something in hand, of all"},
	{Name: "Enqueued", Meaning: "Ids with something to do: they wait, run, or come again", Tab: "waiting"},
	{Name: "Payloads", Meaning: "What these ids have to do: payloads that wait, run, or failed and wait"},
	{Name: "Running", Meaning: "Jobs in the hands of workers", Tab: "running"},
	{Name: "Fresh", Meaning: "Enqueued jobs that have not failed", Tab: "fresh"},
	{Name: "Retries", Meaning: "Jobs that failed, and wait for their next attempt", Tab: "retrying"},
	{Name: "Parked", Tab: "parked",
		Meaning: "Jobs that wait for a lock, a slot, a limit or their turn; the list has paused ids, too"},
	{Name: "Halted", Meaning: "Jobs whose retries are used up: they go on when a person runs them", Tab: "halted", Tone: "warn"},
	{Name: "Dead", Meaning: "Payloads that were given up: the morgue has them", Tab: morgue, Tone: "bad"},
	{Name: "Processed", Meaning: "Payloads that are done or discarded, since this process began"},
	{Name: "Failed", Meaning: "Runs that failed, since this process began"},
}

// figuresOf are some figures of all queues, or of one; of neither they are words alone.
func figuresOf(of any, names ...string) (row []figure) {
	c, at := make(cells), ""
	switch s := of.(type) {
	case inspect.Stats:
		c = totalCells(s)
	case inspect.QueueStats:
		at = place(s.Name)
		c.add(at, s)
	}
	for _, name := range names {
		f := words[slices.IndexFunc(words, func(f figure) bool { return f.Name == name })]
		f.Place = at + strings.ToLower(name)
		f.Text = c[f.Place]
		row = append(row, f)
	}
	return row
}

// columnsOf are those of the table of queues, what is to be seen to first: a phone shows the first ones.
func columnsOf(of any) []figure {
	return figuresOf(of, "Lag", "Age", "Enqueued", "Dead", "Retries", "Halted", "Running", "Parked", "Fresh", "Failed", "Processed")
}

// Zero reports whether there is none.
func (f figure) Zero() bool { return f.Text == "0" || f.Text == "–" }

// cells are what moves on a page, by the name of its place, as it is shown there.
type cells map[string]string

// add adds the figures of a queue, or of all together.
func (c cells) add(at string, q inspect.QueueStats) cells {
	c[at+"lag"], c[at+"age"], c[at+"processed"], c[at+"failed"] = lag(q.Lag), lag(q.Age), number(q.Processed), number(q.Failed)
	c[at+"enqueued"], c[at+"payloads"] = number(q.Jobs), number(q.Payloads)
	for _, t := range tabs {
		c[at+t.Figure] = number(t.Count(q))
	}
	return c
}

// totalCells are those of all queues together.
func totalCells(s inspect.Stats) cells {
	return cells{"busy": fmt.Sprintf("%d / %d", s.Busy, s.Workers)}.add("", s.Total())
}

// place begins the names of a queue's cells.
func place(queue string) string {
	sum := fnv.New64a()
	sum.Write([]byte(queue))
	return hex.EncodeToString(sum.Sum(nil)) + "."
}

// lag is how late the oldest job is: where none is, a dash reads quicker than a zero.
func lag(d time.Duration) string {
	if d <= 0 {
		return "–"
	}
	return brief.Span(d)
}

func (s *site) overview(r *http.Request) (p page, err error) {
	stats, err := s.stats(r)
	return page{Title: "Overview", Here: "./", Content: stats, verbs: []Verb{Pause, Resume}}, err
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
