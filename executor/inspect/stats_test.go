package inspect_test

import (
	"reflect"
	"testing"

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
