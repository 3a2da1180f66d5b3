package cron_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/journal"
)

// The process dies at any commit while ticks fire: after the restart no tick has
// fired twice, and with MissedAll none is lost. Nothing runs before the crash, so
// what runs after it is what was ever enqueued.
func TestCrashAtEveryCommit(t *testing.T) {
	for _, o := range []cron.Overlap{cron.OverlapParallel, cron.OverlapQueue} {
		type image struct {
			disk *journal.Memory
			at   time.Duration // since the beginning
		}
		var images []image
		queue := executor.QueueConfig[string]{Merge: executor.MergeKeepAll}
		add := func(t *testing.T, s side) {
			for _, name := range []string{"one", "two"} {
				s.add(t, name, "* * * * *", missed(cron.MissedAll), overlap(o))
			}
			s.add(t, "three", "@every 20s", missed(cron.MissedAll), overlap(o))
			s.start(t)
		}
		bubble(t, func(t *testing.T) {
			begin := time.Now()
			disk := new(journal.Memory)
			s := rig{disk: disk, idle: true, queue: queue}.open(t)
			disk.OnCommit(func() { images = append(images, image{disk.Crash(), time.Since(begin)}) })
			add(t, s)
			time.Sleep(5 * time.Minute)
			s.stop(t)
		})
		require.Greater(t, len(images), 15)
		for _, image := range images {
			bubble(t, func(t *testing.T) {
				begin := time.Now()
				time.Sleep(image.at + 150*time.Second)
				s := rig{disk: image.disk, idle: true, queue: queue}.open(t)
				add(t, s)
				synctest.Wait()
				require.NoError(t, s.x.Start(t.Context()))
				time.Sleep(time.Minute)
				runs := s.r.take()
				slices.Sort(runs)
				require.Equal(t, slices.Compact(slices.Clone(runs)), runs, "none twice")
				if image.at == 0 {
					return // not all schedules were there: those begin now
				}
				var want []string
				for at := begin.Add(20 * time.Second); !at.After(time.Now()); at = at.Add(20 * time.Second) {
					want = append(want, label("three", at))
					if at.Second() == 0 {
						want = append(want, label("one", at), label("two", at))
					}
				}
				require.ElementsMatch(t, want, runs)
				s.stop(t)
			})
		}
	}
}

// A disk that hangs leaves open whether a tick was enqueued: it counts as fired,
// and is.
func TestUnknownOutcome(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		s := rig{disk: disk}.open(t)
		s.add(t, "report", "* * * * *")
		s.start(t)
		begin := time.Now()
		time.Sleep(90 * time.Second)
		hung := make(chan struct{})
		disk.OnCommit(func() { <-hung })
		time.Sleep(time.Minute)
		require.ErrorIs(t, s.entry(t, "report").Err, executor.ErrUnknown)
		time.Sleep(3 * time.Minute)
		disk.OnCommit(nil)
		close(hung)
		time.Sleep(2 * time.Minute)
		all := ticks("report", begin, time.Now())
		runs := s.r.take()
		require.Subset(t, runs, all[:2], "the second one was under way")
		require.Subset(t, runs, all[len(all)-2:])
		slices.Sort(runs)
		require.Equal(t, slices.Compact(slices.Clone(runs)), runs)
		s.stop(t)
	})
}

// A full disk: the tick is tried again until the next one is due.
func TestFullDisk(t *testing.T) {
	for _, m := range []cron.Missed{cron.MissedSkip, cron.MissedOnce, cron.MissedAll} {
		bubble(t, func(t *testing.T) {
			s := rig{cfg: executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 1}}, idle: true, queue: executor.QueueConfig[string]{Share: executor.Share{Shards: 1}}}.open(t)
			s.add(t, "report", "* * * * *", missed(m))
			s.start(t)
			begin := time.Now()
			time.Sleep(4*time.Minute + 30*time.Second) // the first one fills it
			e := s.entry(t, "report")
			require.ErrorIs(t, e.Err, executor.ErrFull)
			require.True(t, e.Firing)
			require.NoError(t, s.x.Start(t.Context()))
			time.Sleep(time.Minute)
			all := ticks("report", begin, time.Now())
			want := all
			if m != cron.MissedAll {
				want = []string{all[0], all[3], all[4]}
				require.Equal(t, all[2], label("report", s.entry(t, "report").Lost))
			}
			require.Equal(t, want, s.r.take())
			require.NoError(t, s.entry(t, "report").Err)
			s.stop(t)
		})
	}
}

// Where Enqueue waits for room, Stop does not wait with it for long, and other
// schedules tick.
func TestFullBacklogThatWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := rig{cfg: executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 1}, WaitForRoom: true}, idle: true}.open(t)
		s.add(t, "report", "@daily")
		s.start(t)
		_, err := s.q.Enqueue(t.Context(), "a", "fills it")
		require.NoError(t, err)
		time.Sleep(24*time.Hour + time.Minute)
		require.True(t, s.entry(t, "report").Firing)
		begin := time.Now()
		require.NoError(t, s.c.Stop(t.Context()))
		require.LessOrEqual(t, time.Since(begin), 10*time.Second)
		require.NoError(t, s.x.Stop(t.Context()))
	})
}
