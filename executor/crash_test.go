//go:build unix

package executor_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// doomed is what a process that dies works on: some ids with payloads 0, 1, 2, each
// of which takes a while, and if there is a poison, one id whose payload 0 ends the
// process in its way.
type doomed struct {
	dir     string
	poison  string        // "": none
	takes   time.Duration // a job
	reports bool          // Config.Crash.Reports
	batch   int           // BatchSize; 0: a handler gets single jobs
}

const (
	doomedVariable = "STRAND_TEST_DOOMED"
	doomedPayloads = 3
	poisonID       = "poison"
	failingID      = "fails"
)

// open opens the executor with its queue. What handlers end is noted in a file,
// which survives.
func (d doomed) open(t *testing.T) (*executor.Executor, *executor.Queue[int]) {
	x := open(t, filepath.Join(d.dir, "journal"), executor.Config{Workers: 17, Crash: executor.Crash{Reports: d.reports}})
	note, err := os.OpenFile(filepath.Join(d.dir, "ended"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { _ = note.Close() })
	handler := func(_ context.Context, job executor.Merged[int]) error {
		if n := job.Payloads[0].Value; d.poison != "" && job.ID == poisonID && n == 0 {
			die(d.poison)
			select {}
		}
		if job.ID == failingID {
			return errBoom
		}
		time.Sleep(d.takes)
		_, err := fmt.Fprintln(note, job.ID, job.Payloads[0].Value)
		return err
	}
	cfg := executor.QueueConfig[int]{Gather: executor.Gather[int]{MaxPayloads: 1}, Merge: executor.MergeKeepAll, RetryIn: always(time.Hour)}
	if d.batch == 0 {
		return x, handle(t, x, "jobs", handler, cfg)
	}
	cfg.BatchSize, cfg.Share.Shards = d.batch, 1
	q, err := executor.HandleBatch(x, "jobs", func(ctx context.Context, jobs []executor.Merged[int]) (err error) {
		for i := 0; i < len(jobs) && err == nil; i++ {
			err = handler(ctx, jobs[i])
		}
		return err
	}, cfg)
	require.NoError(t, err)
	return x, q
}

// die ends the process.
func die(way string) {
	switch way {
	case "exit":
		os.Exit(3)
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "panic":
		go func() { panic("not recovered") }()
	case "map":
		m := map[int]int{}
		for range 8 {
			go func() {
				for i := 0; ; i++ {
					m[i%2] = i
				}
			}()
		}
	case "memory":
		runtime.KeepAlive(make([]byte, 1<<42)) // which no machine has room for
	}
}

// fill enqueues what there is to do.
func (d doomed) fill(t *testing.T, ids int) {
	x, q := d.open(t)
	for i := range ids {
		id := fmt.Sprint("id-", i)
		if d.poison != "" && i == ids/2 {
			id = poisonID
		}
		for n := range doomedPayloads {
			enqueue(t, q, id, n)
		}
	}
	stop(t, x)
}

// TestDoomedChild is the process that dies, when nothing is left in order.
func TestDoomedChild(t *testing.T) {
	var d doomed
	if _, err := fmt.Sscanf(os.Getenv(doomedVariable), "%q %q %d %t %d", &d.dir, &d.poison, &d.takes, &d.reports, &d.batch); err != nil {
		t.Skip("only as a child")
	}
	x, q := d.open(t)
	start(t, x)
	_, _ = os.Stdout.WriteString("started\n")
	drained(t, q)
	stop(t, x)
}

// child starts the process and waits until its jobs run.
func (d doomed) child(t *testing.T) *exec.Cmd {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestDoomedChild$")
	if d.poison == "memory" {
		child = exec.Command("/bin/sh", "-c", `ulimit -v 4000000; exec "$0" "$@"`, os.Args[0], "-test.run=^TestDoomedChild$")
	}
	child.Env = append(os.Environ(), doomedVariable+"="+fmt.Sprintf("%q %q %d %t %d", d.dir, d.poison, d.takes, d.reports, d.batch))
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	t.Cleanup(func() { _ = child.Process.Kill() })
	in := bufio.NewScanner(out)
	for in.Scan() && in.Text() != "started" { // a poison may be faster
	}
	return child
}

// hasEnded checks that ids have ended their payloads from first on, in order. What
// was not written down before a death has ended once more.
func (d doomed) hasEnded(t *testing.T, ids int, first func(id string) int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(d.dir, "ended"))
	require.NoError(t, err)
	next := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		var id string
		var n int
		_, err := fmt.Sscan(line, &id, &n)
		require.NoError(t, err)
		begin, began := first(id), next[id]
		if began == 0 {
			began = begin
		}
		require.GreaterOrEqual(t, n, begin, id)
		require.LessOrEqual(t, n, began, "%s: something was passed over", id)
		next[id] = n + 1
	}
	require.Len(t, next, ids)
	for id, n := range next {
		require.Equal(t, doomedPayloads, n, id)
	}
}

