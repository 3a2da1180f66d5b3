package dashboard

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/brief"
)

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

// show leaves of a payload of a job what may be seen, while there is room for so many bytes, and returns
// how many are left of these: Raw is the text of it. When the request has no time left, there is nothing of it.
func (b *board) show(r *http.Request, queue, id string, p *inspect.PayloadInfo, left int) int {
	all := admin.Hide(p)
	switch {
	case b.cfg.ShowPayload == nil || r.Context().Err() != nil:
		return left
	case left <= 0 || all.Clipped:
		p.Clipped = true // the answer, or the Inspector's, has enough
		return left
	}
	text := b.reveal(r, b.cfg.ShowPayload, Payload{queue, id, all})
	if text == "" {
		return left
	}
	p.Raw = []byte(begin(text, min(shownText, left)))
	p.Clipped = len(p.Raw) < len(text)
	p.Metadata, p.Decode = all.Metadata, all.Decode
	return left - len(p.Raw)
}

// preview is what a list has of a payload, in one line.
func (b *board) preview(r *http.Request, p Payload) string {
	if r.Context().Err() != nil {
		return ""
	}
	return strings.Join(strings.Fields(begin(b.reveal(r, b.cfg.ShowPreview, p), mostError)), " ")
}

// reveal is what a hook says that may be seen of a payload; "": it is hidden.
func (b *board) reveal(r *http.Request, hook func(*http.Request, Payload) string, p Payload) (text string) {
	p.Raw = bytes.Clone(p.Raw) // the hook may write to it
	b.survives("a hook of the dashboard that shows payloads", func() { text = hook(r, p) })
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
