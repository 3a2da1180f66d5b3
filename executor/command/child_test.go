package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/control"
)

// queueConfigs are those of the queues in these tests: with one shard each that has
// one run at a time, so that a start has but one order to run its jobs in.
func queueConfigs() map[string]executor.QueueConfig[string] {
	retryIn := func(n int) time.Duration { return time.Duration(n%2) * time.Hour }
	return map[string]executor.QueueConfig[string]{
		"plain":  {Share: executor.Share{Shards: 1, Concurrency: 1}, MaxRetries: 3, RetryIn: retryIn},
		"events": {Share: executor.Share{Shards: 1, Concurrency: 1}, MaxRetries: 3, RetryIn: retryIn, Merge: executor.MergeKeepAll, Gather: executor.Gather[string]{MaxPayloads: 3}},
		"notes":  {Share: executor.Share{Shards: 1, Concurrency: 1}, Defaults: executor.Defaults[string]{Durability: executor.DurabilitySync}, Merge: executor.MergeKeepAll, Gather: executor.Gather[string]{MaxPayloads: -1}},
		"strict": {Share: executor.Share{Shards: 1, Concurrency: 1}, MaxRetries: 1, RetryIn: retryIn, Gather: executor.Gather[string]{Block: true}, DeadLetters: executor.DeadLetters[string]{OnExhausted: executor.OnExhaustedHalt}},
		ledgerOf: {Share: executor.Share{Shards: 1, Concurrency: 1}, MaxRetries: 3, RetryIn: retryIn},
	}
}

// ledgerOf is the queue with one payload a run; the others get all that wait.
const ledgerOf = "ledger"

// register makes a queue of its shape.
func register(x *executor.Executor, name string, cfg executor.QueueConfig[string], handler func(context.Context, executor.Merged[string]) error) (*executor.Queue[string], error) {
	if name != ledgerOf {
		return executor.HandleMerged(x, name, handler, cfg)
	}
	return executor.Handle(x, name, func(ctx context.Context, job executor.Job[string]) error {
		return handler(ctx, executor.Merged[string]{
			Queue: job.Queue, ID: job.ID, Attempt: job.Attempt, LastError: job.LastError,
			Payloads: []executor.Payload[string]{{Value: job.Payload, Score: job.Score, Position: job.Position}},
		})
	}, cfg)
}

// replayAs are the flags that say the same.
var replayAs = []string{"-shape", ledgerOf + "=events", "-merge", "events=KeepAll", "-max-payloads", "events=3", "-on-failure", "strict=Block"}

// child runs an executor whose handlers do all that handlers do, says when there is
// something in the journal, and goes on until it is killed.
func child(dir string) {
	x, err := executor.Open(dir, executor.Config{Workers: 16, Durability: executor.DurabilityAsync, OnFatal: func(err error) {
		fmt.Println(err)
		os.Exit(noClear)
	}})
	if err != nil {
		fmt.Println(err)
		os.Exit(noClear)
	}
	ctx := context.Background()
	var queues []*executor.Queue[string]
	handler := func(ctx context.Context, job executor.Merged[string]) error {
		if job.Queue != "notes" {
			// On disk, and with it everything that was decided before.
			if _, err := lookup(x, "notes").Enqueue(ctx, job.ID, []byte(`"again"`)); err != nil {
				return err
			}
		}
		return handle(ctx, job)
	}
	ready := false
	for name, cfg := range queueConfigs() {
		cfg.Share.Shards = 3
		q, err := register(x, name, cfg, handler)
		if err != nil {
			panic(err)
		}
		if name != "notes" {
			queues = append(queues, q)
		}
	}
	if err := x.Start(ctx); err != nil {
		panic(err)
	}
	for n := 0; ; n++ {
		for _, q := range queues {
			option := executor.Score(float64(n * 7 % 100))
			if n%10 == 0 {
				option = executor.In(time.Duration(n%3) * time.Hour)
			}
			if _, err := q.Enqueue(ctx, fmt.Sprintf("id-%d", n*n%47), fmt.Sprintf("payload %d", n%61), option); err != nil {
				panic(err)
			}
		}
		if n >= 150 {
			time.Sleep(5 * time.Millisecond)
			if !ready && halted(ctx, x) {
				fmt.Println("ready")
				ready = true
			}
		}
	}
}

// halted reports whether there is a halted job on disk.
func halted(ctx context.Context, x *executor.Executor) bool {
	s, err := x.Stats(ctx)
	if err != nil || !slices.ContainsFunc(s.Queues, func(q inspect.QueueStats) bool { return q.Halted > 0 }) {
		return false
	}
	_, err = lookup(x, "notes").Enqueue(ctx, "halted", []byte(`"on disk"`))
	return err == nil
}