// Sixteen long jobs run again at once after a kill, together: none of them waits for another.
// One line says so.
func TestWhatRanRunsAgainAtOnce(t *testing.T) {
	t.Parallel()
	const jobs = 16
	d := doomed{dir: t.TempDir(), takes: time.Hour}
	d.fill(t, jobs)
	x, q := d.open(t)
	failing := enqueue(t, q, failingID, 0).Position
	stop(t, x)
	child := d.child(t)
	for ran, failed := 0, false; ran != jobs || !failed; {
		l, err := journal.Open(filepath.Join(d.copied(t).dir, "journal"), journal.Config{})
		if err != nil {
			continue // the copy was made beside a commit
		}
		if death, _ := l.Crash(); death != nil {
			ran, failed = death.Ran, !death.WasRunning(journal.Position(failing))
		}
		require.NoError(t, l.Close())
	}
	require.NoError(t, child.Process.Kill())
	_ = child.Wait()

	log := new(logs)
	x = open(t, filepath.Join(d.dir, "journal"), executor.Config{Workers: jobs, Logger: slog.New(slog.NewTextHandler(log, nil))})
	var running atomic.Int32
	together := make(chan struct{})
	handle(t, x, "jobs", func(context.Context, executor.Merged[int]) error {
		if running.Add(1) == jobs {
			close(together)
		}
		<-together
		return nil
	}, executor.QueueConfig[int]{Gather: executor.Gather[int]{MaxPayloads: 1}, Merge: executor.MergeKeepAll, RetryIn: always(time.Hour)})
	start(t, x)
	await(t, together)
	text := log.String()
	require.Equal(t, 1, strings.Count(text, "recovered"), "%s", text)
	require.Equal(t, 1, strings.Count(text, "level=INFO msg=\"executor starts\""), "%s", text)
	require.Contains(t, text, "waiting=49 unclaimed=0 recovered=true cause=")
	require.Contains(t, text, "running_then=16 run_again_at_once=16 suspects=[] took=")
	require.NotContains(t, text, "id-")
}

// Kills from outside, at random moments of long jobs, fifty in the long tier, cost no job its run,
// and no id its order.
func TestKillsFromOutsideBuryNoJob(t *testing.T) {
	t.Parallel()
	slow(t)
	d := doomed{dir: t.TempDir(), takes: 300 * time.Millisecond}
	const ids = 12
	d.fill(t, ids)
	kills := 18
	if long() {
		kills = 50
	}
	for range sampled(kills) {
		child := d.child(t)
		time.Sleep(rand.N(300 * time.Millisecond)) // the point: any moment
		_ = child.Process.Kill()
		_ = child.Wait()
	}
	require.Empty(t, d.lastLife(t))
	d.hasEnded(t, ids, func(string) int { return 0 })
}

// lastLife lets all that is left run in a process that nothing ends, and returns what is dead then.
// Who was running at all deaths is held for seconds, in a bubble.
func (d doomed) lastLife(t *testing.T) (dead []executor.Dead[int]) {
	d.poison = ""
	now := time.Now().Round(0)
	bubble(t, func(t *testing.T) {
		time.Sleep(time.Until(now))
		x, q := d.open(t)
		start(t, x)
		drained(t, q)
		dead = morgue(t, q)
		stop(t, x)
	})
	return dead
}

