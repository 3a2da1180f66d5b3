package crash

import (
	"flag"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal/internal/format"
)

const ms = time.Millisecond

// at is the end of a process that had lived so long, with positions that began
// at moments of its life.
func at(epoch uint64, lived time.Duration, began map[format.Position]time.Duration) *Death {
	d := &Death{epoch: epoch, lived: lived, ran: make(map[format.Position]ran)}
	for p, b := range began {
		d.note([]uint64{uint64(p)}, uint64(b), uint64(lived))
	}
	return d
}

// A job that ends the process as soon as it runs is found at the third death:
// two beside others, one alone. The others have nothing to fear.
func TestTheCauseIsFoundAtTheThirdDeath(t *testing.T) {
	s := at(1, time.Hour, map[format.Position]time.Duration{1: 0, 2: time.Hour, 3: time.Minute}).judge(nil)
	require.Len(t, s, 3)
	for p := range s {
		require.Equal(t, 1, s[p].Deaths)
		require.False(t, s[p].Strong())
	}
	s = at(2, 4*ms, map[format.Position]time.Duration{1: 0, 2: 0, 3: 0}).judge(s)
	require.True(t, s[1].Strong() && s[2].Strong() && s[3].Strong())
	require.LessOrEqual(t, s[2].Hold(), 3*time.Second)
	hold := s[2].Hold()
	s = at(3, hold+3*ms, map[format.Position]time.Duration{2: hold, 9: hold}).judge(s)
	require.True(t, s[2].Guilty())
	require.Equal(t, 3, s[2].Deaths)
	require.Zero(t, s[9], "it was beside the one that did it")
	require.False(t, s[1].Guilty() || s[3].Guilty())
	require.True(t, s[1].Strong() && s[3].Strong(), "each of them may have caused the first two")
}

// A death without them acquits those who are held.
func TestADeathWithoutTheSuspects(t *testing.T) {
	s := at(1, time.Second, map[format.Position]time.Duration{1: 0, 2: 0}).judge(nil)
	s = at(2, time.Second, map[format.Position]time.Duration{1: 0, 2: 0}).judge(s)
	require.True(t, s[1].Strong() && s[2].Strong())
	require.Equal(t, longestHold, s[1].Hold())
	s = at(3, time.Second, map[format.Position]time.Duration{3: 0}).judge(s)
	require.Equal(t, 1, s[3].Deaths)
	require.Zero(t, s[1].Deaths+s[2].Deaths)
	s = at(4, time.Second, map[format.Position]time.Duration{1: 0}).judge(s)
	require.Equal(t, 1, s[1].Deaths, "one may be chance again")
	require.Equal(t, 1, s[3].Deaths, "and acquits nobody: it was running at former ones, too")
}

// A job that needs seconds to end the process takes some more deaths, and fewer when
// memory has run out.
func TestSlowCauses(t *testing.T) {
	deaths := func(cause Cause, age time.Duration) (n uint64) {
		var s map[format.Position]Suspicion
		for n = 1; !s[1].Guilty(); n++ {
			began := time.Duration(0)
			if s[1].Strong() {
				began = s[1].Hold()
			}
			d := at(n, began+age, map[format.Position]time.Duration{1: began})
			d.Cause = cause
			s = d.judge(s)
		}
		return n - 1
	}
	require.EqualValues(t, 3, deaths(CauseUnknown, 100*ms))
	require.EqualValues(t, 4, deaths(CauseUnknown, time.Second))
	require.EqualValues(t, 72, deaths(CauseUnknown, time.Hour))
	require.EqualValues(t, 3, deaths(CauseMemory, time.Second))
	require.EqualValues(t, 4, deaths(CauseMemory, 3*time.Second))
	require.EqualValues(t, 5, deaths(CauseMemory, time.Hour))
}

// What cannot be the job's doing does not count, and who is named pays alone.
func TestDeathsThatSayWhoItWas(t *testing.T) {
	s := at(1, time.Second, map[format.Position]time.Duration{1: 0, 2: 0}).judge(nil)
	d := at(2, time.Second, map[format.Position]time.Duration{1: 0, 2: 0})
	d.Cause = CauseOutside
	require.Equal(t, s, d.judge(s))
	d.Cause, d.named = CauseJob, []format.Position{2}
	s = d.judge(s)
	require.Equal(t, 1, s[1].Deaths)
	require.Equal(t, 2, s[2].Deaths)
	require.True(t, s[2].Guilty())
	require.False(t, s[2].Strong(), "nothing has to be found out about it")
}

