// Package statekey says what an executor keeps in the journal beside its jobs: under which
// state keys, and as what. The executor writes and reads it, and the strand command finds
// and leaves out what an executor would refuse.
package statekey

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
)

// NewCheck returns a function that is given the state keys of a journal, one after the
// other, and returns an error for each that an executor would refuse: when it opens, when
// what the key belongs to is registered, or when a call needs it. What it refuses counts
// as not being there for those that follow. It can't tell whether the value of a slot is
// one of the type that the slots have.
func NewCheck() func(journal.Set) error {
	c := &sequences{taken: make(map[string]bool), now: time.Now()}
	return func(s journal.Set) (err error) {
		switch {
		case strings.HasPrefix(s.Key, LockPrefix):
			_, err = ParseKeyLock(s)
		case strings.HasPrefix(s.Key, PausePrefix):
			err = CheckPause(s)
		case strings.HasPrefix(s.Key, OffsetPrefix):
			_, err = ParseOffset(s.Value)
		case strings.HasPrefix(s.Key, IdempotencyPrefix):
			_, err = ParseIdempotency(s.Value)
		case strings.HasPrefix(s.Key, SlotPrefix):
			err = c.check(s)
		}
		return err
	}
}

// Refused is the error of an executor that can't do without a state key that Check refuses.
func Refused(key string, err error) error {
	return fmt.Errorf("executor: state key %q: %w; strand salvage DIR NEWDIR writes a journal without it", key, err)
}

func damaged(format string, args ...any) error {
	return &journal.CorruptError{Reason: fmt.Sprintf(format, args...)}
}

// OffsetPrefix begins the state keys of the offsets of sources; the name follows. The value
// is 8 bytes big endian.
const OffsetPrefix = "mark/"

// Offset encodes an offset.
func Offset(offset int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(offset)) }

// ParseOffset reads what Offset has encoded.
func ParseOffset(v []byte) (int64, error) {
	if len(v) != 8 {
		return 0, damaged("%d bytes instead of 8", len(v))
	}
	return int64(binary.BigEndian.Uint64(v)), nil
}

// IdempotencyPrefix begins the state keys of idempotency keys. The length and the name of
// the queue follow: numbers of queues change when a journal is exported and imported.
const IdempotencyPrefix = "key/"

// IdempotencyKey is the state key of an idempotency key of a queue.
func IdempotencyKey(queue, key string) string {
	return fmt.Sprintf("%s%d/%s/%s", IdempotencyPrefix, len(queue), queue, key)
}

// Idempotency is what the journal has about an idempotency key.
type Idempotency struct {
	At    int64 // Unix nanoseconds, when it was accepted
	First journal.Position
	N     int // items
}

const idempotencySize = 3 * 8

// Encode returns the value of the key.
func (k Idempotency) Encode() []byte {
	v := binary.BigEndian.AppendUint64(make([]byte, 0, idempotencySize), uint64(k.At))
	v = binary.BigEndian.AppendUint64(v, uint64(k.First))
	return binary.BigEndian.AppendUint64(v, uint64(k.N))
}

// ParseIdempotency reads what Encode has returned.
func ParseIdempotency(v []byte) (Idempotency, error) {
	if len(v) != idempotencySize {
		return Idempotency{}, damaged("%d bytes instead of %d", len(v), idempotencySize)
	}
	field := func(i int) uint64 { return binary.BigEndian.Uint64(v[8*i:]) }
	return Idempotency{int64(field(0)), journal.Position(field(1)), int(field(2))}, nil
}

// SlotPrefix begins the state keys of slots; the length and the name of the sequence follow.
const SlotPrefix = "slot/"

// Slots returns the prefix of a sequence's state keys. [Last], or a reservation's name,
// follows.
func Slots(name string) string { return SlotPrefix + strconv.Itoa(len(name)) + "/" + name + "/" }

// Last follows [Slots] in the key of the last value.
const Last = "last"

// Slot is what the journal holds of a sequence: its last value, or a reserved one.
type Slot struct {
	Value    json.RawMessage
	Position uint64
	Held     lock.Held // of a reservation
	Queue    string    `json:",omitempty"`
	ID       []byte    `json:",omitempty"`
	Buried   bool      `json:",omitempty"` // its job is in the morgue
}

