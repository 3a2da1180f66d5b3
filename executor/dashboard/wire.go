package dashboard

import (
	"time"
	"unicode/utf8"

	"github.com/strandjobs/strand/executor/inspect"
)

// What the API says beside what the Inspector does; see package admin for the JSON.

// wireStats answers /api/v1/stats.
type wireStats struct {
	Time     time.Time
	Trouble  string // what keeps the executor from its work; "": nothing
	Workers  int
	Stuck    int
	Total    wireFigures
	ByWorker map[string]wireFigures // by queue, of those with a name in UTF-8
}

// wireFigures are those of a queue, or of all.
type wireFigures struct {
	inspect.QueueStats
	Busy      int    // workers
	Processed uint64 // payloads, since the start: done and discarded
}

// statsOf are the figures of queues, and of all of them together.
func statsOf(all inspect.Stats, queues []inspect.QueueInfo) wireStats {
	s := wireStats{Time: time.Now(), Workers: all.Workers, Stuck: all.Stuck, ByWorker: make(map[string]wireFigures, len(queues))}
	all.Queues = nil
	for _, q := range queues {
		all.Queues = append(all.Queues, q.QueueStats)
		if utf8.ValidString(q.Name) {
			s.ByWorker[q.Name] = wireFigures{q.QueueStats, q.Busy, processed(q.QueueStats)}
		}
	}
	total := all.Total()
	s.Total = wireFigures{total, all.Busy, processed(total)}
	return s
}

type wireQueue struct {
	inspect.QueueInfo
	Processed uint64
	Shards    []wireShard
}

type wireShard struct {
	inspect.ShardStats
	Processed uint64
}

func wireQueueOf(q inspect.QueueInfo) wireQueue {
	w := wireQueue{QueueInfo: q, Processed: processed(q.QueueStats)}
	for _, s := range q.Shards {
		w.Shards = append(w.Shards, wireShard{s, s.Done + s.Discarded})
	}
	return w
}

// wireDetail answers /api/v1/job: payloads as they may be seen.
type wireDetail struct {
	inspect.JobDetail
	InHand, Waiting []payloadRow
	Explanation     wireExplanation
	Dead            []wireDeadPayload
}

type wireDeadPayload struct {
	payloadRow
	Attempt  int
	Error    string
	At       time.Time
	Failures []inspect.Failure
}

// wireExplanation says why a job does not run.
type wireExplanation struct {
	inspect.Explanation
	Text string // all of it, in one line
}

func explanationOf(e inspect.Explanation) wireExplanation { return wireExplanation{e, e.String()} }

type wireLimit struct {
	Limit string
	inspect.LimitStats
	Keys []inspect.LimitKey // for which most jobs wait
}

type wireLeader struct {
	Election     string
	Leader       string // "": there is none
	Epoch        uint64
	Since, Until time.Time
}

// wireJournal answers /api/v1/journal.
type wireJournal struct {
	Trouble  string
	InMemory bool
	inspect.JournalStats
	Backlog inspect.Backlog
}

// wireAffected answers an action.
type wireAffected struct {
	Affected         int
	Of               string // what was counted: payload, job, id, queue, executor, key, schedule
	inspect.Requeued        // of a requeue
}

// wireProblem is RFC 9457's.
type wireProblem struct {
	Type     string
	Title    string
	Status   int
	Detail   string
	Affected int `wire:",omit"` // by an action, before it went wrong
}
