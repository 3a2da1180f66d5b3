//go:build linux

package command

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

// Of many waiting jobs the first page comes within a second, which is asked of a million, with
// STRAND_LONG, on a machine that has nothing else to do; and what it takes to list all of them depends on neither side on how many there are.
func TestManyJobsLive(t *testing.T) {
	t.Parallel()
	slow(t)
	jobs, page := 10_000, time.Minute
	if os.Getenv("STRAND_PUSH") != "" {
		jobs = 30_000
	}
	if os.Getenv("STRAND_LONG") != "" {
		jobs, page = 1_000_000, 3*time.Second
	}
	dir := filepath.Join(t.TempDir(), "many.strand")
	l := newLedger(t, dir)
	q := l.queue("orders")
	for n := 0; n < jobs; n += 1000 {
		entries := make([]journal.Entry, 1000)
		for i := range entries {
			entries[i] = journal.Entry{Queue: q, ID: fmt.Appendf(nil, "order-%d", n+i), Payload: make([]byte, 100), Due: ago(time.Duration((n+i)*7919%jobs) * time.Millisecond), Score: 1}
		}
		_, err := l.Append(t.Context(), entries, nil)
		require.NoError(t, err)
	}
	l.close()
	l.refs = nil
	pid, _ := startLive(t, dir)
	before := memoryOf(t, pid)
	timed := func(args ...string) (out string, took time.Duration) {
		began := time.Now()
		out = must(t, "", args...)
		return out, time.Since(began)
	}
	out, took := timed("jobs", dir)
	require.Contains(t, out, fmt.Sprintf("\n%d jobs\n", jobs))
	require.Less(t, took, page)
	_, figures := timed("inspect", dir)
	_, one := timed("job", dir, "orders", "order-7777")
	t.Logf("%d jobs: the first page after %v, inspect %v, one job %v", jobs, took, figures, one)

	most, over := watchMemory(t, pid)
	list := exec.Command(os.Args[0], "jobs", dir, "-json")
	list.Env = append(os.Environ(), commandEnv+"=1")
	lines, err := list.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, list.Start())
	mine, ended := watchMemory(t, list.Process.Pid)
	began := time.Now()
	seen := make([]bool, jobs)
	n := 0
	for s := bufio.NewScanner(lines); s.Scan(); n++ {
		_, id, _ := strings.Cut(s.Text(), `"id":"order-`)
		id, _, _ = strings.Cut(id, `"`)
		i, err := strconv.Atoi(id)
		require.NoError(t, err)
		require.False(t, seen[i], "twice: %s", s.Text())
		seen[i] = true
	}
	close(ended) // before it is waited for: there is something to look at until then
	command := <-mine
	require.NoError(t, list.Wait())
	require.Equal(t, jobs, n)
	close(over)
	grown := <-most - before
	t.Logf("all of them after %v; the process had %d MiB of its own before, and %d MiB more at most; the command had %d MiB",
		time.Since(began), before>>20, grown>>20, command>>20)
	require.Less(t, grown, max(128<<20, before), "a page, and what the collector lets lie")
	require.Less(t, command, 128<<20)
}

// watchMemory tells the most that a process has of its own until over is closed.
func watchMemory(t *testing.T, pid int) (most chan int, over chan struct{}) {
	most, over = make(chan int, 1), make(chan struct{})
	go func() {
		n := 0
		for {
			n = max(n, memoryOf(t, pid))
			select {
			case <-over:
				most <- n
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return most, over
}

// memoryOf is what a process has resident of its own: not what is mapped from the file.
func memoryOf(t *testing.T, pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	assert.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "RssAnon:")
	if !found {
		return 0 // it has ended, and waits to be waited for
	}
	kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, err := strconv.Atoi(kib)
	assert.NoError(t, err)
	return n << 10
}
