package rest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/strandjobs/strand/journal/internal/block"
	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
	"github.com/stretchr/testify/require"
)

// A write that fails ends a salvage, also where the next one would not fail: an entry would be missing.
func TestSalvageEndsWhereAWriteFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "j")
	b, err := NewBuilder(dir, 10, 1)
	require.NoError(t, err)
	require.NoError(t, b.Queue("q", 1))
	for p := range format.Position(9) {
		require.NoError(t, b.Add(format.Entry{Kind: format.KindEnqueued, Queue: 1, ID: []byte("a"), Position: p + 1}))
	}
	require.NoError(t, b.Finish())
	f, err := os.Open(filepath.Join(dir, directory.FileName))
	require.NoError(t, err)
	defer f.Close()
	w, err := openWreck(f)
	require.NoError(t, err)
	r := &rescue{wreck: w, s: block.NewSurvey(), report: &Salvaged{}}
	require.NoError(t, r.look())
	require.Equal(t, 9, r.report.Live)

	full, writes := errors.New("the disk is full for a moment"), 0
	require.ErrorIs(t, r.fill(BuildOn(func(*store.Transaction) error {
		if writes++; writes == 3 { // the second entry
			return full
		}
		return nil
	}, 10, 1, 1)), full)
	require.Equal(t, 3, writes)
}
