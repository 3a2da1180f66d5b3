package executortest

import (
	"fmt"
	"strings"

	"github.com/strandjobs/strand/executor/internal/brief"
)

// What a message has at most: lines of one kind, and bytes of a text.
const (
	shownAtMost = brief.Listed
	mostText    = 200
)

// String is one line.
func (e Enqueued) String() string {
	payload := fmt.Sprintf("%+v", e.Payload)
	if e.Payload == nil {
		payload = fmt.Sprintf("%q", e.Raw)
	}
	line := fmt.Sprintf("%s/%s: %s", e.Queue, e.ID, brief.Cut(payload, mostText))
	if wait := e.Due.Sub(e.At); wait > 0 {
		line += fmt.Sprintf(", due in %v", wait)
	}
	return line
}

// String is one line.
func (r Ran) String() string {
	var payloads []string
	for _, p := range r.Payloads[:min(len(r.Payloads), shownAtMost)] {
		payloads = append(payloads, brief.Cut(fmt.Sprintf("%+v", p.Value), mostText))
	}
	if more := len(r.Payloads) - len(payloads); more > 0 {
		payloads = append(payloads, fmt.Sprintf("and %d more", more))
	}
	line := fmt.Sprintf("%s %s/%s: %s, attempt %d: ", r.Began.UTC().Format("01-02T15:04:05.000"), r.Queue, r.ID, strings.Join(payloads, " | "), r.Attempt)
	switch {
	case r.Outcome == "" && r.Err != nil:
		line += fmt.Sprintf("no outcome: %v", r.Err)
	case r.Outcome == "":
		line += "no outcome"
	default:
		line += string(r.Outcome)
	}
	if r.Error != "" {
		line += ": " + brief.Cut(r.Error, mostText)
	}
	if r.Delay > 0 {
		line += fmt.Sprintf(", again in %v", r.Delay)
	}
	if r.Final {
		line += ", for the last time"
	}
	return line
}

// lines shows the last of a list.
func lines[T any](all []T, line func(T) string) string {
	var shown []string
	if more := len(all) - shownAtMost; more > 0 {
		shown = append(shown, fmt.Sprintf("(%d before)", more))
		all = all[more:]
	}
	for _, v := range all {
		shown = append(shown, line(v))
	}
	return indent(shown...)
}

func values[T any](all []T) string {
	if len(all) == 0 {
		return "\tanything"
	}
	return lines(all, func(v T) string { return brief.Cut(fmt.Sprintf("%+v", v), mostText) })
}

func indent(lines ...string) string {
	if len(lines) == 0 {
		return "\tnothing"
	}
	return "\t" + strings.ReplaceAll(strings.TrimSpace(strings.Join(lines, "\n")), "\n", "\n\t")
}
