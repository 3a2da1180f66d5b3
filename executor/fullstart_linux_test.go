package executor_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/journal"
)

const fullStart = "STRAND_TEST_FULL_START"

// A job that ends the process is given up on a disk that is full from the start of each
// process, too: the crash recorder has the room that the journal was made with.
func TestJobThatKillsTheProcessOnAFullDisk(t *testing.T) {
	slow(t)
	if role, dir, child := strings.Cut(os.Getenv(fullStart), " "); child {
		map[string]func(*testing.T, string){"disk": killsOnAFullDisk, "fill": fillForPoison, "life": livesWithPoison}[role](t, dir)
		return
	}
	t.Parallel()
	mounting(t, func() *exec.Cmd { return poisoned(t, "disk", t.TempDir()) })
}

// mounting runs a child that may mount a disk of its own, which smallDisk does.
func mounting(t *testing.T, child func() *exec.Cmd) {
	for _, attr := range []*syscall.SysProcAttr{
		{Unshareflags: syscall.CLONE_NEWNS},
		{
			Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		},
	} {
		disk := child()
		disk.SysProcAttr = attr
		out, err := disk.CombinedOutput()
		_, started := errors.AsType[*exec.ExitError](err)
		if err == nil && !strings.Contains(string(out), "can't mount") {
			return
		}
		require.False(t, started, "%s", out)
	}
	t.Skip("no small disk can be mounted here")
}

// onSmallDisks plays a test in a process of its own, which has a directory where it may mount disks.
func onSmallDisks(t *testing.T, dir func() string, play func(t *testing.T, dir string)) {
	const inChild = "STRAND_TEST_SMALL_DISKS"
	if dir := os.Getenv(inChild); dir != "" {
		play(t, dir)
		return
	}
	t.Parallel()
	mounting(t, func() *exec.Cmd {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		child.Env = append(os.Environ(), inChild+"="+dir())
		return child
	})
}

// smallDisk mounts one, and reports whether it could.
func smallDisk(dir, size string) bool {
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size)
	if err != nil {
		fmt.Println("can't mount:", err)
	}
	return err == nil
}

// poisoned is this test in another role.
func poisoned(t *testing.T, role, dir string) *exec.Cmd {
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestJobThatKillsTheProcessOnAFullDisk$")
	child.Env = append(os.Environ(), fullStart+"="+role+" "+dir)
	return child
}

// killsOnAFullDisk has a small disk of its own, and lets one process after the other live
// on it.
func killsOnAFullDisk(t *testing.T, dir string) {
	if !smallDisk(dir, "1m") {
		return
	}
	out, err := poisoned(t, "fill", dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	f, err := os.Create(filepath.Join(dir, "others"))
	require.NoError(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 512))
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	for life := 1; ; life++ { // how many depends on how soon it kills, which a busy machine decides
		require.LessOrEqual(t, life, 100)
		if out, err = poisoned(t, "life", dir).CombinedOutput(); err == nil {
			return
		}
		exit, ended := errors.AsType[*exec.ExitError](err)
		require.True(t, ended && exit.ExitCode() == 3, "%s", out)
	}
}

func poisonQueue(t *testing.T, dir string) (*executor.Executor, *executor.Queue[string]) {
	x := open(t, filepath.Join(dir, "journal"), executor.Config{})
	q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
		if job.ID == "poison" {
			os.Exit(3)
		}
		return nil
	}, executor.QueueConfig[string]{})
	require.NoError(t, err)
	return x, q
}

func fillForPoison(t *testing.T, dir string) {
	x, q := poisonQueue(t, dir)
	for _, id := range []string{"before", "poison", "after"} {
		enqueue(t, q, id, "x")
	}
	stop(t, x)
}

func livesWithPoison(t *testing.T, dir string) {
	x, q := poisonQueue(t, dir)
	start(t, x)
	drained(t, q)
	require.Len(t, morgue(t, q), 1)
	stop(t, x)
}

// A process that starts on a disk without room for a control socket gets one when there is some.
func TestAControlSocketOnAFullDisk(t *testing.T) {
	dir := func() string { return filepath.Dir(shortDir(t)) } // see longestPath of package control
	onSmallDisks(t, dir, listensLater)
}

