package cron_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/lock"
)

// long reports whether the long tiers are asked for.
func long() bool { return os.Getenv("STRAND_LONG") != "" }

// A year of ticks, as they fire, is what the zones say.
func TestAYear(t *testing.T) {
	slow(t)
	bubble(t, func(t *testing.T) {
		s := rig{cfg: executor.Config{Workers: 1}}.open(t)
		begin := time.Now()
		specs := []string{"30 2 * * *", "@daily"}
		if long() {
			specs = append(specs, "@hourly")
		} else {
			s.c.LookEvery(24 * time.Hour)
		}
		want := make(map[string][]time.Time)
		for _, name := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Tokyo"} {
			simple := simple(zone(t, name), begin, begin.AddDate(1, 0, 0))
			for _, spec := range specs {
				s.add(t, name+" "+spec, spec, func(s *cron.Schedule[string]) { s.Zone = zone(t, name) })
				want[name+" "+spec] = simple[spec]
			}
		}
		s.start(t)
		time.Sleep(time.Until(begin.AddDate(1, 0, 0)) - time.Second)
		fired := make(map[string]int)
		for _, run := range s.r.take() {
			fired[run]++
		}
		n := 0
		for name, all := range want {
			n += len(all)
			for _, tick := range all {
				require.Equal(t, 1, fired[label(name, tick)], "%s %v", name, tick)
			}
		}
		require.Len(t, fired, n)
		s.stop(t)
	})
}

// The wall clock is set back: what it shows again does not tick again.
func TestClockSetBack(t *testing.T) {
	dir := t.TempDir() + "/journal"
	bubble(t, func(t *testing.T) {
		var wall clock
		r := rig{dir: dir, now: wall.now}
		s := r.open(t)
		s.add(t, "report", "* * * * *")
		s.start(t)
		begin := time.Now()
		time.Sleep(10*time.Minute + 30*time.Second)
		require.Equal(t, ticks("report", begin, wall.now()), s.r.take())
		wall.set(-5 * time.Minute)
		time.Sleep(5 * time.Minute)
		require.Empty(t, s.r.take())
		time.Sleep(time.Minute)
		require.Equal(t, []string{"report@01-01T00:11:00"}, s.r.take())
		wall.set(-5 * time.Minute)
		s.stop(t)

		r.r = s.r
		s = r.open(t)
		s.add(t, "report", "* * * * *", missed(cron.MissedAll))
		s.start(t)
		time.Sleep(5 * time.Minute)
		require.Empty(t, s.r.take(), "after a restart, too")
		require.NoError(t, s.c.Resume(t.Context(), "report"))
		wall.set(-5 * time.Minute)
		require.NoError(t, s.c.Resume(t.Context(), "report"))
		time.Sleep(time.Minute)
		require.Equal(t, []string{"report@01-01T00:07:00"}, s.r.take(), "a person wanted it")
		wall.set(-5 * time.Minute)
		require.NoError(t, s.c.Remove(t.Context(), "report"))
		s.add(t, "report", "* * * * *")
		time.Sleep(time.Minute)
		require.Equal(t, []string{"report@01-01T00:03:00"}, s.r.take(), "as does who adds it anew")
		s.stop(t)
	})
}

// Two Crons on one executor that know nothing of each other: the journal does.
func TestClockSetBackBesideAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var wall clock
		s := rig{}.open(t)
		late := rig{now: wall.now}.join(t, s.x)
		wall.set(-3 * time.Minute)
		s.add(t, "report", "* * * * *")
		s.start(t)
		time.Sleep(150 * time.Second)
		require.Len(t, s.r.take(), 2)
		other := side{x: s.x, q: s.q, c: late, r: s.r}
		asked := 0
		other.add(t, "report", "* * * * *", func(s *cron.Schedule[string]) {
			s.Payload = func(tick time.Time) string { asked++; return label("report", tick) }
		})
		other.start(t)
		begin := time.Now()
		time.Sleep(10 * time.Minute)
		require.Equal(t, ticks("report", begin, time.Now()), s.r.take())
		require.ErrorAs(t, other.entry(t, "report").Err, new(*executor.StaleError))
		require.NoError(t, late.Stop(t.Context()))
		require.LessOrEqual(t, asked, 3, "one refusal tells how far the other one is")
		s.stop(t)
	})
}

