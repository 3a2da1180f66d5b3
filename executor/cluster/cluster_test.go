package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cluster"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/fleet"
	"github.com/strandjobs/strand/journal"
)

// town is a cluster whose partitions are all in this process, in memory.
type town struct {
	x     *executor.Executor
	open  func(string, func(journal.Config) (*journal.Log, error), executor.Config) (*executor.Executor, error)
	cfg   executor.Config
	parts []*executor.Executor

	staged    atomic.Int64
	wake      chan int // of a partition, whose log has committed something
	over      chan struct{}
	forwarder sync.WaitGroup
	logs      [partitions]*journal.Log

	asked atomic.Int64
	gone  atomic.Bool // an owner ends before it answers
	away  atomic.Bool // none answers
	mute  atomic.Bool // none can be asked
	rows  sync.Map    // of share
}

const partitions = 4

var (
	errMute = errors.New("nobody can be asked")
	errAway = errors.New("nobody is there")
)

func partitionOf(id string) (int, error) {
	return int(crc32.ChecksumIEEE([]byte(id)) % partitions), nil
}

func newTown(t *testing.T, workers int) *town {
	c := &town{wake: make(chan int, 1000), over: make(chan struct{}), cfg: executor.Config{Workers: workers, Logger: slog.New(slog.DiscardHandler)}}
	var err error
	c.x, c.open, err = cluster.Open(cluster.Cluster{Of: c, Partitions: partitions, PartitionOf: partitionOf,
		Enqueue: c.enqueue, FollowUp: c.followUp, Ask: c.ask, Self: "town", Rows: c.share, Start: c.start, Stop: c.stop, Err: func() error { return nil }}, c.cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.x.Stop(context.Background())) })
	return c
}

