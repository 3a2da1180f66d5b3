package baseline

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPutDelete(t *testing.T) {
	for _, n := range []int{1, 1000, 2500} {
		took, err := PutDelete(t.Context(), t.TempDir(), n)
		require.NoError(t, err)
		assert.Positive(t, took)
	}
}

func TestCheckFindsLosses(t *testing.T) {
	r, err := openRecords(t.TempDir(), 10)
	require.NoError(t, err)
	require.NoError(t, r.turn(1, 2))
	assert.ErrorContains(t, r.check(10), "9 records in the file, want 10")
}

func TestCommitsAndHandOffs(t *testing.T) {
	took, err := Commits(t.Context(), t.TempDir(), 3, 0)
	require.NoError(t, err)
	assert.Len(t, took, 3)
	took, err = HandOffs(t.Context(), 3, func() {})
	require.NoError(t, err)
	assert.Len(t, took, 3)
}

func TestScan(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Fill(dir, 2500))
	_, err := Scan(dir, 2500)
	require.NoError(t, err)
	_, err = Scan(dir, 2501)
	assert.ErrorContains(t, err, "2500 records read, want 2501")
}

func TestChannelsAndPending(t *testing.T) {
	_, err := Channels(t.Context(), 5000, []string{"a", "b", "c"}, []byte("x"))
	require.NoError(t, err)
	_, err = Channels(t.Context(), 100, []string{""}, nil)
	assert.ErrorContains(t, err, "0 jobs came through the channels, want 100")
	assert.Equal(t, 7, NewPending(7, strconv.Itoa, 10).Len())
}

func TestInterrupted(t *testing.T) {
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	_, err := PutDelete(ctx, t.TempDir(), 10)
	require.ErrorIs(t, err, enough)
	_, err = Commits(ctx, t.TempDir(), 10, 0)
	require.ErrorIs(t, err, enough)
	_, err = HandOffs(ctx, 10, func() {})
	require.ErrorIs(t, err, enough)
	_, err = Channels(ctx, 10, []string{"a"}, []byte("x"))
	require.ErrorIs(t, err, enough)
}
