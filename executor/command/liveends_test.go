//go:build unix

package command

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/control"
)

// watch reads the events of a process until it has seen one; ended returns how the
// command has gone on to its end.
func watch(t *testing.T, dir string) (ended func() (errs string, status int)) {
	t.Helper()
	out, w := io.Pipe()
	var errs strings.Builder
	status := make(chan int, 1)
	go func() {
		status <- Program{}.Run(context.Background(), []string{"strand", "events", dir}, nil, w, &errs, time.Now())
		_ = w.Close()
	}()
	seen := make(chan struct{})
	go func() {
		r := bufio.NewReader(out)
		_, _ = r.ReadString('\n')
		close(seen)
		_, _ = io.Copy(io.Discard, r)
	}()
	for listening := false; !listening; {
		must(t, "", "pause", dir)
		must(t, "", "resume", dir)
		select {
		case <-seen:
			listening = true
		default:
		}
	}
	return func() (string, int) {
		s := <-status
		return errs.String(), s
	}
}

// Events have no end of their own: when the process is gone, however it went, the command
// says so and fails.
func TestEventsEndWithTheProcess(t *testing.T) {
	gone := func(errs string, status int) {
		assert.Equal(t, noClear, status)
		assert.Contains(t, errs, "strand: the process has ended the connection: it has stopped, was killed, or had to wait 5s for this reader")
	}
	dir := office(t)
	_, kill := startLive(t, dir)
	ended := watch(t, dir)
	kill()
	gone(ended())

	x, err := executor.Open(dir, executor.Config{ControlSocket: true})
	require.NoError(t, err)
	ended = watch(t, dir)
	require.NoError(t, x.Stop(t.Context()))
	gone(ended())
}

// A number that makes no sense is refused before anything is asked.
func TestBoundsOfFlags(t *testing.T) {
	dir := office(t)
	startLive(t, dir)
	for _, c := range [][2]string{
		{"status DIR -timeout 0s", "timeout"}, {"events DIR -timeout -1s", "it is -1s, and must be above zero"}, {"jobs DIR -timeout soon", "timeout"},
		{"events DIR -limit -1", "it is -1, and must not be below zero"}, {"running DIR -limit -1", "below zero"}, {"jobs DIR -limit -7", "below zero"},
		{"events DIR -limit 99999999999999999999", "limit"},
	} {
		out, errs, status := strand(t, "", strings.Fields(strings.ReplaceAll(c[0], "DIR", dir))...)
		assert.Equal(t, noClear, status, c)
		assert.Empty(t, out)
		assert.Contains(t, errs, "wrong call")
		assert.Contains(t, errs, c[1])
	}
	_, errs, status := strand(t, "", "status", dir, "-timeout", "1ns")
	assert.Equal(t, noClear, status)
	assert.Contains(t, errs, "within 1ns")
}

// inItsPlace has s answer for the executor of a directory, until the test ends.
func inItsPlace(t *testing.T, s *control.Server) (dir string) {
	dir = filepath.Join(t.TempDir(), "used.strand")
	pid, _ := startChild(t, dir)
	l, err := control.Listen(dir)
	require.NoError(t, err)
	s.Hello = control.Hello{PID: pid}
	s.Serve(l)
	t.Cleanup(s.Close)
	return dir
}

// While others are at it a call waits for some seconds, and then says so: it is no reason to
// stop the process. Who acts has room beside those who look.
func TestBusy(t *testing.T) {
	t.Parallel()
	slow(t)
	in, out := make(chan struct{}, 99), make(chan struct{})
	s := &control.Server{
		Looks: map[string]control.Handler{
			control.VerbInspect: control.Verb(func(context.Context, control.None) (figures, error) {
				in <- struct{}{}
				<-out
				return figures{}, nil
			}),
			control.VerbStatus: control.Verb(func(context.Context, control.None) (control.Health, error) {
				return control.Health{Stats: inspect.Stats{Workers: 7}}, nil
			}),
		},
		Acts: map[string]control.Handler{
			control.VerbAct: control.Verb(func(context.Context, admin.Act) (admin.Affected, error) {
				return admin.Affected{Requeued: inspect.Requeued{Back: 1}}, nil
			}),
		},
	}
	dir := inItsPlace(t, s)
	var others sync.WaitGroup
	for range 8 {
		others.Go(func() {
			c := control.Connect(dir, time.Minute)
			defer c.Close()
			_, err := control.Call[control.None](context.Background(), c, control.VerbInspect, control.None{})
			assert.NoError(t, err)
		})
	}
	for range 8 {
		<-in
	}
	_, errs, status := strand(t, "", "status", dir)
	assert.Equal(t, noClear, status)
	assert.Contains(t, errs, "too many others are being answered; try again")
	must(t, "", "pause", dir, "q")
	must(t, "", "pause", dir)
	close(out)
	assert.Contains(t, must(t, "", "status", dir), "7: 0 busy")
	others.Wait()
}

