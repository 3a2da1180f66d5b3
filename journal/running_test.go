//go:build unix && !solaris && !aix

package journal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// crashed is what a process leaves that dies while p runs: the recorder's file
// as it is, and a journal that nobody closed. What was synced is all there is.
func crashed(t *testing.T, dir string, p Position) {
	t.Helper()
	l, err := Open(dir, Config{})
	require.NoError(t, err)
	r, err := l.Running(2, 1)
	require.NoError(t, err)
	r.Set(1, p)
	recorder := filepath.Join(dir, runningName)
	left, err := os.ReadFile(recorder)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.NoError(t, os.WriteFile(recorder, left, 0o600))
}

// suspectsOf returns the number of deaths that speak against each suspect.
func suspectsOf(t *testing.T, dir string) map[Position]int {
	t.Helper()
	l, err := Open(dir, Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	deaths := make(map[Position]int)
	for p, s := range l.Suspects() {
		deaths[p] = s.Deaths
	}
	return deaths
}

func TestSuspectsAreCountedOncePerCrash(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	l, err := Open(dir, Config{})
	require.NoError(t, err)
	ticket, err := l.Append(t.Context(), []Entry{{Queue: 1, ID: []byte("a")}, {Queue: 1, ID: []byte("b")}})
	require.NoError(t, err)
	require.NoError(t, ticket.Wait(t.Context()))
	require.Empty(t, l.Suspects())
	require.NoError(t, l.Close())

	p := ticket.Position(1)
	crashed(t, dir, p)
	require.Equal(t, map[Position]int{p: 1}, suspectsOf(t, dir))
	require.Equal(t, map[Position]int{p: 1}, suspectsOf(t, dir), "opening again is no second crash")
	crashed(t, dir, p)
	require.Equal(t, map[Position]int{p: 2}, suspectsOf(t, dir))

	l, err = Open(dir, Config{})
	require.NoError(t, err)
	l.Record(&Change{Sets: []Set{Cleared(p)}})
	r, err := l.Running(1, 1)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.NoError(t, l.Close())
	require.Empty(t, suspectsOf(t, dir), "acquitted")
}

func TestWhatEndedIsNotSuspected(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	l, err := Open(dir, Config{})
	require.NoError(t, err)
	require.NoError(t, l.Close())
	crashed(t, dir, 4711)
	require.Empty(t, suspectsOf(t, dir))
}

func TestARecorderThatMakesNoSenseSaysNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	l, err := Open(dir, Config{})
	require.NoError(t, err)
	ticket, err := l.Append(t.Context(), []Entry{{Queue: 1, ID: []byte("a")}})
	require.NoError(t, err)
	require.NoError(t, ticket.Wait(t.Context()))
	require.NoError(t, l.Close())
	for _, content := range []string{"", "x", "STRBRUN1", "STRBRUN2" + strings.Repeat("\x01", 60), "STRBRUN3" + strings.Repeat("\x01", 60)} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, runningName), []byte(content), 0o600))
		require.Empty(t, suspectsOf(t, dir), "%q", content)
	}
}