// A job that ends the process, in whatever way, is in the morgue after three deaths, or after
// some more that come late on a busy machine. What comes behind it runs, and so do all other
// jobs, in order.
func TestJobThatKillsTheProcess(t *testing.T) {
	t.Parallel() // it waits more than it computes
	for _, way := range []string{"exit", "kill", "panic", "map", "memory"} {
		for _, reports := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,reports=%t", way, reports), func(t *testing.T) {
				if reports == (way == "kill") && !pushed() {
					t.Skip("a death without a report is as one by kill: STRAND_PUSH=1 does it")
				}
				if way == "memory" && (raceEnabled || runtime.GOOS != "linux") {
					t.Skip("needs a limit of the address space, which the race detector does not bear")
				}
				t.Parallel()
				killsTheProcess(t, doomed{dir: t.TempDir(), poison: way, takes: 30 * time.Millisecond, reports: reports})
			})
		}
	}
}

// So it is where the report names a batch: it says nothing of which of the jobs did it.
func TestJobThatKillsTheProcessInABatch(t *testing.T) {
	t.Parallel()
	slow(t)
	killsTheProcess(t, doomed{dir: t.TempDir(), poison: "panic", takes: time.Millisecond, reports: true, batch: 8})
}

// An event that kills the process is found, though one before it was running at a
// death from outside, and is never done with on disk.
func TestPoisonBehindASuspectOfItsID(t *testing.T) {
	slow(t)
	const variable = "STRAND_TEST_BEHIND"
	if dir := os.Getenv(variable); dir != "" {
		x, err := executor.Open(dir, executor.Config{})
		require.NoError(t, err)
		q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[int]) error {
			if job.Payload == 1 {
				os.Exit(3)
			}
			fmt.Println("began")
			time.Sleep(50 * time.Millisecond)
			return nil
		}, executor.QueueConfig[int]{})
		require.NoError(t, err)
		_, err = q.EnqueueMany(t.Context(), []executor.Item[int]{{ID: "a", Payload: 0}, {ID: "a", Payload: 1}, {ID: "a", Payload: 2}}, executor.IdempotencyKey("k"))
		require.NoError(t, err)
		require.NoError(t, x.Start(t.Context()))
		drained(t, q)
		require.Len(t, morgue(t, q), 1)
		stop(t, x)
		return
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "journal")
	for life := 1; ; life++ { // how many depends on how soon it kills, which a busy machine decides
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPoisonBehindASuspectOfItsID$")
		child.Env = append(os.Environ(), variable+"="+dir)
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		if _, err := out.Read(make([]byte, 1)); life == 1 && err == nil {
			require.NoError(t, child.Process.Kill())
		}
		_, _ = io.Copy(io.Discard, out)
		if child.Wait() == nil {
			break
		}
	}
}

func killsTheProcess(t *testing.T, d doomed) {
	const ids = 40
	d.fill(t, ids)
	deaths := 0
	for over := false; !over; over = d.isGuilty(t) {
		require.Error(t, d.child(t).Wait(), "it was not given up for what it did")
		if deaths++; deaths == 1 && d.reports && d.poison == "panic" && d.batch == 0 {
			d.isNamed(t)
		}
	}
	assert.GreaterOrEqual(t, deaths, 3)
	if d.reports && (d.poison == "panic" || d.poison == "map") && d.batch == 0 {
		assert.Equal(t, 3, deaths, "it is named") // else a death that comes late says less: as many as the machine is busy
	}

	dead := d.lastLife(t)
	require.Len(t, dead, 1)
	require.Equal(t, poisonID, dead[0].ID)
	require.Equal(t, "0", string(dead[0].Raw))
	require.Contains(t, dead[0].Error, "crashed the process")
	d.hasEnded(t, ids, func(id string) int {
		if id == poisonID {
			return 1
		}
		return 0
	})
}

// copied is what the process has left, to be looked at.
func (d doomed) copied(t *testing.T) doomed {
	c := doomed{dir: t.TempDir(), poison: d.poison}
	require.NoError(t, os.CopyFS(filepath.Join(c.dir, "journal"), os.DirFS(filepath.Join(d.dir, "journal"))))
	return c
}