func (c *town) start(ctx context.Context) error {
	for number := range partitions {
		cfg := c.cfg
		cfg.Splitter = executor.Splitter{Nodes: partitions, Self: number, Owner: func(id string) int { n, _ := partitionOf(id); return n }}
		part, err := c.open(fmt.Sprint("partition ", number), func(cfg journal.Config) (log *journal.Log, err error) {
			told := cfg.Committed
			cfg.Committed = func(took time.Duration) {
				told(took)
				select {
				case c.wake <- number:
				default: // what is there is taken with all that is
				}
			}
			c.logs[number], err = journal.OpenMemory(nil, cfg)
			return c.logs[number], err
		}, cfg)
		if err != nil {
			return err
		}
		c.parts = append(c.parts, part)
	}
	c.forwarder.Go(c.forward)
	for _, part := range c.parts {
		if err := part.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// letter is a follow-up on its way to another partition.
type letter struct {
	Queue string
	Item  executor.Item[[]byte]
}

const letters = "outbox/"

func (c *town) followUp(queue string, it executor.Item[[]byte]) (journal.Set, error) {
	value, err := json.Marshal(letter{queue, it})
	return journal.Set{Key: fmt.Sprintf("%s%09d", letters, c.staged.Add(1)), Value: value}, err
}

// forward takes follow-ups to their partitions. The key of each is its own.
func (c *town) forward() {
	for {
		select {
		case from := <-c.wake:
			for set, err := range c.logs[from].Keys(letters, "") {
				var l letter
				if err == nil {
					err = json.Unmarshal(set.Value, &l)
				}
				number, _ := partitionOf(l.Item.ID)
				q, unknown := c.parts[number].Lookup(l.Queue)
				if err = errors.Join(err, unknown); err == nil {
					_, err = q.EnqueueMany(context.Background(), []executor.Item[[]byte]{l.Item}, cluster.Relayed(true), executor.IdempotencyKey(set.Key))
				}
				if err == nil {
					err = c.logs[from].Put(context.Background(), journal.Set{Key: set.Key})
				}
				if err != nil { // the end of the test
					break
				}
			}
		case <-c.over:
			return
		}
	}
}

func (c *town) stop(ctx context.Context) (err error) {
	close(c.over)
	c.forwarder.Wait()
	for _, part := range c.parts {
		err = errors.Join(err, part.Stop(ctx))
	}
	return err
}

func (c *town) enqueue(ctx context.Context, queue string, items []executor.Item[[]byte], conditions []byte) (all []executor.Receipt, err error) {
	options, err := cluster.Carried(conditions)
	for _, it := range items {
		if err != nil {
			return nil, err
		}
		number, _ := partitionOf(it.ID)
		var q *executor.Queue[[]byte]
		if q, err = c.parts[number].Lookup(queue); err != nil {
			return nil, err
		}
		var one []executor.Receipt
		one, err = q.EnqueueMany(ctx, []executor.Item[[]byte]{it}, options...)
		all = append(all, one...)
	}
	return all, err
}

func (c *town) ask(ctx context.Context, partition int, _ string, question []byte, again bool) ([]byte, error) {
	c.asked.Add(1)
	if c.mute.Load() {
		return nil, errMute
	}
	if c.away.Load() {
		return nil, fmt.Errorf("%w: %w", executor.ErrUnknown, errAway)
	}
	if c.gone.Swap(false) && !again {
		return nil, fmt.Errorf("%w: the owner has gone", executor.ErrUnknown)
	}
	return cluster.Answer(ctx, c.parts[partition], question)
}

// share has the rows of one process.
func (c *town) share(_ context.Context, keys []string, change func(time.Time, func(string) bool, []cluster.Row) ([]cluster.Row, error)) error {
	var rows []cluster.Row
	for _, key := range keys {
		row, _ := c.rows.Load(key)
		stored, _ := row.(cluster.Row)
		rows = append(rows, stored)
	}
	rows, err := change(time.Now(), func(string) bool { return true }, rows)
	for i, key := range keys {
		c.rows.Store(key, rows[i])
	}
	return err
}

// The same program says the same on one executor and on a cluster.
func TestOneProgram(t *testing.T) {
	one, err := executor.Open("", executor.Config{Workers: 2, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, one.Stop(context.Background())) })
	require.Equal(t, program(t, one), program(t, newTown(t, 2).x))
}

// program is one: what it returns does not depend on where it runs.
func program(t *testing.T, x *executor.Executor) (said []string) {
	say := func(what ...any) { said = append(said, fmt.Sprintln(what...)) }
	limit, err := executor.NewLimit(x, "one", executor.LimitConfig{Concurrent: 1})
	require.NoError(t, err)
	var now, most atomic.Int32
	var mails sync.WaitGroup
	var mu sync.Mutex
	var sent []string
	touches := executor.Middleware{Enqueue: func(ctx context.Context, call *executor.EnqueueCall, next func(context.Context) error) error {
		call.Items[0].Metadata["touched"] = "by a middleware"
		return next(ctx)
	}}
	mail, err := executor.Handle(x, "mail", func(_ context.Context, job executor.Job[int]) error {
		defer mails.Done()
		mu.Lock()
		sent = append(sent, fmt.Sprint(job.ID, job.Payload, job.Score, job.Metadata))
		mu.Unlock()
		most.Store(max(most.Load(), now.Add(1)))
		now.Add(-1)
		return nil
	}, executor.QueueConfig[int]{Conditions: executor.Conditions[int]{Limits: []executor.LimitOf[int]{{Limit: limit}}}, Middleware: []executor.Middleware{touches}})
	require.NoError(t, err)
	twice, err := executor.HandleResult(x, "twice", func(_ context.Context, job executor.Job[int]) (int, error) {
		if job.Payload < 0 {
			return 0, executor.Cancel(errors.New("below zero"))
		}
		box := fmt.Sprint("box ", job.Payload) // of another partition than the job, perhaps
		return 2 * job.Payload, errors.Join(mail.FollowUp(job, job.ID, job.Payload, executor.Score(7)),
			mail.FollowUp(job, box, job.Payload, executor.Score(7), executor.Metadata(map[string]string{"box": box})))
	}, executor.QueueConfig[int]{})
	require.NoError(t, err)
	ctx := t.Context()
	require.NoError(t, x.Start(ctx))
	for i := range 40 {
		mails.Add(2)
		say(twice.Do(ctx, fmt.Sprintf("%02d", i), i, executor.Metadata(map[string]string{"trace": "t"})))
	}
	mails.Wait()
	require.Eventually(t, func() bool { s, err := x.Stats(ctx); return err == nil && s.Total().Done == 120 }, time.Minute, time.Millisecond)
	slices.Sort(sent)
	say(sent)
	say(most.Load())
	for i := range 25 {
		_, err := twice.Do(ctx, fmt.Sprintf("dead %02d", i), -1-i)
		buried, _ := errors.AsType[*executor.BuriedError](err)
		say(buried.ID, buried.Reason)
	}
	query := inspect.JobQuery{Queue: "twice", Order: inspect.OrderID, Descending: true, Limit: 7}
	for more := true; more; more = query.Cursor != "" {
		page, err := x.Inspect().Dead(ctx, query)
		require.NoError(t, err)
		for _, d := range page.Dead {
			say(d.ID, d.Attempt, d.Error)
		}
		query.Cursor = page.Next
	}
	letters := 0
	for d, err := range twice.Morgue() {
		require.NoError(t, err)
		letters -= d.Payload
	}
	say(letters)
	_, err = x.Inspect().Pause(ctx, inspect.SelectQueue("twice"))
	say(err)
	say(x.Inspect().Requeue(ctx, inspect.SelectIDs("twice", "dead 03", "dead 04", "nobody")))
	d, err := x.Inspect().Job(ctx, "twice", "dead 03")
	say(d.State, d.Waiting[0].Value, d.Explanation.State, err)
	say(x.Inspect().Delete(ctx, inspect.SelectQueue("twice")))
	say(x.Inspect().DeleteDead(ctx, inspect.SelectQueue("twice")))
	say(x.Inspect().Resume(ctx, inspect.SelectQueue("twice")))
	say(twice.Pending(ctx, "dead 03"))
	s, err := x.Stats(ctx)
	say(s.Workers, s.Total().Dead, s.Total().Done, s.Total().Buried, s.Total().Deleted, err)
	_, err = x.Inspect().Explain(ctx, "nothing", "a")
	say(errors.Is(err, executor.ErrUnknownQueue))
	_, err = x.Inspect().Jobs(ctx, inspect.JobQuery{Queue: "twice", Limit: -1})
	say(errors.Is(err, inspect.ErrInvalidQuery))
	var none context.Context
	_, err = x.Stats(none)
	say(errors.Is(err, executor.ErrContext))
	say(x.SourceOffset("s"))
	say(x.SetSourceOffset(ctx, "s", 7))
	say(x.SourceOffset("s"))
	return said
}

// What changes something is not asked again when an owner has gone; what looks is.
func TestWhatIsAskedAgain(t *testing.T) {
	c := newTown(t, 1)
	q, err := executor.HandleResult(c.x, "q", func(context.Context, executor.Job[int]) (int, error) { return 1, nil }, executor.QueueConfig[int]{})
	require.NoError(t, err)
	require.NoError(t, c.x.Start(t.Context()))
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"Do":     func() error { _, err := q.Do(ctx, "a", 1); return err },
		"Delete": func() error { _, err := c.x.Inspect().Delete(ctx, inspect.SelectIDs("q", "a")); return err },
		"Pause":  func() error { _, err := c.x.Inspect().Pause(ctx, inspect.SelectIDs("q", "b")); return err },
	} {
		c.gone.Store(true)
		require.ErrorIs(t, call(), executor.ErrUnknown, name)
	}
	for name, call := range map[string]func() error{
		"Do with a key": func() error { _, err := q.Do(ctx, "a", 1, executor.IdempotencyKey("k")); return err },
		"Jobs":          func() error { _, err := c.x.Inspect().Jobs(ctx, inspect.JobQuery{Queue: "q"}); return err },
		"Explain":       func() error { _, err := c.x.Inspect().Explain(ctx, "q", "a"); return err },
		"Stats":         func() error { _, err := c.x.Stats(ctx); return err },
		"Pending":       func() error { _, err := q.Pending(ctx, "a"); return err },
	} {
		c.gone.Store(true)
		require.NoError(t, call(), name)
	}
}

