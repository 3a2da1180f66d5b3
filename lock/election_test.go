package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/lock"
)

func candidates(t *testing.T, cfg lock.ElectionConfig) (e *lock.Election, a, b *lock.Candidate) {
	t.Helper()
	return candidatesOf(t, new(lock.Table), cfg)
}

func candidatesOf(t *testing.T, table *lock.Table, cfg lock.ElectionConfig) (e *lock.Election, a, b *lock.Candidate) {
	t.Helper()
	e, err := table.NewElection("cron", cfg)
	require.NoError(t, err)
	a, err = e.Candidate("a")
	require.NoError(t, err)
	b, err = e.Candidate("b")
	require.NoError(t, err)
	return e, a, b
}

func TestResqueScheduler_M01_OneMasterWithALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, a, b := candidates(t, lock.ElectionConfig{})
		require.True(t, a.IsLeader(), "acquire if free")
		require.False(t, b.IsLeader())
		epoch := a.Epoch()
		for range 10 {
			time.Sleep(3*time.Minute - 1)
			require.True(t, a.IsLeader(), "still held, and extended")
			require.Equal(t, epoch, a.Epoch())
			require.False(t, b.IsLeader())
		}
		leader, _ := e.Leader()
		require.Equal(t, "a", leader.Owner)
		require.Equal(t, a.Epoch(), leader.Token)
		require.Equal(t, 3*time.Minute, time.Until(leader.Until))
		time.Sleep(3 * time.Minute)
		leader, _ = e.Leader()
		require.Zero(t, leader, "the default lease is 3 minutes")
	})
}

func TestResqueScheduler_M01_AutoExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := new(lock.Table)
		_, a, b := candidatesOf(t, table, lock.ElectionConfig{AutoExtend: true, Lease: time.Minute})
		require.True(t, a.IsLeader())
		epoch := a.Epoch()
		time.Sleep(24 * time.Hour)
		require.Equal(t, epoch, a.Epoch(), "the same reign")
		require.False(t, b.IsLeader())
		require.NoError(t, a.SetLease(time.Second))
		time.Sleep(time.Hour)
		require.Equal(t, epoch, a.Epoch())
		require.NoError(t, a.Resign())
		time.Sleep(time.Hour)
		require.Zero(t, a.Epoch(), "the timer takes nothing back")

		require.True(t, b.IsLeader())
		_, err := table.Break("leader/cron")
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.Zero(t, b.Epoch(), "nor after a loss")
	})
}

func TestResqueScheduler_M02_OldMasterSeesThatItIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, a, b := candidates(t, lock.ElectionConfig{})
		require.True(t, a.IsLeader())
		ctx, cancel, err := a.Context(t.Context())
		require.NoError(t, err)
		defer cancel()
		old := a.Epoch()
		time.Sleep(3*time.Minute - 1) // a hangs
		require.False(t, b.IsLeader(), "not before the lease is over")
		require.NoError(t, ctx.Err())
		time.Sleep(time.Nanosecond)
		<-ctx.Done()
		require.ErrorIs(t, context.Cause(ctx), lock.ErrExpired)
		require.Zero(t, a.Epoch())
		require.True(t, b.IsLeader(), "up for grabs")
		require.Greater(t, b.Epoch(), old, "the epoch is a fence")

		// a comes back, and can do nothing to the new reign.
		time.Sleep(time.Minute)
		reign, changed := e.Leader()
		require.Equal(t, "b", reign.Owner)
		require.False(t, a.IsLeader())
		require.ErrorIs(t, a.Resign(), lock.ErrNotLeader)
		require.ErrorIs(t, a.SetLease(time.Hour), lock.ErrNotLeader)
		_, _, err = a.Context(t.Context())
		require.ErrorIs(t, err, lock.ErrNotLeader)
		require.Zero(t, a.Epoch())
		after, _ := e.Leader()
		require.Equal(t, reign, after)
		select {
		case <-changed:
			require.Fail(t, "nothing has changed")
		default:
		}
	})
}

