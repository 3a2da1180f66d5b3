package executor_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

// diary is a log that keeps its warnings, without their time.
type diary struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (d *diary) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(d, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}}))
}

func (d *diary) Write(line []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.Write(line)
}

// take returns the lines since the last call.
func (d *diary) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.text.Reset()
	return strings.Split(strings.TrimSpace(d.text.String()), "\n")
}

// What goes to the morgue is in the log and in the figures, however it comes there.
func TestBurialsAreTold(t *testing.T) {
	codec := fading{new(atomic.Bool)}
	for name, test := range map[string]struct {
		cfg  executor.QueueConfig[string]
		err  error
		want string // payloads, position
		dead int
	}{
		"exhausted, oldest":  {executor.QueueConfig[string]{}, errBoom, `payloads=1 .* position=1 error=boom`, 1},
		"exhausted, all":     {executor.QueueConfig[string]{DeadLetters: executor.DeadLetters[string]{OnExhausted: executor.OnExhaustedBuryAll}}, errBoom, `payloads=3 .* position=1 error=boom`, 3},
		"cancelled":          {executor.QueueConfig[string]{MaxRetries: 9}, executor.Cancel(errBoom), `payloads=3 .* position=1 error=.*boom`, 3},
		"spoiled":            {executor.QueueConfig[string]{Codec: codec}, nil, `payloads=2 .* position=2 error="payload does not decode: unreadable"`, 2},
		"spoiled and oldest": {executor.QueueConfig[string]{Codec: codec}, errBoom, `payloads=3 .* position=1 error=boom`, 3},
		"halted":             {executor.QueueConfig[string]{DeadLetters: executor.DeadLetters[string]{OnExhausted: executor.OnExhaustedHalt}}, errBoom, "", 0}, // see TestHaltedIsTold
		"done":               {executor.QueueConfig[string]{}, nil, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var log diary
				x := open(t, "", executor.Config{Logger: log.logger()})
				if test.cfg.MaxRetries == 0 {
					test.cfg.MaxRetries = -1
				}
				codec.on.Store(false)
				p := &probe{}
				p.decide = func(context.Context, seen) error {
					if len(p.log()) > 1 {
						return executor.Snooze(time.Hour) // the first run is the one to look at
					}
					return test.err
				}
				q := handle(t, x, "orders", p.handle, test.cfg)
				for _, payload := range []string{"good", "bad1", "bad2"} {
					enqueue(t, q, "a b", payload)
				}
				codec.on.Store(true)
				start(t, x)
				synctest.Wait()
				lines := log.take()
				if test.want == "" {
					require.NotContains(t, lines[0], "morgue")
				} else {
					require.Len(t, lines, 1)
					require.Regexp(t, regexp.MustCompile(`msg="job went to the morgue" .*queue=orders id="a b"`), lines[0])
					require.Regexp(t, regexp.MustCompile(test.want), strings.Replace(lines[0], "queue=orders", "", 1))
				}
				require.Equal(t, test.dead, stats(t, q).Dead)
				require.Len(t, morgueOf(t, q), test.dead)
				stop(t, x)
			})
		})
	}
}

// In a batch the error of others is not the reason for a payload that the handler
// did not see.
func TestBurialsOfABatchAreTold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log diary
		x := open(t, "", executor.Config{Logger: log.logger(), Workers: 1})
		codec := fading{new(atomic.Bool)}
		q, err := executor.HandleBatch(x, "q", func(context.Context, []executor.Merged[string]) error { return errBoom },
			executor.QueueConfig[string]{Codec: codec, BatchSize: 2, Share: executor.Share{Shards: 1}, MaxRetries: -1})
		require.NoError(t, err)
		enqueue(t, q, "1", "bad")
		enqueue(t, q, "2", "good")
		codec.on.Store(true)
		start(t, x)
		synctest.Wait()
		lines := log.take()
		slices.SortFunc(lines, func(a, b string) int {
			return strings.Compare(a[strings.Index(a, "id="):], b[strings.Index(b, "id="):])
		})
		require.Len(t, lines, 2)
		require.Contains(t, lines[0], `payloads=1 queue=q id=1 position=1 error="payload does not decode`)
		require.Contains(t, lines[1], "payloads=1 queue=q id=2 position=2 error=boom")
		stop(t, x)
	})
}

// morgueOf lists the bytes of the dead payloads of a queue.
func morgueOf(t *testing.T, q *executor.Queue[string]) (raw []string) {
	for d := range q.Morgue() { // those that don't decode come with an error
		raw = append(raw, string(d.Raw))
	}
	return raw
}

// A flood of burials is ten lines a second, and the next line says how many were
// left out.
func TestBurialsDoNotFloodTheLog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log diary
		x := open(t, "", executor.Config{Logger: log.logger()})
		p := &probe{decide: func(context.Context, seen) error { return executor.Cancel(errBoom) }}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{})
		start(t, x)
		for i := range 500 {
			enqueue(t, q, fmt.Sprint(i), "")
		}
		synctest.Wait()
		require.Len(t, log.take(), 10)
		time.Sleep(time.Second)
		enqueue(t, q, "later", "")
		synctest.Wait()
		lines := log.take()
		require.Len(t, lines, 1)
		require.Contains(t, lines[0], "left_out=490")
		require.Equal(t, 501, stats(t, q).Dead)
		stop(t, x)
	})
}

// The dead of a queue that is not registered are counted, too, and those that are
// put back no more.
func TestDeadAreCountedAfterARestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		leave(t, disk, "old")
		x := openOn(t, disk, executor.Config{})
		s, err := x.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, []inspect.QueueStats{{Name: "old", Unclaimed: 1, Dead: 1}}, s.Queues)
		q := handle(t, x, "old", (&probe{}).handle, executor.QueueConfig[string]{})
		require.Equal(t, 1, stats(t, q).Dead)
		_, err = x.Inspect().Requeue(t.Context(), inspect.SelectIDs(q.Name(), "dead"))
		require.NoError(t, err)
		require.Zero(t, stats(t, q).Dead)
		stop(t, x)
	})
}

// One large dead letter makes room for a few of its kind in the file, and not for each letter that
// comes after it.
func TestTheFileStaysSmallAfterALargeDeadLetter(t *testing.T) {
	dir := t.TempDir()
	x := open(t, dir, executor.Config{})
	q, err := executor.Handle(x, "q", func(context.Context, executor.Job[string]) error { return executor.Cancel(errBoom) }, executor.QueueConfig[string]{})
	require.NoError(t, err)
	start(t, x)
	enqueue(t, q, "large", strings.Repeat("x", 200_000))
	drained(t, q)
	var many []executor.Item[string]
	for i := range 3000 {
		many = append(many, executor.Item[string]{ID: fmt.Sprint(i), Payload: "x", Due: time.Now().Add(time.Hour)})
	}
	_, err = q.EnqueueMany(t.Context(), many)
	require.NoError(t, err)
	n, err := x.Inspect().Cancel(t.Context(), inspect.SelectQueue("q"), "")
	require.NoError(t, err)
	require.Equal(t, len(many), n)
	stop(t, x)
	file, err := os.Stat(filepath.Join(dir, "journal.db"))
	require.NoError(t, err)
	require.Less(t, file.Size(), int64(32<<20))
}