// A score of 0 is one, also of who asks another process.
func TestScoreOfZeroTravels(t *testing.T) {
	c := newTown(t, 1)
	scores, err := executor.HandleResult(c.x, "scores", func(_ context.Context, job executor.Job[int]) (float64, error) { return job.Score, nil },
		executor.QueueConfig[int]{})
	require.NoError(t, err)
	states, err := executor.HandleMerged(c.x, "states", func(context.Context, executor.Merged[int]) error { return nil },
		executor.QueueConfig[int]{Merge: executor.MergeSupersede})
	require.NoError(t, err)
	ctx := t.Context()
	require.NoError(t, c.x.Start(ctx))
	for _, want := range []float64{0, 3, -1, 0} {
		score, err := scores.Do(ctx, "a", 1, executor.Score(want))
		require.NoError(t, err)
		require.Equal(t, want, score)
	}
	receipt, err := states.Enqueue(ctx, "a", 1, executor.Score(0))
	require.NoError(t, err)
	require.NoError(t, states.Wait(ctx, receipt))
	why, err := c.x.Inspect().Explain(ctx, "states", "a")
	require.NoError(t, err)
	require.Equal(t, new(0.0), why.Newest)
	_, err = states.Enqueue(ctx, "a", 2, executor.Score(1), executor.In(time.Hour))
	require.NoError(t, err)
	details, err := c.x.Inspect().JobsByID(ctx, "states", "a")
	require.NoError(t, err)
	require.Equal(t, new(0.0), details[0].Explanation.Newest)
}

