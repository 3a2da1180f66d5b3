package cron_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
)

func TestIDsAndScores(t *testing.T) {
	for _, c := range []struct {
		overlap cron.Overlap
		ids     []string
	}{
		{cron.OverlapParallel, []string{"report@2000-01-01T00:01:00Z", "report@2000-01-01T00:02:00Z"}},
		{cron.OverlapQueue, []string{"report", "report"}},
		{cron.OverlapSkip, []string{"report", "report"}},
	} {
		bubble(t, func(t *testing.T) {
			var jobs []executor.Merged[string]
			s := rig{handler: func(_ context.Context, job executor.Merged[string]) error {
				jobs = append(jobs, job)
				return nil
			}}.open(t)
			s.add(t, "report", "* * * * *", overlap(c.overlap), func(s *cron.Schedule[string]) { s.Zone = zone(t, "Asia/Tokyo") })
			s.start(t)
			begin := time.Now()
			time.Sleep(2*time.Minute + 30*time.Second)
			s.stop(t)
			for i, job := range jobs {
				tick := begin.Add(time.Duration(i+1) * time.Minute)
				require.Equal(t, c.ids[i], job.ID)
				require.InDelta(t, tick.Unix(), job.Payloads[0].Score, 0)
				require.True(t, tick.Equal(job.Due))
			}
			require.Len(t, jobs, 2)
		})
	}
}

// A job that takes three minutes and twenty seconds, every minute.
func TestOverlap(t *testing.T) {
	for _, c := range []struct {
		overlap cron.Overlap
		want    string // what is started, by minute
	}{
		{cron.OverlapParallel, "1 2 3 4 5 6 7 8"},
		{cron.OverlapQueue, "1 2,3,4 5,6,7"},
		{cron.OverlapSkip, "1 5"},
	} {
		bubble(t, func(t *testing.T) {
			var mu sync.Mutex
			var started []string
			s := rig{cfg: executor.Config{Workers: 20}, queue: executor.QueueConfig[string]{Share: executor.Share{Shards: 1, Concurrency: 10}},
				handler: func(_ context.Context, job executor.Merged[string]) error {
					var minutes []string
					for _, p := range job.Payloads {
						minutes = append(minutes, p.Value[len("report@01-01T00:0"):][:1])
					}
					mu.Lock()
					started = append(started, strings.Join(minutes, ","))
					mu.Unlock()
					time.Sleep(3*time.Minute + 20*time.Second)
					return nil
				}}.open(t)
			s.add(t, "report", "* * * * *", overlap(c.overlap))
			s.start(t)
			time.Sleep(8*time.Minute + 10*time.Second)
			mu.Lock()
			require.Equal(t, c.want, strings.Join(started, " "))
			mu.Unlock()
			if c.overlap == cron.OverlapSkip {
				require.ErrorIs(t, s.entry(t, "report").Err, cron.ErrOverlap)
				_, err := s.c.TriggerNow(t.Context(), "report")
				require.ErrorIs(t, err, cron.ErrOverlap)
			}
			s.stop(t)
		})
	}
}

// A tick that was dropped because of the former job is not caught up later.
func TestDroppedTicksAreOver(t *testing.T) {
	dir := t.TempDir() + "/journal"
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		s := rig{dir: dir, idle: true, cron: cron.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}}.open(t)
		s.add(t, "report", "* * * * *", overlap(cron.OverlapSkip), missed(cron.MissedAll))
		s.start(t)
		time.Sleep(3*time.Minute + 30*time.Second)
		s.stop(t)
		require.NotContains(t, log.String(), "WARN", "it was asked to drop them")
		s = rig{dir: dir}.open(t)
		s.add(t, "report", "* * * * *", overlap(cron.OverlapSkip), missed(cron.MissedAll))
		s.start(t)
		require.Equal(t, []string{"report@01-01T00:01:00"}, s.r.take())
		s.stop(t)
	})
}

