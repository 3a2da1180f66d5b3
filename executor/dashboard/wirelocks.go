package dashboard

import (
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/lock"
)

// See wire.go.

type wireHeld struct {
	By    wireOwner `json:"by"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"` // none: it does not end by itself
}

type wireKey struct {
	wireKeyName
	Locks       []wireHeld  `json:"locks"`
	MoreLocks   int         `json:"more_locks"`
	Called      []wireOwner `json:"called"`
	MoreCalled  int         `json:"more_called"`
	Waiting     []wireOwner `json:"waiting"`
	MoreWaiting int         `json:"more_waiting"`
}

func keyOf(k executor.KeyLockStatus) wireKey {
	return wireKey{keyNameOf(k.Key), wireList(k.Locks, func(l executor.LockHeld) wireHeld {
		return wireHeld{ownerOf(l.By), l.Since.UTC(), l.Until.UTC()}
	}), k.MoreLocks, wireList(k.Called, ownerOf), k.MoreCalled, wireList(k.Waiting, ownerOf), k.MoreWaiting}
}

type wireLease struct {
	wireKeyName
	By        *wireOwner   `json:"by,omitempty"`
	Called    *wireOwner   `json:"called,omitempty"`
	Token     uint64       `json:"token"`
	HeldFor   float64      `json:"held_seconds"`
	Remaining float64      `json:"remaining_seconds,omitempty"` // none: it does not end by itself
	Waiters   []wireWaiter `json:"waiters"`
	More      int          `json:"more"`
}

type wireWaiter struct {
	By  wireOwner `json:"by"`
	For float64   `json:"waited_seconds"`
}

func leaseOf(l executor.LeaseStatus) wireLease {
	return wireLease{keyNameOf(l.Key), someOwner(l.By), someOwner(l.Called), l.Token, l.HeldFor.Seconds(),
		l.Remaining.Seconds(), wireList(l.Waiters, func(w executor.LeaseWaiter) wireWaiter {
			return wireWaiter{ownerOf(w.By), w.For.Seconds()}
		}), l.More}
}

type wireSlot struct {
	Slot       string    `json:"slot"`
	SlotBase64 []byte    `json:"slot_base64,omitempty"`
	By         wireOwner `json:"by"`
	Until      time.Time `json:"until,omitzero"`
}

func slotOf(s executor.SlotHeld) wireSlot {
	return wireSlot{s.Slot, inexact(s.Slot), ownerOf(s.By), s.Until.UTC()}
}

// wireSetting says what a limit allows; 0: any number.
type wireSetting struct {
	Concurrent int     `json:"concurrent"`
	Rate       int     `json:"rate"`
	Per        float64 `json:"per_seconds"`
	Burst      int     `json:"burst"`
}

func settingOf(c executor.LimitConfig) wireSetting {
	return wireSetting{c.Concurrent, c.Rate, c.Per.Seconds(), c.Burst}
}

type wireLimitKey struct {
	wireLimitName
	wireKeyName
	Setting wireSetting `json:"setting"`
	Running int         `json:"running"`
	Waiting int         `json:"waiting"`
	Until   time.Time   `json:"until,omitzero"`
	Paused  time.Time   `json:"paused_until,omitzero"`
}

func limitKeyOf(k executor.LimitKey) wireLimitKey {
	return wireLimitKey{limitNameOf(k.Limit), keyNameOf(k.Key), settingOf(k.Config), k.Running, k.Waiting,
		k.Until.UTC(), k.Paused.UTC()}
}

type wireLimit struct {
	wireLimitName
	Setting wireSetting    `json:"setting"`
	InUse   int            `json:"keys_in_use"`
	Running int            `json:"running"`
	Waiting int            `json:"waiting"`
	Keys    []wireLimitKey `json:"keys"` // for which most jobs wait
}

func limitOfWire(l *executor.Limit) wireLimit {
	s := l.Stats()
	return wireLimit{limitNameOf(l.Name()), settingOf(s.Config), s.Keys, s.Running, s.Waiting,
		wireList(l.Keys(), limitKeyOf)}
}

