package dispatch

// Ready is a shard that has had a job due since Due, in Unix nanoseconds.
type Ready struct {
	*Port
	Due int64
}

// Policy says which shard gets the next free worker.
type Policy struct {
	pick   func(ready []Ready) int
	asked  bool // pick is the program's code
	fair   bool // what queues use is counted
	strict bool // a queue goes before another one
}

// best returns the index of the shard that goes before all others.
func best(ready []Ready, before func(a, b Ready) bool) (at int) {
	for i := range ready {
		if before(ready[i], ready[at]) {
			at = i
		}
	}
	return at
}

// Fair picks by priority, then by what queues have used for their weight, then the oldest
// due job. (Start-time fair queueing: Goyal, Vin and Cheng, 1996.)
func Fair() Policy {
	return Policy{fair: true, pick: func(ready []Ready) int {
		return best(ready, func(a, b Ready) bool {
			mine, its := a.Queue, b.Queue
			if mine.tier != its.tier {
				return mine.tier.priority > its.tier.priority
			}
			return mine.used < its.used || mine.used == its.used && a.Due < b.Due
		})
	}}
}

// OldestFirst picks the shard with the oldest due job.
func OldestFirst() Policy { return Policy{pick: oldest} }

func oldest(ready []Ready) int { return best(ready, func(a, b Ready) bool { return a.Due < b.Due }) }

// RoundRobin picks the shard that follows on the last one, by Index. It remembers that one,
// so each dispatcher has a policy of its own.
func RoundRobin() Policy {
	last := -1
	return Policy{pick: func(ready []Ready) int {
		next := best(ready, func(a, b Ready) bool {
			if follows := a.Index > last; follows != (b.Index > last) {
				return follows
			}
			return a.Index < b.Index
		})
		last = ready[next].Index
		return next
	}}
}

// RegistrationOrder picks the queue that joined first, and of its shards the one with the
// oldest due job.
func RegistrationOrder() Policy {
	return Policy{strict: true, pick: func(ready []Ready) int {
		return best(ready, func(a, b Ready) bool { return a.Queue.order < b.Queue.order || a.Queue == b.Queue && a.Due < b.Due })
	}}
}

// Asked is a policy of the program's: pick returns an index, or one out of range. It may end
// the goroutine, and must not panic. It keeps nothing of ready.
func Asked(pick func(ready []Ready) int) Policy { return Policy{pick: pick, asked: true} }

// Pick returns what a policy of this package would pick, for a policy of the program's that
// makes use of it.
func (p Policy) Pick(ready []Ready) int {
	d := ready[0].Queue.d
	d.mu.Lock()
	defer d.mu.Unlock()
	d.countUp(d.now())
	return p.pick(ready)
}
