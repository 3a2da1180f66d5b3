package fleet

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/lock"
)

// Question is what a partition is asked. It travels as gob, because ids are any bytes.
type Question struct {
	Do      string            // a method of a [Part] or [Queue], or what is to be changed: a name that Act knows, or one of Do
	Which   inspect.Selection // whose Queue and IDs are those of all other methods, too
	Query   inspect.JobQuery
	Running inspect.RunningQuery
	After   string
	Limit   int
	Reason  string

	Offset int64

	// A payload to be enqueued, or to be waited for.
	Payload              []byte
	Score                *float64
	Scored               bool          // gob leaves a Score of 0 out
	Delay                time.Duration // 0: not said
	Metadata             map[string]string
	Conditions           []byte
	Position, MergedInto uint64
	Duplicate            bool
}

// Looks reports whether a partition may be asked again, as nothing is changed.
func (q *Question) Looks() bool { return q.Do != "" && q.Do[0] <= 'Z' } // what changes something is in small letters

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
	All     bool // the executor is paused; the id has something to do; an offset is there
	Names   []string
	Stats   inspect.Stats
	Home    uint64
	Zeros   []bool // which of explained has 0 as Newest, which gob leaves out

	Offset int64

	Moved bool // nothing was accepted, because the partition is given away

	// A result, as JSON; the payload that a call waits for no longer.
	Result               []byte
	Position, MergedInto uint64
	Duplicate            bool

	silent bool // nobody has said anything
}

// explained are the explanations of jobs in the answer.
func (a *Answer) explained() []*inspect.Explanation {
	all := []*inspect.Explanation{&a.Why}
	for i := range a.Details {
		all = append(all, &a.Details[i].Explanation)
	}
	return all
}

// Silent reports whether the error beside it is not that of a partition, which has not answered.
func (a *Answer) Silent() bool { return a.silent }

// Say notes a result, if there is one. The error matches none if it can't be written: its methods may
// be the user's.
func (a *Answer) Say(said bool, result any, none error) error {
	if !said {
		return nil
	}
	err := guard.Call(func() (err error) {
		a.Result, err = json.Marshal(result)
		return err
	})
	if err != nil {
		err = fmt.Errorf("%w: it is done, and can't be written as JSON: %w", none, err)
	}
	return err
}

// namesPerPage is how many ids or prefixes an answer has.
const namesPerPage = 1000

// Inspected is an inspector with the figures of its executor.
type Inspected interface {
	inspect.Inspector
	Stats(ctx context.Context) (inspect.Stats, error)
}

// Part is the executor of a partition, for those who ask it from elsewhere.
type Part interface {
	Inspected
	SourceOffset(name string) (offset int64, found bool, err error)
	SetSourceOffset(ctx context.Context, name string, offset int64) error
	DeleteSourceOffset(ctx context.Context, name string) error
	Queue(name string) (Queue, error)
	KeyLocks() lock.Watcher
	Names() (queues, lanes map[string]string) // see cluster.Names
	Home() uint64                             // the process that it is in, whose workers are for all partitions there
}

// Queue is a queue of a [Part]. Enqueue accepts a payload and waits for its end, and Wait waits for that
// of one that was accepted: both write the result into the answer.
type Queue interface {
	Enqueue(ctx context.Context, id string, q *Question, a *Answer) error
	Wait(ctx context.Context, id string, q *Question, a *Answer) error
	Pending(ctx context.Context, id string) (bool, error)
	Letters(from uint64, yield func(inspect.DeadPayload, error) bool)
}

// Do has the executor of a partition answer a question.
func Do(ctx context.Context, p Part, q *Question) (a *Answer, err error) {
	a = new(Answer)
	switch q.Do {
	case "Jobs":
		a.Page, err = p.Jobs(ctx, q.Query)
	case "Dead":
		a.Page, err = p.Dead(ctx, q.Query)
	case "JobsByID":
		a.Details, err = p.JobsByID(ctx, q.Which.Queue, q.Which.IDs...)
	case "Running":
		a.Running, err = p.Running(ctx, q.Running)
	case "LockedKeys":
		a.Locked, a.More, err = p.LockedKeys(q.After, q.Limit)
	case "Leases":
		a.Leases, a.More, err = p.Leases(q.After, q.Limit)
	case "Slots":
		a.Slots, a.More, err = p.Slots(q.Limit)
	case "Paused":
		a.All, a.Names = p.Paused()
	case "PausedIDs":
		a.Names, err = namesAfter(p.PausedIDs(q.Which.Queue), q.After)
	case "PausedPrefixes":
		a.Names, err = namesAfter(p.PausedPrefixes(q.Which.Queue), q.After)
	case "Stats":
		a.Home = p.Home()
		a.Stats, err = p.Stats(ctx)
	case "SourceOffset":
		a.Offset, a.All, err = p.SourceOffset(q.Reason)
	case "set-offset":
		err = p.SetSourceOffset(ctx, q.Reason, q.Offset)
	case "delete-offset":
		err = p.DeleteSourceOffset(ctx, q.Reason)
	case "Letters":
		a.Page.Dead, err = letters(p, q.Which.Queue, q.Position)
	case "unlock":
		if err = p.KeyLocks().Unlock(ctx, q.Reason); err == nil {
			a.Did.Back = 1
		} else if errors.Is(err, lock.ErrNotLocked) { // it may be in another partition
			err = nil
		}
	case "Job", "Explain", "Pending", "Wait", "do":
		err = one(ctx, p, q, a)
	default:
		a.Did, err = p.Act(ctx, q.Do, q.Which, q.Reason)
	}
	for i := range a.Details {
		bare(&a.Details[i])
	}
	for _, e := range a.explained() {
		a.Zeros = append(a.Zeros, e.Newest != nil && *e.Newest == 0)
	}
	return a, err
}

