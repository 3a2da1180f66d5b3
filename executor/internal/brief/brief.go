// Package brief cuts texts for people. Ids, keys and errors come from outside: any bytes, and
// any number of them. What it returns is short, and moves no cursor of a terminal, but for
// [Cut] and [Clip], which only shorten.
package brief

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/strandjobs/strand/executor/internal/each"
)

// What people are shown.
const (
	Listed   = 10   // of a list that [First] returns
	Most     = 100  // of a list in what is said about a job or a key
	PageRows = 25   // of a page, if the query does not say
	MaxRows  = 1000 // of a page, at most
	longest  = 120  // bytes of a name or an error in a line
)

// Clip shortens a text for a line.
func Clip(s string) string { return Cut(s, longest) }

// Cut shortens a text to so many bytes, or a few less, and a mark that says so.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// Text is a text of any kind as part of a line.
func Text(s string) string { return plain(Clip(s)) }

// Job names a job: queue/id. Two jobs never have one name.
func Job(queue, id string) string {
	q, i := plain(queue), plain(id)
	if q == queue && strings.ContainsAny(q, `/"`) {
		q = strconv.Quote(q)
	}
	if i == id && strings.HasPrefix(i, `"`) {
		i = strconv.Quote(i)
	}
	return q + "/" + i
}

// plain quotes a text that does not print as it is: control characters, what turns
// the direction of writing round, and what is not UTF-8.
func plain(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// Escape shows a text of any bytes: what is not UTF-8, or is not to be shown, as an escape.
func Escape(s string, shown func(r rune) bool) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case shown(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

// Count puts a number before its noun.
func Count[N int | int64 | uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Bytes is a size as people read it.
func Bytes(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/1024, 0
	for ; v >= 1024 && i < len(units)-1; i++ {
		v /= 1024
	}
	return fmt.Sprintf("%.1f %ciB", v, units[i])
}

// Span is a duration in one or two units.
func Span(d time.Duration) string {
	switch {
	case d <= 0:
		return "0 s"
	case d < time.Millisecond:
		return strconv.FormatInt(int64(d/time.Microsecond), 10) + " µs"
	case d < time.Second:
		return strconv.FormatInt(int64(d/time.Millisecond), 10) + " ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(math.Floor(d.Seconds()*10)/10, 'f', -1, 64) + " s"
	}
	for _, unit := range [...]struct {
		length, part time.Duration
		name, of     string
	}{
		{365 * 24 * time.Hour, 24 * time.Hour, "y", "d"}, {24 * time.Hour, time.Hour, "d", "h"},
		{time.Hour, time.Minute, "h", "min"}, {time.Minute, time.Second, "min", "s"},
	} {
		if d >= unit.length {
			text := strconv.FormatInt(int64(d/unit.length), 10) + " " + unit.name
			if rest := d % unit.length / unit.part; rest > 0 && d < 100*unit.length {
				text += " " + strconv.FormatInt(int64(rest), 10) + " " + unit.of
			}
			return text
		}
	}
	return strconv.FormatInt(int64(d/time.Second), 10) + " s"
}

// Newest tells the score of the newest state that was done; nil: none that had one.
func Newest(score *float64) string {
	if score == nil {
		return ""
	}
	return "; newest done: score " + strconv.FormatFloat(*score, 'f', -1, 64)
}

// First returns what is shown of a list.
func First[E any](list []E) []E { return list[:min(len(list), Listed)] }

// Some joins the first of a list, and says how many it left out; more of them are
// not even in the list.
func Some[E any](list []E, more int, show func(E) string) string {
	shown := First(list)
	line := strings.Join(each.Of(shown, show), ", ")
	if more += len(list) - len(shown); more > 0 {
		line += fmt.Sprintf(" and %d more", more)
	}
	return line
}

// Errors is the texts of errors, in the order of what they are for.
func Errors[K cmp.Ordered](errs map[K]error, format string) string {
	texts := each.Of(slices.Sorted(maps.Keys(errs)), func(of K) string { return fmt.Sprintf(format, of, errs[of]) })
	return strings.Join(texts, "; ")
}
