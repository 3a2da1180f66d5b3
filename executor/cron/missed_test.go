package cron_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
)

// M04: ticks in the gap of a restart are not made up for, unless the schedule says
// so, but they are reported: once, however many there were.
func TestMissedInAGap(t *testing.T) {
	for _, c := range []struct {
		spec             string
		first, gap, rest time.Duration // until the process ends, until the next one begins, and of that one
		ticks, line      string
	}{
		{"0 4 * * *", 12 * time.Hour, 24 * time.Hour, 48 * time.Hour, "01-02T04:00:00", "ticks=1 oldest=2000-01-02T04:00:00.000Z newest=2000-01-02T04:00:00.000Z"},
		{"0 4 * * *", time.Hour, 24 * time.Hour, 48 * time.Hour, "01-01T04:00:00", "ticks=1 oldest=2000-01-01T04:00:00.000Z newest=2000-01-01T04:00:00.000Z"}, // none has fired before
		{"0 4 * * *", 12 * time.Hour, time.Hour, 48 * time.Hour, "", ""},
		{"@hourly", 90 * time.Minute, 3 * time.Hour, 48 * time.Hour, "01-01T04:00:00", "ticks=3 oldest=2000-01-01T02:00:00.000Z newest=2000-01-01T04:00:00.000Z"},
		{"@every 1s", time.Minute, time.Hour, 5 * time.Minute, "01-01T01:01:00", "ticks=1000 more=true oldest=2000-01-01T00:01:01.000Z newest=2000-01-01T01:01:00.000Z"},
	} {
		bubble(t, func(t *testing.T) {
			var log bytes.Buffer
			r := rig{disk: new(journal.Memory), cron: cron.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
			s := r.open(t)
			s.add(t, "report", c.spec)
			require.True(t, s.entry(t, "report").Last.IsZero())
			s.start(t)
			time.Sleep(c.first)
			synctest.Wait()
			last := s.entry(t, "report").Last
			s.stop(t)
			time.Sleep(c.gap)
			log.Reset()
			s = r.open(t)
			s.add(t, "report", c.spec)
			require.Equal(t, last, s.entry(t, "report").Last)
			require.True(t, s.entry(t, "report").Lost.IsZero())
			s.start(t)
			synctest.Wait()
			require.Empty(t, s.r.take())
			if c.line == "" {
				require.NotContains(t, log.String(), "missed")
				require.True(t, s.entry(t, "report").Lost.IsZero())
			} else {
				require.Contains(t, log.String(), `msg="ticks missed" schedule=report `+c.line)
				require.Equal(t, c.ticks, s.entry(t, "report").Lost.UTC().Format("01-02T15:04:05"))
			}
			time.Sleep(c.rest)
			synctest.Wait()
			require.LessOrEqual(t, strings.Count(log.String(), "missed"), 1)
			s.stop(t)
		})
	}
}

// lines is a log of which a function hears each line.
type lines func(string)

func (l lines) Write(line []byte) (int, error) {
	l(string(line))
	return len(line), nil
}

// A tick that comes late, and is dropped, takes back none of those that have fired since.
func TestDroppedTickThatIsLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := rig{}.open(t)
		log := lines(func(line string) {
			if strings.Contains(line, `msg="tick not enqueued" schedule=report tick=2000-01-01T00:01:00`) {
				_, err := a.x.Inspect().Resume(t.Context(), inspect.SelectQueue("jobs"))
				assert.NoError(t, err)
				time.Sleep(time.Second) // the job of the second tick ends
			}
		})
		b := a
		b.c = rig{cron: cron.Config{Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}}.join(t, a.x)
		for _, s := range []side{a, b} {
			s.add(t, "report", "* * * * *", overlap(cron.OverlapSkip), missed(cron.MissedAll))
		}
		begin := time.Now()
		a.start(t)
		time.Sleep(90 * time.Second)
		_, err := a.x.Inspect().Pause(t.Context(), inspect.SelectQueue("jobs"))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		b.start(t)
		time.Sleep(10 * time.Second)
		require.NoError(t, b.c.Stop(t.Context()))
		require.Equal(t, ticks("report", begin, time.Now()), a.r.take())
		a.stop(t)
	})
}

// A schedule that is new has missed nothing, in whatever year.
func TestNothingIsMissedBeforeAdd(t *testing.T) {
	for _, m := range []cron.Missed{cron.MissedSkip, cron.MissedOnce, cron.MissedAll} {
		bubble(t, func(t *testing.T) {
			var log bytes.Buffer
			s := rig{cron: cron.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}}.open(t)
			s.add(t, "report", "@every 1s", missed(m))
			s.start(t)
			time.Sleep(time.Minute)
			synctest.Wait()
			require.NotContains(t, log.String(), "missed")
			s.stop(t)
		})
	}
}

// exits is a handler of a logger that ends the goroutine, as testing's FailNow does.
type exits struct{ slog.Handler }

func (exits) Handle(context.Context, slog.Record) error {
	runtime.Goexit()
	return nil
}

// A logger that ends its goroutine ends no clock, and no tick.
func TestALoggerThatExits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		election, err := new(lock.Table).NewElection("cron", lock.ElectionConfig{})
		require.NoError(t, err)
		g, err := cron.NewGroup(election)
		require.NoError(t, err)
		var wall clock
		logger := slog.New(exits{slog.NewTextHandler(io.Discard, nil)})
		s := rig{now: wall.now, cron: cron.Config{Group: g, Member: "a", Logger: logger}}.open(t)
		s.add(t, "report", "* * * * *")
		s.start(t) // it says that it leads
		time.Sleep(90 * time.Second)
		require.Len(t, s.r.take(), 1)
		wall.set(10 * time.Minute) // it says what it has missed
		time.Sleep(2 * time.Minute)
		report := s.entry(t, "report")
		require.False(t, report.Lost.IsZero())
		require.True(t, report.Last.After(report.Lost))
		s.stop(t)
	})
}
