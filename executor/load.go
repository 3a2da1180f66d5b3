package executor

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// absurdDelay is further ahead than any job is planned: when one is due later,
// either the clock was wrong when it was accepted, or it is wrong now.
const absurdDelay = 50 * 365 * 24 * time.Hour

// load gives the cores of the shards what is pending, and lets go of it.
func (q *queue) load(pending [][]journal.Ref, cores []*shard.Core) error {
	absurd := q.x.clock().Add(absurdDelay).UnixNano()
	var far atomic.Int64
	weight, err := shard.LoadAll(cores, pending, q.shards.Index, func(entries []journal.Entry) {
		q.standInLanes(entries)
		newest := 0.0
		for i := range entries {
			e := &entries[i]
			if e.Due > absurd {
				far.Add(1)
			}
			if e.Kind == journal.KindEnqueued {
				newest = max(newest, defaultScore(e))
			}
		}
		q.x.log.Raise(&q.scores, newest)
	})
	if err != nil {
		return err
	}
	q.far = far.Load()
	q.backlog.Exceed(weight)
	return nil
}

// warnFar logs how many entries are due later than absurdDelay.
func (q *queue) warnFar() {
	if q.far > 0 {
		q.x.cfg.Logger.Warn("jobs are due in more than 50 years; was the clock wrong? RunNow runs them",
			slog.String("queue", q.name), slog.Int64("payloads", q.far))
	}
}
