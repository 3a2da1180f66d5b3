package cron_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/journal"
)

const processes = 3

// process is one of several with a schedule each minute; payloads says how often its were
// asked for, and logged what its Cron says.
type process struct {
	side
	logged   strings.Builder
	payloads int
}

func (r rig) process(t *testing.T, self int, change ...func(*cron.Schedule[string])) *process {
	p := new(process)
	r.cfg.Splitter = executor.Splitter{Nodes: processes, Self: self}
	r.cron.Logger = slog.New(slog.NewTextHandler(&p.logged, nil))
	r.queue.Merge = executor.MergeKeepAll
	p.side = r.open(t)
	p.add(t, "report", "* * * * *", append(change, func(s *cron.Schedule[string]) {
		ask := s.Payload
		s.Payload = func(tick time.Time) string { p.payloads++; return ask(tick) }
	})...)
	p.start(t)
	return p
}

// ownerOf is the process of a tick.
func ownerOf(t *testing.T, o cron.Overlap, tick string) int {
	id := "report"
	if o == cron.OverlapParallel {
		at, err := time.Parse("report@01-02T15:04:05", tick)
		require.NoError(t, err)
		id += "@" + at.AddDate(2000, 0, 0).Format(time.RFC3339)
	}
	owner, err := executor.Splitter{Nodes: processes, Self: 0}.OwnerOf(id)
	require.NoError(t, err)
	return owner
}

// A schedule that each process has fires each tick in one of them, and is nothing to the
// others: none asks for its payload, has an error, or has lost it.
func TestSplitterDividesTicks(t *testing.T) {
	for _, o := range []cron.Overlap{cron.OverlapParallel, cron.OverlapQueue, cron.OverlapSkip} {
		for _, m := range []cron.Missed{cron.MissedSkip, cron.MissedOnce, cron.MissedAll} {
			t.Run(fmt.Sprint(o, m), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					begin := time.Now()
					var all [processes]*process
					for self := range all {
						all[self] = rig{}.process(t, self, overlap(o), missed(m))
					}
					time.Sleep(time.Hour + time.Second)
					want := make([][]string, processes)
					for _, tick := range ticks("report", begin, time.Now()) {
						owner := ownerOf(t, o, tick)
						want[owner] = append(want[owner], tick)
					}
					for self, p := range all {
						require.Equal(t, want[self], p.r.take(), self)
						require.Equal(t, len(want[self]), p.payloads)
						e := p.entry(t, "report")
						require.NoError(t, e.Err)
						require.True(t, e.Lost.IsZero())
						require.Empty(t, p.logged.String())
						if len(want[self]) > 0 {
							require.Equal(t, want[self][len(want[self])-1], label("report", e.Last))
						}
						p.stop(t)
					}
				})
			})
		}
	}
}

// One process dies at any commit and is back after a while, as the owner of a partition that
// was taken over is: it makes up for its own ticks, none twice and none of the others', and
// what it reports as lost are its own.
func TestSplitterTakeover(t *testing.T) {
	for _, o := range []cron.Overlap{cron.OverlapParallel, cron.OverlapQueue} {
		for _, m := range []cron.Missed{cron.MissedSkip, cron.MissedOnce, cron.MissedAll} {
			t.Run(fmt.Sprint(o, m), func(t *testing.T) {
				type image struct {
					disk *journal.Memory
					at   time.Duration
				}
				var images [processes][]image
				bubble(t, func(t *testing.T) {
					begin := time.Now()
					for self := range processes {
						disk := new(journal.Memory)
						rig{disk: disk, idle: true}.process(t, self, overlap(o), missed(m))
						disk.OnCommit(func() { images[self] = append(images[self], image{disk.Crash(), time.Since(begin)}) })
					}
					time.Sleep(10*time.Minute + time.Second)
				})
				died := 0
				for self := range images {
					for _, image := range images[self] {
						bubble(t, func(t *testing.T) { comesBack(t, image.disk, image.at, self, o, m) })
						died++
					}
				}
				require.GreaterOrEqual(t, died, 10)
			})
		}
	}
}

