package journal

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// waiting is a logger whose lines come out of a channel.
func waiting() (*slog.Logger, <-chan map[string]slog.Value) {
	lines := make(chan map[string]slog.Value, 100)
	return slog.New(lineHandler{slog.DiscardHandler, lines}), lines
}

type lineHandler struct {
	slog.Handler
	lines chan map[string]slog.Value
}

func (lineHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h lineHandler) Handle(_ context.Context, r slog.Record) error {
	line := map[string]slog.Value{"msg": slog.StringValue(r.Message)}
	r.Attrs(func(a slog.Attr) bool { line[a.Key] = a.Value; return true })
	h.lines <- line
	return nil
}

// next returns the next line.
func next(t *testing.T, lines <-chan map[string]slog.Value) map[string]slog.Value {
	t.Helper()
	select {
	case line := <-lines:
		return line
	case <-time.After(time.Minute):
		require.FailNow(t, "no line for a minute")
	}
	return nil
}

type opened struct {
	log *Log
	err error
	at  time.Time
}

// openWaiting has OpenContext wait, and returns when it does.
func openWaiting(t *testing.T, ctx context.Context, dir string) (<-chan opened, map[string]slog.Value) {
	t.Helper()
	logger, lines := waiting()
	done := make(chan opened, 1)
	go func() {
		l, err := OpenContext(ctx, dir, Config{Logger: logger})
		done <- opened{l, err, time.Now()}
	}()
	select {
	case line := <-lines:
		return done, line
	case o := <-done:
		require.FailNow(t, "it did not wait", "%v", o.err)
	case <-time.After(time.Minute):
		require.FailNow(t, "nothing happened for a minute")
	}
	return nil, nil
}

// saysOwner fails unless a line is about this process.
func saysOwner(t *testing.T, line map[string]slog.Value, dir string, pid int, since time.Time) {
	t.Helper()
	host, _ := os.Hostname()
	assert.Equal(t, "waiting for the process that has the journal", line["msg"].String())
	assert.Equal(t, dir, line["dir"].String())
	assert.Equal(t, int64(pid), line["pid"].Int64())
	assert.Equal(t, host, line["host"].String())
	assert.True(t, since.Equal(line["since"].Time()), "%v, not %v", line["since"], since)
}

// The journal goes from hand to hand while the processors are busy: no process waits longer
// than the doc says, but for the load, which one who sleeps as long feels as well.
func TestOpenContextTakesOver(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "j")
	busy, rest := context.WithCancel(t.Context())
	defer rest()
	for range runtime.GOMAXPROCS(0) {
		go func() {
			for busy.Err() == nil {
				runtime.Gosched()
			}
		}()
	}
	owner, err := Open(dir, Config{})
	require.NoError(t, err)
	var locked, took, slept []time.Duration
	for range 20 {
		done, line := openWaiting(t, t.Context(), dir)
		saysOwner(t, line, dir, os.Getpid(), owner.Stats().Since)
		require.NoError(t, owner.Close())
		closed := time.Now()
		heir := <-done
		require.NoError(t, heir.err)
		locked = append(locked, heir.log.Stats().Since.Sub(closed)) // the wait is not in it
		took = append(took, heir.at.Sub(closed))
		owner = heir.log
		time.Sleep(lockPoll)
		slept = append(slept, time.Since(closed)-took[len(took)-1])
	}
	require.NoError(t, owner.Close())
	slices.Sort(locked)
	slices.Sort(took)
	slices.Sort(slept)
	t.Logf("locked after %v, %v at most; open after %v, %v at most; slept %v", locked[10], locked[19], took[10], took[19], slept[10])
	assert.Less(t, locked[10], 5*slept[10]+25*time.Millisecond)
}

