package executor

import (
	"cmp"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/unique"
	"github.com/strandjobs/strand/executor/internal/verdict"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
	"github.com/strandjobs/strand/shard"
)

// Job is what a handler of [Handle] gets: one payload of an id. It belongs to the
// handler, which may keep and change it. EnqueuedAt of a payload that a version from
// before metadata accepted with [At] or [In] is its due time.
type Job[T any] struct {
	Queue     string
	ID        string
	Payload   T
	Score     float64
	Position  uint64    // of the payload: unique in its journal, growing in the order of acceptance; see [Receipt]
	Attempt   int       // of this payload: 1, 2, 3, …; a snooze, a stop or a crash is none
	LastTry   bool      // no retry follows if it fails
	LastError string    // the text of its last failure; "": it has not failed, or not since Requeue
	Due       time.Time // from when it might run

	EnqueuedAt time.Time         // when Enqueue was called, by the clock of then, to the microsecond
	Metadata   map[string]string // see [Metadata]; nil: none
	Failures   []inspect.Failure // its last five, oldest first; nil: it has not failed
	Crashes    int               // how many times the process died while it, or what it replaces, ran, and may have died of it

	claim   *admit.Claim
	log     *slog.Logger
	attempt *attempt.Attempt // nil: no executor has made the job
	call    int              // of the handler, in its attempt: a middleware may make several
}

// Logger returns Config.Logger with queue, id and attempt, made at each call. The
// logger of a job that no executor has made, as in a test of a handler, is
// [slog.Default]'s.
func (j Job[T]) Logger() *slog.Logger { return jobLogger(j.log, j.Queue, j.ID, j.Attempt) }

func jobLogger(l *slog.Logger, queue, id string, attempt int) *slog.Logger {
	return cmp.Or(l, slog.Default()).With(slog.String("queue", queue), slog.String("id", id), slog.Int("attempt", attempt))
}

// Lease returns the lease of a job that is unique while it runs; see [Unique]. Its
// token grows with every run of the key, over restarts, too. For all other jobs it
// is one that has ended. What is left with its OnEnd has a goroutine of its own.
func (j Job[T]) Lease() lock.Lease { return unique.LeaseOf(j.claim) }

// Payload is one of several payloads of a job.
type Payload[T any] struct {
	Value    T
	Score    float64
	Position uint64 // unique in its journal, growing in the order of acceptance; see [Receipt]

	EnqueuedAt time.Time         // when Enqueue was called, by the clock of then, to the microsecond
	Metadata   map[string]string // see [Metadata]; nil: none
}

// Merged is what a handler of [HandleMerged] or [HandleBatch] gets: an id with all
// of its payloads. It belongs to the handler, which may keep and change it.
type Merged[T any] struct {
	Queue     string
	ID        string
	Payloads  []Payload[T]      // one at least; in score order, from old to new if scores are times
	Attempt   int               // of the job: 1, 2, 3, …; a snooze, a stop or a crash is none
	LastTry   bool              // no retry follows if it fails
	LastError string            // the text of the last failure; "": it has not failed, or not since Requeue
	Due       time.Time         // from when it might run
	Failures  []inspect.Failure // the last five of the job, oldest first; nil: it has not failed
	Crashes   int               // as in [Job]

	claim *admit.Claim
	log   *slog.Logger
	from  origin
}

// Logger returns Config.Logger with queue, id and attempt; see [Job.Logger].
func (j Merged[T]) Logger() *slog.Logger { return jobLogger(j.log, j.Queue, j.ID, j.Attempt) }

// Lease returns the lease of a job that is unique while it runs; see [Job.Lease].
func (j Merged[T]) Lease() lock.Lease { return unique.LeaseOf(j.claim) }

// Latest returns the value of the last payload in score order. It is the newest one that is
// waiting if scores are times, equal payloads are all kept or merge by [MergeKeepLast], and no
// more than MaxPayloads wait. It panics for a Merged without payloads, which only a test makes.
func (j Merged[T]) Latest() T { return j.Payloads[len(j.Payloads)-1].Value }

// Parent is a job as its handler got it, a [Job] or a [Merged] of any type: what a
// follow-up is staged on, and what has [Slots].
type Parent interface{ origin() origin }

// origin is which job of which call of a handler it is.
type origin struct {
	attempt *attempt.Attempt
	item    *shard.Item // of several in one attempt; nil: there is one
	call    int         // of the handler, in its attempt
	claim   *admit.Claim

	metadata map[string]string // that follow-ups inherit
}

// originOf is that of no job for nil.
func originOf(job Parent) (of origin) {
	if job != nil {
		of = job.origin()
	}
	return of
}

func (j Job[T]) origin() origin {
	return origin{attempt: j.attempt, claim: j.claim, call: j.call, metadata: j.Metadata}
}

func (j Merged[T]) origin() origin {
	from := j.from
	from.claim = j.claim
	if n := len(j.Payloads); n > 0 {
		from.metadata = j.Payloads[n-1].Metadata
	}
	return from
}

// jobs makes what handlers get of what shards hand over, and calls them.
type jobs[T any] struct {
	q     *queue
	codec Codec[T]
}

// read is inHand of the one payload that there is, with its entry.
func (t *jobs[T]) read(it *shard.Item, e *journal.Entry) (payload T, err error) {
	err = t.inHand(it, func(one journal.Entry, value T) { *e, payload = one, value })
	return payload, err
}

