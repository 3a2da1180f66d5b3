package shard

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

// FuzzLife takes two payloads of any id, score and due time through a failure
// and a crash: nothing panics, nothing is lost, no time wraps around.
func FuzzLife(f *testing.F) {
	const most, least = int64(math.MaxInt64), int64(math.MinInt64)
	f.Add([]byte("a"), []byte("b"), 1.0, 2.0, int64(0), int64(1), int64(5), int64(7), uint16(0))
	f.Add([]byte("a"), []byte("a"), 1.0, 1.0, most, most-1, most, most, uint16(2))
	f.Add([]byte{}, []byte{0, 0xff, 0xfe}, math.NaN(), math.Inf(-1), least, most, least, least, uint16(0x111))
	f.Add([]byte{0}, []byte{0}, math.Copysign(0, -1), 0.0, least, least, int64(-1), most, uint16(0x1ff))
	f.Add([]byte("é"), []byte("\xc3"), -math.MaxFloat64, math.SmallestNonzeroFloat64, most, most, most-1, int64(-1), uint16(0x0a5))
	f.Add([]byte("a"), []byte("a"), math.NaN(), math.NaN(), int64(1), int64(2), int64(3), int64(4), uint16(0x1234))
	f.Fuzz(func(t *testing.T, id1, id2 []byte, score1, score2 float64, due1, due2, now, delay int64, choice uint16) {
		pick := func(n uint16) uint8 { v := choice % n; choice /= n; return uint8(v) }
		cfg := Config{Merge: Merge(pick(4)), Block: pick(2) == 1}
		exhausted := pick(3)
		cfg.BuryAll, cfg.Halt = exhausted == 1, exhausted == 2
		cfg.Pull, cfg.MaxRetries, cfg.MaxPayloads = pick(2) == 1, int(pick(3)), int(pick(2))
		verdict := Verdict(pick(uint16(VerdictDiscarded) + 1))
		g := newRig(t, cfg, 1+int(pick(2)))
		defer func() { g.close() }()
		in := g.put(
			journal.Entry{ID: id1, Score: score1, Due: due1, Payload: []byte("x")},
			journal.Entry{ID: id2, Score: score2, Due: due2, Payload: []byte("x")},
			journal.Entry{ID: id2, Score: score1, Due: due1, Payload: []byte("y")},
		)
		alive := func() {
			t.Helper()
			g.check()
			known, buried := g.known(), g.morgue()
			over := 0
			for _, c := range g.cores {
				n := c.Counts()
				over += int(n.Merged + n.Done + n.Discarded)
			}
			for _, a := range in {
				_, dead := buried[a.entry.Position]
				over += count(known[a.entry.Position]) + count(dead)
			}
			require.Equal(t, len(in), over, "every payload ends once")
		}
		alive()
		for _, c := range g.cores {
			if r := c.NewRun(); c.Take(now, r) {
				for i := range r.Items {
					it := &r.Items[i]
					require.LessOrEqual(t, it.Due, now)
					require.True(t, it.start(i))
					it.Outcome = Outcome{Verdict: verdict, Delay: time.Duration(delay), Error: "e"}
				}
				c.Finish(now, r)
				c.Record(g)
			}
			if verdict == VerdictFailed || verdict == VerdictSnoozed {
				for l := range c.lanes.all() {
					require.True(t, l.due >= now || l.due == due1 || l.due == due2, "a delay goes forward")
					require.True(t, l.due < math.MaxInt64 || max(due1, due2) == math.MaxInt64 || now == math.MaxInt64)
				}
			}
		}
		alive()
		// Since when a job is due whose turn has come is not written down.
		lanes := func() (all []string) {
			for _, c := range g.cores {
				for id := range c.lanes.named() {
					v, _ := c.view(id)
					v.due = max(v.due, now)
					all = append(all, v.String())
				}
			}
			slices.Sort(all)
			return all
		}
		before := lanes()
		g.now = now
		g.flush()
		g.crash(1)
		g.check()
		if score1 == score1 && score2 == score2 { // NaN has no place in an order
			require.Equal(t, before, lanes())
		}
	})
}

func TestLater(t *testing.T) {
	const most, least = math.MaxInt64, math.MinInt64
	for _, c := range []struct{ now, delay, want int64 }{
		{5, 7, 12}, {5, 0, 5}, {5, -7, 5}, {5, least, 5}, {0, most, farFuture}, {5, most, farFuture}, {5, most - 5, farFuture},
		{5, most - 6, farFuture}, {5, most - 7, farFuture - 1}, {least, most, -1}, {-5, 3, -2}, {most, 0, farFuture},
	} {
		require.Equal(t, c.want, later(c.now, time.Duration(c.delay)), "%d + %d", c.now, c.delay)
	}
}
