package wal

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// A record is written as a whole when it is synced, once, and is acknowledged after that.
func TestRecordsAreSynced(t *testing.T) {
	r := start(t, 16<<10)
	r.begin("now")
	syncs, failure := 0, error(nil)
	r.sync = func(f *os.File) error {
		syncs++
		require.Equal(t, r.f, f)
		got, err := found(r.image(), r.ID, r.before, "now")
		require.NoError(t, err)
		require.Len(t, got, syncs)
		require.True(t, bytes.Equal(record(syncs, 700*syncs), got[syncs-1]))
		return failure
	}
	for n := range 4 {
		r.append(record(n+1, 700*(n+1)))
		require.Equal(t, n+1, syncs)
	}
	failure = errors.New("the disk is gone")
	require.ErrorIs(t, r.Append(record(5, 3500)), failure)
	require.False(t, r.Fits(0), "nothing is written to what may not be on disk")
}