// While the shards do not answer, nothing is said of how much there is: no count that nobody has made.
func TestSilentShards(t *testing.T) {
	s := &control.Server{Looks: map[string]control.Handler{
		control.VerbStatus: control.Verb(func(context.Context, control.None) (control.Health, error) {
			queues := []inspect.QueueStats{{Name: "idle", Registered: true}, {Name: "old"}, {Name: "older", Dead: 1}}
			return control.Health{Stats: inspect.Stats{Workers: 7, Queues: queues}, Silent: "context deadline exceeded"}, nil
		}),
		control.VerbJobs: control.Verb(func(context.Context, inspect.JobQuery) (control.Jobs, error) { return control.Jobs{}, nil }),
		control.VerbDead: control.Verb(func(context.Context, control.DeadQuery) (control.DeadLetters, error) {
			return control.DeadLetters{Dead: []inspect.DeadPayload{{PayloadInfo: inspect.PayloadInfo{Position: 1}, Queue: "older", ID: "a"}}}, nil
		}),
	}}
	dir := inItsPlace(t, s)
	out := must(t, "", "status", dir)
	assert.Regexp(t, `(?m)^workers +7: 0 busy, 0 stuck$`, out)
	assert.Regexp(t, `(?m)^backlog +not known$`, out)
	for _, args := range [][]string{{"jobs", dir}, {"job", dir, "old", "a"}} {
		out, errs, status := strand(t, "", args...)
		assert.Equal(t, noClear, status, args)
		assert.Empty(t, out, args)
		assert.Contains(t, errs, "the shards do not say how the queues are: context deadline exceeded", args)
		assert.NotContains(t, errs, "has no job", args)
	}
	assert.Contains(t, must(t, "", "morgue", dir, "list", "older"), "older  a ")
	assert.Contains(t, must(t, "", "job", dir, "older", "a"), "in the morgue")
}

// A list says of what it leaves out how much that is: not of jobs that have ended while it was made, nor in JSON of nothing.
func TestWhatAListLeavesOut(t *testing.T) {
	s := &control.Server{Looks: map[string]control.Handler{
		control.VerbStatus: control.Verb(func(context.Context, control.None) (control.Health, error) {
			return control.Health{Stats: inspect.Stats{Queues: []inspect.QueueStats{{Name: "q", Registered: true, Jobs: 5}}}}, nil
		}),
		control.VerbJobs: control.Verb(func(_ context.Context, q inspect.JobQuery) (page control.Jobs, _ error) {
			for range min(q.Limit, 3) {
				page.Jobs = append(page.Jobs, control.Job{JobInfo: inspect.JobInfo{Queue: "q", ID: "a", State: inspect.JobReady}})
			}
			if len(q.States) == 1 { // those that are halted
				page.Jobs = nil
			}
			return page, nil
		}),
		control.VerbRunning: control.Verb(func(context.Context, inspect.RunningQuery) (inspect.RunningList, error) {
			return inspect.RunningList{Running: []inspect.Running{{Queue: "q", Worker: 4, Jobs: []inspect.RunningJob{{ID: "a"}}, More: 7}}, More: 3}, nil
		}),
	}}
	dir := inItsPlace(t, s)
	out := must(t, "", "jobs", dir, "-limit", "0")
	assert.NotContains(t, out, "not shown")
	assert.Contains(t, out, "\n3 jobs\n")
	out = must(t, "", "jobs", dir, "-limit", "2")
	assert.Contains(t, out, "\n3 more are not shown; -limit 0 shows all\n5 jobs\n")
	out = must(t, "", "running", dir)
	assert.Regexp(t, `(?m)^ +\+7 *$`, out)
	assert.Contains(t, out, "\n4 workers at work\n3 of them are not shown\n")
	assert.Contains(t, must(t, "", "running", dir, "-json"), "\n"+`{"type":"more","workers":3}`+"\n")
}

// Who may not ask hears that, with the path, and not that there is nobody.
func TestNoPermission(t *testing.T) {
	dir := office(t)
	startLive(t, dir)
	stranger := another(t, dir)
	lock, socket := filepath.Join(dir, "LOCK"), filepath.Join(dir, "control.sock")
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Chmod(lock, 0o444))
	require.NoError(t, os.Chmod(socket, 0))
	for _, args := range [][]string{{"status", dir}, {"inspect", dir}, {"run", dir, "mails", "bob"}} {
		out, status := stranger(args...)
		assert.Equal(t, noClear, status)
		assert.Contains(t, out, socket+": connect: permission denied; ask as the user of the process")
		assert.NotContains(t, out, "stop it first")
	}
	require.NoError(t, os.Chmod(lock, 0))
	out, status := stranger("status", dir)
	assert.Equal(t, noClear, status)
	assert.Contains(t, out, lock+": permission denied; call it as the user of that process")
	assert.NotContains(t, out, "no process")
}

// another returns the command as it is for another user: who is root is that one for it.
func another(t *testing.T, dir string) func(args ...string) (out string, status int) {
	t.Helper()
	path := os.Args[0]
	var as *syscall.SysProcAttr
	if os.Geteuid() == 0 {
		as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		for up := filepath.Dir(dir); up != os.TempDir() && up != "/"; up = filepath.Dir(up) {
			require.NoError(t, os.Chmod(up, 0o755))
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		path = filepath.Join(filepath.Dir(dir), "strand")
		require.NoError(t, os.WriteFile(path, text, 0o755))
	}
	return func(args ...string) (string, int) {
		c := exec.Command(path, args...)
		c.Env = append(os.Environ(), commandEnv+"=1")
		c.Dir, c.SysProcAttr = filepath.Dir(dir), as
		out, err := c.CombinedOutput()
		require.NotNil(t, c.ProcessState, "%v", err)
		return string(out), c.ProcessState.ExitCode()
	}
}
