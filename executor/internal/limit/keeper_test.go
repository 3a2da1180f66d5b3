package limit

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/quota"
)

// town is what processes have in common, some milliseconds away.
type town struct {
	mu      sync.Mutex
	rnd     *rand.Rand
	rows    map[string]quota.Stored
	dead    map[string]bool
	calls   int
	failing bool // each fourth call has no answer, and may be done
}

var errAway = errors.New("away")

func (c *town) share(ctx context.Context, keys []string, change func(time.Time, func(string) bool, []quota.Stored) ([]quota.Stored, error)) error {
	time.Sleep(c.delay())
	c.mu.Lock()
	c.calls++
	lost, undone := c.failing && c.rnd.IntN(4) == 0, c.rnd.IntN(2) == 0
	var rows []quota.Stored
	for _, key := range keys {
		rows = append(rows, c.rows[key])
	}
	rows, err := change(time.Now(), func(p string) bool { return !c.dead[p] }, rows)
	if !(lost && undone) {
		for i, key := range keys {
			if rows[i].State == nil {
				delete(c.rows, key)
			} else {
				c.rows[key] = rows[i]
			}
		}
	}
	c.mu.Unlock()
	time.Sleep(c.delay())
	if lost {
		return errAway
	}
	return err
}

func (c *town) delay() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(c.rnd.Int64N(int64(5 * time.Millisecond)))
}

// crowd are processes with one limit, whose jobs count what they do together.
type crowd struct {
	*town
	all     []*Limits
	limits  []*Limit
	cancel  context.CancelFunc
	running map[string]int // by key
	most    map[string]int
	starts  map[string][]time.Time // by key
	done    []int                  // by process
}

func newCrowd(t *testing.T, seed uint64, processes int, c Config) *crowd {
	r := &crowd{town: &town{rnd: rand.New(rand.NewPCG(seed, 3)), rows: make(map[string]quota.Stored), dead: make(map[string]bool)},
		running: make(map[string]int), most: make(map[string]int), starts: make(map[string][]time.Time), done: make([]int, processes)}
	c.Cluster = true
	c, err := c.WithDefaults()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel = cancel
	for i := range processes {
		l := New()
		l.Commonly()
		r.all, r.limits = append(r.all, l), append(r.limits, l.Add("limit", c))
		go l.Keep(ctx, quota.Processes{Self: fmt.Sprint(i), Rows: r.share})
		t.Cleanup(l.Close)
	}
	return r
}

// job runs one under a key, or several with a plus between them, in a process, and returns when it has ended.
func (r *crowd) job(process int, id, keys string, takes time.Duration) {
	l, woken := r.all[process], make(chan struct{}, 1)
	var g *Grant
	var needs []Need
	for key := range strings.SplitSeq(keys, "+") {
		needs = append(needs, Need{r.limits[process], key})
	}
	for {
		l.Do(func(t *Table, now int64) {
			g = t.Enter(now, admit.Owner{Queue: "q", ID: id}, needs, func() { woken <- struct{}{} })
		})
		if g != nil {
			break
		}
		<-woken
	}
	r.mu.Lock()
	for _, n := range needs {
		r.running[n.Key]++
		r.most[n.Key] = max(r.most[n.Key], r.running[n.Key])
		r.starts[n.Key] = append(r.starts[n.Key], time.Now())
	}
	r.mu.Unlock()
	time.Sleep(takes)
	r.mu.Lock()
	for _, n := range needs {
		r.running[n.Key]--
	}
	r.done[process]++
	r.mu.Unlock()
	l.Do(func(t *Table, now int64) { t.Release(now, g) })
}

func (r *crowd) die(process string, dead bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dead[process] = dead
}

func (r *crowd) runs(key string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running[key]
}

// ended is how many jobs of a process have.
func (r *crowd) ended(process int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done[process]
}

// paced checks that so many jobs of a key start within a second, at most.
func (r *crowd) paced(t *testing.T, most int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, starts := range r.starts {
		slices.SortFunc(starts, time.Time.Compare)
		for i := range len(starts) - most {
			require.GreaterOrEqual(t, starts[i+most].Sub(starts[i]), time.Second, key)
		}
	}
}