// decode makes the job of what an item has in hand. It may be that no payload is left. An error is one of inHand.
func (t *jobs[T]) decode(it *shard.Item) (Merged[T], error) {
	job := Merged[T]{
		Queue: t.q.Name, ID: it.ID, Attempt: it.Retry + admin.FirstAttempt, LastTry: t.q.Core.LastTry(it), LastError: it.LastError,
		Due: time.Unix(0, it.Due), Payloads: make([]Payload[T], 0, len(it.Payloads)),
		Failures: admin.FailuresOf(it.History, it.LastError), Crashes: t.q.x.quarantine.Deaths(t.q.Name, it, t.q.Core.Single), log: t.q.x.cfg.Logger,
	}
	job.claim, job.from.item = admit.ClaimOf(it.Claim), it
	err := t.inHand(it, func(e journal.Entry, value T) {
		job.Payloads = append(job.Payloads, Payload[T]{value, e.Score, uint64(e.Position), time.Unix(0, e.AcceptedAt()), admin.MetadataOf(&e)})
	})
	return job, err
}

// payloads are those that the conditions of a job ask about, which has none that they have not seen: the codec
// may take a payload now that it has refused a moment ago.
func (t *jobs[T]) payloads(it *shard.Item) (all []admit.Payload, err error) {
	err = t.inHand(it, func(e journal.Entry, value T) {
		all = append(all, admit.Payload{Position: uint64(e.Position), Raw: e.Payload, Value: value})
	})
	return all, err
}

// inHand decodes what an item has in hand. Of several payloads those that the codec refuses are left out, as parts of
// the outcome. It returns a verdict.Unread, or an undecodable: the job does not run for one of them.
func (t *jobs[T]) inHand(it *shard.Item, take func(journal.Entry, T)) error {
	for i, p := range t.q.Core.InHand(it) {
		if slices.ContainsFunc(it.Outcome.Parts, func(p shard.Part) bool { return p.Index == i }) {
			continue // in an earlier call: it does not come again
		}
		var e journal.Entry
		if err := p.Ref.Read(&e); err != nil {
			return &verdict.Unread{Err: err}
		}
		if it.Folded != nil {
			e.Payload = it.Folded
		}
		if value, err := decodeBy(t.codec, e.Payload); err == nil {
			take(e, value)
		} else if refused := (&undecodable{err}); it.Folded != nil || t.q.Core.Single || refused.mayPass(t.q, it) {
			return refused
		} else {
			it.Outcome.AddPart(shard.Part{Index: i, Verdict: shard.VerdictCanceled, Error: refused.Error()})
		}
		if t.q.Folder != nil {
			break // they became one
		}
	}
	return nil
}

// decodeAll makes the jobs of those items that have a payload left. Those that wait for
// one are in waits.
func (t *jobs[T]) decodeAll(items []*shard.Item) (jobs []Merged[T], waits map[string]error, err error) {
	jobs = make([]Merged[T], 0, len(items))
	for _, it := range items {
		job, err := t.decode(it)
		if _, wait := err.(*undecodable); wait && waits == nil {
			waits = map[string]error{it.ID: err}
		} else if wait {
			waits[it.ID] = err
		} else if err != nil {
			return nil, nil, err
		} else if len(job.Payloads) > 0 {
			jobs = append(jobs, job)
		}
	}
	return jobs, waits, nil
}

// undecodable is what comes of a payload that the codec refuses.
type undecodable struct{ error }

// mayPass reports whether the payload may decode in a retry that its job has left, or when a person
// lets go on what is halted: the error says so, or a process with another codec may run it then.
func (e *undecodable) mayPass(q *queue, it *shard.Item) bool {
	t, ok := errors.AsType[interface {
		error
		Temporary() bool
	}](e.error)
	again := !q.Core.LastTry(it) || q.Core.Halt
	return again && (ok && t.Temporary() || q.x.common != nil)
}

func (e *undecodable) Error() string { return "payload does not decode: " + guard.Text(e.error.Error) }

// Codec turns payloads of type T into bytes and back. Any goroutine may call both methods.
// Enqueue returns an error or a panic of Encode. A payload for which Decode returns an
// error or panics becomes a dead letter, with its bytes, at once. If the error has a method
// Temporary that returns true, or another process may go on with the log, as on PostgreSQL,
// that is a failure instead. When the retries are used up, the payload is a dead letter, or under
// [OnExhaustedHalt] its id is halted.
type Codec[T any] interface {
	// Encode returns bytes that stay as they are until Enqueue has returned: not a
	// buffer that the next Encode uses again.
	Encode(T) ([]byte, error)

	// Decode must not keep data, nor change it.
	Decode(data []byte) (T, error)
}

// encodeBy is Encode of the user's codec.
func encodeBy[T any](c Codec[T], payload T) (data []byte, err error) {
	err = guard.Call(func() (err error) {
		data, err = c.Encode(payload)
		return err
	})
	return data, err
}

// decodeBy is Decode of the user's codec.
func decodeBy[T any](c Codec[T], data []byte) (value T, err error) {
	err = guard.Call(func() (err error) {
		value, err = c.Decode(data)
		return err
	})
	return value, err
}

// JSON is the default codec, but for []byte: encoding/json.
type JSON[T any] struct{}

// Encode implements [Codec].
func (JSON[T]) Encode(v T) ([]byte, error) { return json.Marshal(v) }

// Decode implements [Codec], as [json.Unmarshal] does: it passes over fields that T does not have.
func (JSON[T]) Decode(data []byte) (v T, err error) {
	err = json.Unmarshal(data, &v)
	return v, err
}

// asBytes is the codec of payloads of type []byte. The handler gets a copy of its own.
type asBytes struct{}

func (asBytes) Encode(v []byte) ([]byte, error) { return v, nil }

func (asBytes) Decode(data []byte) ([]byte, error) { return append([]byte{}, data...), nil }
