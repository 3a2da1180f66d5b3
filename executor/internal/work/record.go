package work

import "github.com/strandjobs/strand/shard"

// Record writes down what the shards of the queue decide. It implements [shard.Recorder].
func (q *Queue) Record(c *shard.Change) {
	if q.Events.Watched() {
		defer q.Events.Decided(c)()
	}
	q.write(c)
}

func (q *Queue) write(c *shard.Change) {
	q.handOver(c)
	locks := len(c.Staged) > 0 && land(c)
	if q.Admission == nil && !locks {
		q.Log.Record(&c.Change)
	} else {
		q.Ledger.Settle(q.Admission, c, func() { q.lockFollowUps(c) })
		for f := range followUps(c) {
			f.Queue.Reconsider(string(f.Entry.ID), f.Keys)
		}
	}
	q.Backlog.Settle(c.Over, c.Surplus)
	if q.Awaited.Any() {
		q.Awaited.Record(c, q.Log.Recorded(&c.Change))
	}
	if len(c.Buried) > 0 {
		q.Dead.Buried()
	}
}
