package tell

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/events"
)

const all = ^kinds(0)

// open returns a feed with room for so many events, and a source of it.
func open(size int) (*Feed, *Source) {
	f, s := new(Feed), new(Source)
	f.Open(size, nil)
	f.Join(s, "", nil)
	return f, s
}

// put is what a writer does: it asks before it makes an event. The value of one is its position.
func put(s *Source, kind int, values ...int) {
	for _, v := range values {
		s.Tell(events.Event{Kind: words[kind], Position: uint64(v)})
	}
}

// reader returns a reader of some kinds, of some sources or all, behind the event of a number or from now on.
func reader(t testing.TB, f *Feed, after uint64, some []int, sources ...*Source) (*Reader, error) {
	filter := events.Filter{}
	if after != 0 {
		filter.After = place(f.life, after)
	}
	for _, kind := range some {
		filter.Kinds = append(filter.Kinds, words[kind])
	}
	return f.Read(t.Context(), filter, sources)
}

func mustReader(t testing.TB, f *Feed, after uint64, some []int, sources ...*Source) *Reader {
	r, err := reader(t, f, after, some, sources...)
	require.NoError(t, err)
	return r
}

// read returns what a reader gets without waiting.
func read(r *Reader) (values []int, missed events.MissedError) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	r.over = over.Done()
	r.begin()
	defer r.end()
	for {
		got, m := r.some(nil)
		if m != nil {
			missed.Events += m.Events
			missed.Uncounted = missed.Uncounted || m.Uncounted
		}
		for _, e := range got {
			values = append(values, int(e.Position))
		}
		if len(got) == 0 && m == nil {
			return values, missed
		}
	}
}

func TestASlowReaderIsToldWhatItMissed(t *testing.T) {
	f, s := open(4)
	r := mustReader(t, f, 0, nil)
	r.begin()
	for i := range 10 {
		put(s, 1, i)
	}
	r.end()
	values, missed := read(r)
	require.Equal(t, []int{6, 7, 8, 9}, values)
	require.Equal(t, events.MissedError{Events: 6}, missed)
}

func TestWithoutReadersThereIsNoRing(t *testing.T) {
	f, s := open(4)
	require.False(t, s.wants(all), "nobody has asked")
	r := mustReader(t, f, 0, []int{1})
	require.True(t, s.wants(of(words[1], words[2])))
	require.False(t, s.wants(of(words[2])))
	for i := range 3 {
		put(s, 1, i)
	}
	values, missed := read(r)
	require.Equal(t, []int{0, 1, 2}, values)
	require.Zero(t, missed)
	for range 5 { // it has gone; a lap later so has the ring
		put(s, 1, 3)
	}
	require.False(t, s.wants(all))
	values, missed = read(r)
	require.Empty(t, values)
	require.Equal(t, events.MissedError{Events: 4, Uncounted: true}, missed, "the fifth was not counted")
	put(s, 1, 4)
	values, missed = read(r)
	require.Equal(t, []int{4}, values, "it is on again")
	require.Zero(t, missed)
}

func TestAWiderReaderIsToldWhatNobodyWanted(t *testing.T) {
	f, s := open(100)
	narrow := mustReader(t, f, 0, []int{1})
	narrow.begin()
	put(s, 1, 1)
	got, _ := narrow.some(nil)
	put(s, 2, 2) // is lost
	wide := mustReader(t, f, got[0].Number, []int{1, 2})
	put(s, 2, 3)
	values, missed := read(wide)
	require.Equal(t, []int{3}, values)
	require.Equal(t, events.MissedError{Uncounted: true}, missed)

	same := mustReader(t, f, got[0].Number, []int{1})
	values, missed = read(same)
	require.Empty(t, values)
	require.Zero(t, missed, "all that it wants was kept")

	_, err := reader(t, f, 1000, nil)
	require.Error(t, err, "a number of the future")
	_, err = f.Read(t.Context(), events.Filter{After: place(f.life, 0)}, nil)
	require.Error(t, err)
}

// What only a reader has wanted who has gone is not made for those who stay.
func TestWhatNobodyWantsAnyMore(t *testing.T) {
	f, s := open(4)
	other := new(Source)
	f.Join(other, "", nil)
	mustReader(t, f, 0, []int{1}, s).begin()
	wide := mustReader(t, f, 0, []int{1, 2})
	put(s, 2, 1)
	values, missed := read(wide)
	require.Equal(t, []int{1}, values)
	require.Zero(t, missed)
	put(s, 1, 2, 3)
	put(s, 2, 4)
	values, missed = read(wide)
	require.Equal(t, []int{2, 3, 4}, values, "it comes back within a lap")
	require.Zero(t, missed)
	put(s, 1, 5, 6, 7)
	require.True(t, s.wants(of(words[2])), "it may come back")
	for range 2 * rarely {
		put(s, 1, 8)
	}
	require.False(t, s.wants(^of(words[1])))
	require.True(t, s.wants(of(words[1])))
	require.False(t, other.wants(all))
	late := new(Source)
	f.Join(late, "", nil)
	require.False(t, late.wants(all))
	put(s, 2, 13)
	_, missed = read(wide)
	require.True(t, missed.Uncounted)
	put(other, 2, 14)
	put(late, 2, 15)
	values, missed = read(wide)
	require.Equal(t, []int{14, 15}, values, "it is made again")
	require.Zero(t, missed)
}