// The error says why it waited no longer, and for whom. Nothing was changed.
func TestOpenContextEnds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "j")
	l, err := Open(dir, Config{})
	require.NoError(t, err)
	before := tree(t, dir)
	errEnough := errors.New("enough")
	says := func(err error) {
		locked, ok := errors.AsType[*LockedError](err)
		require.True(t, ok, "%v", err)
		host, _ := os.Hostname()
		assert.Equal(t, LockedError{Dir: dir, PID: os.Getpid(), Host: host, Since: l.Stats().Since.UTC().Round(0)}, *locked)
		assert.ErrorAs(t, err, new(*LockedError))
		assert.ErrorIs(t, err, errEnough)
	}
	ctx, end := context.WithCancelCause(t.Context())
	done, _ := openWaiting(t, ctx, dir)
	end(errEnough)
	says((<-done).err)
	_, err = OpenContext(ctx, dir, Config{})
	says(err)
	assert.Equal(t, before, tree(t, dir))

	var none context.Context
	_, err = OpenContext(none, dir, Config{})
	assert.ErrorIs(t, err, ErrContext)
	require.NoError(t, l.Close())
	again, err := OpenContext(ctx, dir, Config{})
	require.NoError(t, err, "the journal is free")
	require.NoError(t, again.Close())
	_, err = OpenContext(t.Context(), filepath.Join(dir, directory.FileName), Config{})
	assert.ErrorIs(t, err, ErrNotJournal, "which no wait mends")
}

// A new owner is told, too: several may wait.
func TestOpenContextTellsTheNextOwner(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "j")
	first, err := directory.Lock(dir)
	require.Nil(t, first)
	require.Error(t, err, "there is no directory")
	require.NoError(t, os.Mkdir(dir, 0o700))
	first, err = directory.Lock(dir)
	require.NoError(t, err)
	logger, lines := waiting()
	done := make(chan opened, 1)
	go func() {
		l, err := OpenContext(t.Context(), dir, Config{Logger: logger})
		done <- opened{log: l, err: err}
	}()
	saysOwner(t, next(t, lines), dir, os.Getpid(), first.Since)
	// Another owner in the same file: as if it had been quicker than the waiter.
	require.NoError(t, first.F.Truncate(0))
	_, err = first.F.WriteAt([]byte("7\n2026-01-02T03:04:05Z web-2\n"), 0)
	require.NoError(t, err)
	line := next(t, lines)
	assert.Equal(t, int64(7), line["pid"].Int64())
	assert.Equal(t, "web-2", line["host"].String())
	require.NoError(t, first.Unlock())
	o := <-done
	require.NoError(t, o.err)
	require.NoError(t, o.log.Close())
	assert.Empty(t, lines)
}

// However the owner ends, who waits goes on.
func TestOpenContextSurvivesTheOwner(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "j")
	for range 5 {
		owner, stdin, in := spawnOwner(t, dir)
		done, line := openWaiting(t, t.Context(), dir)
		assert.Equal(t, int64(owner.Process.Pid), line["pid"].Int64())
		require.NoError(t, owner.Process.Kill())
		heir := <-done
		require.NoError(t, heir.err)
		require.NoError(t, heir.log.Close())
		_, _ = io.Copy(io.Discard, in)
		_ = owner.Wait()
		_ = stdin.Close()
	}
}

// What is in a LOCK may be anything, and is shown to people.
func TestLockedByNobodyKnown(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]LockedError{
		"":                                    {},
		"x\n":                                 {},
		"-1\n":                                {},
		"17":                                  {PID: 17},
		"17\n":                                {PID: 17},
		"17\nunfinished j.new-1\n":            {PID: 17},
		"17\n2026-01-02T03:04:05Z":            {PID: 17, Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		"17\n2026-01-02T03:04:05Z a\x1b[2J\n": {PID: 17, Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		"17\n2026-01-02T03:04:05Z web-1\n":    {PID: 17, Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Host: "web-1"},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, directory.LockName), []byte(text), 0o600))
		want.Dir = dir
		assert.Equal(t, want, *directory.LockedBy(dir), "%q", text)
	}
	assert.Equal(t, "journal: j is in use by another process; stop it first", (&LockedError{Dir: "j"}).Error())
	since := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	assert.Equal(t, "journal: j is in use by process 17 on web-1 since 2026-01-02T03:04:05Z; stop it first",
		(&LockedError{Dir: "j", PID: 17, Host: "web-1", Since: since}).Error())
}
