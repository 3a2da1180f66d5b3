//go:build unix

package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cluster"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// lockedText is what a logger has written.
type lockedText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedText) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedText) has(s string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Contains(b.b.String(), s)
}

func (b *lockedText) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// Rows of a queue that the owner does not have wait, and are told; others go by. They are taken
// in, in order, by an owner who has it.
func TestAnUnknownQueueWaitsAndBlocksNobody(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Second)
	var ran []int
	done := make(chan struct{})
	handler := func(_ context.Context, job executor.Job[int]) error {
		if ran = append(ran, job.Payload); len(ran) == 3 { // of one id: one after the other
			close(done)
		}
		return nil
	}
	newer := c.node(c.url)
	other, err := executor.Handle(newer.Node.front, "other", handler, executor.QueueConfig[int]{})
	require.NoError(t, err)
	for k := 1; k <= 3; k++ {
		_, err = other.Enqueue(t.Context(), "x", k)
		require.NoError(t, err)
		_, err = newer.q.Enqueue(t.Context(), "a", k)
		require.NoError(t, err)
	}
	var text lockedText
	older := c.start(c.url, func(cfg *Config) { cfg.Executor.Logger = text.logger() })
	c.await(map[string]int{"a": 3})
	require.Eventually(t, func() bool { return c.rows(older) == 3 }, time.Minute, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		return text.has("wait for a queue that is not registered") && text.has("queue=other partitions=[0]")
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, 3, cmpStats(t, older.Node).Partitions[0].Inbox)
	require.NoError(t, older.front.Stop(t.Context()))
	require.NoError(t, newer.front.Start(t.Context()))
	<-done
	require.Equal(t, []int{1, 2, 3}, ran)
}

// What the owner refuses stays, with its reason, and is told; the calls that came with it, and
// after it, are taken in, in order.
func TestRefusedRowsAreKeptAndTold(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Second)
	producer := c.node(c.url)
	call := func(id, payload string) []byte { return encodeCall([]item{{ID: id, Payload: []byte(payload)}}) }
	at := place{0, "q"}
	put := func(calls ...*outCall) {
		r := rowsOf(calls)
		_, err := producer.pool.Exec(t.Context(), producer.texts["put"], r.partitions, r.queues, r.calls, r.tokens, nil)
		require.NoError(t, err)
	}
	one := func(id, payload string) *outCall { return &outCall{parts: map[place][]byte{at: call(id, payload)}} }
	put(one("a", "1"), one("", "9"), one("a", "2"))
	put(one("a", "3"))
	put(one("b", strings.Repeat("1", 1000)))
	put(one("a", "4"))
	_, err := producer.pool.Exec(t.Context(), producer.texts["insert"], 0, "q", []byte("no calls"))
	require.NoError(t, err)
	put(one("a", "5"))
	require.Equal(t, 6, c.rows(producer))

	var text lockedText
	owner := c.start(c.url, func(cfg *Config) {
		cfg.Executor.Logger = text.logger()
		cfg.Executor.Advanced.MaxPayloadBytes = 500
	})
	c.await(map[string]int{"a": 5})
	refused := func() (all string) {
		rows, err := producer.pool.Query(t.Context(), in(c.schema, "SELECT refused FROM {schema}.inbox ORDER BY number"))
		require.NoError(t, err)
		defer rows.Close()
		for rows.Next() {
			var s *string
			require.NoError(t, rows.Scan(&s))
			if s == nil {
				return ""
			}
			all += *s + "\n"
		}
		return all
	}
	require.Eventually(t, func() bool { return strings.Count(refused(), "\n") == 3 }, time.Minute, 10*time.Millisecond)
	all := refused()
	require.Contains(t, all, executor.ErrInvalidID.Error())
	require.Contains(t, all, executor.ErrTooLarge.Error())
	require.Contains(t, all, "is not what was written")
	require.Eventually(t, func() bool { return text.has("a row of the inbox is refused") }, time.Minute, time.Millisecond)
	s := cmpStats(t, owner.Node).Partitions[0]
	require.Equal(t, 3, s.Refused)
	require.Zero(t, s.Inbox)

	// What is cleared is tried again.
	require.NoError(t, owner.front.Stop(t.Context()))
	_, err = producer.pool.Exec(t.Context(), in(c.schema, "UPDATE {schema}.inbox SET refused = NULL WHERE octet_length(calls) > 500"))
	require.NoError(t, err)
	var ran = make(chan int, 1)
	n, err := openNode(t.Context(), c.url, c.config())
	require.NoError(t, err)
	t.Cleanup(n.kill)
	_, err = executor.Handle(n.front, "q", func(_ context.Context, job executor.Job[string]) error { ran <- len(job.Payload); return nil },
		executor.QueueConfig[string]{Codec: rawText{}})
	require.NoError(t, err)
	require.NoError(t, n.front.Start(t.Context()))
	require.Equal(t, 1000, <-ran)
}