func handle(ctx context.Context, job executor.Merged[string]) error {
	switch n := job.Payloads[0].Position; {
	case job.ID == "id-4":
		<-ctx.Done() // runs until it is killed
		return ctx.Err()
	case n%7 == 0:
		return errors.New("lucky number")
	case n%11 == 0:
		return executor.Snooze(time.Hour)
	case n%13 == 0:
		return executor.Cancel(errors.New("unlucky number"))
	}
	return nil
}

// startChild returns when the child is at work; kill ends it without a chance to
// say goodbye.
func startChild(t *testing.T, dir string) (pid int, kill func()) {
	t.Helper()
	return startWith(t, childEnv+"="+dir)
}

// startWith starts the test binary with a variable that says what it is.
func startWith(t *testing.T, env string) (pid int, kill func()) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), env)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	kill = sync.OnceFunc(func() {
		_ = c.Process.Kill()
		_ = c.Wait() // says that it was killed
	})
	t.Cleanup(kill)
	timeout := time.AfterFunc(time.Minute, kill)
	defer timeout.Stop()
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	return c.Process.Pid, kill
}

// waiting is a job or a run as it is printed.
type waiting struct {
	Type string
	control.Job
}

// predicted are the lines of a replay.
func predicted(t *testing.T, dir string, now time.Time, flags ...string) (runs []waiting) {
	t.Helper()
	var out, errs strings.Builder
	args := append([]string{"strand", "replay", dir, "-json"}, flags...)
	require.Equal(t, fine, Program{}.Run(t.Context(), args, nil, &out, &errs, now), errs.String())
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, `{"type":"run"`) {
			var w waiting
			require.NoError(t, admin.Read([]byte(line), &w))
			runs = append(runs, w)
		}
	}
	return runs
}

// one is a run, in words.
func one(id string, attempt int, lastError string, payloads []string) string {
	return fmt.Sprintf("%s attempt %d %q: %s", id, attempt, lastError, strings.Join(payloads, ", "))
}

