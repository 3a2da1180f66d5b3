//go:build unix

package postgres

import (
	"context"
	"net/url"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// A commit that is under way for so long that the next owner has taken the partition, and has
// committed, changes no row when it arrives: whether the one who sent it waits for the answer, which
// says so, or has gone. What he had accepted before runs, and what he has not settled runs again.
func TestALateCommitChangesNothing(t *testing.T) {
	s := pgtest.Shared(t)
	for name, gone := range map[string]bool{"its owner waits": false, "its owner has gone": true} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, s.URL(), 1, time.Minute) // it does not learn by itself that its lease has ended
			proxy := NewProxy(t, s.Addr())
			began, done := make(chan struct{}, 1), make(chan struct{})
			stale, err := openNode(t.Context(), proxy.URL(c.url)+"&application_name=late", c.config())
			require.NoError(t, err)
			t.Cleanup(stale.kill)
			_, err = executor.Handle(stale.front, "q", func(_ context.Context, job executor.Job[int]) error {
				if job.ID != "a" {
					return nil
				}
				began <- struct{}{}
				<-done
				return nil
			}, executor.QueueConfig[int]{})
			require.NoError(t, err)
			require.NoError(t, stale.front.Start(t.Context()))
			c.serving(&testNode{Node: stale})
			x := stale.Partitions()[0]
			add := func(id, payload string) error {
				_, err := lookup(x, "q").Enqueue(context.Background(), id, []byte(payload))
				return err
			}
			require.NoError(t, add("a", "1"))
			<-began
			require.NoError(t, add("a", "2"))
			held, release := proxy.Hold("31415926")
			late := make(chan error, 1)
			go func() { late <- add("b", "31415926") }()
			<-held
			close(done)           // the handler has succeeded, and its node can't say so
			stale.control.Close() // nor renew its lease

			next := c.node(c.url)
			ended := func(sql string) { // as when the server's clock jumps
				_, err := next.pool.Exec(t.Context(), in(c.schema, sql))
				require.NoError(t, err)
			}
			ended("UPDATE {schema}.lease SET expires = clock_timestamp() - interval '1 second'")
			ended("UPDATE {schema}.node SET expires = clock_timestamp() - interval '1 second'")
			require.NoError(t, next.front.Start(t.Context()))
			c.serving(next)
			c.await(map[string]int{"a": 2}) // the first of them again
			r := &rig{schema: c.schema, pool: next.pool}
			before := settled(t, func() string { return r.rows(t, 0) })

			if gone {
				stale.kill()
				require.ErrorIs(t, <-late, executor.ErrUnknown)
			}
			release()
			if !gone {
				err := <-late
				require.ErrorIs(t, err, executor.ErrUnknown)
				require.ErrorIs(t, err, errFenced)
			}
			if err := stale.front.Stop(t.Context()); !gone {
				require.NoError(t, err)
			}
			require.Eventually(t, func() bool { // until the server has done what it was sent
				var count int
				require.NoError(t, next.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
					WHERE application_name = 'late'`).Scan(&count))
				return count == 0
			}, time.Minute, 5*time.Millisecond)
			require.Equal(t, before, r.rows(t, 0))
			_, err = next.q.Enqueue(t.Context(), "a", 3)
			require.NoError(t, err)
			c.await(map[string]int{"a": 3})
			require.NotContains(t, c.ran, "b")
		})
	}
}

// A call whose outcome is unknown because the lease was lost is made again with its key, on the
// owner, which says what has become of it.
func TestAnUnknownOutcomeIsResolvedByItsKey(t *testing.T) {
	s := pgtest.Shared(t)
	c := newCluster(t, s.URL(), 1, 900*time.Millisecond)
	proxy := NewProxy(t, s.Addr())
	owner, other := c.start(proxy.URL(c.url)), c.node(c.url)
	c.serving(owner)
	const id = "31415926"
	key := executor.IdempotencyKey("key")
	held, release := proxy.Hold(id)
	unknown := make(chan error, 1)
	go func() {
		_, err := owner.q.Enqueue(context.Background(), id, 1, key)
		unknown <- err
	}()
	<-held
	proxy.Swallow() // the commit arrives, and its answer does not
	release()
	err := <-unknown
	require.ErrorIs(t, err, executor.ErrUnknown)
	require.ErrorIs(t, err, ErrLeaseLost)
	again := make(chan executor.Receipt, 1)
	go func() {
		r, err := other.q.Enqueue(context.Background(), id, 1, key)
		if err != nil {
			t.Error(err)
		}
		again <- r
	}()
	proxy.Heal()
	c.serving(owner)
	require.True(t, (<-again).Duplicate)
	r, err := owner.q.Enqueue(t.Context(), id, 1, key)
	require.NoError(t, err)
	require.True(t, r.Duplicate)
	c.await(map[string]int{id: 1})
	_, err = owner.q.Enqueue(t.Context(), id, 2, executor.IdempotencyKey("next"))
	require.NoError(t, err)
	c.await(map[string]int{id: 2})
	require.Len(t, c.ran[id], 2)
}

// A call whose outcome is unknown is there before its caller's next one, through another node, or it
// never is: the server's processes that serve its node stand still meanwhile, and then go on.
func TestAnUnknownCallComesInTimeOrNever(t *testing.T) {
	third(t, 0)
	t.Parallel()
	for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"a deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 300*time.Millisecond)
		},
		"a cancel": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(300*time.Millisecond, cancel)
			return ctx, cancel
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Minute)
			owner, other := c.start(c.url), c.node(c.url)
			c.serving(owner)
			slow := c.node(c.url + "&application_name=" + url.QueryEscape(c.schema))
			enqueue := func(n *testNode, payload int) {
				_, err := n.q.Enqueue(t.Context(), "a", payload)
				require.NoError(t, err)
			}
			enqueue(other, 1)
			var none rows
			_, err := slow.pool.Exec(t.Context(), slow.texts["put"], none.partitions, none.queues, none.calls, none.tokens, nil)
			require.NoError(t, err, "the statement is prepared")
			var pids []int
			require.NoError(t, other.pool.QueryRow(t.Context(),
				"SELECT array_agg(pid) FROM pg_stat_activity WHERE application_name = $1", c.schema).Scan(&pids))
			require.NotEmpty(t, pids)
			signal := func(s syscall.Signal) {
				for _, pid := range pids {
					_ = syscall.Kill(pid, s)
				}
			}
			signal(syscall.SIGSTOP)
			defer signal(syscall.SIGCONT)
			ctx, cancel := end(t.Context())
			defer cancel()
			_, err = slow.q.Enqueue(ctx, "a", 2)
			require.ErrorIs(t, err, executor.ErrUnknown)
			enqueue(other, 3)
			require.Eventually(t, func() bool { return c.rows(owner) == 0 }, time.Minute, 5*time.Millisecond)
			signal(syscall.SIGCONT)
			enqueue(slow, 4) // behind the flush with the unknown one
			require.Eventually(t, func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return len(c.ran["a"]) > 0 && c.ran["a"][len(c.ran["a"])-1] == 4
			}, time.Minute, 5*time.Millisecond)
			require.Equal(t, []int{1, 3, 4}, c.ran["a"])
		})
	}
}

// When some callers of a flush without an answer have gone, theirs and the others are there, or are
// taken; or theirs will never be, and the others come again, whatever still arrives.
func TestAFlushWhoseCallersHaveGone(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"lost", "there", "taken"} {
		t.Run(before, func(t *testing.T) {
			c := newCluster(t, pgtest.Shared(t).URL(), 2, time.Minute)
			n := c.node(c.url)
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			call := func(ctx context.Context, partition int) *outCall {
				return &outCall{ctx: ctx, done: make(chan error, 1),
					parts: map[place][]byte{{partition, "q"}: encodeCall([]item{{ID: "x", Payload: []byte("1")}})}}
			}
			gone, left := call(ended, 0), call(t.Context(), 1)
			f := flight{n: n.Node, calls: []*outCall{gone, left}, most: time.Minute, asked: true}
			f.rows = rowsOf(f.calls)
			sent := f.rows
			put := func() {
				_, err := n.pool.Exec(t.Context(), n.texts["put"], sent.partitions, sent.queues, sent.calls, sent.tokens, nil)
				require.NoError(t, err)
			}
			if before != "lost" {
				put()
			}
			if before == "taken" { // the first of them
				_, err := n.pool.Exec(t.Context(), in(c.schema, `WITH r AS (DELETE FROM {schema}.inbox WHERE partition = 0 RETURNING token)
					INSERT INTO {schema}.taken (token) SELECT token FROM r`))
				require.NoError(t, err)
			}
			for range 2 { // again, as when the answer is lost
				again := f
				require.NoError(t, onConnection(t.Context(), n.pool, time.Minute, again.attempt))
				if before != "lost" {
					require.Len(t, again.calls, 2)
					require.Empty(t, gone.done)
					continue
				}
				require.Equal(t, []*outCall{left}, again.calls)
				require.ErrorIs(t, <-gone.done, context.Canceled)
				_, err := n.pool.Exec(t.Context(), in(c.schema, "DELETE FROM {schema}.inbox WHERE partition = 1"))
				require.NoError(t, err)
				put()
			}
			var rows []int
			require.NoError(t, n.pool.QueryRow(t.Context(), in(c.schema,
				"SELECT array_agg(partition ORDER BY partition) FROM {schema}.inbox WHERE partition >= 0")).Scan(&rows))
			require.Equal(t, map[string][]int{"lost": nil, "there": {0, 1}, "taken": {1}}[before], rows)
		})
	}
}

// early is a context whose deadline is over by the time of day, and which goes on: it was given without a monotonic
// reading, and the clock was set forward.
type early struct {
	context.Context
	deadline time.Time
}

func (e early) Deadline() (time.Time, bool) { return e.deadline, true }

// A caller whose deadline is over while its context goes on holds up neither its own flush nor what comes after it.
func TestADeadlineThatIsOverHoldsUpNobody(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Minute)
	n := c.node(c.url)
	for i, deadline := range []time.Time{{}, time.Unix(1, 0), time.Now().Add(-time.Minute)} {
		_, err := n.q.Enqueue(early{within(t, 20*time.Second), deadline}, "a", 2*i+1)
		require.NoError(t, err)
		_, err = n.q.Enqueue(within(t, 20*time.Second), "a", 2*i+2)
		require.NoError(t, err)
	}
	require.Equal(t, 6, c.rows(n))
}

// The first deadline that is ahead is that of the flush.
func TestTheFirstDeadlineIsThatOfTheFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		calls := func(deadlines ...time.Duration) (all []*outCall) {
			for _, d := range deadlines {
				all = append(all, &outCall{ctx: early{t.Context(), now.Add(d).Round(0)}})
			}
			return all
		}
		for _, c := range []struct {
			calls []*outCall
			until time.Duration
		}{
			{calls(), time.Minute},
			{calls(time.Hour, time.Second, 2*time.Second), time.Second},
			{calls(-time.Hour, time.Hour, 0), time.Minute},
			{calls(-1, 3*time.Second), 3 * time.Second},
		} {
			left, until := new(outbox).waiting(c.calls, time.Minute)
			require.Len(t, left, len(c.calls))
			require.Equal(t, c.until, until.Sub(now))
		}
	})
}

// A node learns the time of a server whose clock is set back, or far ahead, from its next answer.
func TestTheServersClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c serverClock
		ahead := time.Duration(0)
		answer := func(took time.Duration) {
			_ = c.read(t.Context(), clockServer(func() time.Time {
				time.Sleep(took / 2)
				now := time.Now().Round(0).Add(ahead)
				time.Sleep(took / 2)
				return now
			}), readClock)
		}
		behind := func() time.Duration { now := time.Now(); return now.Round(0).Add(ahead).Sub(c.at(now)) }
		answer(100 * time.Millisecond)
		require.Equal(t, 50*time.Millisecond, behind())
		answer(20 * time.Millisecond)
		require.Equal(t, 10*time.Millisecond, behind())
		answer(10 * time.Second) // says less than is known
		require.Equal(t, 10*time.Millisecond, behind())
		for _, ahead = range []time.Duration{time.Hour, -time.Hour} {
			answer(20 * time.Millisecond)
			require.Equal(t, 10*time.Millisecond, behind())
		}
	})
}

// clockServer answers with a time.
type clockServer func() time.Time

func (s clockServer) QueryRow(context.Context, string, ...any) pgx.Row                      { return s }
func (s clockServer) Query(context.Context, string, ...any) (pgx.Rows, error)               { return nil, nil }
func (s clockServer) Exec(context.Context, string, ...any) (c pgconn.CommandTag, err error) { return }

func (s clockServer) Scan(dest ...any) error {
	*dest[0].(*time.Time) = s()
	return nil
}
