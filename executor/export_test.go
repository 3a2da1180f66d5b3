package executor

import (
	"context"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/executor/internal/look"
	"github.com/strandjobs/strand/executor/internal/pace"
	"github.com/strandjobs/strand/executor/internal/statekey"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Limits that are not part of the interface.
const (
	MaxFollowUps     = attempt.MaxCount
	MaxFollowUpBytes = attempt.MaxBytes
	MaxPausedIDs     = statekey.MaxPausedIDs
)

// OpenOn opens an executor on a disk in memory.
func OpenOn(disk *journal.Memory, cfg Config) (*Executor, error) {
	return openElsewhere("a disk in memory", cfg, nil, func(c journal.Config) (*journal.Log, error) { return journal.OpenMemory(disk, c) })
}

// OpenWatched opens an executor in memory; told hears of each event at once, from where it happens.
func OpenWatched(cfg Config, told func(events.Event)) (*Executor, error) {
	return openElsewhere("memory", cfg, watcher{told: told}, func(c journal.Config) (*journal.Log, error) { return journal.OpenMemory(new(journal.Memory), c) })
}

type watcher struct{ told func(events.Event) }

func (watcher) Accepted(string, *journal.Entry) {}

func (w watcher) Told(e events.Event) { w.told(e) }

// BreakShards makes every shard fail as a bug of ours would.
func (x *Executor) BreakShards() {
	for _, s := range x.queues.Routes() {
		s.Tell(func(*shard.Core) { panic("planted") })
	}
}

// Gates counts the names of sources and idempotency keys that are in use, or whose
// outcome is not known.
func (x *Executor) Gates() int {
	return x.once.Gates()
}

// JobsPerShard returns how many jobs each shard has.
func (x *Executor) JobsPerShard() (jobs []int) {
	for _, s := range x.queues.Routes() {
		_ = s.Do(context.Background(), func(c *shard.Core) { jobs = append(jobs, c.Counts().Jobs) })
	}
	return jobs
}

// HoldShards keeps the shards of a queue from hearing anything until release is
// called.
func (x *Executor) HoldShards(queue string) (release func()) {
	held := make(chan struct{})
	for _, s := range x.queues.Named(queue).Shards.All {
		go s.Tell(func(*shard.Core) { <-held }) // it may be handled on this goroutine
	}
	return func() { close(held) }
}

// StopHeart ends the heartbeats of a job's leases, as if the process stood still.
func StopHeart[T any](job Merged[T]) {
	for _, h := range job.claim.Holds() {
		if h, ok := h.(interface{ StopHeart() }); ok {
			h.StopHeart()
		}
	}
}

// Dead returns how many payloads of the first queue are in the morgue, without a
// question to its shards.
func (x *Executor) DeadOnDisk() int { return x.log.Buried(1) }

// WaitAndQuit is a call that waits for room in the backlog and gives up after f.
func (x *Executor) WaitAndQuit(queue string, f func()) {
	q, _ := x.queues.Lookup(queue)
	w := q.Backlog.Wait(shard.Weight{Payloads: 1, Bytes: 100})
	f()
	w.Quit()
}

// SetClock has what is accepted from now on get its time from another clock.
func (x *Executor) SetClock(now func() time.Time) { x.clock = now }

// SetClocks has all queues that are registered from now on have another clock.
func (x *Executor) SetClocks(now func() time.Time) { x.clock, x.queues.Wall = now, now }

// SetKeyClock has idempotency keys age by another clock, as they do over a log of several processes.
func (x *Executor) SetKeyClock(now func() time.Time) { x.once.Now = now }

// ProgressOfWorkers returns what the handlers that run have said of their progress.
func (x *Executor) ProgressOfWorkers() (all []inspect.ProgressReport) {
	for _, h := range x.crew.Hands(time.Now()) {
		if h.Progress != nil {
			all = append(all, *h.Progress)
		}
	}
	return all
}

// Awaited counts the payloads of a queue for which a caller waits, and the handlers
// that wait.
func Awaited[T any](t *Queue[T]) int { return t.q.Awaited.Len() + t.q.x.graph.Len() }

// NothingIdle has those who look pause as if no processor lay idle: how many do is not
// known from the clock of a bubble. It is called before Start.
func NothingIdle(x *Executor) {
	x.inspector.Pacer = pace.New(look.Share(), look.Burst, func() float64 { return 0 })
}

// LookFor looks at something that costs so much that the next one pauses for d.
func LookFor(ctx context.Context, x *Executor, d time.Duration) error {
	cost := time.Duration(float64(d) * look.Share())
	return x.inspector.Paced(ctx, func() (time.Duration, error) { return cost, nil })
}

// SlotsOnDisk counts what the journal has of the slots that are out.
func (x *Executor) SlotsOnDisk() (n int) {
	for s, err := range x.log.Keys("slot/", "") {
		if err != nil {
			panic(err)
		}
		if !strings.HasSuffix(s.Key, "/last") {
			n++
		}
	}
	return n
}
