package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/strandjobs/strand/journal"
)

// exportVersion is that of the lines of an export: import reads them back, so that they do not
// change as the rest of the JSON may. Version 1 had no accepted, metadata and history; it is
// imported as it is.
const exportVersion = 2

// line is one line of an export. Which fields it has depends on its type:
//
//	export    version, epoch, next: the first line
//	queue     name, number
//	payload   a live one: queue, id, position, due, score, restored, payload; accepted if not at
//	          the due time, metadata if there is any
//	state     of a job: queue, id, position, due, retry, halted, failed, error, history
//	buried    in the morgue: as a payload, with retry, reason, at, history
//	key       of the state: key, value
//	end       lines: how many there were before; the last line
type line struct {
	Type string `json:"type"`

	Version int              `json:"version,omitempty"`
	Epoch   uint64           `json:"epoch,omitempty"`
	Next    journal.Position `json:"next,omitempty"`

	Name   *text  `json:"name,omitempty"`
	Number uint32 `json:"number,omitempty"`

	Queue    *text              `json:"queue,omitempty"`
	ID       *text              `json:"id,omitempty"`
	Position journal.Position   `json:"position,omitempty"`
	Due      *moment            `json:"due,omitempty"`
	Score    *score             `json:"score,omitempty"`
	Restored bool               `json:"restored,omitempty"`
	Payload  *text              `json:"payload,omitempty"`
	Retry    *int               `json:"retry,omitempty"`
	Halted   bool               `json:"halted,omitempty"`
	Failed   []journal.Position `json:"failed,omitempty"`
	Error    *text              `json:"error,omitempty"`
	Reason   *text              `json:"reason,omitempty"`
	At       *moment            `json:"at,omitempty"`
	Accepted *moment            `json:"accepted,omitempty"`
	Metadata text               `json:"metadata,omitempty"` // as it stands in the journal
	History  text               `json:"history,omitempty"`  // the same

	Key   *text `json:"key,omitempty"`
	Value *text `json:"value,omitempty"`

	Lines int `json:"lines,omitempty"`
}

// export prints JSON with and without -json.
func export(_ context.Context, c *call) error {
	v, err := journal.OpenView(c.Args().First())
	if err != nil {
		return err
	}
	defer v.Close()
	x := &exporter{call: c, names: names(v)}
	x.encoder = json.NewEncoder(&x.text)
	x.encoder.SetEscapeHTML(false)
	info := v.Info()
	x.print(&line{Type: "export", Version: exportVersion, Epoch: info.Epoch, Next: info.Next})
	for _, number := range inOrder(x.names) {
		x.print(&line{Type: "queue", Name: new(text(x.names[number])), Number: number})
	}
	if err := x.live(v); err != nil {
		return err
	}
	for b, err := range v.Morgue() {
		if err != nil {
			return err
		}
		x.print(x.buried(&b))
	}
	for set, err := range v.Keys() {
		if err != nil {
			return err
		}
		x.print(&line{Type: "key", Key: new(text(set.Key)), Value: new(text(set.Value))})
	}
	x.print(&line{Type: "end", Lines: x.lines})
	return x.err
}

// live prints the entries of all queues.
func (x *exporter) live(v *journal.View) error {
	var e journal.Entry
	for _, number := range slices.Sorted(maps.Keys(v.Unclaimed())) {
		pages := v.PendingPages(number)
		for i, page := range pages {
			for _, ref := range page {
				if err := ref.Read(&e); err != nil {
					return v.Undisturbed(err)
				}
				x.print(x.entry(&e))
			}
			pages[i] = nil
		}
	}
	return v.Undisturbed(nil)
}

// names of queues by number, and one for every number without.
func names(v *journal.View) map[uint32]string {
	names := make(map[uint32]string)
	for name, number := range v.Queues() {
		names[number] = name
	}
	for _, used := range []map[uint32]int{v.Unclaimed(), v.Buried()} {
		for number := range used {
			if _, known := names[number]; !known {
				names[number] = fmt.Sprintf("?%d", number)
			}
		}
	}
	return names
}

// inOrder are the numbers of queues by name.
func inOrder(names map[uint32]string) []uint32 {
	return slices.SortedFunc(maps.Keys(names), func(a, b uint32) int { return strings.Compare(names[a], names[b]) })
}

// exporter prints lines. The first error sticks.
type exporter struct {
	*call
	names map[uint32]string
	lines int
	err   error

	text    bytes.Buffer // that encoder writes
	encoder *json.Encoder
}

func (x *exporter) print(l *line) {
	x.lines++
	x.text.Reset()
	if x.err == nil {
		x.err = x.encoder.Encode(l)
	}
	if x.err == nil {
		_, x.err = x.Write(tameJSON(x.text.Bytes()))
	}
}

func (x *exporter) entry(e *journal.Entry) *line {
	l := &line{
		Type: "payload", Queue: new(text(x.name(e.Queue))), ID: new(text(e.ID)), Position: e.Position, Due: new(moment(e.Due)),
	}
	if e.Kind == journal.KindState {
		l.Type, l.Retry, l.Halted, l.Failed, l.Error = "state", &e.Retry, e.Halted, e.Failed, new(text(e.Error))
		l.History = text(e.History)
		return l
	}
	if l.Metadata = text(e.Metadata); e.Accepted != 0 {
		l.Accepted = new(moment(e.Accepted))
	}
	l.Score, l.Payload, l.Restored = new(score(e.Score)), new(text(e.Payload)), e.Restored
	return l
}

func (x *exporter) buried(b *journal.Buried) *line {
	l := x.entry(&b.Entry)
	l.Type, l.Retry, l.Reason, l.At = "buried", &b.Retry, new(text(b.Reason)), new(moment(b.At))
	l.History = text(b.History)
	return l
}

func (x *exporter) name(number uint32) string {
	if name, known := x.names[number]; known {
		return name
	}
	return fmt.Sprintf("?%d", number)
}
