package executor

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/internal/pausekey"
	"github.com/strandjobs/strand/executor/internal/statekey"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// pauses are what a person has paused: the executor, queues, ids. The journal has a
// state key for each; in memory, the shards know whether all their ids are paused,
// which single ones are, and how others begin. So a queue that is not paused costs its jobs nothing, and one
// that is asks for no worker.
type pauses struct {
	x *Executor

	// mu makes the order of changes one order for the journal and the shards. Under
	// it, the journal is given changes and shards are told, which does not wait.
	mu     sync.Mutex
	all    bool
	queues map[string]bool // by name, registered or not
	open   []*queue        // that are registered
}

// restore brings back what was paused when the last process ended, but for ids and
// prefixes: those come with their queues.
func (p *pauses) restore(x *Executor) error {
	p.x, p.queues = x, make(map[string]bool)
	for s, err := range x.log.Keys(pausekey.Prefix, "") {
		if err == nil {
			err = checkPause(s)
		}
		switch {
		case err != nil:
			return err
		case s.Key == pausekey.Executor:
			p.all = true
		case strings.HasPrefix(s.Key, pausekey.QueuePrefix):
			p.queues[strings.TrimPrefix(s.Key, pausekey.QueuePrefix)] = true
		}
	}
	return nil
}

func checkPause(s journal.Set) error {
	if err := pausekey.Check(s); err != nil {
		return statekey.Refused(s.Key, err)
	}
	return nil
}

// under returns what is paused under such a state key, as of the last commit: ids of a
// queue, or prefixes.
func (p *pauses) under(key string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for s, err := range p.x.log.Keys(key, "") {
			if err == nil {
				err = checkPause(s)
			}
			if err != nil {
				yield("", border(err))
				return
			}
			if !yield(s.Key[len(key):], nil) {
				return
			}
		}
	}
}

// load pauses the ids of a queue in its new cores, before they take anything in.
func (p *pauses) load(q *queue, cores []*shard.Core) error {
	for _, c := range cores {
		c.Pause(q.x.clock().UnixNano(), true) // until adopt
	}
	for id, err := range p.under(pausekey.IDs(q.name)) {
		if err != nil {
			return err
		}
		cores[q.route([]byte(id))-q.first].Hold(id, shard.HoldPause)
		q.pausedIDs.Add(1)
	}
	for prefix, err := range p.under(pausekey.Prefixes(q.name)) {
		if err != nil {
			return err
		}
		q.pausedPrefixes = append(q.pausedPrefixes, prefix)
		for _, c := range cores {
			c.PausePrefix(prefix, true)
		}
	}
	return nil
}

// adopt lets the shards of a new queue go on, unless it is paused.
func (p *pauses) adopt(q *queue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = append(p.open, q)
	if !p.all && !p.queues[q.name] {
		p.tell(q, false)
	}
}

// tell tells the shards of a queue whether they are paused. mu is held.
func (p *pauses) tell(q *queue, paused bool) {
	now := q.x.clock().UnixNano()
	for _, a := range q.actors {
		a.Tell(func(c *shard.Core) {
			c.Pause(now, paused)
		})
	}
}

// set pauses the executor, or a queue, or lets it go on, and returns the queues that
// are told, and 1 unless it was so before. name is empty for the executor.
func (p *pauses) set(name string, on bool) (told []*queue, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := pausekey.Executor
	was := p.all
	if name != "" {
		key, was = pausekey.Queue(name), p.queues[name]
	}
	for _, q := range p.open {
		if name == "" || q.name == name {
			told = append(told, q)
		}
	}
	if was == on {
		return told, 0
	}
	p.x.log.Record(&journal.Change{Sets: []journal.Set{pausekey.Set(key, on)}})
	if name == "" {
		p.all = on
	} else if p.queues[name] = on; !on {
		delete(p.queues, name)
	}
	if name == "" {
		p.x.events.Paused(on)
	}
	for _, q := range told {
		p.tell(q, p.all || p.queues[q.name])
		if name != "" {
			q.events.Paused(on, events.Event{})
		}
	}
	return told, 1
}

// setPrefix pauses the ids of a queue that begin so, or lets them go on, and returns 1
// unless it was so before. What waits already is still to be reconsidered.
func (p *pauses) setPrefix(q *queue, prefix string, on bool) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, was := slices.BinarySearch(q.pausedPrefixes, prefix)
	switch {
	case was == on:
		return 0, nil
	case on && len(q.pausedPrefixes) >= pausekey.MaxPrefixes:
		return 0, fmt.Errorf("%w: queue %q has %d prefixes", ErrTooManyPaused, q.name, len(q.pausedPrefixes))
	case on:
		q.pausedPrefixes = slices.Insert(q.pausedPrefixes, at, prefix)
	default:
		q.pausedPrefixes = slices.Delete(q.pausedPrefixes, at, at+1)
	}
	p.x.log.Record(&journal.Change{Sets: []journal.Set{pausekey.Set(pausekey.Prefixes(q.name)+prefix, on)}})
	for _, a := range q.actors {
		a.Tell(func(c *shard.Core) { c.PausePrefix(prefix, on) })
	}
	q.events.Paused(on, events.Event{Prefix: prefix})
	return 1, nil
}