// busy has so many jobs in each process, one after the other, for a time.
func (r *crowd) busy(jobs, keys int, takes, d time.Duration) {
	var all sync.WaitGroup
	end := time.Now().Add(d)
	for p := range r.all {
		for i := range jobs {
			all.Go(func() {
				for n := 0; time.Now().Before(end); n++ {
					r.job(p, fmt.Sprint(p, i), fmt.Sprint("key", i%keys), takes)
				}
			})
		}
	}
	all.Wait()
}

// No more jobs of a key run in all processes than Concurrent, with answers that are lost, and each
// process gets its part; then nothing is left of it.
func TestALimitOfAClusterHoldsInAllProcesses(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			most, processes := 1+int(seed)%5, 1+int(seed)%4
			r := newCrowd(t, seed, processes, Config{Concurrent: most})
			defer r.cancel()
			r.failing = seed%2 == 1
			r.busy(8, 2, 20*time.Millisecond, time.Minute)
			total := 0
			for p, done := range r.done {
				total += done
				require.Greater(t, done, 2*60*50*most/processes/4, "seed %d: process %d of %d", seed, p, processes)
			}
			for key, n := range r.most {
				require.Equal(t, min(most, 4*processes), n, "seed %d: %s", seed, key)
			}
			if !r.failing {
				require.Greater(t, total, 2*60*50*most*3/4, "seed %d", seed)
			}
			r.mu.Lock()
			r.failing = false
			r.mu.Unlock()
			time.Sleep(5 * time.Second)
			synctest.Wait()
			require.Empty(t, r.rows, "nobody wants anything")
			for _, l := range r.limits {
				require.Empty(t, l.keys)
			}
			calls := r.calls
			time.Sleep(time.Hour)
			synctest.Wait()
			require.Equal(t, calls, r.calls, "nothing is asked for nothing")
		})
	}
}

// No window as long as Per has more than Rate + Burst - 1 starts in all processes, and what is
// allowed is used.
func TestARateOfAClusterHoldsInAllProcesses(t *testing.T) {
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			burst := 1 + int(seed)%3
			r := newCrowd(t, seed, 1+int(seed)%4, Config{Rate: 20, Burst: burst})
			defer r.cancel()
			r.failing = seed%2 == 1
			r.busy(4, 1, 30*time.Millisecond, time.Minute)
			r.paced(t, 20+burst-1)
			if !r.failing {
				require.Greater(t, len(r.starts["key0"]), 20*60*8/10, "seed %d", seed)
			}
		})
	}
}

// A process that was taken for dead has nothing any longer, and one that dies leaves what it had.
func TestAProcessThatDies(t *testing.T) {
	slow(t)
	synctest.Test(t, func(t *testing.T) {
		r := newCrowd(t, 1, 2, Config{Concurrent: 2})
		defer r.cancel()
		go r.job(0, "a", "k", 30*time.Minute)
		go r.job(0, "b", "k", time.Hour)
		time.Sleep(time.Second)
		for _, id := range []string{"c", "d"} {
			go r.job(1, id, "k", 40*time.Minute)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 2, r.runs("k"))
		r.die("0", true)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, 4, r.runs("k"))
		r.die("0", false)
		r.all[0].Lapse()
		go r.job(0, "e", "k", time.Second)
		time.Sleep(35 * time.Minute)
		synctest.Wait()
		require.Equal(t, 3, r.runs("k"), "a has ended, and others have its permit")
		time.Sleep(time.Hour)
		require.Equal(t, []int{3, 2}, []int{r.ended(0), r.ended(1)})
	})
}

