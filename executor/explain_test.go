package executor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/brief"
)

// A crowd at one key, and one that holds it many times, is counted and not listed:
// neither the value nor its text grows with it.
func TestExplainACrowd(t *testing.T) {
	const crowd = 500
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1})
		key := func(string, string) []string { return []string{"key"} }
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}, Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{BlockedBy: key}}})
		for range crowd {
			require.NoError(t, x.KeyLocks().Lock(t.Context(), "key"))
		}
		start(t, x)
		for i := range crowd {
			enqueue(t, q, fmt.Sprint("job ", i), "")
		}
		synctest.Wait()
		e := explain(t, x, "q", "job 7")
		require.Len(t, e.Keys, 1)
		for _, k := range []inspect.KeyLockStatus{e.Keys[0], lockedKeys(x)[0]} {
			require.Len(t, k.Locks, brief.Most)
			require.Len(t, k.Waiting, brief.Most)
			require.Equal(t, crowd-brief.Most, k.MoreLocks)
			require.Equal(t, crowd-brief.Most, k.MoreWaiting)
		}
		text := e.String()
		assert.Less(t, len(text), 2000)
		assert.Contains(t, text, `by a person, a person`)
		assert.Contains(t, text, `and 490 more; waiting: q/job 0, q/job 1`)
		assert.True(t, strings.HasSuffix(text, `q/job 9 and 490 more`), text)
	})
}

// A job may wait for a thousand keys, or equal ones in front of it.
func TestExplainManyKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1})
		blockers := func(string, string) (keys []string) {
			for i := range 1000 {
				keys = append(keys, fmt.Sprint("key ", i))
			}
			return keys
		}
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{BlockedBy: blockers}}})
		for _, key := range blockers("", "") {
			require.NoError(t, x.KeyLocks().Lock(t.Context(), key))
		}
		start(t, x)
		enqueue(t, q, "1", "")
		synctest.Wait()
		e := explain(t, x, "q", "1")
		require.Len(t, e.Keys, brief.Most)
		require.Equal(t, 900, e.More)
		assert.Less(t, len(e.String()), 2000)
		assert.Contains(t, e.String(), "; and 990 more of that kind")
	})
}

// So do those that wait for a lease.
func TestExplainACrowdOfEquals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 2})
		running := make(chan struct{})
		p := &probe{decide: func(context.Context, seen) error { <-running; return nil }}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{
			Share: executor.Share{Shards: 1, Concurrency: 2}, Conditions: executor.Conditions[string]{
				Unique: executor.Unique[string]{While: executor.UniqueWhileRunning},
			},
		})
		start(t, x)
		for i := range 500 {
			enqueue(t, q, fmt.Sprint("job ", i), "equal")
		}
		synctest.Wait()
		e := explain(t, x, "q", "job 499")
		require.Equal(t, inspect.JobWaiting, e.State)
		require.Len(t, e.Unique, 1)
		require.Len(t, e.Unique[0].Waiters, brief.Most)
		require.Equal(t, 499-brief.Most, e.Unique[0].More)
		assert.Less(t, len(e.String()), 2000)
		assert.Contains(t, e.String(), " more")
		close(running)
		synctest.Wait()
	})
}

// Nothing that an id, a key or an error has in it reaches a terminal as it is.
func TestExplainHostileNames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const evil = "\x1b[2J\x07\r\n\u202e\xff\u2028"
		x := open(t, "", executor.Config{Workers: 1})
		p := &probe{decide: func(context.Context, seen) error { return fmt.Errorf("%s%s", evil, strings.Repeat("long ", 1000)) }}
		cfg := executor.QueueConfig[string]{
			RetryIn: always(0), MaxRetries: 1, DeadLetters: executor.DeadLetters[string]{OnExhausted: executor.OnExhaustedHalt},
			Conditions: executor.Conditions[string]{
				Locks: executor.Locks[string]{
					BlockedBy: func(id, payload string) []string {
						if payload == "blocked" {
							return []string{"key" + evil}
						}
						return nil
					},
				},
				Unique: executor.Unique[string]{While: executor.UniqueWhileRunning, Key: func(string, string) string { return evil }},
			},
		}
		name := "q" + evil
		q := handle(t, x, name, p.handle, cfg)
		require.NoError(t, x.KeyLocks().Lock(t.Context(), "key"+evil))
		start(t, x)
		for _, id := range []string{evil + strings.Repeat("x", 400), evil + "b"} {
			enqueue(t, q, id, "blocked")
			enqueue(t, q, id+"fails", "")
		}
		synctest.Wait()
		for _, id := range []string{evil + strings.Repeat("x", 400), evil + "b", evil + "bfails", "missing" + evil} {
			e := explain(t, x, name, id)
			texts := []string{e.String()}
			for _, k := range e.Keys {
				texts = append(texts, k.String(), strings.Join(k.Waiting, " "))
			}
			for _, text := range texts {
				assert.Less(t, len(text), 2500)
				for _, r := range text {
					require.True(t, unicode.IsPrint(r), "%q lets %q through", text, r)
				}
			}
		}
	})
}

// An id that no job can have is a mistake of the caller.
func TestExplainNoID(t *testing.T) {
	x := open(t, "", executor.Config{})
	handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
	for _, id := range []string{"", strings.Repeat("x", executor.MaxIDBytes+1)} {
		_, err := x.Inspect().Explain(t.Context(), "q", id)
		require.ErrorIs(t, err, executor.ErrInvalidID)
		_, err = x.Inspect().Job(t.Context(), "q", id)
		require.Error(t, err)
	}
}