func TestPauseAndResume(t *testing.T) {
	dir := t.TempDir() + "/journal"
	bubble(t, func(t *testing.T) {
		open := func() side {
			s := rig{dir: dir}.open(t)
			s.add(t, "report", "* * * * *", missed(cron.MissedAll))
			s.add(t, "other", "@hourly")
			s.start(t)
			return s
		}
		s := open()
		time.Sleep(90 * time.Second)
		require.Len(t, s.r.take(), 1)
		require.NoError(t, s.c.Pause(t.Context(), "report"))
		time.Sleep(5 * time.Minute)
		require.Empty(t, s.r.take())
		e := s.entry(t, "report")
		require.True(t, e.Paused)
		require.Equal(t, time.Now().Truncate(time.Minute).Add(time.Minute).UTC(), e.Next)
		s.stop(t)

		s = open()
		time.Sleep(5 * time.Minute)
		require.True(t, s.entry(t, "report").Paused, "after a restart, too")
		require.False(t, s.entry(t, "other").Paused)
		require.Empty(t, s.r.take())
		_, err := s.c.TriggerNow(t.Context(), "report")
		require.NoError(t, err, "paused or not")
		require.Len(t, s.r.take(), 1)
		require.NoError(t, s.c.Resume(t.Context(), "report"))
		begin := time.Now()
		time.Sleep(2 * time.Minute)
		require.Equal(t, ticks("report", begin, time.Now()), s.r.take(), "what was dropped stays dropped")
		s.stop(t)
		s = open()
		require.False(t, s.entry(t, "report").Paused)
		require.Empty(t, s.r.take())
		s.stop(t)
	})
}

// A pause holds in the whole group, whichever member leads.
func TestPauseOfAGroup(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, a, b := pair(t, lock.ElectionConfig{})
		for _, s := range []side{a, b} {
			s.add(t, "report", "* * * * *")
			s.start(t)
			synctest.Wait()
		}
		require.NoError(t, b.c.Pause(t.Context(), "report"))
		time.Sleep(2 * time.Minute)
		require.NoError(t, a.c.Stop(t.Context()))
		time.Sleep(2 * time.Minute)
		require.Empty(t, a.r.take())
		require.NoError(t, b.c.Resume(t.Context(), "report"))
		time.Sleep(time.Minute)
		require.Len(t, a.r.take(), 1)
	})
}

func TestTriggerNow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := new(record)
		s := rig{r: r}.open(t)
		s.add(t, "report", "* * * * *")
		time.Sleep(time.Minute)
		for range 2 {
			_, err := s.c.TriggerNow(t.Context(), "report") // not even started
			require.NoError(t, err)
			time.Sleep(time.Nanosecond)
		}
		synctest.Wait()
		require.Equal(t, []string{"report@2000-01-01T00:01:00.000000000Z", "report@2000-01-01T00:01:00.000000001Z"}, r.ids)
		require.Len(t, s.r.take(), 2)
		s.start(t)
		time.Sleep(time.Minute)
		require.Equal(t, []string{"report@01-01T00:02:00"}, s.r.take(), "its ticks are not concerned")
		s.stop(t)
		_, err := s.c.TriggerNow(t.Context(), "report")
		require.ErrorIs(t, err, executor.ErrClosed)
	})
}

func TestRemove(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := rig{}.open(t)
		s.add(t, "report", "* * * * *")
		s.add(t, "other", "* * * * *")
		s.start(t)
		time.Sleep(90 * time.Second)
		require.NoError(t, s.c.Pause(t.Context(), "report"))
		require.NoError(t, s.c.Remove(t.Context(), "report"))
		for _, name := range []string{"cron/tick/report", "cron/pause/report"} {
			_, found, err := s.x.SourceOffset(name)
			require.NoError(t, err)
			require.False(t, found)
		}
		require.ErrorIs(t, s.c.Remove(t.Context(), "report"), cron.ErrNotFound)
		s.r.take()
		time.Sleep(2 * time.Minute)
		require.Equal(t, []string{"other@01-01T00:02:00", "other@01-01T00:03:00"}, s.r.take())
		s.add(t, "report", "* * * * *")
		time.Sleep(time.Minute)
		require.ElementsMatch(t, []string{"other@01-01T00:04:00", "report@01-01T00:04:00"}, s.r.take(), "as if it had never been there")
		require.Len(t, s.c.List(), 2)
		s.stop(t)
	})
}

// A tick in hand is waited for by Remove and Stop, as long as they may.
func TestHangingPayload(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := rig{}.open(t)
		hung := make(chan struct{})
		hang := func(s *cron.Schedule[string]) { s.Payload = func(time.Time) string { <-hung; return "hung" } }
		s.add(t, "one", "* * * * *", hang)
		s.add(t, "two", "* * * * *", hang)
		s.add(t, "three", "* * * * *")
		s.start(t)
		time.Sleep(10*time.Minute + 30*time.Second)
		require.Len(t, s.r.take(), 10, "the third one ticks on")
		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, s.c.Remove(brief, "one"), context.DeadlineExceeded)
		err := s.c.Stop(brief)
		require.ErrorIs(t, err, executor.ErrStuck)
		require.ErrorContains(t, err, "one, two")
		close(hung)
		require.NoError(t, s.c.Stop(t.Context()), "now they have ended")
		require.Empty(t, s.r.take(), "too late")
		s.stop(t)
	})
}

