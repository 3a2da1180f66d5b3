//go:build unix

package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// runbook returns the commands of a row of the runbook as calls, in order, with the directories of a reader.
func runbook(t *testing.T, row, dir, newDir string) (calls [][]string) {
	t.Helper()
	text, err := os.ReadFile("../cmd/strand/README.md")
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(row) + ` \| (.*) \|$`).FindSubmatch(text)
	require.NotNil(t, line, "the runbook has no row %q", row)
	for _, say := range regexp.MustCompile("`strand ([^`…]+)`").FindAllStringSubmatch(string(line[1]), -1) {
		var args []string
		for _, word := range regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(say[1], -1) {
			switch word = strings.Trim(word, `"`); word {
			case "DIR":
				word = dir
			case "NEWDIR":
				word = newDir
			}
			args = append(args, word)
		}
		calls = append(calls, args)
	}
	require.NotEmpty(t, calls, row)
	return calls
}

// shapeOf returns the name of the function that the README's table sends payloads of a kind to.
func shapeOf(t *testing.T, payloads string) string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	row := regexp.MustCompile(`(?m)^\| \*\*` + payloads + "\\*\\*: [^|]* \\| `(\\w+)` \\|").FindSubmatch(text)
	require.NotNil(t, row, "the README has no row for %s", payloads)
	return string(row[1])
}

// registerAs registers what the README says, with no other setting than a pause before retries that is
// longer than the test, as it is after a long outage.
func registerAs(t *testing.T, x *executor.Executor, shape, name string, handler func(context.Context, executor.Job[int]) error) *executor.Queue[int] {
	t.Helper()
	var q *executor.Queue[int]
	var err error
	cfg := executor.QueueConfig[int]{RetryIn: func(int) time.Duration { return time.Hour }}
	switch shape {
	case "Handle":
		q, err = executor.Handle(x, name, handler, cfg)
	case "HandleLatest":
		q, err = executor.HandleLatest(x, name, handler, cfg)
	default:
		require.FailNow(t, "the README sends here to "+shape)
	}
	require.NoError(t, err)
	return q
}

// target is what a queue keeps up to date: down during an outage, when it refuses odd versions of odd
// ids for good and all else for now.
type target struct {
	mu   sync.Mutex
	down bool
	got  map[string][]int // by id, in the order in which they were applied
}

func (g *target) apply(_ context.Context, job executor.Job[int]) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.down {
		g.got[job.ID] = append(g.got[job.ID], job.Payload)
		return nil
	}
	err := errors.New("the target is down")
	if job.Payload%2 == 1 && strings.ContainsAny(job.ID[len(job.ID)-1:], "13579") {
		return executor.Cancel(err)
	}
	return err
}

func (g *target) set(down bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.down = down
}

func (g *target) applied(id string) []int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]int(nil), g.got[id]...)
}

// The README and the runbook to the letter, after an outage: state in the shape that the README names
// for it, with no other setting, and what the runbook says when the cause is fixed, over a restart, too.
// Each mirror has its newest state then, and none went back to an older one. Of events each is applied,
// and the answer says how many come late; or in the order of each id, where the row is about that.
func TestTheRunbookAfterAnOutage(t *testing.T) {
	for _, of := range []struct{ payloads, row string }{{"state", anyOrder}, {"events", anyOrder}, {"events", inTheirOrder}} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, %s, restart %v", of.payloads, of.row, restart), func(t *testing.T) {
				t.Parallel()
				afterAnOutage(t, of.payloads, of.row, restart)
			})
		}
	}
}

// The rows for when the cause is fixed.
const (
	anyOrder     = "the cause is fixed: state, or events whose order does not matter"
	inTheirOrder = "the cause is fixed: events, each id in order"
)