// What a middleware says of a row keeps that one out, whatever it is: the executor of its partition has not ended. So does
// one that ends its goroutine: the rows behind it are taken in.
func TestAMiddlewareEndsNoInbox(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Second)
	producer := c.node(c.url)
	says := map[string]error{"x": executor.ErrClosed, "y": executor.ErrFailed, "z": executor.ErrState, "exits": nil}
	for id := range says {
		_, err := producer.q.Enqueue(t.Context(), id, 1)
		require.NoError(t, err)
	}
	_, err := producer.q.Enqueue(t.Context(), "a", 1)
	require.NoError(t, err)
	var log lockedText
	owner := c.start(c.url, func(cfg *Config) {
		cfg.Executor.Logger = log.logger()
		cfg.Executor.Middleware = []executor.Middleware{{Enqueue: func(ctx context.Context, call *executor.EnqueueCall, next func(context.Context) error) error {
			for _, it := range call.Items {
				switch err, audited := says[it.ID]; {
				case err != nil:
					return fmt.Errorf("audit: %w", err)
				case audited:
					runtime.Goexit()
				}
			}
			err := next(ctx)
			if call.Items[0].ID == "late" {
				runtime.Goexit()
			}
			return err
		}}}
	})
	c.await(map[string]int{"a": 1})
	require.Eventually(t, func() bool { return cmpStats(t, owner.Node).Partitions[0].Refused == len(says) }, time.Minute, 10*time.Millisecond)

	// One that ends its goroutine when the payload is accepted refuses nothing.
	for payload := 1; payload <= 3; payload++ {
		_, err = producer.q.Enqueue(t.Context(), "late", payload)
		require.NoError(t, err)
		c.await(map[string]int{"late": payload})
	}
	_, err = producer.q.Enqueue(t.Context(), "late", 4, executor.IdempotencyKey("k"))
	require.ErrorIs(t, err, executor.ErrUnknown)
	_, err = producer.q.Enqueue(t.Context(), "b", 1)
	require.NoError(t, err)
	c.await(map[string]int{"late": 4, "b": 1})
	owner.lines.flush()
	require.Len(t, log.lines("a row of the inbox is refused"), len(says))
	require.Empty(t, log.lines("the inbox can't be taken in"))
	require.Equal(t, len(says), cmpStats(t, owner.Node).Partitions[0].Refused)
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Zero(t, c.repeats)
}

// What a program does to a source of its own, whatever its name, deletes no row that is on its way into the log.
func TestNoSourceDeletesRows(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Second)
	_, err := c.node(c.url).q.Enqueue(t.Context(), "a", 1)
	require.NoError(t, err)
	inside, goOn := make(chan struct{}, 1), make(chan struct{})
	owner := c.start(c.url, func(cfg *Config) {
		cfg.Executor.Middleware = []executor.Middleware{{Enqueue: func(ctx context.Context, call *executor.EnqueueCall, next func(context.Context) error) error {
			poke(inside)
			<-goOn
			return next(ctx)
		}}}
	})
	<-inside
	c.serving(owner)
	part := owner.owned(0)
	require.NoError(t, part.x.SetSourceOffset(t.Context(), "inbox", 1000))
	require.Equal(t, 1, c.rows(owner))
	close(goOn)
	c.await(map[string]int{"a": 1})
	last, found, err := part.x.SourceOffset("inbox")
	require.NoError(t, err)
	require.True(t, found)
	require.EqualValues(t, 1000, last)
}

// rawText takes texts as they are.
type rawText struct{}

func (rawText) Encode(s string) ([]byte, error) { return []byte(s), nil }
func (rawText) Decode(b []byte) (string, error) { return string(b), nil }

