package executor

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// takeOver gives the queue what the journal has under its former names. arranging
// is held, and the queue is not registered.
func (q *queue) takeOver() error {
	for _, former := range q.renamedFrom {
		entries, dead, known := q.x.leftOver(former)
		own, ownDead, taken := q.x.leftOver(q.name)
		if err := q.x.mayRegister(former); err != nil {
			if entries+dead == 0 {
				continue
			}
			return fmt.Errorf("RenamedFrom of queue %q: %w", q.name, err)
		}
		if entries+dead > 0 && own+ownDead > 0 {
			return fmt.Errorf("%w: queue %q has %d payloads and %d dead ones in the journal, and so has its former name %q: %d and %d; register both until one of them has none",
				ErrConfig, q.name, own, ownDead, former, entries, dead)
		}
		if entries+dead > 0 || known && !taken { // with no payload left there is still what has run of each id
			if err := q.x.log.Rename(context.Background(), former, q.name); err != nil {
				return border(err)
			}
		}
		if err := q.inherit(former); err != nil { // again, if the last process has died before it had done so
			return err
		}
	}
	return nil
}

// inherit takes over what jobs hold under a former name, keys and slots, and what is
// paused.
func (q *queue) inherit(former string) error {
	q.x.keys.Rename(former, q.name)
	for _, s := range q.slots {
		s.Rename(former, q.name)
	}
	return border(q.x.pauses.Rename(former, q.name))
}

// leftOver returns how many payloads the journal had for a name that is not
// registered yet, and how many dead ones; known: it has the name.
func (x *Executor) leftOver(name string) (entries, dead int, known bool) {
	number, known := x.log.Queues()[name]
	if !known {
		return 0, 0, false
	}
	return x.log.Unclaimed()[number], x.log.Buried(number), true
}

// unclaimed names the queues that have jobs and are not registered.
func (x *Executor) unclaimed() error {
	counts := x.log.Unclaimed()
	var names []string
	for name, number := range x.log.Queues() {
		if n := counts[number]; n > 0 {
			names = append(names, fmt.Sprintf("%q (%d payloads)", name, n))
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("%w: the journal has jobs of queues that are not registered: %s; register them, name them in RenamedFrom of the queue that takes over, or leave Strict off",
		ErrConfig, strings.Join(names, ", "))
}
