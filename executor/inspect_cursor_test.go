package executor_test

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

// A cursor that was made by hand, of a list that its maker has a cursor of, is refused where no page could have it.
func TestForgedCursors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := openOn(t, new(journal.Memory), executor.Config{})
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{Share: executor.Share{Shards: 2}})
		for i := range 9 {
			enqueue(t, q, fmt.Sprint(i), "")
		}
		page, err := x.Inspect().Jobs(t.Context(), inspect.JobQuery{Queue: "q", Limit: 1})
		require.NoError(t, err)
		jobs := func(first, second int64) (inspect.JobPage, error) {
			return x.Inspect().Jobs(t.Context(), inspect.JobQuery{Queue: "q", Cursor: forged(t, page.Next, first, second)})
		}
		all, err := jobs(0, 0)
		require.NoError(t, err, "this is how it is done")
		require.Len(t, all.Jobs, 9)
		for _, first := range []int64{-1, math.MinInt64, 2, math.MaxInt32 + 1, 1 << 32, math.MaxInt64} {
			_, err := jobs(first, 0)
			require.ErrorIs(t, err, inspect.ErrInvalidCursor, "%d", first)
		}
		for _, second := range []int64{-1, math.MinInt64, 1 << 31, math.MaxUint32, 1 << 32, math.MaxInt64} {
			_, err := jobs(0, second)
			require.NoError(t, err, "%d", second)
		}
	})
}

// forged makes a cursor of another one: the sum in it is FNV-1a, which can be taken back byte by byte.
func forged(t *testing.T, cursor string, first, second int64) string {
	const prime = uint64(1099511628211)
	inverse := prime
	for range 6 {
		inverse *= 2 - prime*inverse
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	require.NoError(t, err)
	sum := binary.BigEndian.Uint64(b)
	for _, c := range slices.Backward(b[8:]) {
		sum = sum*inverse ^ uint64(c)
	}
	key := binary.AppendVarint(binary.AppendVarint(binary.AppendVarint(nil, first), second), 0)
	for _, c := range key {
		sum = (sum ^ uint64(c)) * prime
	}
	return base64.RawURLEncoding.EncodeToString(append(binary.BigEndian.AppendUint64(nil, sum), key...))
}