// Rows that the backlog has no room for wait for it, in their order.
func TestRowsWaitForRoom(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 10*time.Second) // it is not lost on a busy machine
	producer := c.node(c.url)
	const calls = 40
	for k := 1; k <= calls; k++ {
		_, err := producer.q.Enqueue(t.Context(), "a", k)
		require.NoError(t, err)
	}
	slow := func(ctx context.Context, _ *executor.Run, next func(context.Context) error) error {
		time.Sleep(3 * time.Millisecond)
		return next(ctx)
	}
	owner := c.start(c.url, func(cfg *Config) {
		cfg.Executor.MaxBacklog.Payloads, cfg.Executor.Middleware = 5, []executor.Middleware{{Run: slow}}
	})
	c.await(map[string]int{"a": calls})
	require.Eventually(t, func() bool { return c.rows(owner) == 0 }, time.Minute, 10*time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Len(t, c.ran["a"], calls)
}

// Rows that nobody has given a hint of are found by looking, and the items of a call run in their
// order.
func TestRowsWithoutAHint(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 30*time.Second)
	owner, producer := c.start(c.url), c.node(c.url)
	c.serving(owner)
	_, err := owner.q.Enqueue(t.Context(), "b", 1)
	require.NoError(t, err, "a look is over")
	items, _, err := cluster.Carry(producer.q, []executor.Item[int]{{ID: "a", Payload: 1}, {ID: "a", Payload: 2}, {ID: "a", Payload: 3}})
	require.NoError(t, err)
	r := rowsOf([]*outCall{{parts: map[place][]byte{{0, "q"}: encodeCall(items)}}})
	_, err = producer.pool.Exec(t.Context(), producer.texts["put"], r.partitions, r.queues, r.calls, r.tokens, nil)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return c.rows(owner) == 0 }, time.Minute, 10*time.Millisecond)
	c.await(map[string]int{"a": 3})
}

// What an item says goes through the inbox.
func TestOptionsTravel(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Second)
	n, err := openNode(t.Context(), c.url, c.config())
	require.NoError(t, err)
	t.Cleanup(n.kill)
	ran := make(chan executor.Job[string], 4)
	q, err := executor.Handle(n.front, "q", func(_ context.Context, job executor.Job[string]) error { ran <- job; return nil }, executor.QueueConfig[string]{})
	require.NoError(t, err)
	due := time.Now().Add(300 * time.Millisecond)
	r, err := q.Enqueue(t.Context(), "a", "late", executor.At(due), executor.Score(-7.5), executor.Metadata(map[string]string{"k": "v"}))
	require.NoError(t, err)
	require.Zero(t, r.Position, "it is in the inbox")
	require.True(t, r.Durable)
	receipts, err := q.EnqueueMany(t.Context(), []executor.Item[string]{{ID: "b", Payload: "second", Score: new(2.0)}, {ID: "b", Payload: "first"}}, executor.Score(1))
	require.NoError(t, err)
	require.Len(t, receipts, 2)
	_, err = q.Enqueue(t.Context(), "", "x")
	require.ErrorIs(t, err, executor.ErrInvalidID)
	_, err = q.Enqueue(t.Context(), "a", strings.Repeat("x", 2<<20))
	require.ErrorIs(t, err, executor.ErrTooLarge)
	for _, bad := range []executor.Option{executor.Score(math.NaN()), executor.Metadata(map[string]string{"": "x"})} {
		_, err = q.Enqueue(t.Context(), "a", "x", bad)
		require.ErrorIs(t, err, executor.ErrInvalidItem)
	}
	require.NoError(t, n.front.Start(t.Context()))
	var order []string
	var job executor.Job[string]
	for range 3 {
		switch got := <-ran; got.Payload {
		case "late":
			require.False(t, time.Now().Before(due))
			job = got
		default:
			order = append(order, got.Payload)
		}
	}
	require.Equal(t, []string{"first", "second"}, order)
	require.Equal(t, -7.5, job.Score)
	require.Equal(t, map[string]string{"k": "v"}, job.Metadata)

	// On the owner all of them are served.
	require.Eventually(t, func() bool { return len(n.Partitions()) == 1 }, time.Minute, time.Millisecond)
	r, err = q.Enqueue(t.Context(), "c", "x", executor.IdempotencyKey("k"))
	require.NoError(t, err)
	require.NotZero(t, r.Position)
	again, err := q.Enqueue(t.Context(), "c", "x", executor.IdempotencyKey("k"))
	require.NoError(t, err)
	require.True(t, again.Duplicate)
	require.Equal(t, r.Position, again.Position)
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	s := pgtest.Shared(t)
	c := newCluster(t, s.URL(), 4, time.Second)
	open := func(change func(*Config)) error {
		cfg := c.config()
		change(&cfg)
		n, err := openNode(t.Context(), s.URL(), cfg)
		if err == nil {
			n.kill()
		}
		return err
	}
	for says, f := range map[string]struct {
		want   error
		change func(*Config)
	}{
		"run Migrate":          {ErrNoSchema, func(c *Config) { c.Schema = "nowhere" }},
		"set it to 0 or 4":     {ErrPartitions, func(c *Config) { c.Partitions = 8 }},
		"or say SingleServer":  {ErrUnsafe, func(c *Config) { c.SingleServer = false }},
		"Lease is 1ms":         {executor.ErrConfig, func(c *Config) { c.Lease = time.Millisecond }},
		"Connections is 1":     {executor.ErrConfig, func(c *Config) { c.Connections = 1 }},
		"leave it false":       {executor.ErrConfig, func(c *Config) { c.Executor.ControlSocket = true }},
		"use Config.Partition": {executor.ErrConfig, func(c *Config) { c.Executor.Splitter = executor.Splitter{Nodes: 2, Self: 1} }},
		"Workers is -1":        {executor.ErrConfig, func(c *Config) { c.Executor.Workers = -1 }},
		"none of them zero":    {executor.ErrConfig, func(c *Config) { c.Schema = "a\x00" }},
		"is not UTF-8":         {executor.ErrConfig, func(c *Config) { c.Name = "\xff" }},
	} {
		err := open(f.change)
		require.ErrorIs(t, err, f.want, says)
		require.ErrorContains(t, err, says)
	}
	require.NoError(t, open(func(c *Config) { c.Partitions = 4 }))
	n := c.node(c.url)
	_, err := executor.Handle(n.Node.front, "q", func(context.Context, executor.Job[int]) error { return nil }, executor.QueueConfig[int]{})
	require.ErrorContains(t, err, `queue "q" is registered already`)
	_, err = executor.Handle(n.Node.front, "r", func(context.Context, executor.Job[int]) error { return nil }, executor.QueueConfig[int]{MaxRetries: -5, Share: executor.Share{Shards: -1}})
	require.ErrorIs(t, err, executor.ErrConfig)
	_, err = executor.Handle(n.front, "\xff", func(context.Context, executor.Job[int]) error { return nil }, executor.QueueConfig[int]{})
	require.ErrorIs(t, err, executor.ErrConfig, "the server can't have it in a text")
	require.NoError(t, n.front.Start(t.Context()))
	_, err = executor.Handle(n.Node.front, "late", func(context.Context, executor.Job[int]) error { return nil }, executor.QueueConfig[int]{})
	require.ErrorIs(t, err, executor.ErrState)
}

