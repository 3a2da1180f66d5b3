package fleet

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
)

// Question is what a partition is asked. It travels as gob, because ids are any bytes.
type Question struct {
	Do      string            // a method of [inspect.Inspector], an action of [inspect.Act], or what package executor answers itself
	Which   inspect.Selection // whose Queue and IDs are those of all other methods, too
	Query   inspect.JobQuery
	Running inspect.RunningQuery
	After   string
	Limit   int
	Reason  string

	// Of package executor: a payload to be enqueued, or to be waited for.
	Payload              []byte
	Score                *float64
	Delay                time.Duration // 0: not said
	Metadata             map[string]string
	Conditions           []byte
	Position, MergedInto uint64
}

// Looks reports whether a partition may be asked again, as nothing is changed.
func (q *Question) Looks() bool {
	switch q.Do {
	case "offset", "pending", "letters":
		return true
	}
	return q.Do != "" && q.Do[0] <= 'Z' // the actions of inspect.Act are in small letters
}

// Answer has what the method returns.
type Answer struct {
	Did     inspect.Requeued
	Page    inspect.JobPage
	Details []inspect.JobDetail
	Why     inspect.Explanation
	Running inspect.RunningList
	Locked  []inspect.KeyLockStatus
	Leases  []inspect.LeaseStatus
	Slots   []inspect.SlotHeld
	More    int
	All     bool // the executor is paused; a payload waits, or was ended before; an offset is there
	Names   []string
	Stats   inspect.Stats

	// Of package executor: a result, and the payload that a call waits for no longer.
	Result               []byte
	Position, MergedInto uint64
	Offset               int64
}

// Encode returns a question or an answer as bytes.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(v)
	return b.Bytes(), err
}

// Decode is the inverse of Encode. The bytes may be anybody's.
func Decode[T any](b []byte) (*T, error) {
	v := new(T)
	if err := gob.NewDecoder(bytes.NewReader(b)).Decode(v); err != nil {
		return nil, fmt.Errorf("%w: it can't be read: %w", inspect.ErrInvalidQuery, err)
	}
	return v, nil
}

// namesPerPage is how many ids or prefixes an answer has.
const namesPerPage = 1000

// Inspected is an inspector with the figures of its executor.
type Inspected interface {
	inspect.Inspector
	Stats(ctx context.Context) (inspect.Stats, error)
}

// Do has an inspector answer a question.
func Do(ctx context.Context, in Inspected, q *Question) (a *Answer, err error) {
	a = new(Answer)
	switch q.Do {
	case "Jobs":
		a.Page, err = in.Jobs(ctx, q.Query)
	case "Dead":
		a.Page, err = in.Dead(ctx, q.Query)
	case "JobsByID":
		a.Details, err = in.JobsByID(ctx, q.Which.Queue, q.Which.IDs...)
	case "Job", "Explain":
		if len(q.Which.IDs) != 1 {
			return a, fmt.Errorf("%w: %s of %d ids", inspect.ErrInvalidQuery, q.Do, len(q.Which.IDs))
		}
		err = one(ctx, in, q, a)
	case "Running":
		a.Running, err = in.Running(ctx, q.Running)
	case "LockedKeys":
		a.Locked, a.More, err = in.LockedKeys(q.After, q.Limit)
	case "Leases":
		a.Leases, a.More, err = in.Leases(q.After, q.Limit)
	case "Slots":
		a.Slots, a.More, err = in.Slots(q.Limit)
	case "Paused":
		a.All, a.Names = in.Paused()
	case "PausedIDs":
		a.Names, err = namesAfter(in.PausedIDs(q.Which.Queue), q.After)
	case "PausedPrefixes":
		a.Names, err = namesAfter(in.PausedPrefixes(q.Which.Queue), q.After)
	case "Stats":
		a.Stats, err = in.Stats(ctx)
	default:
		a.Did, err = inspect.Act(ctx, in, q.Do, q.Which, q.Reason)
	}
	for i := range a.Details {
		bare(&a.Details[i])
	}
	return a, err
}

// one answers what is about one id.
func one(ctx context.Context, in inspect.Inspector, q *Question, a *Answer) (err error) {
	if q.Do == "Explain" {
		a.Why, err = in.Explain(ctx, q.Which.Queue, q.Which.IDs[0])
		return err
	}
	d, err := in.Job(ctx, q.Which.Queue, q.Which.IDs[0])
	a.Details = []inspect.JobDetail{d}
	return err
}

// namesAfter returns those of a sorted list that come after one, a page of them.
func namesAfter(all func(func(string, error) bool), after string) (names []string, err error) {
	for name, err := range all {
		switch {
		case err != nil:
			return names, err
		case name > after:
			names = append(names, name)
		}
		if len(names) == namesPerPage {
			break
		}
	}
	return names, nil
}

// payloads are those of a detail.
func payloads(d *inspect.JobDetail) (all []*inspect.PayloadInfo) {
	all = append(all, &d.PayloadInfo)
	for _, list := range [][]inspect.PayloadInfo{d.InHand, d.Waiting} {
		for i := range list {
			all = append(all, &list[i])
		}
	}
	for i := range d.Dead {
		all = append(all, &d.Dead[i].PayloadInfo)
	}
	return all
}

// bare takes out what a codec has made, which is of any type: who asks has the codec, too.
func bare(d *inspect.JobDetail) {
	d.InHand, d.Waiting, d.Dead = slices.Clone(d.InHand), slices.Clone(d.Waiting), slices.Clone(d.Dead)
	for _, p := range payloads(d) {
		p.Value, p.Decode = nil, nil
	}
}

// part says of which partition an error is.
func part(number int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("partition %d: %w", number, err)
}
