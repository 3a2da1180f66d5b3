package command

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/journal"
)

// What a list leaves out is counted as if it had been listed, whatever the flags say
// about the queues and whatever is paused of them, and inspect counts what jobs lists.
func TestWhatIsNotListedCounts(t *testing.T) {
	t.Parallel()
	slow(t)
	for seed := range uint64(4) {
		dir := crowd(t, seed)
		require.Equal(t, listed(t, dir), counted(t, dir), "seed %d", seed)
		for _, args := range [][]string{{"a", "id-3", "id-7"}, {"a", "-prefix", "id-1"}, {"b"}}[:seed] {
			must(t, "", append([]string{"pause", dir}, args...)...)
		}
		untouched(t, dir)
		for _, args := range [][]string{
			{"replay"}, {"replay", "-max-payloads", "*=2"}, {"replay", "-shape", "*=events"}, {"replay", "-shape", "b=events"}, {"replay", "-shape", "*=state"},
			{"replay", "-on-failure", "*=Block", "-max-payloads", "a=3"}, {"replay", "-merge", "*=KeepLast", "-on-failure", "a=Block"},
		} {
			args = append(args, dir, "-json")
			want := last(must(t, "", args...))
			for _, limit := range []string{"1", "3", "17", "60"} {
				require.Equal(t, want, last(must(t, "", append(args, "-limit", limit)...)), "seed %d: %q -limit %s", seed, args, limit)
			}
		}
	}
}

// What is paused is as visible at rest as in a process, and the next start does not run it.
func TestWhatIsPausedAtRest(t *testing.T) {
	dir := office(t)
	summary := func(args ...string) string {
		return last(must(t, "", append([]string{"replay", dir, "-json"}, args...)...))
	}
	replayed := func(paused, due, delayed int) {
		t.Helper()
		want := fmt.Sprintf(`{"type":"summary","runs":%d,"due":%d,"delayed":%d,"halted":0,"paused":%d,"merged":0}`, due+delayed, due, delayed, paused)
		require.Equal(t, want, summary("-queue", "orders"))
		require.Equal(t, want, summary("-queue", "orders", "-limit", "1"))
	}
	replayed(0, 1, 1)
	must(t, "", "pause", dir, "orders", "order-3")
	replayed(1, 1, 0)
	require.Regexp(t, `(?m)^orders +1 id, 0 prefixes +2 `, must(t, "", "inspect", dir))
	require.Regexp(t, `order-3  parked`, must(t, "", "jobs", dir))
	must(t, "", "pause", dir, "orders", "-prefix", "order-2")
	replayed(2, 0, 0)
	require.Contains(t, must(t, "", "job", dir, "orders", "order-2"), `now: orders/order-2 is paused (pause of the prefix "order-2")`)
	must(t, "", "pause", dir, "orders")
	replayed(2, 0, 0)
	require.Contains(t, must(t, "", "jobs", dir), "4 jobs\npaused: orders\n")
	require.Contains(t, must(t, "", "inspect", dir, "-json"), `"paused":true,"paused_ids":1,"paused_prefixes":1`)
	require.Contains(t, must(t, "", "replay", dir, "-queue", "orders"), "0 runs: 0 due now, 0 later; 0 halted jobs; 2 runs are paused\n")
	must(t, "", "resume", dir, "orders")
	must(t, "", "pause", dir)
	require.Equal(t, `{"type":"summary","runs":0,"due":0,"delayed":0,"halted":1,"paused":3,"merged":0}`, summary("-limit", "2"))
	require.Contains(t, must(t, "", "jobs", dir), "paused: idle, mails, orders\n")
}

func last(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return lines[len(lines)-1]
}

// crowd is a journal of two queues whose jobs are in all states.
func crowd(t *testing.T, seed uint64) string {
	dir := filepath.Join(t.TempDir(), "crowd.strand")
	random := rand.New(rand.NewPCG(seed, 1))
	l := newLedger(t, dir)
	var entries []journal.Entry
	for range 150 {
		entries = append(entries, journal.Entry{
			Queue: []uint32{l.queue("a"), l.queue("b")}[random.IntN(2)], ID: fmt.Appendf(nil, "id-%d", random.IntN(30)), Score: float64(random.IntN(9)),
			Payload: fmt.Appendf(nil, "p%d", random.IntN(9)), Due: someday.Add(time.Duration(random.IntN(200)-120) * time.Minute).UnixNano(),
		})
	}
	ticket, err := l.Append(t.Context(), entries, nil)
	require.NoError(t, err)
	require.NoError(t, ticket.Wait(t.Context()))
	var c journal.Change
	decided := make(map[string]bool)
	for i, e := range entries {
		if job := fmt.Sprint(e.Queue, string(e.ID)); random.IntN(2) == 0 && !decided[job] {
			decided[job] = true
			state := journal.Entry{
				Queue: e.Queue, ID: e.ID, Retry: random.IntN(4) - 1, Halted: random.IntN(5) == 0, Error: []byte("no"),
				Due: someday.Add(time.Duration(random.IntN(100)-70) * time.Minute).UnixNano(),
			}
			if random.IntN(2) == 0 {
				state.Failed = []journal.Position{ticket.Position(i)}
			}
			c.States = append(c.States, journal.JobState{Entry: state})
		}
	}
	l.record(c)
	l.close()
	return dir
}

// listed is what jobs lists, by queue, as inspect says it.
func listed(t *testing.T, dir string) map[string]control.Census {
	jobs := make(map[string]control.Census)
	for line := range strings.Lines(must(t, "", "jobs", dir, "-json")) {
		var w waiting
		require.NoError(t, admin.Read([]byte(line), &w))
		n := jobs[w.Queue]
		n.Name = w.Queue
		n.Jobs++
		n.Payloads += w.Payloads
		if n.Bytes == nil {
			n.Bytes = new(int64)
		}
		*n.Bytes += w.TotalBytes
		switch {
		case w.State == inspect.JobHalted:
			n.Halted++
		case w.Attempt > 1:
			n.Retrying++
		default:
			n.Fresh++
		}
		switch w.State {
		case inspect.JobReady:
			require.False(t, w.Due.After(someday))
			n.Due++
		case inspect.JobScheduled, inspect.JobRetrying:
			require.True(t, w.Due.After(someday))
			n.Delayed++
		}
		jobs[w.Queue] = n
	}
	return jobs
}

func counted(t *testing.T, dir string) map[string]control.Census {
	jobs := make(map[string]control.Census)
	for line := range strings.Lines(must(t, "", "inspect", dir, "-json")) {
		var n struct {
			Type string
			control.Census
		}
		if require.NoError(t, admin.Read([]byte(line), &n)); n.Type == "queue" {
			n.Age = 0 // no list shows it
			jobs[n.Name] = n.Census
		}
	}
	return jobs
}
