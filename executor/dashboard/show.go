package dashboard

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"html/template"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/brief"
)

// shown are the functions of templates: how things look to people.
var shown = template.FuncMap{
	"query": query, "escape": url.QueryEscape, "pick": list{}.Pick, "plain": plain, "clip": clip, "number": number, "plural": plural,
	"ago": ago, "span": brief.Span, "lag": lag, "dict": dictOf, "few": few, "join": join,
	"place": place, "shape": shapeOf, "figures": figuresOf,
	"columns": func(of any) []figure { // of the table of queues, what is to be seen to first: a phone shows the first ones
		return figuresOf(of, "Lag", "Age", "Enqueued", "Dead", "Retries", "Halted", "Running", "Parked", "Fresh", "Failed", "Processed")
	},
	"asset":   func(name string) string { return "assets/" + name + "?v=" + assets()[name].version },
	"heading": func(s string) string { return plain(visible(s, s)) },
	"text":    func(b []byte) string { return string(b) },
	"bytes":   func(n int) string { return brief.Bytes(int64(n)) },
	// Scores that are times, in seconds, are long, and are shown as they were given.
	"score":   func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) },
	"at":      func(t, now time.Time) map[string]any { return dictOf("At", t, "Now", now) },
	"clock":   func(t time.Time) string { return t.Format("15:04:05") },
	"exact":   func(t time.Time) string { return t.Format("Mon 2 Jan 2006 15:04:05.000 MST") },
	"machine": func(t time.Time) string { return t.Format(time.RFC3339Nano) },
	"words":   func() []figure { return words },
	"tabs":    func() []tab { return tabs },
	"rows":    func() []int { return []int{25, defaultRows, 100, maxRows} },
	"beyond":  func(list any, more int) int { return max(reflect.ValueOf(list).Len()-beside, 0) + more },
	"inline": func(list any, more int) string { // how many stand in a line, unless it is one
		if n := reflect.ValueOf(list).Len() + more; n > 1 {
			return strconv.Itoa(n) + " in line"
		}
		return ""
	},
	"left": func(d time.Duration) string {
		if d <= 0 {
			return ""
		}
		return brief.Span(d) + " left"
	},
	"job": func(name string) map[string]any { // by its name in explanations, as far as it is one
		queue, id, _ := admin.JobOf(name)
		return dictOf("Queue", queue, "ID", id)
	},
}

// few is the begin of a list in a cell, and beyond how many are not in it.
func few(list any) any {
	v := reflect.ValueOf(list)
	return v.Slice(0, min(v.Len(), beside)).Interface()
}

// dictOf is what a template is given that needs several values: names, each with its value.
func dictOf(pairs ...any) map[string]any {
	all := make(map[string]any)
	for pair := range slices.Chunk(pairs, 2) {
		all[pair[0].(string)] = pair[1]
	}
	return all
}

// plain shows a text of any bytes: what is not UTF-8, does not print, or turns the
// direction of writing round, as an escape.
func plain(s string) string {
	return brief.Escape(s, func(r rune) bool { return strconv.IsPrint(r) || r == '\n' || r == '\t' })
}

// visible quotes what would show as blank, an id of spaces for example: a link needs a
// text.
func visible(s, begin string) string {
	if s != "" && strings.TrimSpace(begin) == "" {
		return strconv.Quote(s)
	}
	return s
}

// clip is plain for the cell of a table: its first line, and not all of a long one.
func clip(s string, most int) string {
	line, _, _ := strings.Cut(s, "\n")
	s = visible(s, line)
	s, rest, more := strings.Cut(s, "\n")
	if cut := brief.Cut(s, most); cut == s && more && strings.TrimSpace(rest) != "" {
		s += "…"
	} else {
		s = cut
	}
	return plain(s)
}

// ago says when something was or will be, seen from now.
func ago(t, now time.Time) string {
	switch d := now.Sub(t); {
	case t.IsZero():
		return "–"
	case d < -time.Second:
		return "in " + brief.Span(-d)
	case d < time.Second:
		return "now"
	default:
		return brief.Span(d) + " ago"
	}
}

// number groups the digits of an integer by thousands, with a narrow space.
func number(v any) string {
	s := fmt.Sprint(v)
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return sign + s
}

// query makes the query of a URL from pairs of a name and a value, escaped. Empty values are left out.
func query(pairs ...string) template.URL {
	q := make(url.Values, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Add(pairs[i], pairs[i+1])
		}
	}
	return template.URL(q.Encode()) // all of it is escaped
}

