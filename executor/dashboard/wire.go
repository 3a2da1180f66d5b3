package dashboard

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/strandjobs/strand/executor"
)

// What the API says, and is told. Names stay; there may come more. A duration is a
// number of seconds, by a name with _seconds, but for Lowkiq's lag; a time is RFC 3339
// in UTC, and left out when there is none.

// inexact returns the bytes of a text that JSON can't have as it is: nil for all
// others. One with U+FFFD is among them, so that nobody takes one for the other.
func inexact(s string) []byte {
	if utf8.ValidString(s) && !strings.ContainsRune(s, utf8.RuneError) {
		return nil
	}
	return []byte(s)
}

// wireList is one that JSON has as [] when it is empty, and not as null.
func wireList[E, W any](of []E, wire func(E) W) []W {
	all := make([]W, 0, len(of))
	for _, e := range of {
		all = append(all, wire(e))
	}
	return all
}

type wireQueueName struct {
	Queue       string `json:"queue"`
	QueueBase64 []byte `json:"queue_base64,omitempty"`
}

type wireID struct {
	ID       string `json:"id"`
	IDBase64 []byte `json:"id_base64,omitempty"`
}

type wireLimitName struct {
	Limit       string `json:"limit"`
	LimitBase64 []byte `json:"limit_base64,omitempty"`
}

type wireKeyName struct {
	Key       string `json:"key"`
	KeyBase64 []byte `json:"key_base64,omitempty"`
}

type wireRef struct {
	wireQueueName
	wireID
}

func queueNameOf(name string) wireQueueName { return wireQueueName{name, inexact(name)} }
func idOf(id string) wireID                 { return wireID{id, inexact(id)} }
func keyNameOf(key string) wireKeyName      { return wireKeyName{key, inexact(key)} }
func limitNameOf(name string) wireLimitName { return wireLimitName{name, inexact(name)} }
func refOf(queue, id string) wireRef        { return wireRef{queueNameOf(queue), idOf(id)} }

// wireOwner is who has something: a job by its name in explanations, or a person.
type wireOwner struct {
	Name string   `json:"name"`
	Job  *wireRef `json:"job,omitempty"` // none: it is no job
}

func ownerOf(name string) wireOwner {
	if queue, id, ok := jobOf(name); ok {
		ref := refOf(queue, id)
		return wireOwner{name, &ref}
	}
	return wireOwner{Name: name}
}

func someOwner(name string) *wireOwner {
	if name == "" {
		return nil
	}
	o := ownerOf(name)
	return &o
}

// wireFigures are those of a queue, or of all: the first eight by Lowkiq's names.
type wireFigures struct {
	Length       int     `json:"length"` // jobs: ids with something to do
	Fresh        int     `json:"fresh"`  // of them, that have not failed
	Retries      int     `json:"retries"`
	MorgueLength int     `json:"morgue_length"` // payloads
	Lag          float64 `json:"lag"`           // seconds that the oldest due job has been due
	Busy         int     `json:"busy"`          // workers
	Processed    uint64  `json:"processed"`     // payloads, since the start: done and discarded
	Failed       uint64  `json:"failed"`        // runs

	Age         float64 `json:"age"` // seconds since the oldest payload was accepted that is not over
	Payloads    int     `json:"payloads"`
	Running     int     `json:"running"`
	Parked      int     `json:"parked"`
	Halted      int     `json:"halted"`
	Unclaimed   int     `json:"unclaimed"` // of queues that are not registered
	PausedIDs   int     `json:"paused_ids"`
	Paused      bool    `json:"paused"` // the queue, or the executor
	Done        uint64  `json:"done"`
	Discarded   uint64  `json:"discarded"`
	Buried      uint64  `json:"buried"`
	Merged      uint64  `json:"merged"`
	Replaced    uint64  `json:"replaced"`
	Superseded  uint64  `json:"superseded"`      // of merged
	SupDead     uint64  `json:"superseded_dead"` // of what was dead
	Deleted     uint64  `json:"deleted"`
	Expired     uint64  `json:"expired"`
	Snoozed     uint64  `json:"snoozed"`
	Interrupted uint64  `json:"interrupted"`
}

