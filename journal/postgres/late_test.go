//go:build unix

package postgres

import (
	"context"
	"testing"
	"time"

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
			proxy := pgtest.NewProxy(t, s.Addr())
			began, done := make(chan struct{}, 1), make(chan struct{})
			stale, err := Open(t.Context(), proxy.URL(c.url)+"&application_name=late", c.config())
			require.NoError(t, err)
			t.Cleanup(stale.kill)
			_, err = Handle(stale, "q", func(_ context.Context, job executor.Job[int]) error {
				if job.ID != "a" {
					return nil
				}
				began <- struct{}{}
				<-done
				return nil
			}, executor.QueueConfig[int]{})
			require.NoError(t, err)
			require.NoError(t, stale.Start(t.Context()))
			c.serving(&testNode{Node: stale})
			x := stale.Partitions()[0]
			add := func(id, payload string) error {
				_, err := x.EnqueueRaw(context.Background(), "q", id, []byte(payload))
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
			require.NoError(t, next.Start(t.Context()))
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
				require.ErrorIs(t, err, ErrFenced)
			}
			if err := stale.Stop(t.Context()); !gone {
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
	proxy := pgtest.NewProxy(t, s.Addr())
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
	_, err = other.q.Enqueue(t.Context(), id, 1, key)
	require.ErrorIs(t, err, ErrRemote)
	proxy.Heal()
	c.serving(owner)
	r, err := owner.q.Enqueue(t.Context(), id, 1, key)
	require.NoError(t, err)
	require.True(t, r.Duplicate)
	c.await(map[string]int{id: 1})
	_, err = owner.q.Enqueue(t.Context(), id, 2, executor.IdempotencyKey("next"))
	require.NoError(t, err)
	c.await(map[string]int{id: 2})
	require.Len(t, c.ran[id], 2)
}