// What goes back goes back once, and nothing that was before a start that was used; a pause says how old it is.
func TestAnAskSaysWhatIsSo(t *testing.T) {
	c, err := Config{Rate: 1, Cluster: true}.WithDefaults()
	require.NoError(t, err)
	table := NewTable()
	table.common = true
	l := table.NewLimit(0, "l", c)
	enter := func(now int64) *Grant { return table.Enter(now, admit.Owner{ID: "a"}, []Need{{l, "k"}}, func() {}) }
	late := int64(quota.Grace) + 1
	p := l.key("k").part
	given := func(now int64, at ...int64) {
		p.hear(now, now, quota.Ask{Wants: 1}, quota.Answer{Starts: at, After: 7}, true)
		table.settle(now, p.key)
	}
	require.Nil(t, enter(0))
	given(0, 0)
	a := p.ask(late)
	require.Zero(t, a.Unused, "it may be used until it is dropped")
	p.plan(late)
	p.hear(late, late, a, quota.Answer{}, false)
	p.plan(late)
	a = p.ask(late)
	require.Equal(t, [2]int64{1, 7}, [2]int64{int64(a.Unused), a.After})
	p.hear(late, late, a, quota.Answer{}, false)
	require.Zero(t, p.ask(late).Unused, "nobody knows whether it has gone back")
	given(late, 0, 2*late)
	p.plan(3 * late)
	g := enter(3 * late)
	require.NotNil(t, g)
	table.Release(3*late, g)
	require.Zero(t, p.ask(3*late).Unused, "the one after it was used")
	l.Pause(4*late, "k", 9*late)
	a = p.ask(6 * late)
	require.Equal(t, quota.Pause{New: true, For: 3 * late, Age: 2 * late}, a.Pauses)
	p.hear(6*late, 6*late, a, quota.Answer{}, false)
	table.Throttle(7*late, &Grant{owner: admit.Owner{ID: "b"}, needs: []Need{{l, "k"}}}, nil, 8*late)
	a = p.ask(7 * late)
	require.Equal(t, []bool{true, false}, []bool{a.Pauses.New, a.Pauses.Least}, "nobody has heard of the one by hand, which counts")
	table.Throttle(7*late, &Grant{owner: admit.Owner{ID: "b"}, needs: []Need{{l, "k"}}}, nil, 8*late)
	p.hear(7*late, 7*late, a, quota.Answer{}, false)
	require.Equal(t, quota.Pause{New: true, For: 2 * late}, p.ask(7*late).Pauses)
}

// While a job runs that has had its start, and no other waits, nobody is asked for more.
func TestARateAsksForNothingMore(t *testing.T) {
	c, err := Config{Rate: 1, Cluster: true}.WithDefaults()
	require.NoError(t, err)
	table := NewTable()
	table.common = true
	l := table.NewLimit(0, "l", c)
	p, second := l.key("k").part, int64(time.Second)
	enter := func(now int64) *Grant { return table.Enter(now, admit.Owner{ID: "a"}, []Need{{l, "k"}}, func() {}) }
	require.Nil(t, enter(0))
	require.Len(t, table.due(0), 1)
	p.hear(0, 0, p.ask(0), quota.Answer{Starts: []int64{0}}, true)
	table.settle(0, p.key)
	g := enter(0)
	require.NotNil(t, g)
	for now := second; now < 100*second; now += second {
		require.Empty(t, table.due(now), "after %v", time.Duration(now))
	}
	table.Release(100*second, g)
}

// An answer that was on its way when this process was taken for dead is for one that is no more.
func TestAnAnswerToADeadProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCrowd(t, 1, 0, Config{Concurrent: 1})
		defer r.cancel()
		l := New()
		l.Commonly()
		t.Cleanup(l.Close)
		r.all, r.done = []*Limits{l}, make([]int, 1)
		r.limits = []*Limit{l.Add("limit", Config{Concurrent: 1, Cluster: true})}
		calls := 0
		go l.Keep(t.Context(), quota.Processes{Self: "0", Rows: func(ctx context.Context, keys []string, change func(time.Time, func(string) bool, []quota.Stored) ([]quota.Stored, error)) error {
			err := r.share(ctx, keys, change)
			if calls++; calls == 1 {
				l.Lapse()
				time.Sleep(time.Second)
				require.Zero(t, r.runs("k"))
			}
			return err
		}})
		go r.job(0, "a", "k", time.Minute)
		time.Sleep(time.Second + 500*time.Millisecond)
		require.Zero(t, r.runs("k"), "it asks again before")
		time.Sleep(2 * time.Second)
		require.Equal(t, 1, r.runs("k"))
		time.Sleep(time.Minute) // until it has ended
	})
}

