package submit

import (
	"errors"
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/journal"
)

// Errors of filling in.
var (
	ErrInvalidScore    = errors.New("executor: invalid score")
	ErrTooLarge        = errors.New("executor: payload too large")
	ErrInvalidMetadata = errors.New("executor: invalid metadata")
)

// Item is a payload as its call has it, encoded.
type Item struct {
	ID       string
	Payload  []byte
	Score    *float64  // nil: the time of its acceptance
	Due      time.Time // zero: now
	Metadata map[string]string
}

// Fill writes what an enqueue asks for into e. Its checks come before anything is accepted.
func (d *Door) Fill(e *journal.Entry, it *Item, now int64) error {
	if err := engine.CheckID(it.ID); err != nil {
		return err
	}
	if len(it.Payload) > d.MaxPayload {
		return fmt.Errorf("%w: %d bytes for id %q, the limit is %d", ErrTooLarge, len(it.Payload), it.ID, d.MaxPayload)
	}
	// The journal copies it, and changes nothing.
	e.ID = unsafe.Slice(unsafe.StringData(it.ID), len(it.ID))
	e.Queue, e.Payload = d.To.Number, it.Payload
	e.Accepted, e.Due, e.Score, e.Floor = now, now, journal.ScoreOf(now), &d.Scores
	e.Route = d.To.Shards.Route(e.ID)
	if !it.Due.IsZero() {
		SetDue(e, it.Due)
	}
	if err := SetMetadata(e, it.Metadata); err != nil {
		return err
	}
	if it.Score != nil {
		if err := SetScore(e, *it.Score); err != nil {
			return err
		}
	}
	if d.Refuse != nil { // at last: a follow-up has a use for e
		return d.Refuse(it.ID)
	}
	return nil
}

// SetDue keeps the time within what 64 bits of nanoseconds can say, which is until the year 2262.
func SetDue(e *journal.Entry, t time.Time) {
	switch s := t.Unix(); {
	case s >= math.MaxInt64/int64(time.Second):
		e.Due = math.MaxInt64 - 1
	case s > 0:
		e.Due = t.UnixNano()
	default:
		e.Due = 0
	}
}

// SetScore gives an entry a score of its own.
func SetScore(e *journal.Entry, score float64) error {
	if math.IsNaN(score) || math.IsInf(score, 0) {
		return fmt.Errorf("%w: %v for id %q, it must be finite", ErrInvalidScore, score, e.ID)
	}
	e.Score, e.Floor = score+0, nil // −0 becomes 0
	return nil
}

// What metadata may have.
const (
	maxMetadataPairs = 16
	maxMetadataBytes = 1 << 10
)

// SetMetadata gives an entry metadata, in the place of those that it has.
func SetMetadata(e *journal.Entry, pairs map[string]string) error {
	if len(pairs) == 0 {
		e.Metadata = nil
		return nil
	}
	if len(pairs) > maxMetadataPairs {
		return fmt.Errorf("%w: %d pairs for id %q, the limit is %d", ErrInvalidMetadata, len(pairs), e.ID, maxMetadataPairs)
	}
	size := 0
	for key, value := range pairs {
		if key == "" {
			return fmt.Errorf("%w: a key is empty, of the value %q for id %q", ErrInvalidMetadata, brief.Text(value), e.ID)
		}
		size += len(key) + len(value)
	}
	if size > maxMetadataBytes {
		return fmt.Errorf("%w: keys and values for id %q have %d bytes, the limit is %d", ErrInvalidMetadata, e.ID, size, maxMetadataBytes)
	}
	e.Metadata = journal.NewMetadata(pairs)
	return nil
}