func figuresOf(q executor.QueueInfo) wireFigures {
	return wireFigures{
		Length: q.Jobs, Fresh: q.Fresh(), Retries: q.Retrying, MorgueLength: q.Dead, Lag: q.Lag.Seconds(), Busy: q.Busy,
		Processed: processed(q.QueueStats), Failed: q.Failed, Age: q.Age.Seconds(), Payloads: q.Payloads, Running: q.Running, Parked: q.Parked,
		Halted: q.Halted, Unclaimed: q.Unclaimed, PausedIDs: q.PausedIDs, Paused: q.Paused,
		Done: q.Done, Discarded: q.Discarded,
		Buried: q.Buried, Merged: q.Merged, Replaced: q.Replaced, Superseded: q.Superseded, SupDead: q.SupersededDead, Deleted: q.Deleted, Expired: q.Expired, Snoozed: q.Snoozed,
		Interrupted: q.Interrupted,
	}
}

// add adds the figures of a queue to those of all. Busy and Paused are not sums.
func (f *wireFigures) add(o wireFigures) {
	f.Length, f.Fresh, f.Retries = f.Length+o.Length, f.Fresh+o.Fresh, f.Retries+o.Retries
	f.MorgueLength, f.Lag, f.Age = f.MorgueLength+o.MorgueLength, max(f.Lag, o.Lag), max(f.Age, o.Age)
	f.Processed, f.Failed, f.Payloads = f.Processed+o.Processed, f.Failed+o.Failed, f.Payloads+o.Payloads
	f.Running, f.Parked, f.Halted = f.Running+o.Running, f.Parked+o.Parked, f.Halted+o.Halted
	f.Unclaimed, f.PausedIDs = f.Unclaimed+o.Unclaimed, f.PausedIDs+o.PausedIDs
	f.Done, f.Discarded, f.Buried = f.Done+o.Done, f.Discarded+o.Discarded, f.Buried+o.Buried
	f.Merged, f.Replaced = f.Merged+o.Merged, f.Replaced+o.Replaced
	f.Superseded, f.SupDead = f.Superseded+o.Superseded, f.SupDead+o.SupDead
	f.Deleted, f.Expired = f.Deleted+o.Deleted, f.Expired+o.Expired
	f.Snoozed, f.Interrupted = f.Snoozed+o.Snoozed, f.Interrupted+o.Interrupted
}

// wireStats answers /api/v1/stats.
type wireStats struct {
	Time     time.Time              `json:"time"`
	Trouble  string                 `json:"trouble"` // what keeps the executor from its work; "": nothing
	Workers  int                    `json:"workers"`
	Stuck    int                    `json:"stuck"`
	Total    wireFigures            `json:"total"`
	ByWorker map[string]wireFigures `json:"by_worker"` // by queue, of those with a name in UTF-8
}

type wireQueue struct {
	wireQueueName
	Registered bool `json:"registered"`
	wireFigures
	Backlog wireBacklog `json:"backlog"`
	Shards  []wireShard `json:"shards"`
}

func queueOf(q executor.QueueInfo) wireQueue {
	return wireQueue{queueNameOf(q.Name), q.Registered, figuresOf(q), backlogOf(q.Backlog), wireList(q.Shards, shardOf)}
}

type wireBacklog struct {
	Payloads int     `json:"payloads"`
	Bytes    int     `json:"bytes"`
	Refused  uint64  `json:"refused"` // calls, since the start
	Waiting  int     `json:"waiting"` // calls
	Stalled  float64 `json:"stalled_seconds"`
}

