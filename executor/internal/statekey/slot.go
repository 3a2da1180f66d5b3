package statekey

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
)

// SlotPrefix begins the state keys of slots; the length and the name of the sequence follow.
const SlotPrefix = "slot/"

// Slots begins the state keys of a sequence; [Last], or what a reservation is called, follows.
func Slots(name string) string { return SlotPrefix + strconv.Itoa(len(name)) + "/" + name + "/" }

// Last follows [Slots] in the key of the last value.
const Last = "last"

// Slot is a value in the journal: the last one, or a reserved one.
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

// Expired reports whether a reservation has ended.
func (s Slot) Expired(now time.Time) bool { return !s.Held.Until.After(now) }

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