// Jobs that need starts of two keys have their turn, beside some that need one, and what they do not use
// goes back so that no window has more.
func TestAJobWithTwoKeys(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			r := newCrowd(t, seed, 1+int(seed)%3, Config{Rate: 1 + int(seed)%2})
			defer r.cancel()
			r.failing = seed%2 == 1
			var all sync.WaitGroup
			for p := range r.all {
				for i := range 6 {
					keys := []string{"x+y", "y+x", "x"}[i%3]
					all.Go(func() { r.job(p, fmt.Sprint(p, i), keys, 10*time.Millisecond) })
				}
			}
			all.Wait() // or the bubble is stuck
			r.paced(t, 1+int(seed)%2)
		})
	}
}

// What was given is used until it is too late, and not at all once the process was taken for dead.
func TestAGiftHasItsTime(t *testing.T) {
	for name, of := range map[string]struct {
		config Config
		gift   quota.Answer
		at     int64
		lapse  bool
		used   bool
	}{
		"a start, late":            {Config{Rate: 1}, quota.Answer{Starts: []int64{0}}, int64(quota.Grace), false, true},
		"a start, too late":        {Config{Rate: 1}, quota.Answer{Starts: []int64{0}}, int64(quota.Grace) + 1, false, false},
		"a permit":                 {Config{Concurrent: 1}, quota.Answer{Permits: 1, Share: 1}, 5, false, true},
		"a permit of who was dead": {Config{Concurrent: 1}, quota.Answer{Permits: 1, Share: 1}, 5, true, false},
	} {
		of.config.Cluster = true
		c, err := of.config.WithDefaults()
		require.NoError(t, err)
		table := NewTable()
		table.common = true
		l, owner := table.NewLimit(0, "l", c), admit.Owner{ID: "a"}
		enter := func(now int64) *Grant { return table.Enter(now, owner, []Need{{l, "k"}}, func() {}) }
		require.Nil(t, enter(0))
		for _, p := range table.due(0) {
			p.ask(0)
			p.hear(0, 0, quota.Ask{Wants: 1}, of.gift, true)
			table.settle(0, p.key)
		}
		require.Len(t, table.Drain(), 1)
		table.Aside(1, owner, false)
		if of.lapse {
			l.keys["k"].part.lapse()
		}
		require.Equal(t, of.used, enter(of.at) != nil, name)
	}
}

// Who is told to come back later has the key rest in all processes, and a person can end that anywhere.
func TestAPauseInAllProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCrowd(t, 1, 2, Config{Concurrent: 5})
		defer r.cancel()
		r.job(1, "before", "k", time.Millisecond)
		r.all[0].Do(func(_ *Table, now int64) { r.limits[0].Pause(now, "k", now+int64(time.Hour)) })
		time.Sleep(2 * time.Second)
		go r.job(1, "a", "k", time.Millisecond)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.Equal(t, 1, r.ended(1))
		r.all[0].Do(func(_ *Table, now int64) { r.limits[0].Pause(now, "k", now) })
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Equal(t, 2, r.ended(1))
		require.Equal(t, 5, r.limits[0].Config().Concurrent)
	})
}

// Jobs that need starts of the same keys start one after the other, whatever processes they are in,
// and in whatever order their keys are.
func TestStartsOfTheSameKeys(t *testing.T) {
	var took time.Duration
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			r := newCrowd(t, seed, 2, Config{Rate: 1, Per: 5 * time.Second})
			defer r.cancel()
			var all sync.WaitGroup
			began := time.Now()
			for i := range 10 {
				all.Go(func() { r.job(i%2, fmt.Sprint(i), []string{"x+y", "y+x"}[i%2], time.Millisecond) })
			}
			all.Wait()
			took += time.Since(began)
		})
	}
	require.Less(t, took, time.Hour) // 10 jobs every 5 seconds are 6 minutes, draws make 9 to 17 of it, and the same moment 10 hours
}

// A permit that is there for a job which waits for another key is others' in their turns, also when
// nobody else wanted it at first.
func TestAPermitThatWaitsForAnother(t *testing.T) {
	slow(t)
	synctest.Test(t, func(t *testing.T) {
		r := newCrowd(t, 1, 2, Config{Concurrent: 1})
		defer r.cancel()
		go r.job(1, "long", "a", time.Hour)
		time.Sleep(time.Second)
		go r.job(0, "both", "a+b", time.Second)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Contains(t, r.rows, "5:limitb")
		go r.job(1, "short", "b", time.Second)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, r.ended(1))
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.Equal(t, 1, r.ended(0))
	})
}