// A timer that extends the lease of an old master leaves the new one's alone.
func TestResqueScheduler_M02_OldMastersTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := new(lock.Table)
		e, a, b := candidatesOf(t, table, lock.ElectionConfig{AutoExtend: true, Lease: time.Minute})
		require.True(t, a.IsLeader())
		campaign := make(chan error)
		go func() { campaign <- b.Campaign(t.Context()) }()
		synctest.Wait()
		time.Sleep(30 * time.Second)
		_, err := table.Break("leader/cron")
		require.NoError(t, err)
		require.NoError(t, <-campaign)
		epoch := b.Epoch()
		time.Sleep(time.Hour)
		require.Zero(t, a.Epoch())
		require.Equal(t, epoch, b.Epoch())
		require.NoError(t, b.Resign())
		time.Sleep(time.Hour)
		leader, _ := e.Leader()
		require.Zero(t, leader, "no candidate asks")
	})
}

func TestResqueScheduler_M03_OnlyTheOwnerReleasesAndChangesTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, a, b := candidates(t, lock.ElectionConfig{Prefix: "app"})
		require.True(t, a.IsLeader())
		require.ErrorIs(t, b.Resign(), lock.ErrNotLeader)
		require.ErrorIs(t, b.SetLease(time.Hour), lock.ErrNotLeader)
		_, _, err := b.Context(t.Context())
		require.ErrorIs(t, err, lock.ErrNotLeader)
		require.ErrorContains(t, b.Resign(), `"app/cron"`, "the name can be prefixed")
		require.ErrorIs(t, a.SetLease(0), lock.ErrConfig)
		require.NotZero(t, a.Epoch())

		require.NoError(t, a.SetLease(time.Hour))
		leader, _ := e.Leader()
		require.Equal(t, time.Hour, time.Until(leader.Until))
		time.Sleep(time.Minute)
		require.True(t, a.IsLeader())
		leader, _ = e.Leader()
		require.Equal(t, time.Hour, time.Until(leader.Until), "later extensions too")
		require.NoError(t, a.Resign())
		require.ErrorIs(t, a.Resign(), lock.ErrNotLeader)
		require.True(t, b.IsLeader())
		time.Sleep(3 * time.Minute)
		require.Zero(t, b.Epoch(), "the refused length changed nothing")
	})
}

func TestCampaignInOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, a, b := candidates(t, lock.ElectionConfig{})
		require.NoError(t, a.Campaign(t.Context()))
		require.NoError(t, a.Campaign(t.Context()), "leads already")
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, b.Campaign(short), context.DeadlineExceeded)
		require.ErrorIs(t, b.Campaign(short), context.DeadlineExceeded)

		c, err := e.Candidate("c")
		require.NoError(t, err)
		order := make(chan *lock.Candidate, 4)
		for _, next := range []*lock.Candidate{b, b, c} { // b twice: one party
			go func() {
				if next.Campaign(t.Context()) == nil {
					order <- next
				}
			}()
			synctest.Wait()
		}
		require.False(t, b.IsLeader(), "asking does not overtake")
		require.NoError(t, a.Resign())
		require.Equal(t, []*lock.Candidate{b, b}, []*lock.Candidate{<-order, <-order})
		time.Sleep(3 * time.Minute)
		require.Same(t, c, <-order, "woken by the end of the lease")
	})
}

func TestLeaderTellsOfChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, a, b := candidates(t, lock.ElectionConfig{})
		leader, changed := e.Leader()
		require.Zero(t, leader)
		step := func(want string) {
			t.Helper()
			<-changed
			leader, changed = e.Leader()
			require.Equal(t, want, leader.Owner)
		}
		require.True(t, a.IsLeader())
		step("a")
		require.True(t, a.IsLeader())
		select {
		case <-changed:
			require.Fail(t, "an extension is no change")
		default:
		}
		require.NoError(t, a.Resign())
		step("")
		require.True(t, b.IsLeader())
		step("b")
		step("") // expired
	})
}

func TestElectionRefusesBadInput(t *testing.T) {
	table := new(lock.Table)
	_, err := table.NewElection("", lock.ElectionConfig{})
	require.ErrorIs(t, err, lock.ErrEmptyKey)
	_, err = table.NewElection("cron", lock.ElectionConfig{Lease: -1})
	require.ErrorIs(t, err, lock.ErrConfig)
	e, err := table.NewElection("cron", lock.ElectionConfig{})
	require.NoError(t, err)
	_, err = e.Candidate("")
	require.ErrorIs(t, err, lock.ErrEmptyKey)
	require.Empty(t, table.List())
}