// of reports whether the executor and a queue are paused.
func (p *pauses) of(queue string) (all, one bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all, p.queues[queue]
}

// over names what keeps a job of a queue from running; itself: its id is paused.
func (p *pauses) over(q *queue, id string, itself bool) (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all {
		names = append(names, "executor")
	}
	if p.queues[q.name] {
		names = append(names, "queue")
	}
	for _, prefix := range q.pausedPrefixes {
		if strings.HasPrefix(id, prefix) {
			names = append(names, fmt.Sprintf("prefix %q", prefix))
		}
	}
	if itself {
		names = append(names, "id")
	}
	return names
}

// names lists what is paused, the executor and queues, registered or not.
func (p *pauses) names() (all bool, queues []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range p.queues {
		queues = append(queues, name)
	}
	slices.Sort(queues)
	return p.all, queues
}

// rename gives the pauses of a queue, its ids and prefixes, to the queue's new name. It is
// for a start, before that queue has its shards.
func (p *pauses) rename(former, name string) error {
	var c journal.Change
	p.mu.Lock()
	if p.queues[former] {
		delete(p.queues, former)
		p.queues[name] = true
		c.Sets = append(c.Sets, pausekey.Set(pausekey.Queue(former), false), pausekey.Set(pausekey.Queue(name), true))
	}
	p.mu.Unlock()
	for _, key := range [...]func(string) string{pausekey.IDs, pausekey.Prefixes} {
		for paused, err := range p.under(key(former)) {
			if err != nil {
				return err
			}
			c.Sets = append(c.Sets, pausekey.Set(key(former)+paused, false), pausekey.Set(key(name)+paused, true))
		}
	}
	if len(c.Sets) == 0 {
		return nil
	}
	p.x.log.Record(&c)
	return p.x.log.Settled(context.Background()) // load reads what is on disk
}

// hold pauses some ids of a shard of the queue, or lets them go on, and returns how
// many were not paused, or were. It is called on the shard.
func (q *queue) hold(c *shard.Core, ids []string, on bool) (n int, err error) {
	var change journal.Change
	for _, id := range ids {
		switch {
		case !on && c.Let(id, shard.HoldPause):
			q.pausedIDs.Add(-1)
		case on && c.Holds(id, shard.HoldPause):
			continue
		case on && q.pausedIDs.Load() >= pausekey.MaxIDs:
			err = fmt.Errorf("%w: queue %q has %d", ErrTooManyPaused, q.name, pausekey.MaxIDs)
		case on && c.Hold(id, shard.HoldPause):
			q.pausedIDs.Add(1)
			q.stepAside(c, id)
		default:
			continue
		}
		if err != nil {
			break
		}
		n++
		q.events.Paused(on, events.Event{ID: id})
		change.Sets = append(change.Sets, pausekey.Set(pausekey.IDs(q.name)+id, on))
	}
	q.x.log.Record(&change) // on the shard: in the order in which ids are held
	return n, err
}

// wake has a job ask again that waits. One that is not going to come, because it is
// halted, put off or gone, lets others have its turn.
func (q *queue) wake(id string) {
	q.actors[q.route([]byte(id))-q.first].Tell(func(c *shard.Core) {
		c.Let(id, shard.HoldWait)
		if q.stepAside(c, id); !c.Paused(id) {
			if job := c.Status(id); !job.Known || !job.Running && (job.Halted || job.Due > q.x.clock().UnixNano()) {
				q.admission.Aside(holder{Queue: q.name, ID: id}, false)
			}
		}
	})
}

// stepAside has a job that is paused wait for nothing else: its turn would keep others
// waiting until it goes on. Then it asks again, behind them. It is called on its shard.
func (q *queue) stepAside(c *shard.Core, id string) {
	if q.admission.Asked() && c.Paused(id) && !c.Status(id).Running {
		q.admission.Aside(holder{Queue: q.name, ID: id}, true)
		c.Let(id, shard.HoldWait)
	}
}

// stepAsideAll is stepAside for the jobs of a queue whose turn it is.
func (q *queue) stepAsideAll() {
	for _, id := range q.admission.Called() {
		q.actors[q.route([]byte(id))-q.first].Tell(func(c *shard.Core) { q.stepAside(c, id) })
	}
}
