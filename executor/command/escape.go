package command

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/strandjobs/strand/executor/internal/brief"
)

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

func harmful(r rune) bool {
	return r != utf8.RuneError && !unicode.IsPrint(r) || rightToLeft(r)
}

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
