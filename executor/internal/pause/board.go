package pause

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/internal/statekey"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Board has what is paused in an executor.
type Board struct {
	Log  *journal.Log
	Tell func(on bool) // says that the executor is paused, or goes on

	// Changes grows when shards have heard of a pause, before its caller is told. A worker that
	// sees another number than when it took a job asks the shard once more.
	Changes atomic.Uint64

	// mu makes the order of changes one order for the journal and the shards. It guards
	// what follows, and Queue.prefixes.
	mu     sync.Mutex
	all    bool
	queues map[string]bool // by name, registered or not
	open   []*Queue        // that are registered
}

// Restore brings back what was paused when the last process ended, but for ids and
// prefixes: those come with their queues.
func (b *Board) Restore() error {
	b.queues = make(map[string]bool)
	for key, err := range b.Under("") {
		if err != nil {
			return err
		}
		if name, is := strings.CutPrefix(key, statekey.PausedQueues); is {
			b.queues[name] = true
		}
		b.all = b.all || key == statekey.PausedExecutor
	}
	return nil
}

// Under returns what is paused under some keys, statekey.PausedIDs for example, as of the last
// commit; under "", all keys.
func (b *Board) Under(keys string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for s, err := range b.Log.Keys(cmp.Or(keys, statekey.PausePrefix), "") {
			if err == nil {
				if err = statekey.CheckPause(s); err != nil {
					err = statekey.Refused(s.Key, err)
				}
			}
			if !yield(strings.TrimPrefix(s.Key, keys), err) || err != nil {
				return
			}
		}
	}
}

// Rename gives the pauses of a queue, its ids and prefixes, to the queue's new name, before
// that queue has its shards.
func (b *Board) Rename(former, name string) error {
	var c journal.Change
	b.mu.Lock()
	if b.queues[former] {
		delete(b.queues, former)
		b.queues[name] = true
		c.Sets = append(c.Sets, statekey.Pause(statekey.PausedQueues+former, false), statekey.Pause(statekey.PausedQueues+name, true))
	}
	b.mu.Unlock()
	for _, keys := range [...]func(string) string{statekey.PausedIDs, statekey.PausedPrefixes} {
		for paused, err := range b.Under(keys(former)) {
			if err != nil {
				return err
			}
			c.Sets = append(c.Sets, statekey.Pause(keys(former)+paused, false), statekey.Pause(keys(name)+paused, true))
		}
	}
	if len(c.Sets) == 0 {
		return nil
	}
	b.Log.Record(&c)
	return b.Log.Settled(context.Background()) // Load reads what is on disk
}

// Load pauses the ids of a queue in its new cores, before they take anything in, and all of
// it until Adopt.
func (b *Board) Load(q *Queue, cores []*shard.Core) error {
	q.board = b
	for _, c := range cores {
		c.Pause(q.Clock(), true)
	}
	for id, err := range b.Under(statekey.PausedIDs(q.Name)) {
		if err != nil {
			return err
		}
		cores[q.Shards.Index([]byte(id))].Hold(id, shard.HoldPause)
		q.ids.Add(1)
	}
	for prefix, err := range b.Under(statekey.PausedPrefixes(q.Name)) {
		if err != nil {
			return err
		}
		q.prefixes = append(q.prefixes, prefix)
		for _, c := range cores {
			c.PausePrefix(prefix, true)
		}
	}
	return nil
}

// Adopt lets the shards of a new queue go on, unless it is paused.
func (b *Board) Adopt(q *Queue) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = append(b.open, q)
	if !b.all && !b.queues[q.Name] {
		q.tell(false)
	}
}

// Set pauses the executor, if the name is empty, or a queue, or lets it go on. It returns 1
// unless it was so before.
func (b *Board) Set(ctx context.Context, name string, on bool) (n int, err error) {
	queues, n := b.set(name, on)
	var group errgroup.Group
	for _, q := range queues {
		if on {
			q.Admission.StepAsideAll()
		}
		group.Go(func() error { return q.Shards.Pass(ctx) })
	}
	err = group.Wait()
	b.Changes.Add(1)
	if err == nil {
		err = b.Log.Settled(ctx)
	}
	return n, err
}

// set returns the queues that are told, too.
func (b *Board) set(name string, on bool) (told []*Queue, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key, was := statekey.PausedExecutor, b.all
	if name != "" {
		key, was = statekey.PausedQueues+name, b.queues[name]
	}
	told = slices.DeleteFunc(slices.Clone(b.open), func(q *Queue) bool { return name != "" && q.Name != name })
	if was == on {
		return told, 0
	}
	b.Log.Record(&journal.Change{Sets: []journal.Set{statekey.Pause(key, on)}})
	if name == "" {
		b.all = on
		b.Tell(on)
	} else if b.queues[name] = on; !on {
		delete(b.queues, name)
	}
	for _, q := range told {
		q.tell(b.all || b.queues[q.Name])
		if name != "" {
			q.Tell(on, events.Event{})
		}
	}
	return told, 1
}

// Of reports whether a queue is paused, or the executor, which alone has no name.
func (b *Board) Of(queue string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all || b.queues[queue]
}

// Names lists what is paused, the executor and queues, registered or not.
func (b *Board) Names() (all bool, queues []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all, slices.Sorted(maps.Keys(b.queues))
}