// storm kills a process again and again. Some jobs never end, and the first sixteen that are
// not held run; the strong suspects among them are held and run as the executor has them. It
// returns how many kills it took to convict a job, or kills if none was.
func storm(kills int, jobs format.Position, interval func() time.Duration) int {
	var s map[format.Position]Suspicion
	for n := range kills {
		lived, began := interval(), make(map[format.Position]time.Duration)
		next := time.Duration(0)
		for p := range jobs {
			p++
			if !s[p].Strong() {
				if len(began) < 16 {
					began[p] = 0
				}
				continue
			}
			begin := max(next, s[p].Hold())
			next = begin + s[p].Alone()
			began[p] = begin
		}
		for p, b := range began {
			if b > lived {
				delete(began, p)
			}
		}
		s = at(uint64(n+1), lived, began).judge(s)
		for _, one := range s {
			if one.Guilty() {
				return n
			}
		}
	}
	return kills
}

func TestAStormOfKillsConvictsNobody(t *testing.T) {
	slow(t)
	r := rand.New(rand.NewPCG(1, 2))
	times := func(d time.Duration, f float64) time.Duration { return time.Duration(f * float64(d)) }
	for _, mean := range []time.Duration{10 * ms, 100 * ms, 300 * ms, time.Second, 3 * time.Second, 10 * time.Second} {
		for kind, interval := range []func() time.Duration{ // in order: the seed is to say what happens
			func() time.Duration { return mean },
			func() time.Duration { return times(mean, 2*r.Float64()) },
			func() time.Duration { return times(mean, r.ExpFloat64()) },
		} {
			name := [...]string{"regular", "uniform", "poisson"}[kind]
			convicted := 0
			const storms, kills = 100, 50
			for n := range storms {
				if storm(kills, []format.Position{16, 20, 40}[n%3], interval) < kills {
					convicted++
				}
			}
			require.LessOrEqual(t, convicted, 1, "of %d, %s, every %v", storms, name, mean)
		}
	}
}

// What Go says when a program dies, word by word, and whom it blames. Worker 7
// runs position 70, worker 9 a batch.
func TestReports(t *testing.T) {
	workers := map[uint64][]uint64{0: {5}, 7: {70, 0}, 8: {0}, 9: {90, 0, 91}}
	for name, c := range map[string]struct {
		report string
		cause  Cause
		how    string
	}{
		"panic of a handler's goroutine": {"panic: x\n\ngoroutine 20 [running]:\nmain.f()\n\t/x/main.go:6 +0x25\ncreated by main.g in goroutine 7\n\t/x/main.go:6 +0x1a", CauseJob, "panic: x"},
		"a grandchild":                   {"panic: x\n\ngoroutine 20 [running]:\nmain.f()\ncreated by main.g in goroutine 19\n\ngoroutine 19 [sleep]:\nmain.g()\ncreated by main.h in goroutine 7\n", CauseJob, "panic: x"},
		"throw in the handler":           {"goroutine 7 gp=0xc0 m=5 mp=0xc1 [running]:\nruntime.throw({0x1, 0x2})\n", CauseJob, "runtime.throw"},
		"a batch":                        {"panic: x\n\ngoroutine 20 [running]:\nmain.f()\ncreated by main.g in goroutine 9\n", CauseUnknown, "panic: x"},
		"a worker that has nothing":      {"goroutine 8 [running]:\nruntime.throw({0x1, 0x2})\n", CauseUnknown, ""},
		"a goroutine of no job":          {"panic: y\n\ngoroutine 1 [running]:\nmain.main()\n", CauseUnknown, ""},
		"orphans in a circle":            {"panic: y\n\ngoroutine 2 [running]:\nf()\ncreated by f in goroutine 2\n", CauseUnknown, ""},
		"out of memory":                  {"goroutine 7 gp=0x2 m=2 mp=0x2 [running]:\nruntime.throw({0x4})\n\t/p.go:1229 +0x48\nruntime.mallocgc(0x4, 0x4, 0x1)\n\t/m.go:1\n", CauseMemory, ""},
		"on the system's stack":          {"SIGSEGV: segmentation violation\nPC=0x0 m=3 sigcode=1\n\ngoroutine 0 [idle]:\n", CauseUnknown, ""},
		"kill -QUIT":                     {"SIGQUIT: quit\nPC=0x40 m=0 sigcode=0\n\ngoroutine 7 gp=0x2 m=0 mp=0x5 [running]:\n", CauseOutside, "SIGQUIT"},
		"abort, by itself":               {"SIGABRT: abort\nPC=0x40 m=0 sigcode=18446744073709551610\n\ngoroutine 7 [running]:\n", CauseJob, "SIGABRT"},
		"cut":                            {"gorout", CauseUnknown, ""},
		"nonsense":                       {strings.Repeat("goroutine 99999999999999999999 [running]:\n", 3), CauseUnknown, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := new(Death)
			d.blame(c.report, workers)
			require.Equal(t, c.cause, d.Cause)
			require.Contains(t, d.How, c.how)
			switch {
			case c.cause == CauseJob:
				require.Equal(t, []format.Position{70}, d.named)
			case name == "a batch":
				require.Equal(t, []format.Position{90, 91}, d.named)
			default:
				require.Empty(t, d.named)
			}
		})
	}
}

// A report that names a batch convicts none of its jobs, and nothing that ran beside it is
// suspected. The rule finds the one: at two deaths all of them, and then it alone.
func TestACauseInABatch(t *testing.T) {
	batch := map[format.Position]time.Duration{1: 0, 2: 0, 3: 0, 4: 0, 9: 0}
	var s map[format.Position]Suspicion
	for epoch := range uint64(2) {
		d := at(epoch, 50*ms, batch)
		d.named = []format.Position{1, 2, 3, 4}
		s = d.judge(s)
		require.Len(t, s, 4)
		require.Empty(t, guilty(s))
	}
	require.True(t, s[1].Strong() && s[2].Strong() && s[3].Strong() && s[4].Strong())
	hold := s[3].Hold()
	d := at(3, hold+50*ms, map[format.Position]time.Duration{3: hold, 9: 0})
	d.Cause, d.named = CauseJob, []format.Position{3} // it runs without others of its kind
	s = d.judge(s)
	require.Equal(t, []format.Position{3}, guilty(s))
	require.Equal(t, 3, s[3].Deaths)
}

// Jobs that each end the process do not give one another an alibi: of those that are not held as
// many run as there are workers, else the one whose turn it is.
func TestSeveralCauses(t *testing.T) {
	for _, causes := range []format.Position{2, 3, 5} {
		for _, workers := range []int{1, 2, 4} {
			for _, age := range []time.Duration{0, 30 * ms, 300 * ms, 3 * time.Second, 8 * time.Second} {
				var s map[format.Position]Suspicion
				for deaths := format.Position(0); len(guilty(s)) < int(causes); deaths++ {
					require.Less(t, deaths, most(age)*causes, "%d causes that take %v, of %d workers", causes, age, workers)
					began := make(map[format.Position]time.Duration)
					for i := range causes {
						if p := 1 + (deaths+i)%causes; len(began) < workers && !s[p].Strong() && !s[p].Guilty() {
							began[p] = 0
						}
					}
					for p := format.Position(1); p <= causes && len(began) == 0; p++ {
						if s[p].Strong() {
							began[p] = s[p].Hold()
						}
					}
					lived := age
					for _, b := range began {
						lived = max(lived, b+age)
					}
					s = at(uint64(deaths)+1, lived, began).judge(s)
				}
			}
		}
	}
}

// most is how many deaths a cause may have, by how long it takes.
func most(age time.Duration) format.Position {
	if age < 5*time.Second {
		return 10
	}
	return 25
}

func guilty(s map[format.Position]Suspicion) (found []format.Position) {
	for p, one := range s {
		if one.Guilty() {
			found = append(found, p)
		}
	}
	return found
}

// slow leaves a test that takes seconds to .ci/run, which sets CI, and to those who name tests.
func slow(t *testing.T) {
	t.Helper()
	if flag.Lookup("test.run").Value.String() == "" && os.Getenv("CI") == "" && os.Getenv("STRAND_LONG") == "" {
		t.Skip("takes seconds: CI=1 makes it")
	}
}
