package journal

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkRunning is what a job pays for the crash recorder: once for its start
// and once for its end.
func BenchmarkRunning(b *testing.B) {
	l, err := Open(filepath.Join(b.TempDir(), "j"), Config{})
	require.NoError(b, err)
	r, err := l.RecordCrashes(1, 64)
	require.NoError(b, err)
	for b.Loop() {
		r.Set(7, 4711)
	}
	require.NoError(b, r.Close(false))
	require.NoError(b, l.Close())
}