func comesBack(t *testing.T, disk *journal.Memory, at time.Duration, self int, o cron.Overlap, m cron.Missed) {
	begin := time.Now()
	own := func(ticks []string) []string {
		return slices.DeleteFunc(ticks, func(tick string) bool { return ownerOf(t, o, tick) != self })
	}
	time.Sleep(at + 10*time.Minute + time.Second)
	fired, back := begin.Add(at), time.Now()
	want, missed := own(ticks("report", begin, fired)), own(ticks("report", fired, back))
	p := rig{disk: disk, idle: true}.process(t, self, overlap(o), func(s *cron.Schedule[string]) { s.Missed = m })
	time.Sleep(10 * time.Minute)
	lost := missed
	switch newest := label("report", back.Truncate(time.Minute)); {
	case m == cron.MissedAll:
		want, lost = append(want, missed...), nil
	case m == cron.MissedOnce && slices.Contains(missed, newest):
		want, lost = append(want, newest), missed[:len(missed)-1]
	}
	want = append(want, own(ticks("report", back, time.Now()))...)
	synctest.Wait()
	require.NoError(t, p.x.Start(t.Context()))
	time.Sleep(time.Second)
	runs := p.r.take()
	slices.Sort(runs)
	require.ElementsMatch(t, want, runs)
	e := p.entry(t, "report")
	require.NoError(t, e.Err)
	if len(lost) == 0 {
		require.True(t, e.Lost.IsZero(), "%v", e.Lost)
		require.Empty(t, p.logged.String())
	} else {
		require.Equal(t, lost[len(lost)-1], label("report", e.Lost))
		require.Contains(t, p.logged.String(), fmt.Sprintf("ticks=%d oldest=%s", len(lost), "2000-"+lost[0][len("report@"):]))
	}
	p.stop(t)
}

// A Cron that owns no tick ends with its executor, though nobody stops it.
func TestSplitterEndsWithItsExecutor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for self := range processes {
			p := rig{}.process(t, self, overlap(cron.OverlapQueue))
			require.True(t, p.c.Leads())
			require.NoError(t, p.x.Stop(t.Context()))
			time.Sleep(time.Minute)
			synctest.Wait()
			require.False(t, p.c.Leads())
			p.r.take()
		}
	})
}

// After a change of Overlap the ticks belong to other processes: none is fired again, and the next ones are.
func TestSplitterWithAnotherOverlap(t *testing.T) {
	for _, m := range []cron.Missed{cron.MissedOnce, cron.MissedAll} {
		for _, change := range [][]cron.Overlap{
			{cron.OverlapQueue, cron.OverlapParallel, cron.OverlapQueue}, {cron.OverlapParallel, cron.OverlapSkip, cron.OverlapQueue, cron.OverlapParallel},
		} {
			t.Run(fmt.Sprint(m, change), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					var disks [processes]journal.Memory
					begin := time.Now()
					var fired []string
					for _, o := range change {
						var all [processes]*process
						for self := range all {
							all[self] = rig{disk: &disks[self]}.process(t, self, overlap(o), missed(m))
						}
						time.Sleep(time.Hour + time.Second)
						for _, p := range all {
							fired = append(fired, p.r.take()...)
							p.stop(t)
						}
					}
					slices.Sort(fired)
					require.Equal(t, ticks("report", begin, time.Now()), fired)
				})
			})
		}
	}
}

// After a gap another Overlap begins with what is due from now on: what its ids have missed is told, and
// what has fired last stays that.
func TestSplitterWithAnotherOverlapAfterAGap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := rig{disk: new(journal.Memory)}
		self := ownerOf(t, cron.OverlapQueue, "")
		own := func(ticks []string) []string {
			return slices.DeleteFunc(ticks, func(tick string) bool { return ownerOf(t, cron.OverlapParallel, tick) != self })
		}
		p := r.process(t, self, overlap(cron.OverlapQueue), missed(cron.MissedAll))
		time.Sleep(5*time.Minute + time.Second)
		fired, stopped := p.r.take(), time.Now()
		p.stop(t)
		require.Len(t, fired, 5)
		time.Sleep(10*time.Minute - time.Second) // to a tick

		back := time.Now()
		p = r.process(t, self, overlap(cron.OverlapParallel), missed(cron.MissedAll))
		e, gap := p.entry(t, "report"), own(ticks("report", stopped, back))
		require.NotEmpty(t, gap)
		require.Equal(t, fired[4], label("report", e.Last))
		require.Equal(t, gap[len(gap)-1], label("report", e.Lost))
		require.Contains(t, p.logged.String(), fmt.Sprintf("ticks=%d", len(gap)))
		time.Sleep(10*time.Minute + time.Second)
		want := own(ticks("report", back, time.Now()))
		require.NotEmpty(t, want)
		require.Equal(t, want, p.r.take())
		p.stop(t)
	})
}

// A second schedule of a name changes nothing of the first one, whatever its Overlap is.
func TestSplitterRefusesASecondSchedule(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := rig{cfg: executor.Config{Splitter: executor.Splitter{Nodes: 2}}}.open(t)
		s.add(t, "report", "* * * * *", overlap(cron.OverlapQueue))
		marks := func() (all []int64) {
			for _, name := range []string{"cron/tick/report", "cron/overlap/report"} {
				offset, found, err := s.x.SourceOffset(name)
				require.NoError(t, err)
				require.True(t, found)
				all = append(all, offset)
			}
			return all
		}
		before := marks()
		time.Sleep(time.Hour)
		require.ErrorIs(t, cron.Add(t.Context(), s.c, s.schedule("report", "* * * * *")), executor.ErrConfig)
		require.Equal(t, before, marks())
		s.stop(t)
	})
}
