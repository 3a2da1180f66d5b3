package executor_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

// Whatever is enqueued, merged, replaced, retried, snoozed, halted, buried,
// requeued, refused by the disk and crashed: after every step the backlog is what
// waits in the journal, payloads and bytes, of all queues and of each, and a call
// is let in if and only if it fits.
func TestBacklogIsConserved(t *testing.T) {
	bubbles(t, 30, 13, weigh)
}

// weighed is an executor with queues that feed each other.
type weighed struct {
	t     *testing.T
	r     *rand.Rand
	cfg   executor.Config
	own   int // limit of each queue
	each  [2]executor.QueueConfig[string]
	disk  *journal.Memory
	luck  *shared[*rand.Rand] // what handlers return
	x     *executor.Executor
	names []string // of the queues that are registered
	q     []*executor.Queue[string]
	steps []string
}

func weigh(t *testing.T, r *rand.Rand) {
	c := &weighed{t: t, r: r, disk: new(journal.Memory), luck: new(shared[*rand.Rand]), own: r.IntN(2) * 6}
	c.cfg = executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 9}, Workers: 1 + r.IntN(3), Crash: executor.Crash{Limit: -1}, StopTimeout: -1}
	if r.IntN(3) == 0 {
		c.cfg.MaxBacklog.Bytes = 600
	}
	for i := range c.each {
		c.each[i] = executor.QueueConfig[string]{
			Merge: pick(r, executor.MergeKeepAll, executor.MergeMinScore, executor.MergeKeepFirst, executor.MergeKeepLast, executor.MergeSupersede),
			Gather: executor.Gather[string]{
				Block: pick(r, false, true),
			},
			DeadLetters: executor.DeadLetters[string]{
				OnExhausted: pick(r, executor.OnExhaustedBuryOldest, executor.OnExhaustedBuryAll, executor.OnExhaustedHalt),
			},
			MaxRetries: 1, RetryIn: always(3 * time.Second), Share: executor.Share{Shards: 2}, MaxBacklog: executor.BacklogLimit{Payloads: c.own},
			Defaults: executor.Defaults[string]{
				Durability: pick(r, executor.DurabilitySync, executor.DurabilityAsync),
			},
		}
		if c.each[i].Merge == executor.MergeSupersede {
			c.each[i].Gather.Block = false
		}
	}
	c.luck.set(rand.New(rand.NewPCG(r.Uint64(), 0)))
	c.open()
	for range 60 {
		c.step()
		c.check()
	}
	stop(t, c.x)
}

func (c *weighed) outcome(ctx context.Context, q *executor.Queue[string], id string) error {
	time.Sleep(time.Duration(len(id)) * time.Second / 2)
	c.luck.mu.Lock()
	n := c.luck.value.IntN(12)
	c.luck.mu.Unlock()
	switch {
	case n < 4:
		return nil
	case n < 6:
		_, err := q.Enqueue(ctx, id, "follows")
		c.onlyTheDisk(err)
		return err
	}
	return []error{errBoom, errBoom, executor.Cancel(errBoom), executor.Discard(), executor.Snooze(2 * time.Second), executor.RetryAfter(time.Second, errBoom)}[n-6]
}

// onlyTheDisk refuses what the backlog does not limit.
func (c *weighed) onlyTheDisk(err error) {
	if full, ok := errors.AsType[*executor.FullError](err); !ok || !full.Disk {
		require.NoError(c.t, err, "%v", c)
	}
}

func (c *weighed) open() {
	c.x, c.q, c.names = openOn(c.t, c.disk, c.cfg), nil, nil
	for i, name := range []string{"events", "state"} {
		if i > 0 && c.r.IntN(4) == 0 {
			break // it is not registered in this life
		}
		var q *executor.Queue[string]
		if i == 0 {
			q = must(executor.Handle(c.x, name, func(ctx context.Context, job executor.Job[string]) error {
				return c.outcome(ctx, q, job.ID)
			}, c.each[i]))
		} else {
			q = must(executor.HandleMerged(c.x, name, func(ctx context.Context, job executor.Merged[string]) error {
				return c.outcome(ctx, q, job.ID)
			}, c.each[i]))
		}
		c.q, c.names = append(c.q, q), append(c.names, name)
	}
	c.check()
	start(c.t, c.x)
}

