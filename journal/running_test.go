//go:build unix && !solaris && !aix

package journal

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/strandjobs/strand/journal/internal/crash"
	"github.com/stretchr/testify/require"
)

// crashed is what a process leaves that dies while p runs: the recorder's file as
// it is, and a journal that was not closed. What was synced is all there is.
func crashed(t *testing.T, dir string, p Position) {
	t.Helper()
	l, err := Open(dir, Config{})
	require.NoError(t, err)
	r, err := l.RecordCrashes(2, 1)
	require.NoError(t, err)
	r.Set(1, p)
	recorder := filepath.Join(dir, crash.RunningName)
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
	for p, s := range l.crash.Suspects {
		deaths[p] = s.Deaths
	}
	return deaths
}

func TestSuspectsAreCountedOncePerCrash(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	l, err := Open(dir, Config{})
	require.NoError(t, err)
	ticket, err := l.Append(t.Context(), []Entry{{Queue: 1, ID: []byte("a")}, {Queue: 1, ID: []byte("b")}}, nil)
	require.NoError(t, err)
	require.NoError(t, ticket.Wait(t.Context()))
	require.Empty(t, l.crash.Suspects)
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
	r, err := l.RecordCrashes(1, 1)
	require.NoError(t, err)
	require.NoError(t, r.Close(false))
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
	ticket, err := l.Append(t.Context(), []Entry{{Queue: 1, ID: []byte("a")}}, nil)
	require.NoError(t, err)
	require.NoError(t, ticket.Wait(t.Context()))
	require.NoError(t, l.Close())
	for _, content := range []string{"", "x", "STRBRUN1", "STRBRUN2" + strings.Repeat("\x01", 60), "STRBRUN3" + strings.Repeat("\x01", 60)} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, crash.RunningName), []byte(content), 0o600))
		require.Empty(t, suspectsOf(t, dir), "%q", content)
	}
}

// The crash recorder has its room from the time when the journal is made, and keeps it: a
// disk that is full later has none for another file.
func TestRoomOfTheCrashRecorder(t *testing.T) {
	dir, _ := one(t)
	look := func() syscall.Stat_t {
		info, err := os.Stat(filepath.Join(dir, crash.RunningName))
		require.NoError(t, err)
		return *info.Sys().(*syscall.Stat_t)
	}
	made := look()
	require.GreaterOrEqual(t, made.Blocks*512, int64(16<<10))
	for _, places := range []int{100, 1, 7} {
		l, err := Open(dir, Config{})
		require.NoError(t, err)
		require.Nil(t, l.crash.Death)
		r, err := l.RecordCrashes(places, 1)
		require.NoError(t, err)
		r.Set(0, 7)
		require.NoError(t, r.Close(true), "also while something runs yet")
		require.NoError(t, l.Close())
		is := look()
		require.Equal(t, [2]int64{int64(made.Ino), made.Blocks}, [2]int64{int64(is.Ino), is.Blocks})
	}
}

// reword changes one word of the recorder's file.
func reword(t *testing.T, dir string, i int, v uint64) {
	t.Helper()
	path := filepath.Join(dir, crash.RunningName)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	binary.LittleEndian.PutUint64(b[8*i:], v)
	require.NoError(t, os.WriteFile(path, b, 0o600))
}

// one returns a journal with one entry.
func one(t *testing.T) (dir string, p Position) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "journal")
	l, err := Open(dir, Config{})
	require.NoError(t, err)
	ticket, err := l.Append(t.Context(), []Entry{{Queue: 1, ID: []byte("a")}}, nil)
	require.NoError(t, err)
	require.NoError(t, ticket.Wait(t.Context()))
	require.NoError(t, l.Close())
	return dir, ticket.Position(0)
}

// No job can restart the machine; and the system counts whom it kills for memory.
func TestWhatTheSystemSaysOfADeath(t *testing.T) {
	if crash.Boot() == 0 || crash.OutOfMemoryKills() == 0 {
		t.Skip("the system does not say")
	}
	for name, c := range map[string]struct {
		word   int
		value  uint64
		cause  crash.Cause
		deaths int
	}{
		"nothing":         {4, crash.Boot(), crash.CauseUnknown, 1},
		"another boot":    {4, crash.Boot() + 1, crash.CauseOutside, 0},
		"no boot known":   {4, 0, crash.CauseUnknown, 1},
		"killed for more": {5, crash.OutOfMemoryKills() - 1, crash.CauseUnknown, 1}, // 0: not known then
	} {
		t.Run(name, func(t *testing.T) {
			if name == "killed for more" && c.value > 0 {
				c.cause = crash.CauseMemory
			}
			dir, p := one(t)
			crashed(t, dir, p)
			reword(t, dir, c.word, c.value)
			l, err := Open(dir, Config{})
			require.NoError(t, err)
			require.Equal(t, c.cause, l.crash.Death.Cause)
			require.Equal(t, c.deaths, l.crash.Suspects[p].Deaths)
			require.NoError(t, l.Close())
		})
	}
}

// A journal that the first version left behind opens: what it says of its deaths
// counts, and convicts no job.
func TestSuspectsOfTheFirstVersion(t *testing.T) {
	dir, p := one(t)
	l, err := Open(dir, Config{})
	require.NoError(t, err)
	epoch := l.Stats().Epoch
	old := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 2), epoch-1)
	require.NoError(t, l.Put(t.Context(), Set{Key: crash.SuspectKey(p), Value: old}))
	require.NoError(t, l.Close())
	var recorder []byte
	for _, v := range []uint64{crash.RunningMagicV1, epoch, 2, 0, uint64(p)} {
		recorder = binary.LittleEndian.AppendUint64(recorder, v)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, crash.RunningName), recorder, 0o600))

	for range 2 {
		l, err = Open(dir, Config{})
		require.NoError(t, err)
		s := l.crash.Suspects[p]
		require.Equal(t, 3, s.Deaths, "once, however often it is opened")
		require.True(t, s.Strong())
		require.False(t, s.Guilty())
		require.NoError(t, l.Close())
	}
}

// The report belongs to one process, and is gone when that ends in order.
func TestCrashReports(t *testing.T) {
	dir, _ := one(t)
	l, err := Open(dir, Config{})
	require.NoError(t, err)
	path := filepath.Join(dir, crash.ReportName)
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, nil, 0o600))
	require.NoError(t, os.Symlink(outside, path))
	require.ErrorIs(t, l.ReportCrashes(), ErrNotJournal)
	require.NoError(t, os.Remove(path))
	require.NoError(t, l.ReportCrashes())
	require.Empty(t, crash.ReadReport(dir, l.Stats().Epoch))
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("panic: x\n")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Equal(t, "panic: x", crash.ReadReport(dir, l.Stats().Epoch))
	require.Empty(t, crash.ReadReport(dir, l.Stats().Epoch+1), "another process's")
	require.NoError(t, l.Close())
	require.NoFileExists(t, path)
	b, err := os.ReadFile(outside)
	require.NoError(t, err)
	require.Empty(t, b, "a link is not followed")
}
