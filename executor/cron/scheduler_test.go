package cron_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
)

// M01: several schedulers, one master, who extends its lease all the time.
func TestScheduler_M01_OneLeaderFires(t *testing.T) {
	for _, auto := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			table, a, b := pair(t, lock.ElectionConfig{AutoExtend: auto})
			for _, s := range []side{a, b} {
				s.add(t, "report", "* * * * *")
				s.start(t)
				synctest.Wait()
			}
			begin := time.Now()
			epoch := table.List()[0].Holder.Token
			time.Sleep(24 * time.Hour)
			require.True(t, a.c.Leads())
			require.False(t, b.c.Leads())
			require.Equal(t, ticks("report", begin, time.Now()), a.r.take())
			require.Equal(t, epoch, table.List()[0].Holder.Token, "one reign")
			require.Equal(t, label("report", time.Now()), label("report", a.entry(t, "report").Last))
			require.Zero(t, b.entry(t, "report").Last)
			require.Equal(t, time.Now().Add(time.Minute).UTC(), b.entry(t, "report").Next, "it follows")
		})
	}
}

// M02: a master that does not extend in time has lost, and sees it.
func TestScheduler_M02_LostFlag(t *testing.T) {
	bubble(t, func(t *testing.T) {
		table, a, b := pair(t, lock.ElectionConfig{Lease: 30 * time.Second})
		for _, s := range []side{a, b} {
			s.add(t, "report", "* * * * *")
			s.start(t)
			synctest.Wait()
		}
		begin := time.Now()
		var leaders []bool
		for range 6 {
			time.Sleep(90 * time.Second)
			leaders = append(leaders, a.c.Leads())
			_, err := table.Break("leader/cron")
			require.NoError(t, err)
			synctest.Wait()
			require.NotEqual(t, a.c.Leads(), b.c.Leads())
		}
		require.True(t, leaders[0])
		time.Sleep(time.Minute)
		require.Equal(t, ticks("report", begin, time.Now()), a.r.take(), "none lost, none twice")
	})
}

// M02: a master that hangs, here in a lock that it can't get, loses its lease; what
// it had in hand is fired by no other member.
func TestScheduler_M02_HangingLeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, a, b := pair(t, lock.ElectionConfig{Lease: 30 * time.Second})
		hung := make(chan struct{})
		a.add(t, "report", "* * * * *", func(s *cron.Schedule[string]) {
			s.Payload = func(tick time.Time) string { <-hung; return "late " + label("report", tick) }
		})
		b.add(t, "report", "* * * * *")
		a.start(t)
		synctest.Wait()
		b.start(t)
		begin := time.Now()
		time.Sleep(10 * time.Minute)
		require.Empty(t, a.r.take(), "one payload function hangs")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, a.c.Stop(ctx), executor.ErrStuck)
		time.Sleep(2 * time.Minute)
		close(hung)
		now := time.Now()
		want := ticks("report", begin, now)
		// a has the first tick in hand; what is within two minutes at the handover
		// fires.
		require.ElementsMatch(t, want[len(want)-4:], b.r.take(), "the rest was missed")
		require.Equal(t, label("report", begin.Add(8*time.Minute)), label("report", b.entry(t, "report").Lost))
	})
}

// M02: a master whose lease was taken while it was at work stops: what it has in
// hand, and what it was about to do, the next one does, and nothing is fired twice.
func TestScheduler_M02_OldLeaderStops(t *testing.T) {
	for name, m := range map[string]cron.Missed{"skip": cron.MissedSkip, "one": cron.MissedOnce, "all": cron.MissedAll} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				table, a, b := pair(t, lock.ElectionConfig{AutoExtend: true})
				hung := make(chan struct{})
				var asked []string
				a.add(t, "report", "* * * * *", missed(m), func(s *cron.Schedule[string]) {
					s.Payload = func(tick time.Time) string {
						asked = append(asked, label("report", tick))
						<-hung
						return "old " + label("report", tick)
					}
				})
				b.add(t, "report", "* * * * *", missed(m))
				for _, s := range []side{a, b} {
					s.start(t)
					synctest.Wait()
				}
				begin := time.Now()
				time.Sleep(2*time.Minute + 30*time.Second) // two ticks are due, the first one is in hand
				require.True(t, a.c.Leads())
				// Members that campaign come before one that asks: a does not get
				// it back.
				election, err := table.NewElection("cron", lock.ElectionConfig{})
				require.NoError(t, err)
				other, err := election.Candidate("b")
				require.NoError(t, err)
				campaign := make(chan error)
				go func() { campaign <- other.Campaign(t.Context()) }()
				synctest.Wait()
				_, err = table.Break("leader/cron")
				require.NoError(t, err)
				require.NoError(t, <-campaign)
				synctest.Wait()
				require.False(t, a.c.Leads())
				require.True(t, b.c.Leads())
				close(hung)
				time.Sleep(3 * time.Minute)
				require.Len(t, asked, 1, "it begins nothing more")
				// The tick in hand is given back, unless the next one has gone on.
				require.Equal(t, ticks("report", begin.Add(time.Minute), time.Now()), a.r.take())
				require.False(t, a.c.Leads())
				require.Zero(t, a.entry(t, "report").Last)
			})
		})
	}
}