// A queue that Setup registers, with a limit of the partition's executor, gets what nodes that
// only enqueue have put into the inbox, in order.
func TestQueuesOfSetupAreFed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Second)
	ran := make(chan int, 6)
	n := c.start(c.url, func(cfg *Config) {
		cfg.Setup = func(x *executor.Executor, _ int) error {
			limit, err := executor.NewLimit(x, "l", executor.LimitConfig{Concurrent: 1})
			if err != nil {
				return err
			}
			for _, name := range []string{"limited", "beside"} {
				_, err = executor.Handle(x, name, func(_ context.Context, job executor.Job[int]) error {
					ran <- job.Payload
					return nil
				}, executor.QueueConfig[int]{Conditions: executor.Conditions[int]{SharedLanes: "both", Limits: []executor.LimitOf[int]{{Limit: limit}}}})
				if err != nil {
					return err
				}
			}
			return nil
		}
	})
	c.serving(n)
	caller := c.node(c.url)
	var queues []*executor.Queue[int]
	for _, name := range []string{"limited", "beside"} {
		q, err := executor.Handle(caller.Node.front, name, func(context.Context, executor.Job[int]) error { return nil },
			executor.QueueConfig[int]{Conditions: executor.Conditions[int]{SharedLanes: "both"}})
		require.NoError(t, err)
		queues = append(queues, q)
	}
	for k := range 6 {
		_, err := queues[k%2].Enqueue(t.Context(), "a", k)
		require.NoError(t, err)
	}
	for k := range 6 {
		select {
		case got := <-ran:
			require.Equal(t, k, got)
		case <-time.After(time.Minute):
			t.Fatal("it waits")
		}
	}
}