// Set writes a slot.
func (s Slot) Set(key string) journal.Set {
	value, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("executor: bug: a slot that can't be written: %v", err)) // Value is valid JSON
	}
	return journal.Set{Key: key, Value: value}
}

// ParseSlot reads what Set has written. A reservation that has ended comes with any Held.
func ParseSlot(value []byte) (s Slot, err error) {
	switch err := json.Unmarshal(value, &s); {
	case err != nil:
		return s, damaged("a slot of %d bytes: %v", len(value), err)
	case s.Value == nil:
		return s, damaged("a slot of %d bytes, without a value", len(value))
	}
	return s, nil
}

// Expired reports whether a reservation has ended. One without an end has a token, and that of
// one which has ended by the time it is written down has neither.
func (s Slot) Expired(now time.Time) bool {
	if s.Held.Until.IsZero() {
		return s.Held.Token == 0
	}
	return !s.Held.Until.After(now)
}

// sequences are the reservations that have come so far, by sequence and token, and by
// sequence and value: there is one of each.
type sequences struct {
	taken map[string]bool
	now   time.Time
}

func (c *sequences) check(s journal.Set) error {
	slot, err := ParseSlot(s.Value)
	if err != nil {
		return err
	}
	of, what := sequenceOf(s.Key)
	if what == Last || slot.Expired(c.now) {
		return nil
	}
	if slot.Held.Token == 0 || slot.Held.TTL < 0 {
		return damaged("a reservation with token %d and TTL %v", slot.Held.Token, slot.Held.TTL)
	}
	var value bytes.Buffer
	if err := json.Compact(&value, slot.Value); err != nil {
		return damaged("the value of a slot: %v", err)
	}
	byToken, byValue := fmt.Sprintf("%stoken/%d", of, slot.Held.Token), of+"value/"+value.String()
	if c.taken[byToken] || c.taken[byValue] {
		return damaged("a second reservation of value %s, or with token %d", value.Bytes(), slot.Held.Token)
	}
	c.taken[byToken], c.taken[byValue] = true, true
	return nil
}

// sequenceOf takes a key of a slot apart. One that [Slots] never made is by itself.
func sequenceOf(key string) (of, what string) {
	length, rest, _ := strings.Cut(strings.TrimPrefix(key, SlotPrefix), "/")
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 || n >= len(rest) || !strings.HasPrefix(key, Slots(rest[:n])) {
		return key, ""
	}
	return Slots(rest[:n]), rest[n+1:]
}

// The state keys of what a person has paused; the value says since when. The length and the
// name of a queue come before an id, so that no two are one.
const (
	PausePrefix    = "pause/"
	PausedExecutor = PausePrefix + "executor"
	PausedQueues   = PausePrefix + "queue/" // the name follows

	pauseVersion = 1
)

// MaxPausedIDs is how many ids of a queue may be paused by themselves, of which each takes
// about 100 bytes, MaxPausedPrefixes how many prefixes, and MaxPausedBytes how long an id or
// a prefix is.
const (
	MaxPausedIDs      = 100_000
	MaxPausedPrefixes = 10_000
	MaxPausedBytes    = 512
)

// PausedIDs begins the keys of the ids of a queue; the id follows.
func PausedIDs(queue string) string {
	return fmt.Sprintf("%sid/%d/%s/", PausePrefix, len(queue), queue)
}

// PausedPrefixes begins the keys of the prefixes of ids of a queue; the prefix follows.
func PausedPrefixes(queue string) string {
	return fmt.Sprintf("%sprefix/%d/%s/", PausePrefix, len(queue), queue)
}

// Pause pauses what a key stands for, or lets it go on.
func Pause(key string, on bool) journal.Set {
	if !on {
		return journal.Set{Key: key}
	}
	return journal.Set{Key: key, Value: binary.AppendVarint([]byte{pauseVersion}, time.Now().UnixNano())}
}

// CheckPause returns an error for a value that no version so far has written.
func CheckPause(s journal.Set) error {
	switch {
	case len(s.Value) < 2:
		return damaged("a pause of %d bytes", len(s.Value))
	case s.Value[0] > pauseVersion:
		return fmt.Errorf("%w: a pause has version %d", journal.ErrTooNew, s.Value[0])
	}
	return nil
}