func TestAClosedFeedEndsWithItsLastEvent(t *testing.T) {
	f, s := open(4)
	r := mustReader(t, f, 0, nil)
	r.begin()
	var g sync.WaitGroup
	g.Go(func() {
		var values []int
		for {
			got, _ := r.some(nil)
			if len(got) == 0 {
				break
			}
			values = append(values, int(got[0].Position))
		}
		assert.Equal(t, []int{1}, values)
	})
	put(s, 1, 1)
	f.Close()
	put(s, 1, 2)
	g.Wait()
	late := mustReader(t, f, 0, nil)
	values, missed := read(late)
	require.Empty(t, values)
	require.Zero(t, missed)
}

// happened is an event as the model remembers it: whether the ring had to have it.
type happened struct {
	source, kind, value int
}

// follower is a reader with what it has to be given.
type follower struct {
	r       *Reader
	sources []int // nil: all
	kinds   []int
	owed    []happened // since it was opened
}

func (w *follower) wants(h happened) bool {
	return (w.sources == nil || slices.Contains(w.sources, h.source)) && slices.Contains(w.kinds, h.kind)
}

// Readers that come, go, come back and are slow: what a reader gets is the end of what
// it is owed, and if it is not all of it, the reader was told.
func TestRingIsLikeItsModel(t *testing.T) {
	rounds := 300
	if os.Getenv("STRAND_LONG") != "" {
		rounds = 100_000
	}
	for range rounds {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { followers(t, rand.New(rand.NewPCG(seed, 0))) })
	}
}

func followers(t *testing.T, r *rand.Rand) {
	size := 1 + r.IntN(8)
	f := new(Feed)
	f.Open(size, nil)
	var sources []*Source
	add := func() {
		sources = append(sources, new(Source))
		f.Join(sources[len(sources)-1], "", nil)
	}
	add()
	var readers []*follower
	if r.IntN(2) == 0 { // one that stays, so that the ring does
		mustReader(t, f, 0, []int{1}, sources...).begin()
	}
	value := 0
	for range 200 {
		switch n := r.IntN(20); {
		case n == 0 && len(sources) < 4:
			add()
		case n < 3 && len(readers) < 5:
			w := &follower{kinds: []int{1 + r.IntN(3), 1 + r.IntN(3)}}
			if r.IntN(2) == 0 {
				w.sources = []int{r.IntN(len(sources))}
			}
			var of []*Source
			if w.sources != nil {
				of = []*Source{sources[w.sources[0]]}
			}
			w.r = mustReader(t, f, 0, w.kinds, of...)
			readers = append(readers, w)
		case n < 6 && len(readers) > 0:
			i := r.IntN(len(readers))
			readers[i].check(t)
			if r.IntN(4) == 0 {
				readers = slices.Delete(readers, i, i+1)
			}
		default:
			h := happened{r.IntN(len(sources)), 1 + r.IntN(3), value}
			value++
			put(sources[h.source], h.kind, h.value)
			for _, w := range readers {
				if w.wants(h) {
					w.owed = append(w.owed, h)
				}
			}
		}
	}
}

func (w *follower) check(t *testing.T) {
	t.Helper()
	values, missed := read(w.r)
	lost := len(w.owed) - len(values)
	require.GreaterOrEqual(t, lost, 0)
	for i, v := range values { // in order, and each once
		at := slices.IndexFunc(w.owed, func(h happened) bool { return h.value == v })
		require.GreaterOrEqual(t, at, 0)
		w.owed = w.owed[at+1:]
		if !missed.Uncounted { // the newest, without a hole
			require.Len(t, w.owed, len(values)-i-1)
		}
	}
	if !missed.Uncounted {
		require.LessOrEqual(t, lost, int(missed.Events), "it was not told")
	}
	w.owed = nil
}

// Under writers on many goroutines each writer's events come in their order, and what
// a reader got and was told of is all there was.
func TestManyWriters(t *testing.T) {
	const writers, each = 8, 3000
	f := new(Feed)
	f.Open(256, nil)
	sources := make([]Source, writers)
	for i := range sources {
		f.Join(&sources[i], "", nil)
	}
	var g, reading sync.WaitGroup
	for slow := range 3 {
		r := mustReader(t, f, 0, nil)
		r.begin()
		reading.Go(func() {
			var last [writers]int
			var total, number uint64
			for {
				got, missed := r.some(nil)
				if len(got) == 0 && missed == nil {
					break
				}
				if missed != nil {
					assert.False(t, missed.Uncounted)
					total += missed.Events
				}
				total += uint64(len(got))
				for _, e := range got {
					assert.Greater(t, e.Number, number)
					number = e.Number
					assert.Greater(t, int(e.Done), last[e.Position])
					last[e.Position] = int(e.Done)
				}
				for range slow * 1000 {
					_ = number
				}
			}
			assert.Equal(t, uint64(writers*each), total)
		})
	}
	for w := range writers {
		g.Go(func() {
			for n := 1; n <= each; n++ {
				sources[w].Tell(events.Event{Kind: events.Progress, Position: uint64(w), Done: int64(n)})
			}
		})
	}
	g.Wait()
	f.Close()
	reading.Wait()
}

func TestPutDoesNotAllocate(t *testing.T) {
	f, s := open(64)
	mustReader(t, f, 0, nil).begin()
	require.Zero(t, testing.AllocsPerRun(1000, func() { s.Tell(events.Event{Kind: events.Done, Position: 1}) }))
}

func BenchmarkPut(b *testing.B) {
	f, s := open(4096)
	mustReader(b, f, 0, nil).begin()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			s.Tell(events.Event{Kind: events.Done})
		}
	})
}
