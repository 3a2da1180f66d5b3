package shard

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

// noRecord writes nothing down, so that entries live on and can be used again.
type noRecord struct{}

func (noRecord) Record(c *Change) {
	for i := range c.States {
		c.States[i].Ref = journal.Ref{}
	}
}

// stock is a journal in memory with many payloads.
type stock struct {
	log  *journal.Log
	refs []journal.Ref
}

// newStock has n payloads accepted: id and payload say what the i-th one is.
func newStock(t testing.TB, n int, id, payload func(i int) []byte) *stock {
	s := &stock{refs: make([]journal.Ref, 0, n)}
	var err error
	s.log, err = journal.OpenMemory(nil, journal.Config{Deliver: func(d *journal.Delivery) {
		var e journal.Entry
		for i := range d.Len() {
			s.refs = append(s.refs, must(d.Read(i, &e)))
		}
		d.Done()
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.log.Close()) })
	queue, err := s.log.Queue(context.Background(), "queue")
	require.NoError(t, err)
	var last journal.Ticket
	var batch []journal.Entry
	for i := 0; i < n; {
		for batch = batch[:0]; i < n && len(batch) < 1000; i++ {
			batch = append(batch, journal.Entry{Queue: queue, ID: id(i), Payload: payload(i), Due: int64(i)})
		}
		last, err = s.log.Append(context.Background(), batch, nil)
		require.NoError(t, err)
	}
	require.NoError(t, last.Wait(context.Background()))
	return s
}

func numbered(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }

// deliver gives the i-th payload, with its own due time, to a core.
func (s *stock) deliver(c *Core, i int, due int64) {
	var e journal.Entry
	ref := s.refs[i%len(s.refs)]
	mustRead(ref, &e)
	e.Due = due
	c.deliver(&e, ref, hashOf(e.ID))
	c.Record(noRecord{})
}

// work runs everything that is due and comes to a good end.
func work(c *Core, now int64, r *Run) (payloads int) {
	for c.Take(now, r) {
		for i := range r.Items {
			r.Items[i].start(i)
			r.Items[i].Outcome.Verdict = VerdictDone
			payloads += len(r.Items[i].Payloads)
		}
		c.Finish(now, r)
		c.Record(noRecord{})
	}
	return payloads
}

// hotID is what it takes to have n payloads of one id arrive and run.
func (s *stock) hotID(t testing.TB, n int, cfg Config) time.Duration {
	begin := processorTime()
	c := NewCore(1, cfg)
	for i := range n {
		s.deliver(c, i, 0)
	}
	require.Equal(t, n, work(c, 0, c.NewRun()))
	return processorTime() - begin
}

var hotConfigs = map[string]Config{
	"all at once": {}, "events": {Merge: MergeKeepAll}, "64 at a time": {MaxPayloads: 64},
}

// TestHotID: a payload of an id costs about the same however many there are.
// The bound is generous, since ten times the memory and the collector count too;
// BenchmarkHotID has the figures.
func TestHotID(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector has costs of its own")
	}
	n := 10_000
	if long {
		n = 100_000
	}
	s := newStock(t, 10*n, func(int) []byte { return []byte("hot") }, numbered)
	for name, cfg := range hotConfigs {
		t.Run(name, func(t *testing.T) {
			s.hotID(t, n, cfg) // warms up
			small, large := time.Duration(1<<62), time.Duration(1<<62)
			for range 3 {
				small = min(small, s.hotID(t, n, cfg))
				large = min(large, s.hotID(t, 10*n, cfg))
			}
			t.Logf("%d: %v, %d: %v, ratio %.1f", n, small, 10*n, large, float64(large)/float64(small))
			require.Less(t, large, 60*small, "quadratic is 100")
		})
	}
}

func BenchmarkHotID(b *testing.B) {
	s := newStock(b, 1_000_000, func(int) []byte { return []byte("hot") }, numbered)
	for _, n := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				s.hotID(b, n, Config{})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/payload")
		})
	}
}