// isGuilty reports whether the next start gives a job up.
func (d doomed) isGuilty(t *testing.T) bool {
	l, err := journal.Open(filepath.Join(d.copied(t).dir, "journal"), journal.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	_, suspects := l.Crash()
	for _, s := range suspects {
		if s.Guilty() && s.Deaths >= 3 {
			return true
		}
	}
	return false
}

// isNamed looks at what a start would say.
func (d doomed) isNamed(t *testing.T) {
	log := new(logs)
	x, err := executor.Open(filepath.Join(d.copied(t).dir, "journal"), executor.Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
	require.NoError(t, err)
	handle(t, x, "jobs", func(context.Context, executor.Merged[int]) error { return nil }, executor.QueueConfig[int]{})
	start(t, x)
	stop(t, x)
	text := log.String()
	require.Contains(t, text, "Go reported a fatal error: panic: not recovered")
	require.Regexp(t, `running_then=\d+ run_again_at_once=[1-9]\d* suspects="\[jobs/poison is the cause of the last of 1 deaths\]"`, text)
}

// A batch of a queue that was registered after Start is known to be one, or a report would convict
// its first job.
func TestABatchOfALaterQueue(t *testing.T) {
	d := doomed{dir: t.TempDir()}
	x := open(t, filepath.Join(d.dir, "journal"), executor.Config{})
	start(t, x)
	running, end := make(chan int), make(chan struct{})
	defer close(end)
	q, err := executor.HandleBatch(x, "q", func(_ context.Context, jobs []executor.Merged[int]) error {
		running <- len(jobs)
		<-end
		return nil
	}, executor.QueueConfig[int]{Share: executor.Share{Shards: 1}, BatchSize: 3})
	require.NoError(t, err)
	_, err = q.EnqueueMany(t.Context(), []executor.Item[int]{{ID: "a"}, {ID: "b"}, {ID: "c"}})
	require.NoError(t, err)
	require.Equal(t, 3, await(t, running))
	l, err := journal.Open(filepath.Join(d.copied(t).dir, "journal"), journal.Config{})
	require.NoError(t, err)
	death, _ := l.Crash()
	require.NotNil(t, death)
	require.Equal(t, 2, death.Ran)
	require.NoError(t, l.Close())
}

// A start that can't write down who was running at the last death leaves the report of it to the next.
func TestTheLastReportStays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	x := open(t, dir, executor.Config{Crash: executor.Crash{Reports: true}})
	running, report := filepath.Join(dir, "RUNNING"), filepath.Join(dir, "CRASH")
	require.NoError(t, os.Remove(running))
	require.NoError(t, os.Mkdir(running, 0o700)) // which is no place for a recorder
	require.NoError(t, os.WriteFile(report, []byte("panic: x"), 0o600))
	start(t, x)
	text, err := os.ReadFile(report)
	require.NoError(t, err)
	require.Equal(t, "panic: x", string(text))
	stop(t, x)
}

// What was running at a death is logged before it runs again.
func TestRecoveryIsToldFirst(t *testing.T) {
	d := doomed{dir: t.TempDir(), takes: time.Minute}
	d.fill(t, 4)
	child := d.child(t) // of which jobs run, or are about to
	require.NoError(t, child.Process.Kill())
	_ = child.Wait()

	var told []record
	var log records
	ran := make(chan struct{})
	begun := sync.OnceFunc(func() { told = log.take(); close(ran) })
	log.first = sync.OnceFunc(func() {
		select {
		case <-ran:
		case <-time.After(200 * time.Millisecond): // for a job that does not wait for the line
		}
	})
	x, err := executor.Open(d.dir+"/journal", executor.Config{Logger: log.logger(slog.LevelInfo)})
	require.NoError(t, err)
	q := handle(t, x, "jobs", func(context.Context, executor.Merged[int]) error { begun(); return nil }, executor.QueueConfig[int]{})
	start(t, x)
	drained(t, q)
	await(t, ran)
	require.Len(t, told, 1)
	require.Equal(t, true, told[0].attrs["recovered"])
	require.EqualValues(t, 4*doomedPayloads, told[0].attrs["waiting"])
	stop(t, x)
	all := log.take()
	require.Len(t, all, 1)
	require.Equal(t, "executor stopped", all[0].msg)
}