// M02: one that lost its term in the middle of several ticks fires none of the
// rest, and does not say of any that it is over.
func TestScheduler_M02_OldLeaderLeavesTheRest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		table, a, b := pair(t, lock.ElectionConfig{AutoExtend: true})
		var mu sync.Mutex
		var steps []string
		slow := func(who string) func(*cron.Schedule[string]) {
			return func(s *cron.Schedule[string]) {
				s.Payload = func(tick time.Time) string {
					time.Sleep(8 * time.Second) // an attempt takes 10 s at most
					mu.Lock()
					defer mu.Unlock()
					steps = append(steps, who)
					return label("report", tick)
				}
			}
		}
		for who, s := range map[string]side{"a": a, "b": b} {
			s.add(t, "report", "* * * * *", missed(cron.MissedAll), slow(who))
		}
		time.Sleep(10*time.Minute + 30*time.Second) // no member leads
		begin := time.Now()
		a.start(t)
		time.Sleep(20 * time.Second) // two are fired, the third one is in hand
		b.start(t)
		synctest.Wait()
		election, err := table.NewElection("cron", lock.ElectionConfig{})
		require.NoError(t, err)
		other, err := election.Candidate("b")
		require.NoError(t, err)
		go func() { _ = other.Campaign(t.Context()) }()
		synctest.Wait()
		_, err = table.Break("leader/cron")
		require.NoError(t, err)
		time.Sleep(10*time.Minute + 20*time.Second)
		runs := a.r.take()
		slices.Sort(runs)
		all := ticks("report", begin.Add(-10*time.Minute-30*time.Second), time.Now())
		// The other one had gone on when the third was given up: that is said.
		require.Equal(t, slices.Delete(slices.Clone(all), 2, 3), runs, "none twice, and no other one lost")
		require.Equal(t, all[2], label("report", a.entry(t, "report").Lost))
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []string{"a", "a", "a", "b"}, steps[:4], "the third payload was asked for, and given up")
		require.NotContains(t, steps[4:], "a")
	})
}

// M03: the flag is given back by its owner only; its name can be prefixed.
func TestScheduler_M03_OnlyTheOwnerReleases(t *testing.T) {
	bubble(t, func(t *testing.T) {
		table, a, b := pair(t, lock.ElectionConfig{Prefix: "app"})
		for _, s := range []side{a, b} {
			s.add(t, "report", "* * * * *")
			s.start(t)
			synctest.Wait()
		}
		require.Equal(t, "app/cron", table.List()[0].Key)
		begin := time.Now()
		time.Sleep(90 * time.Second)
		require.NoError(t, b.c.Stop(t.Context()), "a follower goes")
		require.True(t, a.c.Leads())
		time.Sleep(time.Minute)
		require.Equal(t, "a", table.List()[0].Holder.Owner)
		require.NoError(t, a.c.Stop(t.Context()))
		require.Empty(t, table.List(), "and the leader gives the flag back")
		require.Equal(t, ticks("report", begin, time.Now()), a.r.take())
	})
}

// M03: the length of the lease is changed by the leader only, for the present lease and
// its later ones; a longer one keeps the flag as long, and the next leader has its own.
func TestScheduler_M03_OnlyTheOwnerChangesTheLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		table, a, b := pair(t, lock.ElectionConfig{Lease: time.Minute})
		require.ErrorIs(t, a.c.SetLease(time.Hour), lock.ErrNotLeader, "not yet")
		for _, s := range []side{a, b} {
			s.start(t)
			synctest.Wait()
		}
		left := func() (owner string, lease time.Duration) {
			t.Helper()
			synctest.Wait()
			held := table.List()[0].Holder
			return held.Owner, time.Until(held.Until)
		}
		require.ErrorIs(t, b.c.SetLease(time.Hour), lock.ErrNotLeader)
		require.ErrorIs(t, a.c.SetLease(0), executor.ErrConfig)
		require.ErrorContains(t, a.c.SetLease(-time.Second), "-1s")
		owner, lease := left()
		require.Equal(t, "a", owner)
		require.Equal(t, time.Minute, lease, "what was refused has changed nothing")

		require.NoError(t, a.c.SetLease(15*time.Second))
		for range 100 { // it is extended in time
			owner, lease = left()
			require.Equal(t, "a", owner)
			require.LessOrEqual(t, lease, 15*time.Second)
			require.GreaterOrEqual(t, lease, 10*time.Second)
			time.Sleep(time.Second)
		}
		require.NoError(t, a.c.SetLease(10*time.Minute))
		for range 10 {
			owner, lease = left()
			require.Equal(t, "a", owner)
			require.GreaterOrEqual(t, lease, 9*time.Minute, "later ones are as long")
			time.Sleep(time.Minute)
		}
		require.NoError(t, a.c.Stop(t.Context()))
		owner, lease = left()
		require.Equal(t, "b", owner)
		require.Equal(t, time.Minute, lease, "the election's")
		require.ErrorIs(t, a.c.SetLease(time.Hour), executor.ErrClosed)
		require.ErrorIs(t, rig{}.open(t).c.SetLease(time.Hour), executor.ErrConfig, "it has no group")
	})
}

