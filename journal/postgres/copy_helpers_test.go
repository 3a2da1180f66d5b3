//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

var single = Config{SingleServer: true}

// config is that of the schema's movers.
func (r *rig) config(change ...func(*Config)) Config {
	cfg := single
	cfg.Schema = r.schema
	for _, f := range change {
		f(&cfg)
	}
	return cfg
}

// hostile are names and ids that something could trip over.
var hostile = []string{
	"plain", `"quoted"`, "it's", `back\slash`, "new\nline", "zero\x00byte", "\xff\xfe no utf-8", "{\"json\":1}", "'; DROP TABLE tail; --",
	"$1", "{schema}", "ünïcode ✓", " ", "../../up", "a/b/c", "12/34/", strings.Repeat("x", 512),
}

// builtJournal makes a journal of n entries with everything that entries can have, each of
// which is a queue's of a hostile name, and an id's.
func builtJournal(t testing.TB, dir string, n int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(n), 1))
	b, err := journal.NewBuilder(dir, journal.Position(7*n+100), 41)
	require.NoError(t, err)
	for i, name := range hostile {
		require.NoError(t, b.Queue(name, uint32(len(hostile)-i)))
	}
	scores := []float64{0, -1.5, math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 1e300}
	for i := range n {
		e := journal.Entry{
			Kind: journal.KindEnqueued, Queue: uint32(rng.IntN(len(hostile)) + 1), Position: journal.Position(5*i + 1 + rng.IntN(5)),
			ID: []byte(hostile[rng.IntN(len(hostile))]), Due: time.Now().UnixNano() + rng.Int64N(1e15), Score: scores[rng.IntN(len(scores))],
			Payload: []byte(strings.Repeat(hostile[rng.IntN(len(hostile))], rng.IntN(4))), Restored: rng.IntN(5) == 0,
		}
		if rng.IntN(3) == 0 {
			e.Metadata = journal.NewMetadata(map[string]string{hostile[rng.IntN(16)]: hostile[rng.IntN(16)]})
		}
		if rng.IntN(2) == 0 {
			e.Accepted = e.Due - rng.Int64N(1e12)
		}
		switch rng.IntN(6) {
		case 0:
			e = journal.Entry{Kind: journal.KindState, Queue: e.Queue, Position: e.Position, ID: e.ID, Due: e.Due, Retry: rng.IntN(9) - 1,
				Halted: rng.IntN(2) == 0, Failed: []journal.Position{1, 6}, Error: []byte(hostile[rng.IntN(16)])}
		case 1:
			require.NoError(t, b.Bury(journal.Buried{Entry: e, Retry: 3, Reason: hostile[rng.IntN(16)], At: e.Due}))
			continue
		}
		require.NoError(t, b.Add(e))
	}
	require.NoError(t, b.Finish())
}

// livedJournal is one that an executor leaves: jobs that wait, retry, are halted or dead,
// locks, pauses, idempotency keys, offsets, and slots if there are to be some.
func livedJournal(t testing.TB, dir string, slots bool) {
	t.Helper()
	x, err := executor.Open(dir, executor.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	cfg := executor.QueueConfig[string]{MaxRetries: 5, RetryIn: func(int) time.Duration { return time.Hour }}
	cfg.Conditions.Locks.OnEnqueue = func(id, _ string) []string { return []string{"lock of " + id} }
	var uses *executor.Slots[int]
	if slots {
		uses, err = executor.NewSlots(x, "numbers", executor.SlotsConfig[int]{Next: func(n int) int { return n + 1 }, KeepOnFailure: true, TTL: time.Hour})
		require.NoError(t, err)
		cfg.Conditions.Slots = []executor.SlotSource{uses}
	}
	var done sync.WaitGroup
	q, err := executor.Handle(x, "jobs", func(_ context.Context, job executor.Job[string]) error {
		defer done.Done()
		switch job.Payload {
		case "fails":
			return errors.New("it failed: \xff")
		case "dies":
			return executor.Cancel(errors.New("for good"))
		}
		return nil
	}, cfg)
	require.NoError(t, err)
	require.NoError(t, x.Start(context.Background()))
	for i := range 30 {
		id := fmt.Sprintf("tenant-%d/job-%d", i%5, i%11)
		done.Add(1)
		payload := []string{"runs", "fails", "dies"}[i%3]
		_, err := q.Enqueue(t.Context(), payload+id, payload, executor.IdempotencyKey(fmt.Sprint("key ", i)))
		if err != nil {
			t.Fatal(err)
		}
		_, err = q.Enqueue(t.Context(), id, fmt.Sprint(i), executor.In(time.Hour), executor.FromSource("feed", int64(i)), executor.Metadata(map[string]string{"n": fmt.Sprint(i)}))
		require.NoError(t, err)
	}
	waited := make(chan struct{})
	go func() { done.Wait(); close(waited) }()
	select {
	case <-waited:
	case <-time.After(time.Minute):
		t.Fatal("the jobs don't run")
	}
	require.NoError(t, x.KeyLocks().Lock(t.Context(), "by hand"))
	_, err = x.Inspect().Pause(t.Context(), inspect.SelectIDs(q.Name(), "tenant-1/job-1", "tenant-2/job-2", "nobody"))
	require.NoError(t, err)
	_, err = x.Inspect().Pause(t.Context(), inspect.SelectQueue(q.Name()))
	require.NoError(t, err)
	require.NoError(t, x.Stop(t.Context()))
}

// commands is where commands are built, once one is.
var commands string

// strand is the command strand, for its export.
var strand = sync.OnceValues(func() (string, error) {
	dir, err := filepath.Abs("../..")
	if err != nil {
		return "", err
	}
	if commands, err = os.MkdirTemp("", "strand-commands-"); err != nil {
		return "", err
	}
	path := filepath.Join(commands, "strand")
	build := exec.Command("go", "build", "-o", path, "./executor/cmd/strand")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// printed is what strand export prints of a journal.
func printed(t testing.TB, dir string) string {
	t.Helper()
	path, err := strand()
	require.NoError(t, err)
	out, err := exec.Command(path, "export", dir).Output()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// listed are the pieces of a journal as text, of each id, and of what is beside them.
func listed(t testing.TB, dir string) (ids map[string][]string, beside []string) {
	t.Helper()
	v, err := journal.OpenView(dir)
	require.NoError(t, err)
	defer v.Close()
	ids = make(map[string][]string)
	for p, err := range alone(v).pieces {
		require.NoError(t, err)
		text := fmt.Sprintf("%v: %q", &p, p.encode(nil))
		if p.entry != nil {
			id := string(p.entry.ID)
			ids[id] = append(ids[id], text)
		} else {
			beside = append(beside, text)
		}
	}
	return ids, beside
}