// A question that panics ends nobody's process.
func TestQuestionThatPanics(t *testing.T) {
	question, err := fleet.Questions.Encode(&fleet.Question{Do: "Jobs"})
	require.NoError(t, err)
	_, err = cluster.Answer(t.Context(), nil, question)
	require.ErrorAs(t, err, new(*executor.PanicError))
}

// Paused says what it knew last when it can't ask, and an error of the program's own is no owner that has gone.
func TestWhatIsNotKnown(t *testing.T) {
	c := newTown(t, 1)
	_, err := executor.HandleResult(c.x, "q", func(context.Context, executor.Job[int]) (int, error) { return 1, nil }, executor.QueueConfig[int]{})
	require.NoError(t, err)
	refuses := executor.Middleware{Enqueue: func(context.Context, *executor.EnqueueCall, func(context.Context) error) error {
		return fmt.Errorf("of the middleware: %w", executor.ErrClosed)
	}}
	q, err := executor.HandleResult(c.x, "refused", func(context.Context, executor.Job[int]) (int, error) { return 1, nil },
		executor.QueueConfig[int]{Middleware: []executor.Middleware{refuses}})
	require.NoError(t, err)
	require.NoError(t, c.x.Start(t.Context()))
	_, err = q.Do(t.Context(), "a", 1)
	require.ErrorIs(t, err, executor.ErrClosed)
	_, err = c.x.Inspect().Pause(t.Context(), inspect.SelectQueue("q"))
	require.NoError(t, err)
	for _, away := range []bool{false, true} {
		c.away.Store(away)
		_, queues := c.x.Inspect().Paused()
		require.Equal(t, []string{"q"}, queues)
	}
	for name, call := range map[string]func() error{
		"Explain": func() error { _, err := c.x.Inspect().Explain(t.Context(), "q", "a"); return err },
		"Stats":   func() error { _, err := c.x.Stats(t.Context()); return err },
		"Pending": func() error { _, err := q.Pending(t.Context(), "a"); return err },
	} {
		err := call()
		require.ErrorIs(t, err, errAway, name)
		require.NotErrorIs(t, err, executor.ErrUnknown, name)
		require.NotContains(t, err.Error(), executor.ErrUnknown.Error(), name)
	}
}

// The receipt of what has not ended says that it is on disk, also when the partition is in this process.
func TestReceiptOfAWait(t *testing.T) {
	c := newTown(t, 1)
	q, err := executor.HandleResult(c.x, "q", func(context.Context, executor.Job[int]) (int, error) { return 1, nil }, executor.QueueConfig[int]{})
	require.NoError(t, err)
	require.NoError(t, c.x.Start(t.Context()))
	_, err = c.x.Inspect().Pause(t.Context(), inspect.SelectQueue("q"))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second/4)
	defer cancel()
	_, err = q.Do(ctx, "a", 1)
	pending, ok := errors.AsType[*executor.PendingError](err)
	require.True(t, ok, err)
	require.True(t, pending.Receipt.Durable)
	require.ErrorAs(t, q.Wait(ctx, pending.Receipt), &pending)
	require.True(t, pending.Receipt.Durable)
	c.mute.Store(true)
	err = q.Wait(t.Context(), pending.Receipt)
	require.ErrorIs(t, err, errMute)
	require.ErrorAs(t, err, &pending, "what was accepted is so, whatever keeps its partition from being asked")
}

// Who waits for the payload of an earlier call with the same key may have given another id of its partition.
func TestDoWithAKeyOfAnotherID(t *testing.T) {
	c := newTown(t, 1)
	q, err := executor.HandleResult(c.x, "q", func(_ context.Context, job executor.Job[int]) (int, error) { return 2 * job.Payload, nil },
		executor.QueueConfig[int]{})
	require.NoError(t, err)
	require.NoError(t, c.x.Start(t.Context()))
	home, _ := partitionOf("a")
	other := "b"
	for number, _ := partitionOf(other); number != home; number, _ = partitionOf(other) {
		other += "b"
	}
	_, err = q.Enqueue(t.Context(), "a", 21, executor.IdempotencyKey("k"), executor.In(time.Hour))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = q.Do(ctx, other, 21, executor.IdempotencyKey("k"))
	pending, ok := errors.AsType[*executor.PendingError](err)
	require.True(t, ok, err)
	require.ErrorAs(t, q.Wait(ctx, pending.Receipt), new(*executor.PendingError))
	_, err = c.x.Inspect().RunNow(t.Context(), inspect.SelectIDs("q", "a"))
	require.NoError(t, err)
	require.NoError(t, q.Wait(t.Context(), pending.Receipt))
	_, err = q.Do(t.Context(), other, 21, executor.IdempotencyKey("k"))
	require.ErrorIs(t, err, executor.ErrNoResult)
}