// The leader dies, whichever way: the other one goes on with the very next tick.
func TestScheduler_M03_HandOver(t *testing.T) {
	for name, die := range map[string]func(*testing.T, side){
		"stop":          func(t *testing.T, s side) { require.NoError(t, s.c.Stop(t.Context())) },
		"executor ends": func(t *testing.T, s side) { require.NoError(t, s.x.Stop(t.Context())) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				_, a, b := pair(t, lock.ElectionConfig{AutoExtend: true})
				for _, s := range []side{a, b} {
					s.add(t, "report", "* * * * *")
					s.start(t)
					synctest.Wait()
				}
				begin := time.Now()
				time.Sleep(2*time.Minute + time.Second)
				die(t, a)
				time.Sleep(2 * time.Minute)
				require.False(t, a.c.Leads())
				require.True(t, b.c.Leads())
				require.ErrorIs(t, a.c.Pause(t.Context(), "report"), executor.ErrClosed)
				require.Equal(t, ticks("report", begin, time.Now()), a.r.take())
			})
		})
	}
}

// M04: what is due runs, however late; ticks that no leader saw are not made up.
func TestScheduler_M04_Missed(t *testing.T) {
	for _, c := range []struct {
		missed cron.Missed
		want   []string // after 04:00 was fired, and three hours of nothing
	}{
		{0, nil}, // the default
		{cron.MissedSkip, nil},
		{cron.MissedOnce, []string{"report@01-01T07:00:00"}},
		{cron.MissedAll, []string{"report@01-01T05:00:00", "report@01-01T06:00:00", "report@01-01T07:00:00"}},
	} {
		dir := t.TempDir() + "/journal"
		bubble(t, func(t *testing.T) {
			r := rig{dir: dir, queue: executor.QueueConfig[string]{Share: executor.Share{Shards: 1}}, cfg: executor.Config{Workers: 1}}
			s := r.open(t)
			s.add(t, "report", "0 * * * *", missed(c.missed))
			s.start(t)
			time.Sleep(4*time.Hour + time.Second)
			require.Len(t, s.r.take(), 4)
			_, err := s.q.Enqueue(t.Context(), "delayed", "delayed", executor.In(time.Hour))
			require.NoError(t, err)
			s.stop(t)
			time.Sleep(3 * time.Hour)

			s = r.open(t)
			require.Equal(t, []string{"delayed"}, s.r.take(), "an hour and 59 minutes late")
			s.add(t, "report", "0 * * * *", missed(c.missed))
			require.Equal(t, "04:00", s.entry(t, "report").Last.Format("15:04"))
			s.start(t)
			require.Equal(t, c.want, s.r.take())
			time.Sleep(time.Hour)
			require.Equal(t, []string{"report@01-01T08:00:00"}, s.r.take())
			s.stop(t)
		})
	}
}

// A first tick that no leader saw is caught up, too: it is known that the schedule
// was there.
func TestScheduler_M04_FirstTickMissed(t *testing.T) {
	dir := t.TempDir() + "/journal"
	bubble(t, func(t *testing.T) {
		r := rig{dir: dir}
		for _, want := range [][]string{nil, {"report@01-01T01:00:00"}} {
			s := r.open(t)
			s.add(t, "report", "0 * * * *", missed(cron.MissedOnce))
			s.start(t)
			require.Equal(t, want, s.r.take())
			s.stop(t)
			time.Sleep(90 * time.Minute)
		}
	})
}

// Whatever was missed while no member ran, MissedOnce makes one job of it.
func TestScheduler_M04_OneIsOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		for _, want := range [][]string{nil, {"report@01-01T00:10:00"}} {
			s := rig{disk: disk}.open(t)
			s.add(t, "report", "* * * * *", missed(cron.MissedOnce))
			s.start(t)
			require.Equal(t, want, s.r.take())
			s.stop(t)
			time.Sleep(10 * time.Minute)
		}
	})
}

