package command

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/journal"
)

// output prints, for people or for programs. What goes wrong with that stays in the Writer, and
// is returned by its Flush.
type output struct {
	*bufio.Writer
	json bool
	now  time.Time
}

// row prints v as one line of JSON, which says first of what type it is.
func (o *output) row(kind string, v any) { rowTo(o, kind, v) }

// rowTo leaves nothing in JSON that a terminal could take for a command.
func rowTo(w io.Writer, kind string, v any) {
	line, err := admin.Line(kind, v)
	if err != nil {
		panic("command: bug: " + err.Error()) // there is JSON for it
	}
	_, _ = w.Write(tameJSON(line))
}

// say prints v as JSON, or else a text of ours for people.
func (o *output) say(kind string, v any, format string, args ...any) {
	if o.json {
		o.row(kind, v)
		return
	}
	o.printf(format, args...)
}

// printf is for text of ours; what comes from a journal goes through show before.
func (o *output) printf(format string, args ...any) { fmt.Fprintf(o, format, args...) }

// table prints rows with columns of one width, a page at a time, or each as JSON.
type table struct {
	*output
	kind    string // of the rows as JSON
	heading string // before the titles, which come with the first row
	titles  []string
	w       *tabwriter.Writer // nil: there was no row
	lines   int
}

// table returns one that has no row so far.
func (o *output) table(kind string, titles ...string) *table {
	return &table{output: o, kind: kind, titles: titles}
}

// under gives a table a heading, which it has if it has a row.
func (t *table) under(heading string) *table {
	t.heading = heading
	return t
}

// facts prints what there is to say of a journal, or of who has it.
func (o *output) facts(title, dir string, all [][2]string) {
	t := o.table("", title, tame(dir))
	for _, fact := range all {
		t.row(nil, fact[:]...)
	}
	t.end()
}

// begin prints the titles of a table that may have no row.
func (t *table) begin() *table {
	if t.w == nil && !t.json {
		t.printf("%s", t.heading)
		t.w = tabwriter.NewWriter(t.output, 0, 0, 2, ' ', 0)
		t.line(t.titles)
	}
	return t
}

// row prints the cells of v, or v as JSON.
func (t *table) row(v any, cells ...string) {
	if t.json {
		t.output.row(t.kind, v)
		return
	}
	t.begin().line(cells)
}

func (t *table) line(cells []string) {
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
	if t.lines++; t.lines%500 == 0 {
		t.w.Flush()
	}
}

func (t *table) end() {
	if t.w != nil {
		t.w.Flush()
	}
}

// failure is an error as JSON.
type failure struct {
	Error string
	PID   int `wire:",omit"`
	Exit  int
	Hint  string `wire:",omit"`
}

// fail says what went wrong and what can be done.
func (o *output) fail(p Program, w io.Writer, err error) {
	f := failure{Error: tame(err.Error()), Exit: status(err)}
	locked, isLocked := errors.AsType[*journal.LockedError](err)
	if isLocked {
		f.PID = locked.PID
	}
	switch {
	case p.Look != nil:
	case errors.Is(err, errAtRest):
		f.Hint = "strand copy DIR NEWDIR has that process make a hot copy, which can be looked at."
	case errors.Is(err, errNotRunning):
		f.Hint = "strand inspect, jobs, job and morgue look at it as it is."
	case isLocked:
		f.Hint = "Its process starts or stops at the moment, and may be asked in a second, or has no control socket: then " +
			"set Config.ControlSocket in its process, or make room if its disk is full: it started without one then. " +
			"Or have its own process make a hot copy (Copy of its executor), and look at the copy."
	case errors.Is(err, journal.ErrCorrupt):
		f.Hint = "strand check lists the damage; strand salvage DIR NEWDIR writes what is intact to a new journal."
	}
	if o.json {
		rowTo(w, "error", f)
		return
	}
	fmt.Fprintf(w, "%s: %s\n", p.Name, f.Error)
	if f.Hint != "" {
		fmt.Fprintf(w, "%s\n", f.Hint)
	}
}

// timeOf is a time of a journal.
func timeOf(ns int64) time.Time { return time.Unix(0, ns).UTC() }

func timeText(ns int64) string { return timeOf(ns).Format("2006-01-02 15:04:05.000Z") }

// dueText says when something is due, and how long that is from now.
func (o *output) dueText(ns int64) string {
	if ns >= math.MaxInt64-1 {
		return "at the end of time"
	}
	d := timeOf(ns).Sub(o.now)
	if d <= 0 {
		return timeText(ns) + " (" + brief.Span(-d) + " ago)"
	}
	return timeText(ns) + " (in " + brief.Span(d) + ")"
}

// cutAt is how much of a payload is shown when not all is asked for.
const cutAt = 80

// show makes text of a journal safe for a terminal and unambiguous in a table: as
// it is when nothing in it can be mistaken, else as a Go string literal.
func show(b []byte) string {
	s := string(b)
	if !utf8.ValidString(s) || strings.ContainsFunc(s, rightToLeft) {
		return strconv.QuoteToASCII(s)
	}
	ambiguous := func(r rune) bool { return !unicode.IsPrint(r) || r == '"' && s[0] == '"' }
	if s == "" || s[0] == ' ' || s[len(s)-1] == ' ' || strings.ContainsFunc(s, ambiguous) {
		return strconv.Quote(s)
	}
	return s
}

// showPayload cuts what is too long, unless all is asked for.
func showPayload(b []byte, full bool) string {
	if full {
		return show(b)
	}
	return showStart(b, "-full")
}

// showStart cuts what is too long, and says how long it is and which flag shows
// all.
func showStart(b []byte, flag string) string {
	if len(b) <= cutAt {
		return show(b)
	}
	cut := b[:cutAt]
	for i := 0; i < utf8.UTFMax && !utf8.Valid(cut) && utf8.Valid(b); i++ {
		cut = cut[:len(cut)-1]
	}
	return fmt.Sprintf("%s… (%s, %s shows all)", show(cut), brief.Bytes(int64(len(b))), flag)
}

// rightToLeft letters are printable, but change the order of what is around them on
// the screen.
func rightToLeft(r rune) bool {
	return r >= 0x590 && r <= 0x8ff || r >= 0xfb1d && r <= 0xfdff || r >= 0xfe70 && r <= 0xfeff ||
		r >= 0x10800 && r <= 0x10fff || r >= 0x1e800 && r <= 0x1efff
}

func harmful(r rune) bool { return r != utf8.RuneError && !unicode.IsPrint(r) || rightToLeft(r) }

// tame escapes what a terminal could act on in a text of ours that may quote
// something, such as an error with a path.
func tame(s string) string {
	s = strings.ReplaceAll(s, "\n", "; ") // joined errors
	return brief.Escape(s, func(r rune) bool { return !harmful(r) })
}

// tameJSON escapes in a line of JSON what encoding/json leaves: everything harmful
// stands in a string, where an escape means the same.
func tameJSON(line []byte) []byte {
	if !bytes.ContainsFunc(line[:len(line)-1], func(r rune) bool { return r < ' ' || r > '~' }) {
		return line
	}
	var b strings.Builder
	for _, r := range string(line) {
		if !harmful(r) || r == '\n' {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return []byte(b.String())
}