func backlogOf(b executor.Backlog) wireBacklog {
	return wireBacklog{b.Payloads, b.Bytes, b.Refused, b.Waiting, b.Stalled.Seconds()}
}

type wireShard struct {
	Shard       int     `json:"shard"`
	Length      int     `json:"length"`
	Fresh       int     `json:"fresh"`
	Retries     int     `json:"retries"`
	Lag         float64 `json:"lag"` // seconds
	Processed   uint64  `json:"processed"`
	Failed      uint64  `json:"failed"`
	Payloads    int     `json:"payloads"`
	Running     int     `json:"running"`
	Parked      int     `json:"parked"`
	Halted      int     `json:"halted"`
	Done        uint64  `json:"done"`
	Discarded   uint64  `json:"discarded"`
	Buried      uint64  `json:"buried"`
	Snoozed     uint64  `json:"snoozed"`
	Interrupted uint64  `json:"interrupted"`
}

func shardOf(s executor.ShardStats) wireShard {
	return wireShard{s.Shard, s.Jobs, s.Fresh(), s.Retrying, s.Lag.Seconds(), s.Done + s.Discarded, s.Failed, s.Payloads,
		s.Running, s.Parked, s.Halted, s.Done, s.Discarded, s.Buried, s.Snoozed, s.Interrupted}
}

// wirePage is what each list has that is made in pages.
type wirePage struct {
	Next      string `json:"next,omitempty"` // the cursor of the next page; none: this is the last one
	Examined  int    `json:"examined"`
	Truncated bool   `json:"truncated"` // so many were examined that the page ends early
	Partial   bool   `json:"partial"`   // it has the first of those that were examined, which are not all
}

// wireStanding is how far a job is.
type wireStanding struct {
	wireRef
	State     executor.JobState `json:"state"`
	Due       time.Time         `json:"due,omitzero"`
	Attempt   int               `json:"attempt"`
	LastError string            `json:"last_error"`
	Payloads  int               `json:"payloads"`
}

type wireJob struct {
	wireStanding
	Position   uint64    `json:"position"`
	Score      float64   `json:"score"`
	EnqueuedAt time.Time `json:"enqueued_at,omitzero"`
	Bytes      int       `json:"bytes"`
}

func wireJobOf(j executor.JobInfo) wireJob {
	return wireJob{wireStanding{refOf(j.Queue, j.ID), j.State, j.Due.UTC(), j.Attempt, j.LastError, j.Payloads},
		j.Position, j.Score, j.EnqueuedAt.UTC(), j.Bytes}
}

type wireDead struct {
	wireRef
	Position   uint64    `json:"position"`
	Score      float64   `json:"score"`
	Attempt    int       `json:"attempt"`
	Error      string    `json:"error"`
	At         time.Time `json:"at"`
	EnqueuedAt time.Time `json:"enqueued_at"`
	Bytes      int       `json:"bytes"`
}

func deadOf(d executor.DeadInfo) wireDead {
	return wireDead{refOf(d.Queue, d.ID), d.Position, d.Score, d.Attempt, d.Error, d.At.UTC(), d.EnqueuedAt.UTC(), d.Bytes}
}