// startAgain runs what is due until nothing is, and returns the runs of each queue
// in their order.
func startAgain(t *testing.T, dir string, want int) map[string][]string {
	t.Helper()
	x, err := executor.Open(dir, executor.Config{Workers: 3})
	require.NoError(t, err)
	var mu sync.Mutex
	ran, n, enough := make(map[string][]string), 0, make(chan struct{})
	for name, cfg := range queueConfigs() {
		_, err := register(x, name, cfg, func(ctx context.Context, job executor.Merged[string]) error {
			var payloads []string
			for _, p := range job.Payloads {
				payloads = append(payloads, fmt.Sprintf("%d %v %s", p.Position, p.Score, p.Value))
			}
			if name == "notes" {
				return nil
			}
			mu.Lock() // as they begin: what another worker has begun meanwhile may end first
			ran[name] = append(ran[name], one(job.ID, job.Attempt, job.LastError, payloads))
			mu.Unlock()
			if _, err := lookup(x, "notes").Enqueue(ctx, job.ID, []byte(`"again"`)); err != nil { // see child
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if n++; n == want {
				close(enough)
			}
			return nil
		})
		require.NoError(t, err)
	}
	require.NoError(t, x.Start(t.Context()))
	select {
	case <-enough:
	case <-time.After(time.Minute):
	}
	time.Sleep(20 * time.Millisecond) // for one too many
	require.NoError(t, x.Stop(t.Context()))
	return ran
}

// byQueue are the runs that are due, in words, and when they are.
func byQueue(t *testing.T, runs []waiting, now time.Time) (due map[string][]string, at map[string]time.Time, n int) {
	t.Helper()
	due, at = make(map[string][]string), make(map[string]time.Time)
	for _, w := range runs {
		if w.Queue == "notes" || w.State == "halted" || w.Due.After(now) {
			continue
		}
		var payloads []string
		for _, p := range w.Waiting {
			var value string
			require.NoError(t, json.Unmarshal(p.Raw, &value))
			payloads = append(payloads, fmt.Sprintf("%d %v %s", p.Position, p.Score, value))
		}
		run := one(w.ID, w.Attempt, w.LastError, payloads)
		due[w.Queue], at[run] = append(due[w.Queue], run), w.Due
		n++
	}
	return due, at, n
}

// firsts are the first runs of ids, those that are due together by their names. What is left of an
// id after them is due when they end, and ends may coincide.
func firsts(runs []string, at map[string]time.Time) (first []string) {
	seen := make(map[string]bool)
	for _, run := range runs {
		id, _, _ := strings.Cut(run, " ")
		if !seen[id] {
			first = append(first, run)
		}
		seen[id] = true
	}
	for i := 0; i < len(first); {
		n := 1
		for i+n < len(first) && at[first[i]].Equal(at[first[i+n]]) {
			n++
		}
		slices.Sort(first[i : i+n])
		i += n
	}
	return first
}

// byID sorts runs by id, and leaves those of one id in their order.
func byID(runs []string) []string {
	return slices.SortedStableFunc(slices.Values(runs), func(a, b string) int {
		idA, _, _ := strings.Cut(a, " ")
		idB, _, _ := strings.Cut(b, " ")
		return strings.Compare(idA, idB)
	})
}

// acquitted are the same runs without what the crash recorder says, which stays
// with the process's own directory.
func acquitted(runs []waiting) []waiting {
	runs = slices.Clone(runs)
	for i := range runs {
		runs[i].Crashes = 0
	}
	return runs
}

// What replay says about a journal that a killed process left behind is what the
// next start does: the same runs of the same payloads, in the same order. And so it
// is for a copy that went through export and import.
func TestReplayPredictsTheNextStart(t *testing.T) {
	t.Parallel()
	halted := false
	defer func() { assert.True(t, halted, "no journal had a halted job") }()
	for i := range 2 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "killed.strand")
			_, kill := startChild(t, dir)
			time.Sleep(time.Duration(i) * 10 * time.Millisecond)
			kill()
			before := snapshot(t, dir)
			now := time.Now()
			runs := predicted(t, dir, now, replayAs...)
			exported := must(t, "", "export", dir)
			assert.Equal(t, before, snapshot(t, dir), "looking has left traces")

			moved := filepath.Join(t.TempDir(), "moved.strand")
			must(t, exported, "import", moved)
			assert.Equal(t, acquitted(runs), predicted(t, moved, now, replayAs...))
			copied := filepath.Join(t.TempDir(), "copied.strand")
			must(t, "", "copy", dir, copied)
			assert.Equal(t, exported, must(t, "", "export", copied))
			assert.Contains(t, must(t, "", "compact", copied), " now")
			assert.Equal(t, exported, must(t, "", "export", copied))
			saved := filepath.Join(t.TempDir(), "saved.strand")
			assert.Contains(t, must(t, "", "salvage", dir, saved), "nothing was lost")
			assert.Equal(t, exported, must(t, "", "export", saved))

			want, at, n := byQueue(t, runs, now)
			require.Greater(t, n, 10, "too little is left to compare")
			halted = halted || slices.ContainsFunc(runs, func(w waiting) bool { return w.State == "halted" })
			for _, dir := range [][]string{{dir, saved}, {dir, moved}}[i] {
				ran := startAgain(t, dir, n)
				for name := range want {
					assert.Equal(t, firsts(want[name], at), firsts(ran[name], at))
					assert.Equal(t, byID(want[name]), byID(ran[name]))
				}
			}
		})
	}
}

// A journal in use is left alone, and every command says whose it is.
func TestInUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "used.strand")
	pid, kill := startChild(t, dir)
	newDir := filepath.Join(t.TempDir(), "new.strand")
	for _, args := range [][]string{
		{"inspect", dir}, {"jobs", dir}, {"job", dir, "plain", "id-1"}, {"replay", dir}, {"check", dir}, {"export", dir},
		{"copy", dir, newDir}, {"compact", dir}, {"salvage", dir, newDir}, {"morgue", dir, "list"}, {"morgue", dir, "requeue"}, {"morgue", dir, "delete", "-all"},
	} {
		out, errs, status := strand(t, "", args...)
		assert.Equal(t, noClear, status, args)
		assert.Empty(t, out)
		assert.Contains(t, errs, fmt.Sprintf("in use by process %d", pid))
		assert.Contains(t, errs, "hot copy")
		assert.NoDirExists(t, newDir)
		_, errs, status = strand(t, "", append(args, "-json")...)
		assert.Equal(t, noClear, status, args)
		assert.Contains(t, errs, fmt.Sprintf(`"pid":%d`, pid))
	}
	kill()
	must(t, "", "check", dir)
}

// lookup returns a queue of bytes; a nil one refuses all.
func lookup(x *executor.Executor, name string) *executor.Queue[[]byte] {
	q, _ := x.Lookup(name)
	return q
}