func afterAnOutage(t *testing.T, payloads, row string, restart bool) {
	const ids = 60
	short, err := os.MkdirTemp("", "") // the path of a socket has 103 bytes at most
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	dir := filepath.Join(short, "jobs.strand")
	g := &target{down: true, got: make(map[string][]int)}
	var x *executor.Executor
	var q *executor.Queue[int]
	begin := func() {
		var err error
		x, err = executor.Open(dir, executor.Config{ControlSocket: true, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		q = registerAs(t, x, shapeOf(t, payloads), "orders", g.apply) // the queue of the runbook
		require.NoError(t, x.Start(t.Context()))
	}
	until := func(is func(inspect.QueueStats) bool) {
		t.Helper()
		require.Eventually(t, func() bool {
			s, err := q.Stats(t.Context())
			return err == nil && is(s)
		}, time.Minute, time.Millisecond)
	}
	all := make(map[string][]int)
	send := func(version, every int) {
		for i := 0; i < ids; i += every {
			id := fmt.Sprint("order-", i)
			_, err := q.Enqueue(t.Context(), id, version)
			require.NoError(t, err)
			all[id] = append(all[id], version)
		}
	}
	begin()
	send(1, 1)
	until(func(s inspect.QueueStats) bool { return s.Dead == ids/2 && s.Retrying == ids/2 })
	send(2, 2) // what waits for its retry gets a newer one
	send(3, 3) // so do some of those that are dead: it dies, too
	until(func(s inspect.QueueStats) bool { return s.Running == 0 && s.Retrying == ids/2 && s.Dead >= ids/2 })
	send(4, 13) // and behind some of the dead one waits for its retry
	until(func(s inspect.QueueStats) bool { return s.Running == 0 && s.Retrying == ids/2+2 })
	g.set(false)
	until(func(s inspect.QueueStats) bool { return s.Running == 0 }) // what has failed is back
	send(5, 5)                                                       // the first after the outage
	until(func(s inspect.QueueStats) bool { return s.Done >= ids/5/2 })
	if restart {
		require.NoError(t, x.Stop(t.Context()))
		begin()
	}

	var said strings.Builder
	before := make(map[string]int)
	for id := range all {
		before[id] = len(g.applied(id))
	}
	for _, args := range runbook(t, row, dir, "") {
		said.WriteString(must(t, "", args...))
		until(func(s inspect.QueueStats) bool { return s.Payloads == 0 || s.Paused && s.Running == 0 })
	}
	until(func(s inspect.QueueStats) bool { return s.Payloads+s.Dead == 0 })
	require.Contains(t, said.String(), map[string]string{anyOrder: "made due\n", inTheirOrder: "canceled\n"}[row])
	require.Contains(t, said.String(), "requeued")
	for id, sent := range all {
		got := g.applied(id)
		if row == inTheirOrder {
			require.IsIncreasing(t, append([]int{0}, got[before[id]:]...), id)
		}
		if payloads == "state" {
			require.IsIncreasing(t, append([]int{0}, got...), id)
			require.Equal(t, sent[len(sent)-1], got[len(got)-1], id)
			require.NotContains(t, said.String(), "later payloads", "none is put over a newer one")
			continue
		}
		require.ElementsMatch(t, sent, got, id)
	}
	if payloads == "events" {
		require.Contains(t, said.String(), "later payloads of their ids have run")
	}
	require.NoError(t, x.Stop(t.Context()))
}

// untilWritten tells when something was written to it.
type untilWritten struct {
	once    sync.Once
	written chan struct{}
}

func (u *untilWritten) Write(p []byte) (int, error) {
	u.once.Do(func() { close(u.written) })
	return len(p), nil
}

// What the runbook says at 3 a.m. can be said, word by word, to a process that runs or to a journal at
// rest.
func TestEachCommandOfTheRunbook(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs.strand")
	x, err := executor.Open(dir, executor.Config{ControlSocket: true, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	q, err := executor.Handle(x, "orders", func(_ context.Context, job executor.Job[int]) error {
		return errors.New("the target is down")
	}, executor.QueueConfig[int]{})
	require.NoError(t, err)
	enqueue := func(ids ...string) {
		for _, id := range ids {
			_, err := q.Enqueue(t.Context(), id, 1)
			require.NoError(t, err)
		}
	}
	enqueue("order-42", "order-7")
	require.NoError(t, x.Start(t.Context()))
	said := 0
	say := func(row string) {
		for _, args := range runbook(t, row, dir, filepath.Join(t.TempDir(), "new")) {
			var errs strings.Builder
			out := &untilWritten{written: make(chan struct{})}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan int, 1)
			go func() { ended <- Program{}.Run(ctx, append([]string{"strand"}, args...), nil, out, &errs, time.Now()) }()
			for i := 0; args[0] == "events" && len(ended) == 0; i++ { // it goes on until it is ended, and has something to tell
				enqueue(fmt.Sprint("fails-", i))
				select {
				case <-out.written:
					cancel()
				case <-time.After(time.Millisecond):
				}
			}
			status := <-ended
			cancel()
			require.Equal(t, fine, status, "%s: %q: %s", row, args, errs.String())
			said++
		}
	}
	for _, row := range []string{
		"is it well, and what lags?", "what do the workers do, and where do they hang?", "why does this job not run?",
		"what waits, what is dead?", "stop the damage", "this one now; these no more", anyOrder, inTheirOrder,
		"what has failed is not wanted any more", "what happens just now?",
	} {
		say(row)
	}
	require.NoError(t, x.Stop(t.Context()))
	for _, row := range []string{"what will the next start run?", "is the file sound?"} {
		say(row)
	}
	text, err := os.ReadFile("../cmd/strand/README.md")
	require.NoError(t, err)
	table, _, found := strings.Cut(string(text), "\nEach action says how many it has affected.")
	require.True(t, found)
	require.Equal(t, said, len(regexp.MustCompile("`strand [^`…]+`").FindAllString(table, -1))-2, "all but strand help")
}