// MissedOnce makes up for a missed tick only if no other one is due.
func TestScheduler_M04_NoneIsMadeUpWhenOneIsDue(t *testing.T) {
	for _, c := range []struct {
		spec string
		by   time.Duration // the clock is set forward
		want []string
	}{
		{"* * * * *", 10 * time.Minute, []string{"report@01-01T00:09:00", "report@01-01T00:10:00"}}, // within two minutes
		{"*/5 * * * *", 11 * time.Minute, []string{"report@01-01T00:10:00"}},                        // the same
		{"*/5 * * * *", 14 * time.Minute, []string{"report@01-01T00:10:00"}},                        // missed
	} {
		bubble(t, func(t *testing.T) {
			var wall clock
			s := rig{now: wall.now, queue: executor.QueueConfig[string]{Share: executor.Share{Shards: 1}}, cfg: executor.Config{Workers: 1}}.open(t)
			s.add(t, "report", c.spec, missed(cron.MissedOnce))
			s.start(t)
			time.Sleep(30 * time.Second)
			require.Empty(t, s.r.take())
			wall.set(c.by)
			time.Sleep(29 * time.Second) // before the next tick
			s.c.LookNow()
			synctest.Wait()
			time.Sleep(20 * time.Minute) // they are due by the clock of the executor, which was not set
			runs := s.r.take()
			last := slices.Index(runs, c.want[len(c.want)-1])
			require.Equal(t, c.want, runs[:last+1], "%s %v", c.spec, c.by)
			s.stop(t)
		})
	}
}

// M04: what is put off is neither lost nor skipped nor run twice, however often no
// process runs, and however late it is; what is due first runs first.
func TestScheduler_M04_DelayedJobs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := rig{disk: new(journal.Memory), r: new(record), idle: true, queue: executor.QueueConfig[string]{Share: executor.Share{Shards: 1}}, cfg: executor.Config{Workers: 1}}
		var want []string
		s := r.open(t)
		for i := range 20 {
			due := i * 7 % 20
			option := executor.At(time.Now().Add(time.Duration(due) * time.Hour))
			if i%2 == 0 {
				option = executor.In(time.Duration(due) * time.Hour)
			}
			name := fmt.Sprintf("%02d", due)
			_, err := s.q.Enqueue(t.Context(), name, name, option)
			require.NoError(t, err)
			want = append(want, name)
		}
		slices.Sort(want)
		var ran []string
		for _, life := range []struct{ away, there time.Duration }{{150 * time.Minute, time.Second}, {time.Minute, 150 * time.Minute}, {7 * time.Hour, 0}, {365 * 24 * time.Hour, time.Second}} {
			if s.x == nil {
				s = r.open(t)
			}
			s.stop(t)
			time.Sleep(life.away)
			s = r.open(t)
			due := time.Now()
			require.NoError(t, s.x.Start(t.Context()))
			ran = append(ran, s.r.take()...)
			time.Sleep(life.there)
			ran = append(ran, s.r.take()...)
			n := min(int(due.Add(life.there).Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))/time.Hour)+1, len(want))
			require.Equal(t, want[:n], ran)
			s.stop(t)
			r.disk = r.disk.Crash()
			s = side{}
		}
	})
}

// M04: only the master fires, a tick that no leader saw is not made up, and a
// restart right after a tick does not fire it again.
func TestScheduler_M04_NoTickTwice(t *testing.T) {
	for _, m := range []cron.Missed{cron.MissedSkip, cron.MissedOnce, cron.MissedAll} {
		bubble(t, func(t *testing.T) {
			r := rig{disk: new(journal.Memory), r: new(record)}
			begin := time.Now()
			for i := range 5 {
				s := r.open(t)
				s.add(t, "report", "* * * * *", missed(m))
				s.start(t)
				if i == 0 {
					time.Sleep(2 * time.Minute) // the tick of this very moment has just fired
				}
				synctest.Wait()
				r.disk = r.disk.Crash()
				s.stop(t)
			}
			require.Equal(t, ticks("report", begin, time.Now()), r.r.take())
		})
	}
}

// What is missed for long is caught up to its bound, at the price of that.
func TestScheduler_M04_CatchUpIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := rig{disk: new(journal.Memory), queue: executor.QueueConfig[string]{Share: executor.Share{Shards: 1}}, cfg: executor.Config{Workers: 1}}
		s := r.open(t)
		s.add(t, "report", "* * * * *", missed(cron.MissedAll))
		s.start(t)
		s.stop(t)
		time.Sleep(30 * 24 * time.Hour)
		s = r.open(t)
		s.add(t, "report", "* * * * *", missed(cron.MissedAll))
		now := time.Now()
		s.start(t)
		time.Sleep(time.Second)
		all := ticks("report", now.Add(-1000*time.Minute), now)
		require.Equal(t, all, s.r.take())
		require.Equal(t, now.Add(-1000*time.Minute).UTC(), s.entry(t, "report").Lost)
		s.stop(t)
	})
}
