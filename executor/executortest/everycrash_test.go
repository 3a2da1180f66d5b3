package executortest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/executortest"
)

// shop is a program of two steps, with what it has done.
type shop struct {
	orders, mails *executor.Queue[string]
	staged        bool // the second step is a follow-up
	sent          map[string]int
	accepted      map[string]bool
}

func (s *shop) setup(x *executor.Executor) (err error) {
	s.mails, err = executor.Handle(x, "mails", func(_ context.Context, job executor.Job[string]) error {
		s.sent[job.ID]++
		return nil
	}, executor.QueueConfig[string]{})
	if err != nil {
		return err
	}
	s.orders, err = executor.Handle(x, "orders", func(ctx context.Context, job executor.Job[string]) error {
		if s.staged {
			return s.mails.FollowUp(job, job.ID, job.Payload)
		}
		_, err := s.mails.Enqueue(ctx, job.ID, job.Payload)
		return err
	}, executor.QueueConfig[string]{})
	return err
}

func (s *shop) script(x *executortest.Executor) error {
	for _, id := range []string{"1", "2", "3"} {
		if _, err := s.orders.Enqueue(context.Background(), id, "a"); err != nil {
			return err
		}
		s.accepted[id] = true
		x.UntilIdle()
	}
	return nil
}

// crashes goes through every crash of a shop, and returns how often a mail was accepted
// twice, and how many lives there were.
func crashes(t *testing.T, staged bool) (twice, lives int) {
	executortest.EveryCrash(t, func(*testing.T) executortest.Scenario {
		s := &shop{staged: staged, sent: map[string]int{}, accepted: map[string]bool{}}
		return executortest.Scenario{Setup: s.setup, Script: s.script, Check: func(t *testing.T, x *executortest.Executor) {
			lives++
			for id := range s.accepted {
				executortest.RequireDone(x, s.orders, id)
				require.NotZero(t, s.sent[id])
			}
			survived := map[string]bool{}
			for _, e := range x.Enqueued("mails") {
				if survived[e.ID] {
					twice++
				}
				survived[e.ID] = true
			}
			executortest.RequireEmpty(x)
		}}
	})
	return twice, lives
}

// A chain without follow-ups goes wrong at some of the crashes, and EveryCrash gets
// there; with them it does not.
func TestEveryCrash(t *testing.T) {
	twice, lives := crashes(t, false)
	require.Positive(t, twice)
	require.Greater(t, lives, 6)
	twice, lives = crashes(t, true)
	require.Zero(t, twice)
	require.Greater(t, lives, 6)
}