// Nothing more is fired after Stop and Remove, however much is to be caught up.
func TestStopAmongManyTicks(t *testing.T) {
	for name, end := range map[string]func(*cron.Cron) error{
		"stop":   func(c *cron.Cron) error { return c.Stop(context.Background()) },
		"remove": func(c *cron.Cron) error { return c.Remove(context.Background(), "report") },
		"pause":  func(c *cron.Cron) error { return c.Pause(context.Background(), "report") },
	} {
		bubble(t, func(t *testing.T) {
			disk := new(journal.Memory)
			s := rig{disk: disk}.open(t)
			s.add(t, "report", "* * * * *", missed(cron.MissedAll))
			s.stop(t)
			time.Sleep(10 * time.Minute)

			s = rig{disk: disk}.open(t)
			hung := make(chan struct{})
			s.add(t, "report", "* * * * *", missed(cron.MissedAll), func(s *cron.Schedule[string]) {
				s.Payload = func(tick time.Time) string { <-hung; return label("report", tick) }
			})
			s.start(t)
			synctest.Wait() // the first one is in hand
			ended := make(chan error)
			go func() { ended <- end(s.c) }()
			synctest.Wait()
			close(hung)
			require.NoError(t, <-ended)
			require.Equal(t, []string{"report@01-01T00:01:00"}, s.r.take(), name)
			s.stop(t)
		})
	}
}

// A payload function may do what it wants: the tick is over, the next one asks
// again.
func TestRudePayload(t *testing.T) {
	for _, c := range []struct {
		rude func()
		want string
	}{
		{func() { panic("boom") }, "the payload function of report: panic: boom"},
		{func() { panic(rude{}) }, "the payload function of report: panic: "},
		{runtime.Goexit, "ended its goroutine"},
	} {
		bubble(t, func(t *testing.T) {
			s := rig{}.open(t)
			n := 0
			s.add(t, "report", "* * * * *", func(s *cron.Schedule[string]) {
				s.Payload = func(tick time.Time) string {
					if n++; n == 1 {
						c.rude()
					}
					return label("report", tick)
				}
			})
			s.start(t)
			time.Sleep(90 * time.Second)
			err := s.entry(t, "report").Err
			require.ErrorContains(t, err, c.want)
			_, panicked := errors.AsType[*executor.PanicError](err)
			require.Equal(t, c.want != "ended its goroutine", panicked)
			require.NotZero(t, s.entry(t, "report").Lost)
			time.Sleep(time.Minute)
			require.Equal(t, []string{"report@01-01T00:02:00"}, s.r.take())
			require.NoError(t, s.entry(t, "report").Err)
			s.stop(t)
		})
	}
}

// loud is a log handler that panics, and counts how often.
type loud struct {
	slog.Handler
	lines *atomic.Int32
}

func (loud) Enabled(context.Context, slog.Level) bool { return true }

func (l loud) Handle(context.Context, slog.Record) error {
	l.lines.Add(1)
	panic("logged")
}

// A logger that panics stops nothing.
func TestRudeLogger(t *testing.T) {
	bubble(t, func(t *testing.T) {
		election, err := new(lock.Table).NewElection("cron", lock.ElectionConfig{})
		require.NoError(t, err)
		g, err := cron.NewGroup(election)
		require.NoError(t, err)
		var lines atomic.Int32
		s := rig{cron: cron.Config{Group: g, Member: "a", Logger: slog.New(loud{lines: &lines})}}.open(t)
		s.add(t, "report", "* * * * *", func(s *cron.Schedule[string]) { s.Payload = func(time.Time) string { panic("boom") } })
		s.add(t, "other", "* * * * *")
		s.start(t)
		time.Sleep(150 * time.Second)
		require.Len(t, s.r.take(), 2)
		require.EqualValues(t, 3, lines.Load(), "who leads, and two ticks")
		s.stop(t)
	})
}

// rude is a value that can't even be printed.
type rude struct{}

func (rude) Error() string { panic(rude{}) }

