package inspect_test

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/inspect"
)

// Each figure of a queue is in the total of all: a new one is not forgotten there.
func TestTotalHasAllFigures(t *testing.T) {
	var one inspect.QueueStats
	fields := reflect.ValueOf(&one).Elem()
	for i := range fields.NumField() {
		switch f := fields.Field(i); {
		case f.CanInt():
			f.SetInt(int64(i + 1))
		case f.CanUint():
			f.SetUint(uint64(i + 1))
		}
	}
	other := one
	other.Age, other.Lag = one.Age+1, one.Lag-1
	total := reflect.ValueOf(inspect.Stats{Queues: []inspect.QueueStats{one, other}}.Total())
	for i := range total.NumField() {
		name, f := total.Type().Field(i).Name, total.Field(i)
		switch {
		case name == "Age":
			require.EqualValues(t, other.Age, f.Int())
		case name == "Lag":
			require.EqualValues(t, one.Lag, f.Int())
		case f.CanInt():
			require.EqualValues(t, 2*(i+1), f.Int(), name)
		case f.CanUint():
			require.EqualValues(t, 2*(i+1), f.Uint(), name)
		}
	}
}

// What does not end by itself has no time left, not zero seconds of it.
func TestWhatIsHeldUntilItIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for until, left := range map[time.Time]string{{}: "", time.Now().Add(time.Minute): " (1m0s left)", time.Now().Add(-time.Minute): " (0s left)"} {
			e := inspect.Explanation{Queue: "q", ID: "1", State: inspect.JobWaiting, Slots: []inspect.SlotHeld{{Slot: "s/1", By: "q/2", Until: until}}}
			require.Equal(t, `q/1 is waiting; slot "s/1" is q/2's`+left, e.String())
			key := inspect.KeyLockStatus{Key: "k", Locks: []inspect.LockHeld{{By: "q/2", Until: until}}}
			require.Equal(t, `"k" locked by q/2`+left, key.String())
		}
	})
}
