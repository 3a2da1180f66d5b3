package submit

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/keylock"
	"github.com/strandjobs/strand/journal"
)

// Option of a call. Package executor gives it to its callers, who see no more of it than its name.
type Option struct {
	kind   kind
	due    time.Time
	score  float64
	name   string // of a source, or a key
	offset int64
	staged bool // of what is relayed: it was staged in another partition

	metadata map[string]string
}

type kind uint8

// The numbers are what is carried: new kinds come last.
const (
	kindAt kind = iota + 1
	_           // was that of In
	kindScore
	kindSource
	kindIdempotency
	kindMetadata
	kindAbsent
	kindRelayed
)

// What follows are the options of package executor by their names.

func At(t time.Time) Option                   { return Option{kind: kindAt, due: t} }
func Score(v float64) Option                  { return Option{kind: kindScore, score: v} }
func Metadata(pairs map[string]string) Option { return Option{kind: kindMetadata, metadata: pairs} }
func IdempotencyKey(key string) Option        { return Option{kind: kindIdempotency, name: key} }
func FromSource(name string, offset int64) Option {
	return Option{kind: kindSource, name: name, offset: offset}
}
func IfAbsent() Option { return Option{kind: kindAbsent} }

// Relayed is the option of that name of package cluster.
func Relayed(staged bool) Option { return Option{kind: kindRelayed, staged: staged} }

// isCondition reports whether the call may be refused, or answered, because of what
// came before. Such a call goes another way, at no cost to the others.
func (o Option) isCondition() bool {
	return o.kind == kindSource || o.kind == kindIdempotency || o.kind == kindAbsent
}

// Condition names the first condition; empty: there is none.
func Condition(options []Option) string {
	i := slices.IndexFunc(options, Option.isCondition)
	if i < 0 {
		return ""
	}
	switch o := options[i]; o.kind {
	case kindSource:
		return fmt.Sprintf("FromSource(%q, %d)", o.name, o.offset)
	case kindIdempotency:
		return fmt.Sprintf("IdempotencyKey(%q)", o.name)
	}
	return "IfAbsent()"
}

// Staged reports whether the call is about what was staged in another partition.
func Staged(options []Option) bool {
	return slices.ContainsFunc(options, func(o Option) bool { return o.staged })
}

// Keyed reports whether the call has an idempotency key.
func Keyed(options []Option) bool {
	return slices.ContainsFunc(options, func(o Option) bool { return o.kind == kindIdempotency })
}

// Ask writes into an item what it leaves open.
func (it *Item) Ask(options []Option) {
	for _, o := range slices.Backward(options) { // the last one counts
		switch {
		case o.kind == kindAt && it.Due.IsZero():
			if it.Due = o.due; o.due.IsZero() {
				it.Due = time.Unix(0, 0) // At(time.Time{}) is a time, too
			}
		case o.kind == kindScore && it.Score == nil:
			it.Score = new(o.score)
		case o.kind == kindMetadata && it.Metadata == nil:
			if it.Metadata = o.metadata; o.metadata == nil {
				it.Metadata = map[string]string{}
			}
		}
	}
}

// ErrState is returned for a condition that the call can't have.
var ErrState = errors.New("executor: wrong state")

// CheckName returns ErrInvalidKey for what can't name a source, or be a key.
func CheckName(name string) error {
	if name == "" || len(name) > engine.MaxIDBytes {
		return fmt.Errorf("%w: it has %d bytes, it must have from 1 to %d", keylock.ErrInvalidKey, len(name), engine.MaxIDBytes)
	}
	return nil
}

// ConditionsOf takes the conditions out of the options of one call, which enqueues entries. Nil:
// there are none.
func ConditionsOf(queue string, entries []journal.Entry, options []Option) (c *Conditions, err error) {
	for _, o := range options {
		if !o.isCondition() && o.kind != kindRelayed {
			continue
		}
		if c == nil {
			c = new(Conditions)
		}
		switch {
		case o.kind == kindRelayed:
			c.AtOnce = true
		case o.kind == kindAbsent && len(entries) == 1:
			c.Absent, c.Alone = true, fmt.Sprintf("id/%d/%s/%s", len(queue), queue, entries[0].ID)
		case o.kind == kindAbsent:
			return nil, fmt.Errorf("%w: IfAbsent is for one payload, this call has %d", ErrState, len(entries))
		case CheckName(o.name) != nil:
			return nil, CheckName(o.name)
		case o.kind == kindSource && !slices.ContainsFunc(c.Sources, func(s Source) bool { return s.Name == o.name }):
			c.Sources = append(c.Sources, Source{Name: o.name, Offset: o.offset})
		case o.kind == kindIdempotency && c.Key == "":
			c.SetKey(queue, o.name)
		default:
			return nil, fmt.Errorf("%w: a call takes one IdempotencyKey, and one FromSource of a name; %q is a second one", keylock.ErrInvalidKey, o.name)
		}
	}
	return c, nil
}

// carried is a condition on its way to another program.
type carried struct {
	Kind   kind
	Name   []byte `json:",omitempty"`
	Offset int64  `json:",omitempty"`
}

// Carry returns the conditions of a call for [Carried]; nil: there are none.
func Carry(options []Option) (rest []byte, err error) {
	var all []carried
	for _, o := range options {
		if o.isCondition() {
			all = append(all, carried{o.kind, []byte(o.name), o.offset})
		}
	}
	if all != nil {
		rest, _ = json.Marshal(all) // does not fail
	}
	_, err = ConditionsOf("", make([]journal.Entry, 1), options)
	return rest, err
}

// Carried is that of package cluster.
func Carried(rest []byte) (options []Option, err error) {
	var all []carried
	if len(rest) > 0 {
		err = json.Unmarshal(rest, &all)
	}
	for _, c := range all {
		o := Option{kind: c.Kind, name: string(c.Name), offset: c.Offset}
		if !o.isCondition() {
			err = fmt.Errorf("an option of kind %d can't be carried", c.Kind)
		}
		options = append(options, o)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", keylock.ErrInvalidKey, err)
	}
	_, err = ConditionsOf("", make([]journal.Entry, 1), options)
	return options, err
}
