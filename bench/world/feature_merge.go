package world

import (
	"slices"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// Of equal payloads of an id that waits one stays, and stands for the others.
var merging = &feature{
	name: "merge", claims: "QueueConfig.Merge MergeKeepAll MergeMinScore MergeKeepFirst MergeKeepLast",
	queue:   func(d *draw, l line) { l.set("merge", d.one("min", "first", "last")) },
	enqueue: func(d *draw, l line) { l.set("v", d.IntN(3)) },
	apply: func(_ *world, q *queue, cfg *executor.QueueConfig[payload]) {
		cfg.Merge = map[string]executor.Merge{
			"min": executor.MergeMinScore, "first": executor.MergeKeepFirst, "last": executor.MergeKeepLast,
		}[q.conf.str("merge")]
		if !q.conf.has("merge") {
			cfg.Merge = executor.MergeKeepAll
		}
	},
	calm: func(w *world, c *census) {
		for _, q := range w.queues {
			if !q.conf.has("merge") || q.conf.has("changed") { // equal ones may have been apart
				continue
			}
			for id, job := range c.jobs[q.name] {
				if job.Attempt == 1 && len(job.InHand) == 0 {
					w.allDiffer(q, id, w.fresh(q, id, job.Waiting))
				}
			}
		}
	},
}

// fresh leaves out what has failed once: under Gather.Block what came later waits behind it,
// and stays so when a person takes the failures back.
func (w *world) fresh(q *queue, id string, waiting []inspect.PayloadInfo) []inspect.PayloadInfo {
	return slices.DeleteFunc(slices.Clone(waiting), func(p inspect.PayloadInfo) bool {
		i := w.ledger.byPos[spot{id, p.Position}]
		return q.conf.str("failure") == "block" && (i == nil || i.calls > 0)
	})
}

func (w *world) allDiffer(q *queue, id string, waiting []inspect.PayloadInfo) {
	for n, p := range waiting {
		if slices.ContainsFunc(waiting[:n], func(other inspect.PayloadInfo) bool { return string(other.Raw) == string(p.Raw) }) && q.conf.str("shape") != "handle" {
			w.fail("merged not: %s/%s has %s twice", q.name, id, p.Raw)
		}
	}
}