// A partition whose Setup fails is given back, told, and tried again.
func TestAPartitionThatFailsIsTriedAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 300*time.Millisecond)
	var mu sync.Mutex
	broken := errors.New("not yet")
	n := c.start(c.url, func(cfg *Config) {
		cfg.Setup = func(*executor.Executor, int) error {
			mu.Lock()
			defer mu.Unlock()
			if broken == nil {
				return nil
			}
			panic(broken.Error())
		}
	})
	says := func(text string) func() bool {
		return func() bool { return strings.Contains(fmt.Sprint(n.front.Err()), text) }
	}
	require.Eventually(t, says("not yet"), time.Minute, time.Millisecond)
	require.Eventually(t, says("partition 0"), time.Minute, time.Millisecond)
	mu.Lock()
	broken = nil
	mu.Unlock()
	c.serving(n)
	require.Eventually(t, func() bool { return n.front.Err() == nil }, time.Minute, time.Millisecond)
}

// What the server says while rows are taken in is not about them: they wait, in their order, the log
// has it once in a while, and Err as long as it lasts.
func TestRowsWaitForTheServer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 30*time.Second)
	var log lockedText
	n := c.start(c.url, func(cfg *Config) { cfg.Executor.Logger = log.logger() })
	c.serving(n)
	from := c.node(c.url)
	sql := func(text string) {
		_, err := from.pool.Exec(t.Context(), in(c.schema, text))
		require.NoError(t, err)
	}
	sql("ALTER TABLE {schema}.side RENAME TO away")
	require.NoError(t, pgx.BeginFunc(t.Context(), from.pool, func(tx pgx.Tx) error { // whose key is looked for on the server
		return EnqueueTx(t.Context(), tx, from.q, "id", 1, executor.IdempotencyKey("k"))
	}))
	for i := range 4 {
		_, err := from.q.Enqueue(t.Context(), "id", i+2)
		require.NoError(t, err)
	}
	c.says(n, "partition 0: the inbox can't be taken in", "42P01")
	time.Sleep(300 * time.Millisecond) // more passes
	require.Len(t, log.lines("the inbox can't be taken in"), 1)
	require.Empty(t, log.lines("is refused"))
	sql("ALTER TABLE {schema}.away RENAME TO side")
	c.await(map[string]int{"id": 5})
	c.well(n)
	require.Zero(t, cmpStats(t, n.Node).Partitions[0].Refused)
}

// Items of several partitions have no single owner whose answer an option could need, not even
// where one node owns them all.
func TestOptionsOfSeveralPartitions(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 2, time.Minute)
	n := c.start(c.url)
	c.serving(n)
	var items []executor.Item[int]
	for i := 0; len(items) < 2; i++ {
		number, err := n.PartitionOf(fmt.Sprint(i))
		require.NoError(t, err)
		if number == len(items) {
			items = append(items, executor.Item[int]{ID: fmt.Sprint(i), Payload: 1})
		}
	}
	_, err := n.q.EnqueueMany(t.Context(), items, executor.IdempotencyKey("k"))
	require.ErrorIs(t, err, executor.ErrInvalidKey)
	require.ErrorContains(t, err, "make a call for each of 2 partitions")
	for _, it := range items {
		receipts, err := n.q.EnqueueMany(t.Context(), []executor.Item[int]{it}, executor.IdempotencyKey("k"))
		require.NoError(t, err)
		require.NotZero(t, receipts[0].Position)
	}
}

// A hint that comes soon after a pass waits for more, a caller who waits for the pass does not.
func TestATakerRests(t *testing.T) {
	t.Parallel()
	const most, least = time.Second, 40 * time.Millisecond
	for name, c := range map[string]struct {
		hint, call time.Duration // when they come; 0: never
		rests      time.Duration
	}{
		"nothing comes":                 {0, 0, most},
		"a hint":                        {10 * time.Millisecond, 0, least},
		"a late hint":                   {300 * time.Millisecond, 0, 300 * time.Millisecond},
		"a caller":                      {0, 10 * time.Millisecond, 10 * time.Millisecond},
		"a caller while a hint waits":   {10 * time.Millisecond, 20 * time.Millisecond, 20 * time.Millisecond},
		"a hint, and a caller too late": {10 * time.Millisecond, 50 * time.Millisecond, least},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				taker := &taker{p: &partition{ctx: t.Context()}, wake: make(chan struct{}, 1), next: newPass()}
				if c.hint > 0 {
					time.AfterFunc(c.hint, func() { poke(taker.wake) })
				}
				if c.call > 0 {
					ctx, cancel := context.WithCancel(t.Context())
					time.AfterFunc(c.call, func() { go func() { _ = taker.gate(ctx, "") }() })
					defer cancel()
				}
				began := time.Now()
				taker.rest(most, least)
				require.Equal(t, c.rests, time.Since(began))
			})
		})
	}
}