// one answers what is about one id.
func one(ctx context.Context, p Part, q *Question, a *Answer) (err error) {
	if len(q.Which.IDs) != 1 {
		return fmt.Errorf("%w: %q is asked of %d ids", inspect.ErrInvalidQuery, q.Do, len(q.Which.IDs))
	}
	name, id := q.Which.Queue, q.Which.IDs[0]
	switch q.Do {
	case "Explain":
		a.Why, err = p.Explain(ctx, name, id)
		return err
	case "Job":
		a.Details = make([]inspect.JobDetail, 1)
		a.Details[0], err = p.Job(ctx, name, id)
		return err
	}
	queue, err := p.Queue(name)
	switch {
	case err != nil:
	case q.Do == "Pending":
		a.All, err = queue.Pending(ctx, id)
	case q.Do == "Wait":
		err = queue.Wait(ctx, id, q, a)
	default:
		err = queue.Enqueue(ctx, id, q, a)
	}
	return err
}

// lettersAtOnce and letterBytes bound the dead letters of an answer.
const (
	lettersAtOnce = 256
	letterBytes   = 1 << 20
)

// letters are some dead letters of a queue, from a position on.
func letters(p Part, name string, from uint64) (some []inspect.DeadPayload, err error) {
	queue, err := p.Queue(name)
	if err != nil {
		return nil, err
	}
	size := 0
	queue.Letters(from, func(d inspect.DeadPayload, failed error) bool {
		if err = failed; err != nil {
			return false
		}
		d.Raw = bytes.Clone(d.Raw)
		some, size = append(some, d), size+len(d.Raw)
		return len(some) < lettersAtOnce && size < letterBytes
	})
	return some, err
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

// bare takes out what a codec has made, which is of any type: who asks has the codec, too.
func bare(d *inspect.JobDetail) {
	d.InHand, d.Waiting, d.Dead = slices.Clone(d.InHand), slices.Clone(d.Waiting), slices.Clone(d.Dead)
	for _, p := range append(admin.PayloadsOf(d), &d.PayloadInfo) {
		p.Value, p.Decode = nil, nil
	}
}

// How the two travel. A message begins with a description of its types, for a process of another version. To
// write or read that takes many times as long as the value behind it, so who has done it once is kept.
var (
	Questions codec[Question]
	Answers   codec[Answer]
)

// describe makes the descriptions, in one order: so they are the same in all processes of a program, unless
// that uses gob itself.
var describe = sync.OnceFunc(func() {
	Questions.description = Questions.writer().out.Bytes()
	Answers.description = Answers.writer().out.Bytes()
})

type codec[T any] struct {
	description      []byte
	writers, readers sync.Pool // of *writer and *reader that have gone over it
}

type writer struct {
	out bytes.Buffer // the description, and a value
	enc *gob.Encoder
}

type reader struct {
	in  bytes.Reader
	dec *gob.Decoder
}

func (c *codec[T]) writer() *writer {
	w := new(writer)
	w.enc = gob.NewEncoder(&w.out)
	_ = w.enc.Encode(new(T)) // into memory
	first := w.out.Len()
	_ = w.enc.Encode(new(T)) // the same without a description
	w.out.Truncate(2*first - w.out.Len())
	return w
}

// Encode returns v as bytes.
func (c *codec[T]) Encode(v *T) ([]byte, error) {
	describe()
	w, _ := c.writers.Get().(*writer)
	if w == nil {
		w = c.writer()
	}
	w.out.Truncate(len(c.description))
	if err := w.enc.Encode(v); err != nil {
		return nil, err
	}
	defer c.writers.Put(w)
	return bytes.Clone(w.out.Bytes()), nil
}

// Decode is the inverse of Encode. The bytes may be anybody's.
func (c *codec[T]) Decode(b []byte) (*T, error) {
	describe()
	var r *reader
	value, ours := bytes.CutPrefix(b, c.description)
	if ours {
		r, _ = c.readers.Get().(*reader)
	}
	if r == nil {
		r, value = new(reader), b
		r.dec = gob.NewDecoder(&r.in)
	}
	r.in.Reset(value)
	v := new(T)
	if err := r.dec.Decode(v); err != nil {
		return nil, fmt.Errorf("%w: it can't be read: %w", inspect.ErrInvalidQuery, err)
	}
	if r.in.Reset(nil); ours {
		c.readers.Put(r)
	}
	return v, nil
}