type wireRunning struct {
	wireQueueName
	Worker   int           `json:"worker"`
	Jobs     []wireInHand  `json:"jobs"`
	More     int           `json:"more"`
	Since    time.Time     `json:"since"`
	Age      float64       `json:"age_seconds"`
	Timeout  float64       `json:"timeout_seconds,omitempty"`
	Stuck    bool          `json:"stuck"`
	Progress *wireProgress `json:"progress,omitempty"`
	Stack    string        `json:"stack,omitempty"`
}

type wireInHand struct {
	wireID
	Attempt  int    `json:"attempt"`
	Position uint64 `json:"position"`
	Payloads int    `json:"payloads"`
}

type wireProgress struct {
	Done    int64     `json:"done"`
	Total   int64     `json:"total"`
	Message string    `json:"message"`
	At      time.Time `json:"at"`
}

func runningOf(r executor.Running) wireRunning {
	w := wireRunning{queueNameOf(r.Queue), r.Worker, wireList(r.Jobs, func(j executor.RunningJob) wireInHand {
		return wireInHand{idOf(j.ID), j.Attempt, j.Position, j.Payloads}
	}), r.More, r.Since.UTC(), r.Age.Seconds(), r.Timeout.Seconds(), r.Stuck, nil, r.Stack}
	if p := r.Progress; p != nil {
		w.Progress = &wireProgress{p.Done, p.Total, p.Message, p.At.UTC()}
	}
	return w
}

type wireCron struct {
	Cron      int            `json:"cron"` // in Config.Crons
	Leads     bool           `json:"leads"`
	Schedules []wireSchedule `json:"schedules"`
}

type wireSchedule struct {
	Schedule       string    `json:"schedule"`
	ScheduleBase64 []byte    `json:"schedule_base64,omitempty"`
	Spec           string    `json:"spec"`
	Next           time.Time `json:"next,omitzero"`
	Last           time.Time `json:"last,omitzero"`
	Lost           time.Time `json:"lost,omitzero"`
	Paused         bool      `json:"paused"`
	Firing         bool      `json:"firing"`
	Error          string    `json:"error"`
}

func scheduleOf(e cron.Entry) wireSchedule {
	w := wireSchedule{e.Name, inexact(e.Name), e.Spec, e.Next.UTC(), e.Last.UTC(), e.Lost.UTC(), e.Paused, e.Firing, ""}
	if e.Err != nil {
		w.Error = e.Err.Error()
	}
	return w
}

type wireLeader struct {
	Election       string    `json:"election"`
	ElectionBase64 []byte    `json:"election_base64,omitempty"`
	Leader         string    `json:"leader"` // "": there is none
	LeaderBase64   []byte    `json:"leader_base64,omitempty"`
	Epoch          uint64    `json:"epoch"`
	Since          time.Time `json:"since,omitzero"`
	Until          time.Time `json:"until,omitzero"`
}

func wireLeaderOf(name string, l lock.Leader) wireLeader {
	return wireLeader{name, inexact(name), l.ID, inexact(l.ID), l.Epoch, l.Since.UTC(), l.Until.UTC()}
}

// wireJournal answers /api/v1/journal.
type wireJournal struct {
	Trouble    string      `json:"trouble"`
	InMemory   bool        `json:"in_memory"`
	UUID       string      `json:"uuid"`
	Epoch      uint64      `json:"epoch"`
	Next       uint64      `json:"next"`
	Bytes      int         `json:"bytes"`
	LiveBytes  int         `json:"live_bytes"`
	HeldBytes  int         `json:"held_bytes"`
	ReadBacks  uint64      `json:"read_backs"`
	Commits    uint64      `json:"commits"`
	CommitTime float64     `json:"commit_seconds"` // of all of them together
	CommitAge  float64     `json:"commit_age_seconds"`
	LastCommit time.Time   `json:"last_commit,omitzero"`
	Backlog    wireBacklog `json:"backlog"`
}

func journalOf(s executor.Stats) wireJournal {
	j := s.Journal
	return wireJournal{"", j.UUID == "", j.UUID, j.Epoch, j.Next, j.Bytes, j.LiveBytes, j.HeldBytes, j.ReadBacks, j.Commits,
		j.CommitTime.Seconds(), j.CommitAge.Seconds(), j.LastCommit.UTC(), backlogOf(s.Backlog)}
}