// Queues come before Start, and a question may be anybody's.
func TestRefusals(t *testing.T) {
	c := newTown(t, 1)
	require.Same(t, c, cluster.Of(c.x))
	require.Nil(t, cluster.Of(nil))
	require.NoError(t, c.x.Start(t.Context()))
	_, err := executor.Handle(c.x, "late", func(context.Context, executor.Job[int]) error { return nil }, executor.QueueConfig[int]{})
	require.ErrorIs(t, err, executor.ErrState)
	for _, question := range [][]byte{nil, []byte("?"), make([]byte, 100)} {
		_, err := cluster.Answer(t.Context(), c.parts[0], question)
		require.ErrorIs(t, err, inspect.ErrInvalidQuery)
	}
	var none context.Context
	_, err = cluster.Answer(none, c.parts[0], nil)
	require.ErrorIs(t, err, executor.ErrContext)
}

// A limit of the cluster is made with its executor, holds over partitions, and is no other where there is no cluster.
func TestALimitOfACluster(t *testing.T) {
	c := newTown(t, 8)
	alone, err := executor.Open("", executor.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, alone.Stop(context.Background())) })
	for _, x := range []*executor.Executor{c.x, alone} {
		l, err := executor.NewLimit(x, "two", executor.LimitConfig{Concurrent: 2, Cluster: true})
		require.NoError(t, err)
		require.ErrorIs(t, l.Set(executor.LimitConfig{Concurrent: 3}), executor.ErrConfig, "others share it")
		var running, most atomic.Int64
		var all sync.WaitGroup
		all.Add(40)
		q, err := executor.Handle(x, "q", func(context.Context, executor.Job[int]) error {
			most.Store(max(most.Load(), running.Add(1)))
			time.Sleep(time.Millisecond)
			running.Add(-1)
			all.Done()
			return nil
		}, executor.QueueConfig[int]{Conditions: executor.Conditions[int]{Limits: []executor.LimitOf[int]{{Limit: l}}}})
		require.NoError(t, err)
		require.NoError(t, x.Start(t.Context()))
		for i := range 40 {
			_, err := q.Enqueue(t.Context(), fmt.Sprint(i), i)
			require.NoError(t, err)
		}
		all.Wait()
		require.EqualValues(t, 2, most.Load())
		require.True(t, x.Inspect().Limits()[0].Config.Cluster)
	}
	_, err = executor.NewLimit(c.x, "late", executor.LimitConfig{Concurrent: 2})
	require.ErrorIs(t, err, executor.ErrState)
	_, err = executor.NewLimit(c.parts[0], "other", executor.LimitConfig{Concurrent: 2, Cluster: true})
	require.ErrorIs(t, err, executor.ErrConfig)
}

// A handler does not wait for room in another partition of its process either: what is there may wait for the handler.
func TestHandlersNeedNoRoomInOtherPartitions(t *testing.T) {
	for _, waits := range []bool{false, true} {
		c := newTown(t, 2)
		c.cfg.MaxBacklog.Payloads, c.cfg.WaitForRoom = 1, waits
		var both sync.WaitGroup
		both.Add(2)
		said := make(chan error, 2)
		var q *executor.Queue[string]
		q, err := executor.Handle(c.x, "q", func(ctx context.Context, job executor.Job[string]) error {
			if job.Payload == "" {
				return nil
			}
			both.Done()
			both.Wait()
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			_, err := q.Enqueue(ctx, job.Payload, "")
			said <- err
			return nil
		}, executor.QueueConfig[string]{})
		require.NoError(t, err)
		require.NoError(t, c.x.Start(t.Context()))
		first, _ := partitionOf("a")
		other, second := "", first
		for i := 0; second == first; i++ {
			other = strconv.Itoa(i)
			second, _ = partitionOf(other)
		}
		for id, payload := range map[string]string{"a": other, other: "a"} {
			_, err := q.Enqueue(t.Context(), id, payload)
			require.NoError(t, err)
		}
		require.NoError(t, errors.Join(<-said, <-said), "waits: %v", waits)
	}
}