func (c *weighed) step() {
	ctx := context.Background()
	switch n := c.r.IntN(20); {
	case n < 10:
		c.enqueue()
	case n < 15:
		time.Sleep(time.Second)
	case n < 16:
		_, err := c.x.Inspect().Requeue(ctx, inspect.SelectQueue(pick(c.r, c.q...).Name()))
		c.onlyTheDisk(err)
	case n < 17:
		_, err := c.x.Inspect().RunNow(ctx, inspect.SelectIDs(pick(c.r, c.q...).Name(), "a", "bb"))
		require.NoError(c.t, err)
	case n < 18:
		c.disk.FailNext(journal.ErrFull)
		c.enqueue()
		time.Sleep(time.Second) // until there is room
	default:
		c.steps = append(c.steps, "crash")
		image := c.disk.Crash()
		_ = c.x.Stop(ctx)
		c.disk = image
		c.open()
	}
}

func (c *weighed) enqueue() {
	i := c.r.IntN(len(c.q))
	items := make([]executor.Item[string], 1+c.r.IntN(3))
	for i := range items {
		items[i] = executor.Item[string]{ID: pick(c.r, "a", "bb", "ccc"), Payload: pick(c.r, "x", "y"), Score: new(float64(c.r.IntN(4)))}
	}
	var options []executor.Option
	if c.r.IntN(4) == 0 {
		options = append(options, executor.IdempotencyKey(fmt.Sprint(len(c.steps))))
	}
	before := must(c.x.Stats(context.Background()))
	n := len(items)
	fits := before.Backlog.Payloads+n <= c.cfg.MaxBacklog.Payloads && (c.own == 0 || before.Queues[i].Backlog.Payloads+n <= c.own)
	_, err := c.q[i].EnqueueMany(context.Background(), items, options...)
	c.steps = append(c.steps, fmt.Sprint("enqueue ", c.names[i], items, " ", err))
	full, _ := errors.AsType[*executor.FullError](err)
	switch {
	case full == nil:
		require.NoError(c.t, err, "%v", c)
		require.True(c.t, fits, "%v", c)
	case !full.Disk && !full.Bytes:
		require.False(c.t, fits, "%v", c)
	}
}

// check compares the backlog with what waits in the journal.
func (c *weighed) check() {
	synctest.Wait()
	log, err := journal.OpenMemory(c.disk.Crash(), journal.Config{})
	require.NoError(c.t, err)
	defer func() { require.NoError(c.t, log.Close()) }()
	s := must(c.x.Stats(context.Background()))
	var all inspect.Backlog
	for i, name := range c.names {
		var own inspect.Backlog
		var e journal.Entry
		for _, ref := range slices.Concat(log.PendingPages(log.Queues()[name])...) {
			if require.NoError(c.t, ref.Read(&e)); e.Kind == journal.KindEnqueued {
				own.Payloads++
				own.Bytes += ref.Size()
			}
		}
		all.Payloads, all.Bytes = all.Payloads+own.Payloads, all.Bytes+own.Bytes
		require.Equal(c.t, own.Payloads, s.Queues[i].Payloads, "%v", c)
		if c.own > 0 {
			require.Equal(c.t, []int{own.Payloads, own.Bytes}, []int{s.Queues[i].Backlog.Payloads, s.Queues[i].Backlog.Bytes}, "%s: %v", name, c)
		}
	}
	require.Equal(c.t, []int{all.Payloads, all.Bytes}, []int{s.Backlog.Payloads, s.Backlog.Bytes}, "%v", c)
}

func (c *weighed) String() string {
	return fmt.Sprintf("%+v, %v:\n%s", c.cfg, c.each, strings.Join(c.steps, "\n"))
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }
