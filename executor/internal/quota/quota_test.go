package quota_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/internal/quota"
)

// process is a model of what a process does with what it gets.
type process struct {
	name             string
	permits, running int
	wants            int
	dead             bool
}

// Whatever processes ask and hold, whose answers are lost and who dies: they never have more permits
// than there are, and in the end each has its share.
func TestPermitsOfAllAreNeverMoreThanThereAre(t *testing.T) {
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		most, now := 1+rnd.IntN(9), int64(1e18)
		var all []*process
		for i := range 1 + rnd.IntN(5) {
			all = append(all, &process{name: fmt.Sprint(i)})
		}
		lives := func(name string) bool {
			return !all[slices.IndexFunc(all, func(p *process) bool { return p.name == name })].dead
		}
		var kept quota.Stored
		ask := func(p *process, heard bool) quota.Answer {
			row, err := kept.Read()
			require.NoError(t, err)
			a := row.Agree(now, p.name, lives, quota.Ask{Concurrent: most, Holds: p.permits, Wants: p.wants})
			kept = row.Stored(time.Unix(0, now))
			if heard {
				require.GreaterOrEqual(t, a.Permits, p.permits)
				p.permits = a.Permits
			}
			return a
		}
		for range 400 {
			now += rnd.Int64N(int64(300 * time.Millisecond))
			p := all[rnd.IntN(len(all))]
			switch rnd.IntN(8) {
			case 0:
				p.wants = p.running + rnd.IntN(6)
			case 1:
				p.running = min(p.running+rnd.IntN(4), p.permits)
				p.wants = max(p.wants, p.running)
			case 2:
				done := rnd.IntN(p.running + 1)
				p.running, p.wants = p.running-done, p.wants-done
			case 3: // it gives back
				p.permits = p.running + rnd.IntN(p.permits-p.running+1)
			case 4:
				if p.dead = rnd.IntN(4) == 0; p.dead {
					p.permits, p.running, p.wants = 0, 0, 0
				}
			default:
				if !p.dead {
					ask(p, rnd.IntN(4) > 0)
				}
			}
			sum := 0
			for _, p := range all {
				sum += p.permits
			}
			require.LessOrEqual(t, sum, most, "seed %d", seed)
		}
		served := make(map[string]bool)
		for range 40 * len(all) { // all want one more than there is, and give back what is not theirs
			now += int64(100 * time.Millisecond)
			for _, p := range all {
				p.dead, p.running, p.wants = false, 0, most+1
				a := ask(p, true)
				served[p.name] = served[p.name] || a.Permits > 0
				p.permits = min(a.Permits, a.Share)
			}
		}
		require.Len(t, served, len(all))
		for name, was := range served {
			require.True(t, was, "seed %d: process %s of %d never had any of %d", seed, name, len(all), most)
		}
		for _, p := range all {
			p.permits, p.running, p.wants = 0, 0, 0
			ask(p, true)
		}
		require.Equal(t, quota.Stored{}, kept, "nobody wants anything")
	}
}

// What is not contended is had at once, and what is divides evenly.
func TestShares(t *testing.T) {
	all := func(string) bool { return true }
	var r quota.Row
	ask := func(name string, holds, wants int) quota.Answer {
		return r.Agree(1, name, all, quota.Ask{Concurrent: 10, Holds: holds, Wants: wants})
	}
	require.Equal(t, 10, ask("a", 0, 50).Permits)
	b := ask("b", 0, 3)
	require.Equal(t, quota.Answer{Share: 3, Anew: int64(time.Second) - 1, Retry: int64(50 * time.Millisecond)}, b, "as soon as a gives back")
	require.Equal(t, 7, ask("a", 10, 50).Share)
	ask("a", 7, 50)
	require.Equal(t, quota.Answer{Permits: 3, Share: 3, Anew: int64(time.Second) - 1}, ask("b", 0, 3))
	require.Equal(t, 3, ask("c", 0, 50).Share, "10 = 4 + 3 + 3")
}

// What a process holds that was taken for dead is others' already: it gets what they leave, and give back.
func TestWhoWasTakenForDeadHoldsNothing(t *testing.T) {
	var r quota.Row
	ask := func(name string, otherLives bool, holds, wants int) int {
		return r.Agree(1, name, func(string) bool { return otherLives }, quota.Ask{Concurrent: 10, Holds: holds, Wants: wants}).Permits
	}
	require.Equal(t, 5, ask("a", true, 0, 5))
	require.Equal(t, 10, ask("b", false, 0, 10))
	require.Zero(t, ask("a", true, 5, 5))
	require.Equal(t, 7, ask("b", true, 7, 10))
	require.Equal(t, 3, ask("a", true, 0, 5))
}

// The starts of all, at any time until Grace after they are due, are no more than Rate + Burst - 1 in
// a window as long as Per; and no fewer than the pace says, if they are asked for in time.
func TestStartsOfAll(t *testing.T) {
	const rate, per = 10, time.Second
	interval := int64(per+quota.Grace) / rate
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		burst := 1 + rnd.IntN(3)
		var r quota.Row
		now := int64(1e18)
		began := now
		var starts []int64
		for now < began+int64(time.Minute) {
			now += rnd.Int64N(int64(60 * time.Millisecond))
			a := r.Agree(now, fmt.Sprint(rnd.IntN(3)), func(string) bool { return true },
				quota.Ask{Interval: interval, Ahead: int64(burst-1) * interval, Starts: 1 + rnd.IntN(3)})
			for _, at := range a.Starts {
				starts = append(starts, now+at+rnd.Int64N(int64(quota.Grace)))
			}
		}
		require.InDelta(t, 60*rate*10/11, len(starts), rate)
		slices.Sort(starts)
		for i := range len(starts) - (rate + burst - 1) {
			require.GreaterOrEqual(t, starts[i+rate+burst-1]-starts[i], int64(per), "a window has rate + burst - 1")
		}
	}
}

// The last start that was given goes back if it was not used, and nobody has been given one since.
func TestUnusedStarts(t *testing.T) {
	var r quota.Row
	all := func(string) bool { return true }
	ask := func(now int64, self string, of quota.Ask) quota.Answer {
		of.Interval = int64(time.Second)
		return r.Agree(now, self, all, of)
	}
	one := ask(1, "a", quota.Ask{Starts: 1})
	require.Equal(t, []int64{0}, one.Starts)
	two := ask(1+int64(time.Second)/2, "a", quota.Ask{Starts: 1, Unused: 1, After: one.After})
	require.Equal(t, []int64{0}, two.Starts)
	require.Empty(t, ask(1+int64(time.Second)/2, "b", quota.Ask{Starts: 1}).Starts)
	three := ask(1+int64(time.Second)*5/4, "b", quota.Ask{Starts: 1}) // due in a quarter
	require.Empty(t, three.Starts)
	four := ask(1+int64(time.Second)*3/2, "b", quota.Ask{Starts: 1})
	require.Equal(t, []int64{0}, four.Starts)
	require.Empty(t, ask(1+int64(time.Second)*3/2, "a", quota.Ask{Starts: 1, Unused: 1, After: two.After}).Starts, "b has one since")
}

// A pause is that of all; a shorter one ends it only where a person says so.
func TestPauseOfAll(t *testing.T) {
	var r quota.Row
	all := func(string) bool { return true }
	pause := func(now int64, of quota.Pause) quota.Answer {
		return r.Agree(now, "a", all, quota.Ask{Interval: 10, Starts: 1, Pauses: of})
	}
	require.Equal(t, quota.Answer{Paused: int64(time.Hour), Retry: int64(time.Hour - 100*time.Millisecond)}, pause(1, quota.Pause{New: true, For: int64(time.Hour)}))
	require.Equal(t, int64(time.Hour), pause(1, quota.Pause{New: true, For: 5, Least: true}).Paused)
	require.Equal(t, int64(5), pause(1, quota.Pause{New: true, For: 5}).Paused)
	require.Zero(t, pause(1, quota.Pause{New: true}).Paused)
	hour := int64(time.Hour)
	require.Equal(t, hour, pause(100, quota.Pause{New: true, For: hour}).Paused)
	for _, late := range []quota.Pause{{New: true}, {New: true, For: 5}, {New: true, For: 2 * hour, Least: true}} {
		late.Age = 50
		require.Equal(t, hour, pause(100, late).Paused, "of a process that stood still, and had said so before")
	}
}

// What was given by a slower law, or when the clock was ahead, keeps nobody waiting for longer than the law that
// is asked with has it.
func TestALimitThatIsFasterNow(t *testing.T) {
	all := func(string) bool { return true }
	for name, later := range map[string]int64{"another law": 1e18, "the clock was set back": 1e18 - int64(time.Hour)} {
		var r quota.Row
		r.Agree(1e18, "a", all, quota.Ask{Interval: int64(time.Hour), Starts: 1, Pauses: quota.Pause{New: true}})
		of := quota.Ask{Interval: int64(time.Millisecond), Starts: 1}
		require.Less(t, r.Agree(later, "a", all, of).Retry, int64(time.Second), name)
		of.Pauses = quota.Pause{New: true, For: 5}
		require.Equal(t, int64(5), r.Agree(later, "a", all, of).Paused, name)
	}
}

func TestWhatIsStored(t *testing.T) {
	_, err := quota.Stored{State: []byte("{")}.Read()
	require.Error(t, err)
	now := time.Unix(1e9, 0)
	require.Equal(t, quota.Stored{}, (&quota.Row{Next: now.UnixNano()}).Stored(now))
	require.Equal(t, now.Add(time.Second), (&quota.Row{Next: 5, Paused: now.Add(time.Second).UnixNano()}).Stored(now).Until.UTC().In(now.Location()))
}
