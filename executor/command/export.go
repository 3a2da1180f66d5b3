package command

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/journal"
)

// exportVersion is that of the lines of an export: import reads them back, so that they do not
// change as the rest of the JSON may. Version 1 had no accepted, metadata and history, and
// version 2 no crashed; they are imported as they are.
const exportVersion = 3

// line is one line of an export. Which fields it has depends on its type:
//
//	export    version, epoch, next: the first line
//	queue     name, number
//	payload   a live one: queue, id, position, due, score, restored, payload; accepted if not at
//	          the due time, metadata if there is any
//	state     of a job: queue, id, position, due, retry, halted, crashed, failed, error, history
//	buried    in the morgue: as a payload, with retry, reason, at, history, and crashed unless
//	          an older version has buried it, which did not say
//	key       of the state: key, value
//	end       lines: how many there were before; the last line
type line struct {
	Type    string           `wire:",omit"` // row says it when it is printed
	Version int              `wire:",omit"`
	Epoch   uint64           `wire:",omit"`
	Next    journal.Position `wire:",omit"`

	Name   *string
	Number uint32 `wire:",omit"`

	Queue    *string
	ID       *[]byte
	Position journal.Position `wire:",omit"`
	Due      *time.Time
	Score    *float64
	Restored bool `wire:",omit"`
	Payload  *[]byte
	Retry    *int
	Halted   bool               `wire:",omit"`
	Failed   []journal.Position `wire:",omit"`
	Error    []byte             // of a state; nil: none
	Reason   *string
	Crashed  *bool
	At       *time.Time
	Accepted *time.Time
	Metadata []byte // as it stands in the journal; nil: none
	History  []byte // the same

	Key   *string
	Value *[]byte

	Lines int `wire:",omit"`
}

// export prints JSON with and without -json.
func export(_ context.Context, c *call) error {
	v, err := journal.OpenView(c.Args().First())
	if err != nil {
		return err
	}
	defer v.Close()
	x := &exporter{call: c, names: names(v)}
	info := v.Info()
	x.print("export", line{Version: exportVersion, Epoch: info.Epoch, Next: info.Next})
	for _, number := range slices.SortedFunc(maps.Keys(x.names), func(a, b uint32) int { return strings.Compare(x.names[a], x.names[b]) }) {
		x.print("queue", line{Name: new(x.names[number]), Number: number})
	}
	if err := x.live(v); err != nil {
		return err
	}
	for b, err := range v.Morgue() {
		if err != nil {
			return err
		}
		_, l := x.entry(&b.Entry)
		l.Retry, l.Reason, l.At, l.History = &b.Retry, &b.Reason, new(timeOf(b.At)), append([]byte(nil), b.History...)
		if !b.Untold {
			l.Crashed = &b.Crashed
		}
		x.print("buried", l)
	}
	for set, err := range v.Keys() {
		if err != nil {
			return err
		}
		x.print("key", line{Key: &set.Key, Value: &set.Value})
	}
	x.print("end", line{Lines: x.lines})
	return nil
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

// exporter prints lines.
type exporter struct {
	*call
	names map[uint32]string
	lines int
}

func (x *exporter) print(kind string, l line) {
	x.lines++
	x.row(kind, l)
}

// entry is a live entry as a line of its kind.
func (x *exporter) entry(e *journal.Entry) (kind string, l line) {
	l = line{Queue: new(x.names[e.Queue]), ID: &e.ID, Position: e.Position, Due: new(timeOf(e.Due))}
	if e.Kind == journal.KindState {
		l.Crashed, l.Retry, l.Halted, l.Failed, l.Error, l.History = &e.Crashed, &e.Retry, e.Halted, e.Failed, append([]byte{}, e.Error...), append([]byte(nil), e.History...)
		return "state", l
	}
	if l.Metadata = append([]byte(nil), e.Metadata...); e.Accepted != 0 {
		l.Accepted = new(timeOf(e.Accepted))
	}
	l.Score, l.Payload, l.Restored = &e.Score, &e.Payload, e.Restored
	return "payload", l
}