// The wall clock is set forward: by a minute nothing is lost, by more it is missed.
func TestClockSetForward(t *testing.T) {
	for _, c := range []struct {
		missed cron.Missed
		at, by time.Duration
		want   []string
	}{
		{cron.MissedSkip, 59*time.Minute + 20*time.Second, time.Minute, []string{"report@01-01T01:00:00"}},
		{cron.MissedSkip, 57*time.Minute + 20*time.Second, 3 * time.Hour, nil},
		{cron.MissedOnce, 57*time.Minute + 20*time.Second, 3 * time.Hour, []string{"report@01-01T03:00:00"}},
		{cron.MissedAll, 57*time.Minute + 20*time.Second, 3 * time.Hour, []string{"report@01-01T01:00:00", "report@01-01T02:00:00", "report@01-01T03:00:00"}},
	} {
		bubble(t, func(t *testing.T) {
			var wall clock
			s := rig{now: wall.now, cfg: executor.Config{Workers: 1}, queue: executor.QueueConfig[string]{Share: executor.Share{Shards: 1}}}.open(t)
			s.add(t, "report", "@hourly", missed(c.missed))
			s.start(t)
			time.Sleep(c.at)
			wall.set(c.by)
			time.Sleep(time.Minute)
			require.NoError(t, s.c.Stop(t.Context()))
			time.Sleep(5 * time.Hour) // the executor has another clock
			require.Equal(t, c.want, s.r.take())
			s.stop(t)
		})
	}
}

// A Cron that does not lead looks at no clock; one that does looks once a minute.
func TestNoPolling(t *testing.T) {
	bubble(t, func(t *testing.T) {
		election, err := new(lock.Table).NewElection("cron", lock.ElectionConfig{})
		require.NoError(t, err)
		g, err := cron.NewGroup(election)
		require.NoError(t, err)
		var clocks [2]clock
		for i := range clocks {
			s := rig{now: clocks[i].now, cron: cron.Config{Group: g, Member: fmt.Sprint(i)}}.open(t)
			s.add(t, "report", "@daily")
			s.start(t)
			synctest.Wait()
		}
		leader, follower := clocks[0].asked(), clocks[1].asked()
		time.Sleep(10 * time.Hour)
		require.Equal(t, follower, clocks[1].asked())
		require.LessOrEqual(t, clocks[0].asked()-leader, 600)
	})
}

// Members come and go, lose the flag and get it back, while schedules tick every
// second: no tick twice.
func TestGroupUnderRace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		table := new(lock.Table)
		election, err := table.NewElection("cron", lock.ElectionConfig{Lease: 10 * time.Second})
		require.NoError(t, err)
		g, err := cron.NewGroup(election)
		require.NoError(t, err)
		r := new(record)
		var wg sync.WaitGroup
		done := make(chan struct{})
		const members, schedules = 4, 3
		for i := range members {
			wg.Go(func() {
				for {
					s := rig{r: r, cron: cron.Config{Group: g, Member: fmt.Sprint(i)}}.open(t)
					for j := range schedules {
						s.add(t, fmt.Sprint(j), "@every 1s", missed(cron.Missed(j)))
					}
					s.start(t)
					time.Sleep(rand.N(20 * time.Second))
					s.stop(t)
					select {
					case <-done:
						return
					default:
					}
				}
			})
		}
		begin := time.Now()
		for range 200 {
			time.Sleep(rand.N(3 * time.Second))
			_, _ = table.Break("leader/cron")
		}
		end := time.Now()
		close(done)
		wg.Wait()
		fired := make(map[string]int)
		for _, run := range r.take() {
			fired[run]++
			require.Equal(t, 1, fired[run], run)
		}
		for j := range schedules {
			for at := begin.Add(time.Second); !at.After(end); at = at.Add(time.Second) {
				if j == int(cron.MissedAll) {
					require.Equal(t, 1, fired[label(fmt.Sprint(j), at)], "%v of %v", at, end)
				}
			}
		}
	})
}

// A lease that is too long for the clock has no end. Its leader looks at the clock as often as any.
func TestALeaseWithoutAnEnd(t *testing.T) {
	for _, later := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			cfg := lock.ElectionConfig{Lease: math.MaxInt64}
			if later {
				cfg.Lease = time.Hour
			}
			election, err := new(lock.Table).NewElection("cron", cfg)
			require.NoError(t, err)
			g, err := cron.NewGroup(election)
			require.NoError(t, err)
			var wall clock
			s := rig{cron: cron.Config{Group: g, Member: "a"}, now: func() time.Time {
				if wall.asked() > 1000 {
					runtime.Goexit() // or no time would pass
				}
				return wall.now()
			}}.open(t)
			s.add(t, "report", "* * * * *")
			s.start(t)
			synctest.Wait()
			if later {
				require.NoError(t, s.c.SetLease(math.MaxInt64))
			}
			begin := time.Now()
			time.Sleep(10*time.Minute + 30*time.Second)
			require.Equal(t, ticks("report", begin, time.Now()), s.r.take())
			require.Less(t, wall.asked(), 200)
			s.stop(t)
		})
	}
}

// slow leaves a test that takes seconds to .ci/run, which sets CI, and to those who name tests.
func slow(t *testing.T) {
	t.Helper()
	if flag.Lookup("test.run").Value.String() == "" && os.Getenv("CI") == "" && os.Getenv("STRAND_LONG") == "" {
		t.Skip("takes seconds: CI=1 makes it")
	}
}
