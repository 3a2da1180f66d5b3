package lock_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/lock"
)

// S06: what a service may decide about a job that is blocked.
func TestLockable_S06_Decisions(t *testing.T) {
	boom := errors.New("boom")
	require.Equal(t, lock.Decision{}, lock.Park(), "the default")
	require.Equal(t, boom, lock.Fail(boom).Err)
	require.Equal(t, lock.ErrLocked, lock.Fail(nil).Err)
	require.Zero(t, lock.RequeueAfter(-1).After)
	require.Equal(t, lock.ActionSkip, lock.Skip().Action)
}
