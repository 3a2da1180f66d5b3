package limit

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/sorted"
)

// starts are those of one key; the last Rate of them, in a ring.
type starts struct {
	ring  []int64
	count int
}

// add notes a start, and returns how long before it the one was that must not be in
// the same window.
func (s *starts) add(now int64) (since int64, full bool) {
	i := s.count % len(s.ring)
	since, full = now-s.ring[i], s.count >= len(s.ring)
	s.ring[i] = now
	s.count++
	return since, full
}

// simulation drives a table as an executor does, on a clock of its own: jobs that
// wait are woken, come a moment later, run, and end. Each key has more than enough
// to do.
type simulation struct {
	t      *testing.T
	r      *rand.Rand
	table  *Table
	now    int64
	events sorted.List[*event]
	free   []*event
}

type event struct {
	sorted.Place
	do func()
}

func (s *simulation) after(d int64, do func()) {
	if n := len(s.free); n > 0 {
		e := s.free[n-1]
		s.free = s.free[:n-1]
		e.Turn, e.do = s.now+d, do
		s.events.Put(e)
		return
	}
	s.events.Put(&event{Place: sorted.Place{Turn: s.now + d}, do: do})
}

func (s *simulation) run(until int64) {
	for {
		for woken := s.table.Drain(); len(woken) > 0; woken = s.table.Drain() {
			for _, wake := range woken {
				wake()
			}
		}
		at, _ := s.table.Next()
		if len(s.events) > 0 && s.events[0].Turn <= at {
			if s.now = s.events[0].Turn; s.now >= until {
				return
			}
			e := s.events[0]
			s.events.Remove(e)
			e.do()
			s.free = append(s.free, e)
			continue
		}
		if s.now = at; at >= until {
			return
		}
		s.table.Expire(at)
	}
}

// load keeps a key busy with so many jobs at a time, each of which lasts and comes
// as late as it is said to.
func (s *simulation) load(l *Limit, name string, jobs int, late, lasts func() int64, started func()) {
	needs := []Need{{l, name}}
	for i := range jobs {
		owner := admit.Owner{Queue: fmt.Sprint("q", i%2), ID: fmt.Sprint(name, "/", i)}
		var come func()
		wake := func() { s.after(late(), come) }
		come = func() {
			g := s.table.Enter(s.now, owner, needs, wake)
			if g == nil {
				return
			}
			started()
			s.after(lasts(), func() {
				s.table.Release(s.now, g)
				come()
			})
		}
		s.after(int64(i), come)
	}
}

// The hour: 100 in a second for each of 1,000 keys. In no window of a second are
// there more, and over all there is no more than 1 % less, although the jobs come up
// to 4 ms after they are called. The short tier has fewer keys and seconds.
func TestAnHourOfAThousandKeys(t *testing.T) {
	keys, span := 10, 10*time.Second
	if os.Getenv("STRAND_LONG") != "" {
		keys, span = 1000, time.Hour
	}
	const rate = 100
	c, err := Config{Rate: rate, Concurrent: 3}.WithDefaults()
	require.NoError(t, err)
	s := &simulation{t: t, r: rand.New(rand.NewPCG(1, 2)), table: NewTable()}
	l := s.table.NewLimit(0, "stripe", c)
	counts := make([]starts, keys)
	for i := range counts {
		counts[i].ring = make([]int64, rate)
		s.load(l, fmt.Sprint(i), 4,
			func() int64 { return s.r.Int64N(int64(4 * time.Millisecond)) },
			func() int64 { return s.r.Int64N(int64(8 * time.Millisecond)) },
			func() {
				if since, full := counts[i].add(s.now); full && since < int64(time.Second) {
					t.Fatalf("key %d: %d starts in %v", i, rate+1, time.Duration(since))
				}
			})
	}
	s.run(int64(span))
	least := int(0.99 * rate * span.Seconds())
	for i := range counts {
		require.GreaterOrEqual(t, counts[i].count, least, "key %d", i)
	}
}

// The same bound for any settings: no window of Per has more than Rate + Burst − 1
// starts, and with a burst to make up for it no lateness costs anything.
func TestNoWindowHasMore(t *testing.T) {
	seeds := uint64(10)
	if os.Getenv("STRAND_LONG") != "" {
		seeds = 1000
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 3))
		per := time.Duration(1 + r.Int64N(int64(2*time.Minute)))
		rate := 1 + r.IntN(300)
		if per/time.Duration(rate) < minInterval {
			continue
		}
		c, err := Config{Rate: rate, Per: per, Burst: r.IntN(20)}.WithDefaults()
		require.NoError(t, err)
		s := &simulation{t: t, r: r, table: NewTable()}
		l := s.table.NewLimit(0, "l", c)
		most := c.Rate + c.Burst - 1
		k := starts{ring: make([]int64, most)}
		late := 1 + int64(per)/lateness
		s.load(l, "k", 1+r.IntN(c.Burst+3), func() int64 { return r.Int64N(late) }, func() int64 { return r.Int64N(late) }, func() {
			if since, full := k.add(s.now); full && since < int64(per) {
				t.Fatalf("seed %d: %+v: %d starts in %v", seed, c, most+1, time.Duration(since))
			}
		})
		s.run(10 * int64(per))
	}
}
