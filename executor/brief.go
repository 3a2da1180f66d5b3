package executor

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/strandjobs/strand/executor/internal/admit"
)

// What is written for people about jobs has ids, keys and errors in it, which come
// from outside: any bytes, and any number of them.

const (
	shownAtMost = 10  // of a list
	briefAtMost = 120 // bytes of a name or an error
)

// clip shortens a text for a line.
func clip(s string) string { return cut(s, briefAtMost) }

// cut shortens a text to so many bytes, or a few less, and a mark that says so.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// brief is a text of any kind as part of a line.
func brief(s string) string { return admit.Plain(clip(s)) }

// first returns what is shown of a list.
func first[E any](list []E) []E { return list[:min(len(list), shownAtMost)] }

// some joins the first of a list, and says how many it left out; more of them are
// not even in the list.
func some[E any](list []E, more int, show func(E) string) string {
	shown := first(list)
	texts := make([]string, len(shown))
	for i, e := range shown {
		texts[i] = show(e)
	}
	line := strings.Join(texts, ", ")
	if more += len(list) - len(shown); more > 0 {
		line += fmt.Sprintf(" and %d more", more)
	}
	return line
}
