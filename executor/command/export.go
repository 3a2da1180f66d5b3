package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/statekey"
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

// importer makes a journal from lines.
type importer struct {
	dir    string
	b      *journal.Builder // nil until the first line was read
	queues map[string]uint32
	lines  int
	ended  bool
	check  func(journal.Set) error // of state keys

	live, buried int
}

func importJournal(ctx context.Context, c *call) error {
	m := &importer{dir: c.Args().First(), queues: make(map[string]uint32), check: statekey.NewCheck()}
	if err := m.read(ctx, c.in); err != nil {
		if m.b != nil {
			err = errors.Join(err, m.b.Discard())
		}
		return err
	}
	if err := m.b.Finish(); err != nil {
		return err
	}
	made := struct {
		To                   string
		Live, Buried, Queues int
	}{m.dir, m.live, m.buried, len(m.queues)}
	c.say("import", made, "made %s: %s, %d in the morgue, %s\n", tame(m.dir), brief.Count(m.live, "live entry", "live entries"), m.buried,
		brief.Count(made.Queues, "queue", "queues"))
	return nil
}

func (m *importer) read(ctx context.Context, in io.Reader) error {
	for d := json.NewDecoder(in); ; m.lines++ {
		var text json.RawMessage
		err := d.Decode(&text)
		if errors.Is(err, io.EOF) {
			break
		}
		var l line
		if err = cmp.Or(err, context.Cause(ctx)); err == nil {
			err = admin.Decode(text, &l)
		}
		if err == nil {
			err = m.line(&l)
		}
		if err != nil {
			return fmt.Errorf("line %d of the export: %w", m.lines+1, err)
		}
	}
	if !m.ended {
		return fmt.Errorf("the export is cut short after line %d: it has no end", m.lines)
	}
	return nil
}

func (m *importer) line(l *line) (err error) {
	switch {
	case m.ended:
		return errors.New("there is something after the end")
	case m.lines == 0:
		return m.begin(l)
	}
	switch l.Type {
	case "queue":
		if l.Name == nil {
			return errors.New("a queue without a name")
		}
		m.queues[*l.Name] = l.Number
		return m.b.Queue(*l.Name, l.Number)
	case "payload", "state":
		e, err := m.entry(l)
		if err != nil {
			return err
		}
		m.live++
		return m.b.Add(e)
	case "buried":
		return m.bury(l)
	case "key":
		if l.Key == nil || l.Value == nil {
			return errors.New("a key needs key and value")
		}
		set := journal.Set{Key: *l.Key, Value: *l.Value}
		if err := m.check(set); err != nil {
			return fmt.Errorf("no executor would read the state key %q: %v", set.Key, err) // no journal is damaged
		}
		return m.b.Set(set)
	case "end":
		if m.ended = l.Lines == m.lines; !m.ended {
			return fmt.Errorf("the end says that there are %d lines before it, there are %d", l.Lines, m.lines)
		}
		return nil
	}
	return fmt.Errorf("unknown type %q", l.Type)
}

func (m *importer) begin(l *line) (err error) {
	switch {
	case l.Type != "export":
		return errors.New("not an export: it does not begin with one")
	case l.Version > exportVersion:
		return fmt.Errorf("%w: the export has version %d, this is version %d", journal.ErrTooNew, l.Version, exportVersion)
	}
	m.b, err = journal.NewBuilder(m.dir, l.Next, l.Epoch)
	return err
}

func (m *importer) entry(l *line) (e journal.Entry, err error) {
	if l.Queue == nil || l.ID == nil || l.Due == nil {
		return e, fmt.Errorf("a %s needs queue, id and due", l.Type)
	}
	due, late := nanos(l.Due)
	accepted, later := nanos(l.Accepted)
	if err := cmp.Or(l.sane(), late, later); err != nil {
		return e, err
	}
	number, known := m.queues[*l.Queue]
	if !known {
		return e, fmt.Errorf("queue %q has no line of its own before", *l.Queue)
	}
	e = journal.Entry{Kind: journal.KindEnqueued, Queue: number, Position: l.Position, ID: *l.ID, Due: due}
	if l.Type == "state" {
		if l.Retry == nil {
			return e, errors.New("a state needs retry")
		}
		e.Kind, e.Retry, e.Halted, e.Failed, e.Crashed = journal.KindState, *l.Retry, l.Halted, l.Failed, l.Crashed != nil && *l.Crashed
		e.Error, e.History = l.Error, l.History
		return e, nil
	}
	if l.Score == nil || l.Payload == nil {
		return e, fmt.Errorf("a %s needs score and payload", l.Type)
	}
	e.Score, e.Payload, e.Restored, e.Accepted, e.Metadata = *l.Score, *l.Payload, l.Restored, accepted, l.Metadata
	return e, nil
}

// nanos is a time as a journal has it; nil: 0.
func nanos(t *time.Time) (ns int64, err error) {
	if t == nil {
		return 0, nil
	}
	if ns = t.UnixNano(); !timeOf(ns).Equal(*t) {
		err = fmt.Errorf("the time %s is beyond what a journal can say", t.Format(time.RFC3339Nano))
	}
	return ns, err
}

// sane returns an error for what no executor writes, and what would do harm in a
// journal of one.
func (l *line) sane() error {
	const maxRetry = math.MaxInt32 - admin.FirstAttempt // what a shard counts up to
	switch {
	case len(*l.ID) == 0:
		return errors.New("an empty id")
	case l.Retry != nil && (*l.Retry < -1 || *l.Retry > maxRetry):
		return fmt.Errorf("retry %d is not between -1 and %d", *l.Retry, maxRetry)
	case !journal.Metadata(l.Metadata).Valid():
		return fmt.Errorf("metadata %q makes no sense", l.Metadata)
	case !journal.History(l.History).Valid():
		return fmt.Errorf("history %q makes no sense", l.History)
	}
	return nil
}

func (m *importer) bury(l *line) error {
	e, err := m.entry(l)
	if err != nil {
		return err
	}
	if l.Retry == nil || l.At == nil {
		return errors.New("a buried payload needs retry and at")
	}
	at, err := nanos(l.At)
	if err != nil {
		return err
	}
	d := journal.Buried{Entry: e, Retry: *l.Retry, At: at, History: l.History, Crashed: l.Crashed != nil && *l.Crashed, Untold: l.Crashed == nil}
	if l.Reason != nil {
		d.Reason = *l.Reason
	}
	m.buried++
	return m.b.Bury(d)
}