// TestBytesPerJob is what a pending job takes beyond its payload, in the core and
// in the journal.
func TestBytesPerJob(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector has costs of its own")
	}
	const n, payload = 100_000, 8
	before := heapBytes()
	s := newStock(t, n, func(i int) []byte { return fmt.Appendf(nil, "order-%d", i) }, numbered)
	c := NewCore(1, Config{})
	for i := range n {
		s.deliver(c, i, int64(i))
	}
	s.refs = nil // the core has its own
	each := (heapBytes()-before)/n - payload
	t.Logf("%d bytes per job", each)
	require.LessOrEqual(t, each, 150)
	runtime.KeepAlive(c)
	runtime.KeepAlive(s)
}

// TestMemoryComesBack drains a backlog while one old job stays.
func TestMemoryComesBack(t *testing.T) {
	n := 100_000 / oneIn
	ids := newStock(t, n, numbered, func(int) []byte { return nil })
	hot := newStock(t, n, func(int) []byte { return []byte("hot") }, func(i int) []byte {
		if i == 0 {
			return []byte("stays")
		}
		return []byte{byte(i % 8)}
	})
	for name, burst := range map[string]func(c *Core){
		"many ids": func(c *Core) {
			for i := 1; i < n; i++ {
				ids.deliver(c, i, 1)
			}
			work(c, 1, c.NewRun())
		},
		"many times": func(c *Core) {
			for i := range n {
				ids.deliver(c, i%4, 5)
				c.RunNow(string(numbered(i%4)), int64(n-i)+5, true)
				c.Record(noRecord{})
			}
		},
		"replaced": func(c *Core) {
			for i := 1; i < n; i++ {
				hot.deliver(c, i, 5)
			}
		},
		"replaced behind one that stays": func(c *Core) {
			for i := range n {
				hot.deliver(c, i, 5)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := heapBytes()
			c := NewCore(1, Config{Merge: MergeKeepLast})
			ids.deliver(c, 0, 1<<40)
			burst(c)
			left := heapBytes() - before
			require.NotZero(t, c.Counts().Jobs)
			require.Less(t, left, 512<<10, "bytes of heap")
			runtime.KeepAlive(c)
		})
	}
}

// BenchmarkJob is a job's way through the core at a standing backlog.
func BenchmarkJob(b *testing.B) {
	for _, backlog := range []int{10, 10_000, 1_000_000} {
		b.Run(fmt.Sprint(backlog), func(b *testing.B) {
			const group = 64
			s := newStock(b, backlog+group, numbered, numbered)
			c := NewCore(1, Config{})
			r, next := c.NewRun(), 0
			add := func() {
				s.deliver(c, next, int64(next))
				next++
			}
			step := func() {
				for range group {
					add()
				}
				// What is taken is the oldest, so ids come again when they are free.
				for done := 0; done < group; {
					c.Take(int64(next-backlog-1), r)
					for i := range r.Items {
						r.Items[i].start(i)
						r.Items[i].Outcome.Verdict = VerdictDone
					}
					done += len(r.Items)
					c.Finish(0, r)
					c.Record(noRecord{})
				}
			}
			for range backlog {
				add()
			}
			step()
			b.ReportAllocs()
			jobs := 0
			for b.Loop() {
				step()
				jobs += group
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(jobs), "ns/job")
			require.Equal(b, backlog, c.lanes.len())
		})
	}
}

// TestALonelyJobAllocatesItsID: a shard that becomes empty again and again keeps
// what the next job needs.
func TestALonelyJobAllocatesItsID(t *testing.T) {
	s := newStock(t, 1, numbered, numbered)
	c := NewCore(1, Config{})
	r := c.NewRun()
	allocs := testing.AllocsPerRun(1000, func() {
		s.deliver(c, 0, 0)
		require.Equal(t, 1, work(c, 0, r))
	})
	require.LessOrEqual(t, allocs, 1.0)
}

// A core that has run out of jobs keeps 7 KB at most for the next one.
func TestAnIdleCoreKeepsLittle(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector has costs of its own")
	}
	const cores, jobs = 100, 2000
	s := newStock(t, jobs, numbered, numbered)
	r := NewCore(1, Config{}).NewRun()
	idle := make([]*Core, cores)
	before := heapBytes()
	for i := range idle {
		idle[i] = NewCore(1, Config{})
		for j := range jobs {
			s.deliver(idle[i], j, 0)
		}
		require.Equal(t, jobs, work(idle[i], 0, r))
	}
	each := (heapBytes() - before) / cores
	t.Logf("%d bytes", each)
	require.LessOrEqual(t, each, 7<<10)
	runtime.KeepAlive(idle)
}