// Bad input changes nothing.
func TestBadInput(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, other := rig{}.open(t), rig{}.open(t)
		s.add(t, "report", "* * * * *")
		long := strings.Repeat("x", 257)
		for _, c := range []struct {
			change func(*cron.Schedule[string])
			want   error
		}{
			{func(s *cron.Schedule[string]) { s.Name = "" }, executor.ErrConfig},
			{func(s *cron.Schedule[string]) { s.Name = long }, executor.ErrConfig},
			{func(s *cron.Schedule[string]) { s.Name = "report" }, executor.ErrConfig},
			{func(s *cron.Schedule[string]) { s.Spec = "* * * *" }, executor.ErrConfig},
			{func(s *cron.Schedule[string]) { s.Spec = "TZ=Nowhere * * * * *" }, executor.ErrConfig},
			{func(s *cron.Schedule[string]) { s.Queue = nil }, executor.ErrConfig},
			{func(s *cron.Schedule[string]) { s.Queue = new(executor.Queue[string]) }, executor.ErrConfig},
			{func(s *cron.Schedule[string]) { s.Queue = other.q }, executor.ErrConfig},
			{func(s *cron.Schedule[string]) { s.Payload = nil }, executor.ErrConfig},
			{func(s *cron.Schedule[string]) { s.Missed = 3 }, executor.ErrConfig},
			{func(s *cron.Schedule[string]) { s.Overlap = 3 }, executor.ErrConfig},
		} {
			require.ErrorIs(t, cron.Add(t.Context(), s.c, s.schedule("new", "* * * * *", c.change)), c.want)
		}
		require.ErrorIs(t, cron.Add(t.Context(), nil, s.schedule("new", "* * * * *")), executor.ErrConfig)
		require.Len(t, s.c.List(), 1)
		for _, f := range []func(context.Context, string) error{s.c.Pause, s.c.Resume, s.c.Remove} {
			require.ErrorIs(t, f(t.Context(), "new"), cron.ErrNotFound)
		}
		_, err := s.c.TriggerNow(t.Context(), "new")
		require.ErrorIs(t, err, cron.ErrNotFound)

		_, err = cron.New(nil, cron.Config{})
		require.ErrorIs(t, err, executor.ErrConfig)
		_, err = cron.NewGroup(nil)
		require.ErrorIs(t, err, executor.ErrConfig)
		election, err := new(lock.Table).NewElection("cron", lock.ElectionConfig{})
		require.NoError(t, err)
		g, err := cron.NewGroup(election)
		require.NoError(t, err)
		_, err = cron.New(s.x, cron.Config{Group: g})
		require.ErrorIs(t, err, executor.ErrConfig)
		c, err := cron.New(s.x, cron.Config{Group: g, Member: "a"})
		require.NoError(t, err)
		_, err = cron.New(s.x, cron.Config{Group: g, Member: "a"})
		require.ErrorIs(t, err, executor.ErrConfig)
		require.NoError(t, c.Stop(t.Context()))
		c, err = cron.New(s.x, cron.Config{Group: g, Member: "a"})
		require.NoError(t, err, "the name is free again")
		require.NoError(t, c.Stop(t.Context()))

		s.start(t)
		s.start(t)
		require.NoError(t, s.c.Stop(t.Context()))
		require.NoError(t, s.c.Stop(t.Context()))
		require.ErrorIs(t, s.c.Start(), executor.ErrClosed)
		require.ErrorIs(t, cron.Add(t.Context(), s.c, s.schedule("new", "* * * * *")), executor.ErrClosed)
		require.ErrorIs(t, s.c.Pause(t.Context(), "report"), executor.ErrClosed)
	})
}

// Members of a group on one executor have one pause and one offset there: they go with the last of them.
func TestRemoveOfAMemberBesideAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		election, err := new(lock.Table).NewElection("cron", lock.ElectionConfig{})
		require.NoError(t, err)
		g, err := cron.NewGroup(election)
		require.NoError(t, err)
		a := rig{cron: cron.Config{Group: g, Member: "a"}}.open(t)
		b := a
		b.c = rig{cron: cron.Config{Group: g, Member: "b"}}.join(t, a.x)
		for _, s := range []side{a, b} {
			s.add(t, "report", "* * * * *")
		}
		require.NoError(t, a.c.Pause(t.Context(), "report"))
		for _, last := range []bool{false, true} {
			require.NoError(t, map[bool]side{false: a, true: b}[last].c.Remove(t.Context(), "report"))
			for _, mark := range []string{"cron/pause/report", "cron/tick/report"} {
				_, found, err := a.x.SourceOffset(mark)
				require.NoError(t, err)
				require.Equal(t, !last, found, mark)
			}
		}
		require.NoError(t, b.c.Stop(t.Context()))
		a.stop(t)
	})
}