type wireFailure struct {
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`
	Error   string    `json:"error"`
}

func failureOf(f executor.Failure) wireFailure { return wireFailure{f.Attempt, f.At.UTC(), f.Error} }

// wirePayload is one with what of it may be seen.
type wirePayload struct {
	Position      uint64            `json:"position"`
	Score         float64           `json:"score"`
	EnqueuedAt    time.Time         `json:"enqueued_at"`
	Bytes         int               `json:"bytes"`
	Payload       string            `json:"payload,omitempty"` // none: it is hidden
	PayloadBase64 []byte            `json:"payload_base64,omitempty"`
	Clipped       bool              `json:"clipped,omitempty"`  // there is more of it than this
	Metadata      map[string]string `json:"metadata,omitempty"` // hidden with it
	DecodeError   string            `json:"decode_error,omitempty"`
}

func payloadOf(row payloadRow) wirePayload {
	w := wirePayload{Position: row.Position, Score: row.Score, EnqueuedAt: row.EnqueuedAt.UTC(), Bytes: row.Bytes,
		Payload: row.Text, PayloadBase64: inexact(row.Text), Clipped: row.Clipped, Metadata: row.Metadata}
	if row.Text != "" && row.Decode != nil {
		w.DecodeError = begin(row.Decode.Error(), mostError)
	}
	return w
}

// mostError is how much of an error there is that nobody else has clipped.
const mostError = 4 << 10

type wireDeadPayload struct {
	wirePayload
	Attempt  int           `json:"attempt"`
	Error    string        `json:"error"`
	At       time.Time     `json:"at"`
	Failures []wireFailure `json:"failures"`
}

// wireDetail answers /api/v1/job.
type wireDetail struct {
	wireJob
	Failures    []wireFailure     `json:"failures"`
	InHand      []wirePayload     `json:"in_hand"`
	Waiting     []wirePayload     `json:"waiting"`
	More        int               `json:"more"`
	Keys        []wireKeyName     `json:"keys"`
	Leases      []wireKeyName     `json:"leases"`
	Slots       []wireSlot        `json:"slots"`
	Explanation wireExplanation   `json:"explanation"`
	Dead        []wireDeadPayload `json:"dead"`
	MoreDead    int               `json:"more_dead"`
	DeadUnread  bool              `json:"dead_unread"`
}

// wireExplanation says why a job does not run.
type wireExplanation struct {
	wireStanding
	Dead   int           `json:"dead,omitempty"` // of an id without a job: beside one they are not counted
	Paused []string      `json:"paused"`         // some of executor, queue and id
	Keys   []wireKey     `json:"keys"`
	Leases []wireLease   `json:"leases"`
	Behind *wireOwner    `json:"behind,omitempty"`
	Slots  []wireSlot    `json:"slots"`
	Limit  *wireLimitKey `json:"limit,omitempty"`
	Turn   *wireTurn     `json:"turn,omitempty"` // why no worker comes to one that is ready
	More   int           `json:"more"`
	Text   string        `json:"text"` // all of it, in one line
}

func explanationOf(e executor.Explanation) wireExplanation {
	w := wireExplanation{wireStanding{refOf(e.Queue, e.ID), e.State, e.Due.UTC(), e.Attempt, e.LastError, e.Payloads},
		e.Dead, append([]string{}, e.Paused...), wireList(e.Keys, keyOf), wireList(e.Unique, leaseOf), someOwner(e.Behind),
		wireList(e.Slots, slotOf), nil, nil, e.More, e.String()}
	if e.Limit != nil {
		k := limitKeyOf(*e.Limit)
		w.Limit = &k
	}
	if t := e.Turn; t != nil {
		w.Turn = &wireTurn{t.Reason, t.Running, t.Of, wireList(t.Before, queueNameOf), t.More}
	}
	return w
}

// wireTurn says why no worker comes to a job that is ready.
type wireTurn struct {
	Reason  executor.TurnReason `json:"reason"`
	Running int                 `json:"running"`
	Of      int                 `json:"of"`
	Before  []wireQueueName     `json:"before"`
	More    int                 `json:"more"`
}

// wireAffected answers an action.
type wireAffected struct {
	Affected int    `json:"affected"`
	Of       string `json:"of"` // what was counted: payload, job, id, queue, executor, key, schedule

	// Of a requeue, as of executor.Requeued.
	Superseded int `json:"superseded,omitempty"`
	Late       int `json:"late,omitempty"`
	Unsure     int `json:"unsure,omitempty"`
}

// wireProblem is RFC 9457's.
type wireProblem struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail"`
	Affected int    `json:"affected,omitempty"` // by an action, before it went wrong
}
