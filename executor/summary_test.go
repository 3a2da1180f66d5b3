package executor_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// records keeps what is logged.
type records struct {
	slog.Handler
	least slog.Level
	first func() // called before the first line is kept; may be nil

	mu  sync.Mutex
	all []record
}

// record is one line.
type record struct {
	level slog.Level
	msg   string
	attrs map[string]any
}

func (r *records) logger(least slog.Level) *slog.Logger {
	r.Handler, r.least = slog.DiscardHandler, least
	return slog.New(r)
}

func (r *records) Enabled(_ context.Context, level slog.Level) bool { return level >= r.least }

func (r *records) Handle(_ context.Context, line slog.Record) error {
	one := record{line.Level, line.Message, make(map[string]any)}
	line.Attrs(func(a slog.Attr) bool { one.attrs[a.Key] = a.Value.Any(); return true })
	if r.first != nil {
		r.first()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, one)
	return nil
}

func (r *records) WithAttrs([]slog.Attr) slog.Handler { return r } // which no summary has

func (r *records) take() (all []record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, r.all = r.all, nil
	return all
}

// One line at the start says what there is, one at the stop what became of it.
func TestSummaries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log records
		disk := new(journal.Memory)
		leave(t, disk, "old")
		x := openOn(t, disk, executor.Config{Logger: log.logger(slog.LevelInfo), Workers: 3})
		p := &probe{decide: func(_ context.Context, s seen) error {
			switch s.id {
			case "bad":
				return errBoom
			case "worse":
				return executor.Cancel(errBoom)
			case "needless":
				return executor.Discard()
			}
			return nil
		}}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{RetryIn: always(time.Hour)})
		handle(t, x, "idle", p.handle, executor.QueueConfig[string]{})
		for _, id := range []string{"good", "better", "bad", "worse", "needless"} {
			enqueue(t, q, id, "x")
		}
		time.Sleep(2 * time.Second)
		require.Empty(t, log.take())
		start(t, x)
		require.Equal(t, []record{{slog.LevelInfo, "executor starts", map[string]any{
			"dir": "a disk in memory", "workers": int64(3), "queues": int64(2), "waiting": int64(5), "unclaimed": int64(1),
			"recovered": false, "took": 2 * time.Second,
		}}}, log.take()[:1], "what follows is of jobs that have run already")
		synctest.Wait()
		log.take()
		time.Sleep(time.Minute)
		stop(t, x)
		require.Equal(t, []record{{slog.LevelInfo, "executor stopped", map[string]any{
			"dir": "a disk in memory", "done": uint64(2), "failed": uint64(1), "buried": uint64(1), "discarded": uint64(1),
			"waiting": int64(1), "ran_for": time.Minute, "took": time.Duration(0),
		}}}, log.take())
	})
}

// What a handler enqueues with its success while the executor stops is among what is left.
func TestSummaryCountsTheLastFollowUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log records
		x := openOn(t, new(journal.Memory), executor.Config{Logger: log.logger(slog.LevelInfo)})
		next := handle(t, x, "next", (&probe{}).handle, executor.QueueConfig[string]{})
		q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
			time.Sleep(time.Second)
			return next.FollowUp(job, "id", "x")
		}, executor.QueueConfig[string]{})
		require.NoError(t, err)
		start(t, x)
		enqueue(t, q, "id", "x")
		synctest.Wait()
		stop(t, x)
		all := log.take()
		require.Equal(t, "executor stopped", all[len(all)-1].msg)
		require.EqualValues(t, 1, all[len(all)-1].attrs["waiting"])
	})
}

// An executor that was not started has nothing to tell.
func TestNoSummaryWithoutAStart(t *testing.T) {
	var log records
	x := open(t, "", executor.Config{Logger: log.logger(slog.LevelInfo)})
	handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
	stop(t, x)
	require.Empty(t, log.take())
}

// Burials that were left out are counted at the stop, at the latest, and are worth
// a warning there.
func TestBurialsThatWereLeftOutAreToldAtTheStop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log records
		x := open(t, "", executor.Config{Logger: log.logger(slog.LevelWarn)})
		p := &probe{decide: func(context.Context, seen) error { return executor.Cancel(errBoom) }}
		for _, name := range []string{"a", "b"} {
			q := handle(t, x, name, p.handle, executor.QueueConfig[string]{})
			for i := range 25 {
				enqueue(t, q, fmt.Sprint(i), "")
			}
		}
		start(t, x)
		synctest.Wait()
		require.Len(t, log.take(), 20)
		stop(t, x)
		all := log.take()
		require.Len(t, all, 1)
		require.Equal(t, "executor stopped", all[0].msg)
		require.EqualValues(t, 30, all[0].attrs["left_out"])
		require.EqualValues(t, 50, all[0].attrs["buried"])
	})
}

// A stop that left handlers behind says which, and that no other process can open
// the journal.
func TestSummaryOfAStopThatIsStuck(t *testing.T) {
	for _, n := range []int{2, 13} {
		bubble(t, func(t *testing.T) {
			var log records
			x := open(t, "", executor.Config{Logger: log.logger(slog.LevelWarn), Workers: n})
			release := make(chan struct{})
			q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error { <-release; return nil }, executor.QueueConfig[string]{})
			start(t, x)
			for i := range n {
				enqueue(t, q, fmt.Sprintf("%02d", i), "x")
			}
			synctest.Wait()
			require.ErrorIs(t, x.Stop(expired(t)), executor.ErrStuck)
			all := log.take()
			require.Len(t, all, 1)
			require.Equal(t, "executor stopped", all[0].msg)
			require.Equal(t, "locked until they have returned, or the process ends", all[0].attrs["journal"])
			stuck := all[0].attrs["stuck"].([]string)
			require.Equal(t, []string{"q/00", "q/01"}, stuck[:2])
			require.LessOrEqual(t, len(stuck), 11)
			if n > 10 {
				require.Equal(t, "and 3 more", stuck[10])
			}
			close(release)
		})
	}
}

// A logger that ends the goroutine of a stop does not keep the stop from its end,
// nor the journal from the next one.
func TestALoggerThatExitsAtTheStop(t *testing.T) {
	dir := t.TempDir() + "/journal"
	running, release := make(chan struct{}), make(chan struct{})
	x := open(t, dir, executor.Config{Logger: slog.New(exitingLog{slog.DiscardHandler})})
	q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error {
		close(running)
		<-release
		return nil
	}, executor.QueueConfig[string]{})
	start(t, x)
	enqueue(t, q, "stubborn", "x")
	await(t, running)
	require.ErrorContains(t, x.Stop(expired(t)), "q/stubborn")
	close(release)
	stop(t, openAtLast(t, dir))
}

type exitingLog struct{ slog.Handler }

func (exitingLog) Enabled(context.Context, slog.Level) bool { return true }

func (exitingLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "executor stopped" {
		runtime.Goexit()
	}
	return nil
}

// A start on a full disk says what is off, and until when.
func TestSummaryOfAStartOnAFullDisk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log diary
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{Logger: log.logger()})
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
		disk.Limit(1)
		_, err := q.Enqueue(t.Context(), "a", "x")
		require.ErrorIs(t, err, executor.ErrFull)
		synctest.Wait()
		require.Contains(t, log.take()[0], "disk is full")
		start(t, x)
		require.Equal(t, []string{`msg="no crash recorder: jobs that kill the process are not found out until the next start, and suspects that are held stay so" error="journal: crash recorder: the disk has no room for what is known of the last crash, or is slow"`}, log.take())
		disk.Limit(0)
		stop(t, x)
	})
}