// A tick that is due while Resume waits for a disk fires once, and is not lost, whichever member has that disk.
func TestTicksWhileResumeIsUnderWay(t *testing.T) {
	for slow := range 2 {
		bubble(t, func(t *testing.T) {
			election, err := new(lock.Table).NewElection("cron", lock.ElectionConfig{})
			require.NoError(t, err)
			g, err := cron.NewGroup(election)
			require.NoError(t, err)
			r := new(record)
			var disks [2]journal.Memory
			var sides [2]side
			for i := range sides {
				sides[i] = rig{r: r, disk: &disks[i], cron: cron.Config{Group: g, Member: fmt.Sprint(i)}}.open(t)
				sides[i].add(t, "report", "* * * * *")
			}
			leader := sides[1]
			for _, s := range []side{leader, sides[0]} {
				s.start(t)
				synctest.Wait()
			}
			require.True(t, leader.c.Leads())
			time.Sleep(59 * time.Second)
			disks[slow].BeforeCommit(sync.OnceFunc(func() { time.Sleep(2 * time.Second) }))
			require.NoError(t, sides[0].c.Resume(t.Context(), "report"))
			time.Sleep(time.Minute)
			require.Equal(t, []string{"report@01-01T00:01:00", "report@01-01T00:02:00"}, r.take())
			require.True(t, leader.entry(t, "report").Lost.IsZero())
			for _, s := range sides {
				s.stop(t)
			}
		})
	}
}

// A member that gets a schedule while another one's Resume waits for a disk fires it in time.
func TestAddWhileResumeIsUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		election, err := new(lock.Table).NewElection("cron", lock.ElectionConfig{Lease: time.Hour})
		require.NoError(t, err)
		g, err := cron.NewGroup(election)
		require.NoError(t, err)
		leader := rig{cron: cron.Config{Group: g, Member: "leader"}}.open(t)
		leader.start(t)
		var disk journal.Memory
		other := rig{disk: &disk, cron: cron.Config{Group: g, Member: "other"}}.open(t)
		other.add(t, "report", "* * * * *")
		disk.BeforeCommit(sync.OnceFunc(func() { time.Sleep(50 * time.Second) }))
		resumed := make(chan error, 1)
		go func() { resumed <- other.c.Resume(t.Context(), "report") }()
		time.Sleep(10 * time.Second)
		leader.add(t, "report", "* * * * *")
		require.NoError(t, <-resumed)
		time.Sleep(11 * time.Second)
		require.Equal(t, []string{"report@01-01T00:01:00"}, leader.r.take())
		leader.stop(t)
		other.stop(t)
	})
}

// Resume waits for a tick in hand, as long as it may: then nothing has changed.
func TestResumeWaitsForATick(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := rig{}.open(t)
		hung := make(chan struct{})
		s.add(t, "report", "* * * * *", func(s *cron.Schedule[string]) {
			s.Payload = func(tick time.Time) string { <-hung; return label("report", tick) }
		})
		s.start(t)
		time.Sleep(90 * time.Second)
		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, s.c.Resume(brief, "report"), context.DeadlineExceeded)
		close(hung)
		time.Sleep(time.Second) // the context of its call was over
		require.Equal(t, []string{"report@01-01T00:01:00"}, s.r.take())
		time.Sleep(time.Minute)
		require.Equal(t, []string{"report@01-01T00:02:00"}, s.r.take())
		require.NoError(t, s.c.Resume(t.Context(), "report"))
		var none context.Context
		require.ErrorIs(t, s.c.Resume(none, "report"), executor.ErrContext)
		s.stop(t)
	})
}

// What has no room when Resume is called is over then, also under MissedAll.
func TestResumeDropsWhatIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := rig{idle: true, cfg: executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 1}}}.open(t)
		s.add(t, "report", "* * * * *", missed(cron.MissedAll))
		s.start(t)
		time.Sleep(5*time.Minute + 30*time.Second)
		require.ErrorIs(t, s.entry(t, "report").Err, executor.ErrFull)
		brief, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		require.NoError(t, s.c.Resume(brief, "report"))
		require.NoError(t, s.x.Start(t.Context()))
		time.Sleep(time.Minute)
		require.Equal(t, []string{"report@01-01T00:01:00", "report@01-01T00:06:00"}, s.r.take())
		require.True(t, s.entry(t, "report").Lost.IsZero())
		s.stop(t)
	})
}