// Jobs that need permits of several keys have them all some time, in whatever processes they are, and beside jobs that
// need one of these.
func TestJobsWithSeveralKeysOfACluster(t *testing.T) {
	for seed := range uint64(24) {
		synctest.Test(t, func(t *testing.T) {
			r := newCrowd(t, seed, 2+int(seed)%4, Config{Concurrent: 1 + int(seed)%3/2})
			defer r.cancel()
			r.failing = seed%4 == 3
			names, rnd := []string{"a", "b", "c", "d"}, rand.New(rand.NewPCG(seed, 4))
			var all sync.WaitGroup
			began := time.Now()
			for p := range r.all {
				for i := range 10 {
					keys := slices.Clone(names)
					rnd.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
					if keys = keys[:3]; seed%3 > 0 {
						keys = keys[:1+i%2]
					}
					all.Go(func() { r.job(p, fmt.Sprint(p, i), strings.Join(keys, "+"), 30*time.Millisecond) })
				}
			}
			all.Wait()
			most := time.Duration(10*len(r.all)) * time.Second
			if r.failing { // who has no answer asks nothing for a turn, and when that is depends on who comes first
				most *= 10
			}
			require.Less(t, time.Since(began), most, "seed %d", seed)
			for key, n := range r.most {
				require.LessOrEqual(t, n, r.limits[0].config.Concurrent, key)
			}
			time.Sleep(10 * time.Second)
			synctest.Wait()
			for _, l := range r.limits {
				require.Empty(t, l.keys, "seed %d", seed)
			}
		})
	}
}

// A limit of both, for many short jobs, is no slower than its rate.
func TestARateBesidePermits(t *testing.T) {
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			r := newCrowd(t, seed, 1+int(seed)%3, Config{Rate: 30, Per: 10 * time.Second, Concurrent: 1 + int(seed)%2})
			defer r.cancel()
			r.busy(20, 1, 30*time.Millisecond, time.Minute)
			require.Greater(t, len(r.starts["key0"]), 6*30*9/10, "seed %d, %d processes", seed, len(r.all))
		})
	}
}

// A job that needs several keys has its turn, in each process, although others keep each of the keys busy in all.
func TestBusyKeysOfACluster(t *testing.T) {
	slow(t)
	for seed := range uint64(9) {
		synctest.Test(t, func(t *testing.T) {
			keys, processes, all := []int{2, 3, 10}[seed%3], 1+int(seed)/3, []string(nil)
			r := newCrowd(t, seed, processes, Config{Concurrent: 1})
			defer r.cancel()
			for i := range keys {
				all = append(all, fmt.Sprint("key", i))
			}
			go r.busy(2*keys, keys, 50*time.Millisecond, time.Minute)
			time.Sleep(10 * time.Second)
			for p := range r.all {
				go func() {
					began := time.Now()
					r.job(p, "all", strings.Join(all, "+"), 50*time.Millisecond)
					assert.Less(t, time.Since(began), 40*time.Second, "seed %d: %d keys, %d processes", seed, keys, processes)
				}()
			}
			time.Sleep(2 * time.Minute)
		})
	}
}

// A key that was not in use when a job came has its permit, too.
func TestAKeyThatWasForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCrowd(t, 1, 2, Config{Concurrent: 1})
		defer r.cancel()
		go r.job(1, "long", "a", time.Minute)
		time.Sleep(time.Second)
		go r.job(0, "both", "b+a", time.Second)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		r.all[0].Do(func(*Table, int64) { require.Equal(t, 1, r.limits[0].key("b").part.permits) })
		time.Sleep(2 * time.Minute)
		require.Equal(t, 1, r.ended(0))
	})
}

// slow leaves a test that takes seconds to .ci/run, which sets CI, and to those who name tests.
func slow(t *testing.T) {
	t.Helper()
	if flag.Lookup("test.run").Value.String() == "" && os.Getenv("CI") == "" && os.Getenv("STRAND_LONG") == "" {
		t.Skip("takes seconds: CI=1 makes it")
	}
}