// listensLater has a disk with room for few files.
func listensLater(t *testing.T, dir string) {
	if !smallDisk(dir, "4m,nr_inodes=20") {
		return
	}
	journal := filepath.Join(dir, "journal")
	stop(t, open(t, journal, executor.Config{}))
	others := filepath.Join(dir, "others")
	require.NoError(t, os.Mkdir(others, 0o700))
	var err error
	for i := 0; err == nil; i++ {
		err = os.WriteFile(filepath.Join(others, fmt.Sprint(i)), nil, 0o600)
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	for _, room := range []bool{false, true} {
		log := make(logged, 10)
		x := open(t, journal, executor.Config{ControlSocket: true, Logger: slog.New(slog.NewTextHandler(log, nil))})
		require.Contains(t, await(t, log), "there is no control socket until there is room: the disk is full")
		if room {
			require.NoError(t, os.RemoveAll(others))
			require.Contains(t, await(t, log), "there is a control socket now")
			hello, err := asked[control.Hello](t, journal, control.VerbHello, control.None{})
			require.NoError(t, err)
			require.Equal(t, os.Getpid(), hello.PID)
		}
		stop(t, x)
		require.NoFileExists(t, filepath.Join(journal, "control.sock"))
	}
}

// logged are the lines of a log.
type logged chan string

func (l logged) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// A disk without room for a new journal is ErrFull, whatever of it has none, and nothing is left behind.
func TestANewJournalOnAFullDisk(t *testing.T) {
	onSmallDisks(t, t.TempDir, opensOnAFullDisk)
}

func opensOnAFullDisk(t *testing.T, dir string) {
	if !smallDisk(dir, "1m") {
		return
	}
	fillUpBeside(t, dir)
	var said strings.Builder
	for room := int64(1 << 20); ; room -= 4 << 10 {
		x, err := executor.Open(filepath.Join(dir, "journal"), executor.Config{})
		if err == nil {
			stop(t, x)
			break
		}
		require.ErrorIs(t, err, executor.ErrFull)
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.NoDirExists(t, filepath.Join(dir, "journal"))
		said.WriteString(err.Error())
		require.NoError(t, os.Truncate(filepath.Join(dir, "others"), room))
	}
	require.Contains(t, said.String(), filepath.Join(dir, "journal", "LOCK"))
	require.Contains(t, said.String(), filepath.Join(dir, "journal", "journal.db.new"))
}

// A journal is copied and salvaged from a disk that has no room for its LOCK to one that has, and left as it was.
func TestACopyFromAFullDisk(t *testing.T) {
	onSmallDisks(t, t.TempDir, copiesFromAFullDisk)
}

func copiesFromAFullDisk(t *testing.T, dir string) {
	full := filepath.Join(dir, "full")
	require.NoError(t, os.Mkdir(full, 0o700))
	if !smallDisk(full, "1m") {
		return
	}
	from := filepath.Join(full, "journal")
	x, q := poisonQueue(t, full)
	enqueue(t, q, "a", "x")
	stop(t, x)
	require.NoError(t, os.Remove(filepath.Join(from, "LOCK")))
	fillUpBeside(t, full)
	want, err := journal.Check(from)
	require.NoError(t, err)
	require.NoError(t, journal.Clone(from, filepath.Join(dir, "copy")))
	_, err = journal.Salvage(from, filepath.Join(dir, "saved"))
	require.NoError(t, err)
	for _, to := range []string{"copy", "saved"} {
		got, err := journal.Check(filepath.Join(dir, to))
		require.NoError(t, err)
		require.Equal(t, []any{1, want.Next}, []any{got.Live, got.Next}, to)
	}
	require.NoFileExists(t, filepath.Join(from, "LOCK"))
}

// A journal that is salvaged from a full disk is not opened meanwhile: its lock needs no room.
func TestASalvageFromAFullDiskHasTheLock(t *testing.T) {
	onSmallDisks(t, t.TempDir, salvagesLocked)
}

func salvagesLocked(t *testing.T, dir string) {
	full := filepath.Join(dir, "full")
	require.NoError(t, os.Mkdir(full, 0o700))
	if !smallDisk(full, "1m") {
		return
	}
	from := withAnOffset(t, full)
	lock := filepath.Join(from, "LOCK")
	require.NoError(t, os.Truncate(lock, 0))
	fillUpBeside(t, full)
	for _, to := range []string{"there", "made"} {
		asked := 0
		_, err := journal.Salvage(from, filepath.Join(dir, to), func(journal.Set) error {
			asked++
			require.NoError(t, os.Truncate(filepath.Join(full, "others"), 0))
			_, err := journal.Open(from, journal.Config{})
			require.ErrorAs(t, err, new(*journal.LockedError), to)
			fillUpBeside(t, full)
			return nil
		})
		require.NoError(t, err)
		require.Positive(t, asked)
		require.NoError(t, os.RemoveAll(lock)) // it is there unless this call made it
	}
	require.NoFileExists(t, lock)
}

// withAnOffset makes a journal with a state key, of which a salvage asks its checks.
func withAnOffset(t *testing.T, dir string) string {
	x, _ := poisonQueue(t, dir)
	require.NoError(t, x.SetSourceOffset(t.Context(), "s", 1))
	stop(t, x)
	return filepath.Join(dir, "journal")
}

// Where there is no room for a LOCK at all, a process that gets some opens the journal while it is salvaged. That
// is said, and nothing of what was read is kept.
func TestASalvageWithoutALockAsksAtItsEnd(t *testing.T) {
	onSmallDisks(t, t.TempDir, salvagesUnlocked)
}

func salvagesUnlocked(t *testing.T, dir string) {
	full := filepath.Join(dir, "full")
	require.NoError(t, os.Mkdir(full, 0o700))
	if !smallDisk(full, "4m,nr_inodes=20") {
		return
	}
	from := withAnOffset(t, full)
	require.NoError(t, os.Remove(filepath.Join(from, "LOCK")))
	others := filepath.Join(full, "others")
	require.NoError(t, os.Mkdir(others, 0o700))
	var err error
	for i := 0; err == nil; i++ {
		err = os.WriteFile(filepath.Join(others, fmt.Sprint(i)), nil, 0o600)
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	for _, to := range []string{filepath.Join(dir, "saved"), ""} {
		_, err = journal.Salvage(from, to, func(journal.Set) error {
			require.NoError(t, os.RemoveAll(others))
			log, err := journal.Open(from, journal.Config{})
			require.NoError(t, err)
			return log.Close()
		})
		require.ErrorAs(t, err, new(*journal.LockedError), to)
	}
	require.NoDirExists(t, filepath.Join(dir, "saved"))
}

// Where nothing can be noted of the jobs that run, a suspect does not get its turn: it
// might end the process at each start.
func TestSuspectsAreHeldWithoutARecorder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	bubble(t, func(t *testing.T) {
		x, q := poisonQueue(t, filepath.Dir(dir))
		suspect := enqueue(t, q, "suspect", "x")
		enqueue(t, q, "other", "x")
		stop(t, x)
		log, err := journal.Open(dir, journal.Config{})
		require.NoError(t, err)
		value := binary.BigEndian.AppendUint64(nil, 2) // deaths
		value = append(value, make([]byte, 3*8)...)
		require.NoError(t, log.Put(t.Context(), journal.Set{Key: fmt.Sprintf("suspect/%016x", suspect.Position), Value: value}))
		require.NoError(t, log.Close())

		x, q = poisonQueue(t, filepath.Dir(dir))
		recorder := filepath.Join(dir, "RUNNING")
		require.NoError(t, os.Rename(recorder, recorder+".away"))
		require.NoError(t, os.Mkdir(recorder, 0o700))
		start(t, x)
		time.Sleep(time.Hour)
		require.EqualValues(t, 1, stats(t, q).Done)
		stop(t, x)

		require.NoError(t, os.Remove(recorder))
		x, q = poisonQueue(t, filepath.Dir(dir))
		start(t, x)
		time.Sleep(time.Minute)
		require.Zero(t, stats(t, q).Jobs)
		stop(t, x)
	})
}
