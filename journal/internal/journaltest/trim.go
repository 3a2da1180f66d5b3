package journaltest

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

// slack is what a log may hold beyond twice its live bytes: what it never
// bothers about, one more block, and headers and marks.
const slack = 1<<20 + 600<<10

func (f *fixture) checkSize() {
	f.t.Helper()
	s := f.Stats()
	require.LessOrEqual(f.t, s.Bytes, 2*s.LiveBytes+slack, "%+v", s)
	require.GreaterOrEqual(f.t, s.LiveBytes, 0)
}

// block appends about 200 KiB and returns what was delivered.
func (f *fixture) block(number int) []Got {
	f.t.Helper()
	const n = 100
	f.append(f.entries(number*n, n, 2000)...)
	got := f.taken()
	return got[len(got)-n:]
}

func testTrimFIFO(t *testing.T, f *fixture) {
	before := f.block(0)
	for i := range 30 {
		f.end(refsOf(before)...)
		before = f.block(i + 1)
		f.checkSize()
	}
	assert.LessOrEqual(t, f.Stats().Blocks, 4)
	f = f.again()
	assert.Len(t, f.pending(), 100)
	f.checkSize()
}

// testTrimOneOld lets blocks come and go around a few old entries, which are
// carried many times, while a reader reads them, some times for each block.
func testTrimOneOld(t *testing.T, f *fixture) {
	first := f.block(0)
	old := []Got{first[0], first[57], first[99]}
	f.end(append(refsOf(first[1:57]), refsOf(first[58:99])...)...)

	turns := make(chan int, 40) // of the reader
	var reader sync.WaitGroup
	reader.Go(func() {
		for range turns {
			for i := range 30 {
				var e journal.Entry
				g := old[i%len(old)]
				if !assert.NoError(t, g.Ref.Read(&e)) || !assert.Equal(t, g.Entry, e) {
					return
				}
			}
		}
	})
	for i := range 40 {
		turns <- i
		f.end(refsOf(f.block(i + 1))...)
		f.checkSize()
		if i%10 == 9 {
			crashed := f.crashed()
			require.Equal(t, entriesOf(old), crashed.pending())
			require.NoError(t, crashed.Close())
		}
	}
	close(turns)
	reader.Wait()
	assert.LessOrEqual(t, f.Stats().Blocks, 20)

	// What is carried can be ended by its first Ref, and by one of a replay.
	f.end(old[1].Ref)
	f = f.again()
	refs := slices.Concat(f.PendingPages(f.queue)...)
	require.Len(t, refs, 2)
	f.end(refs[0])
	for i := range 10 {
		f.end(refsOf(f.block(i + 100))...)
	}
	assert.Equal(t, []journal.Entry{old[2].Entry}, f.again().pending())
}

func testTrimRandom(t *testing.T, f *fixture) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Log("seed", seed)
	var live []Got
	for i := range 40 {
		live = append(live, f.block(i)...)
		random.Shuffle(len(live), func(i, j int) { live[i], live[j] = live[j], live[i] })
		keep := len(live) - random.IntN(len(live))
		if i%8 < 4 { // grow and shrink by turns
			keep = max(keep, len(live)-60)
		}
		f.end(refsOf(live[keep:])...)
		live = live[:keep]
		f.checkSize()
	}
	for _, g := range live {
		require.Equal(t, g.Entry, f.read(g.Ref))
	}
	slices.SortFunc(live, func(a, b Got) int { return int(a.Entry.Position) - int(b.Entry.Position) })
	f = f.again()
	require.Equal(t, entriesOf(live), f.pending())
	f.checkSize()
}

// testTrimLarge counts how often a few large entries are carried while small
// ones come and go: hardly ever.
func testTrimLarge(t *testing.T, f *fixture) {
	for i := range 4 {
		list := f.entries(i*1000, 200, 10)
		list[0].Payload = payload(i*1000, 1<<20)
		f.append(list...)
	}
	var large, small []Got
	for i, g := range f.taken() {
		if i%200 == 0 {
			large = append(large, g)
		} else {
			small = append(small, g)
		}
	}
	f.end(refsOf(small)...)
	before := f.Stats()
	for i := range 60 {
		f.append(f.entries(i*10, 1, 100)...)
		got := f.taken()
		f.end(got[len(got)-1].Ref)
	}
	after := f.Stats()
	assert.Less(t, after.Bytes-before.Bytes, 100<<10, "nothing of 4 MiB needs to be carried for 6 KiB")
	assert.Greater(t, after.Blocks, before.Blocks+100)
	f.checkSize()
	require.Len(t, f.again().pending(), len(large))
}

// testTrimSlowConsumer carries a block before its consumer has read it.
func testTrimSlowConsumer(t *testing.T, f *fixture) {
	kept := make(chan *journal.Delivery, 1)
	f.take = func(d *journal.Delivery) {
		if d.Route == 9 {
			kept <- d
			return
		}
		d.Done()
	}
	list := f.entries(0, 100, 2000)
	for i := range 3 {
		list[i].Route = 9
	}
	ticket := f.post(list...)
	slow := <-kept
	f.append(f.entries(100, 1, 1)...)
	f.end(refsOf(f.taken())...)
	for i := range 20 {
		f.end(refsOf(f.block(i + 2))...)
	}
	require.Equal(t, 3, slow.Len())
	for i := range 3 {
		var e journal.Entry
		r := must(slow.Read(i, &e))
		assert.Equal(t, ticket.Position(i), r.Position())
		assert.Equal(t, payload(i, 2000), e.Payload)
		f.end(r)
	}
	slow.Done()
	require.NoError(t, ticket.Wait(ended(t)))
	assert.Empty(t, f.again().pending())
}

// testTrimEndedMeanwhile ends entries while the block that carries them is on
// its way, from all sides, and looks at what every commit left.
func testTrimEndedMeanwhile(t *testing.T, f *fixture) {
	first := f.block(0)
	f.end(refsOf(first[30:])...)
	done := make(chan struct{})
	over := make(chan int)
	go func() {
		n := 0
		defer func() { over <- n }()
		for ; n < 30; n++ {
			f.Record(&journal.Change{Ended: []journal.Ref{first[n].Ref}})
			select {
			case <-done:
				n++
				return
			default:
			}
			if f.Flush(t.Context()) != nil {
				return
			}
		}
	}()
	for i := range 30 {
		f.append(f.entries(1000+i*100, 100, 2000)...)
		got := f.taken()
		f.Record(&journal.Change{Ended: refsOf(got[len(got)-100:])})
	}
	close(done)
	n := <-over
	require.Equal(t, entriesOf(first[n:30]), f.again().pending())
}