func plural(n any, one, many string) string {
	if s := fmt.Sprint(n); s == "1" {
		return s + " " + one
	}
	return number(n) + " " + many
}

// How much of payloads an answer has: of one, and of all together. It is made in
// memory, and text gets longer on its way into a page or JSON.
const (
	shownText = 64 << 10
	shownAll  = 1 << 20
	mostError = 4 << 10 // of an error that nobody else has clipped
)

// PlainPayload shows a payload as it is, JSON with indents: for Config.ShowPayload
// where payloads have no secrets. It stops behind what an answer has of one, 64 KiB.
func PlainPayload(_ *http.Request, p Payload) string {
	if json.Valid(p.Raw) {
		return indented(p.Raw, shownText+1)
	}
	return string(p.Raw[:min(len(p.Raw), shownText+1)])
}

// indented returns JSON with a line for each value, cut off once it has most bytes: in
// full, a payload of brackets would be thousands of times as long as it was.
func indented(raw []byte, most int) string {
	var b strings.Builder
	depth, quoted, escaped, fresh := 0, false, false, false // fresh: what was opened is empty so far
	line := func() { b.WriteString("\n" + strings.Repeat("  ", min(depth, most))) }
	for _, c := range raw {
		if b.Len() >= most {
			break
		}
		if quoted {
			b.WriteByte(c)
			quoted, escaped = c != '"' || escaped, c == '\\' && !escaped
			continue
		}
		if strings.IndexByte(" \t\r\n", c) >= 0 {
			continue
		}
		closes := c == ']' || c == '}'
		if closes {
			depth--
		}
		if closes != fresh {
			line()
		}
		quoted, fresh = c == '"', c == '[' || c == '{'
		switch b.WriteByte(c); c {
		case '[', '{':
			depth++
		case ',':
			line()
		case ':':
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// showPayloads leaves of the payloads of a job what may be seen, while there is room for them, and
// returns how much is left of that.
func (g *gate) showPayloads(r *http.Request, d *inspect.JobDetail, left int) int {
	admin.Hide(&d.PayloadInfo)
	for _, p := range admin.PayloadsOf(d) {
		left = g.show(r, d.Queue, d.ID, p, left)
	}
	return left
}

// show leaves of a payload of a job what may be seen, while there is room for so many bytes, and returns
// how many are left of these: Raw is the text of it. When the request has no time left, there is nothing of it.
func (g *gate) show(r *http.Request, queue, id string, p *inspect.PayloadInfo, left int) int {
	all := admin.Hide(p)
	switch {
	case g.cfg.ShowPayload == nil || r.Context().Err() != nil:
		return left
	case left <= 0 || all.Clipped:
		p.Clipped = true // the answer, or the Inspector's, has enough
		return left
	}
	text := g.reveal(r, g.cfg.ShowPayload, Payload{queue, id, all})
	if text == "" {
		return left
	}
	p.Raw = []byte(begin(text, min(shownText, left)))
	p.Clipped = len(p.Raw) < len(text)
	p.Metadata, p.Decode = all.Metadata, all.Decode
	return left - len(p.Raw)
}

// preview is what a list has of a payload, in one line.
func (g *gate) preview(r *http.Request, p Payload) string {
	if r.Context().Err() != nil {
		return ""
	}
	return strings.Join(strings.Fields(begin(g.reveal(r, g.cfg.ShowPreview, p), mostError)), " ")
}

// reveal is what a hook says that may be seen of a payload; "": it is hidden.
func (g *gate) reveal(r *http.Request, hook func(*http.Request, Payload) string, p Payload) (text string) {
	p.Raw = bytes.Clone(p.Raw) // the hook may write to it
	g.survives("a hook of the dashboard that shows payloads", func() { text = hook(r, p) })
	return text
}

// begin is the begin of a text, which keeps no more of it in memory, and cuts no
// character.
func begin(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.TrimSuffix(brief.Cut(text, most), "…")
}

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

func statsName(q inspect.QueueStats) string { return q.Name }

// shapeOf changes when the rows of the table do, or what is paused.
func shapeOf(s inspect.Stats) string {
	sum := fnv.New64a()
	for _, q := range s.Queues {
		sum.Write([]byte(strconv.Quote(q.Name) + strconv.FormatBool(q.Paused) + strconv.FormatBool(q.Registered)))
	}
	return hex.EncodeToString(sum.Sum(nil))
}
