package statekey

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/lock"
)

// A reservation without an end is there, and no second one has its value; what has ended by the
// time it was written down is not.
func TestASlotWithoutAnEnd(t *testing.T) {
	now := time.Now()
	held, ended := Slot{Value: []byte("1"), Held: lock.Held{Token: 7}}, Slot{Value: []byte("1")}
	require.False(t, held.Expired(now))
	require.True(t, ended.Expired(now))
	check := NewCheck()
	require.NoError(t, check(ended.Set(Slots("s")+"open/1/q/a")))
	require.NoError(t, check(held.Set(Slots("s")+"open/1/q/b")))
	held.Held.Token++
	require.ErrorContains(t, check(held.Set(Slots("s")+"open/1/q/c")), "second reservation")
}
