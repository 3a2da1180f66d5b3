package feed_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/internal/feed"
)

const all = ^feed.Kinds(0)

// put is what a writer does: it asks before it makes an event.
func put(f *feed.Feed[int], s *feed.Source, kind uint8, values ...int) {
	if !s.Wants(feed.Of(kind)) {
		return
	}
	events := make([]feed.Event[int], len(values))
	for i, v := range values {
		events[i] = feed.Event[int]{Kind: kind, Value: v}
	}
	f.Put(s, events...)
}

// read returns what a reader gets without waiting.
func read(r *feed.Reader[int]) (values []int, missed feed.Missed) {
	over := make(chan struct{})
	close(over)
	r.Begin()
	defer r.End()
	for {
		got, m := r.Next(over, nil)
		missed.Numbers += m.Numbers
		missed.Uncounted = missed.Uncounted || m.Uncounted
		for _, e := range got {
			values = append(values, e.Value)
		}
		if len(got) == 0 && m == (feed.Missed{}) {
			return values, missed
		}
	}
}

func TestASlowReaderIsToldWhatItMissed(t *testing.T) {
	f, s := feed.New[int](4), new(feed.Source)
	f.Add(s)
	r := f.Open(feed.Filter{Kinds: all})
	r.Begin()
	for i := range 10 {
		put(f, s, 1, i)
	}
	r.End()
	values, missed := read(r)
	require.Equal(t, []int{6, 7, 8, 9}, values)
	require.Equal(t, feed.Missed{Numbers: 6}, missed)
}

func TestWithoutReadersThereIsNoRing(t *testing.T) {
	f, s := feed.New[int](4), new(feed.Source)
	f.Add(s)
	require.False(t, s.Wants(all), "nobody has asked")
	r := f.Open(feed.Filter{Kinds: feed.Of(1)})
	require.True(t, s.Wants(feed.Of(1, 2)))
	require.False(t, s.Wants(feed.Of(2)))
	for i := range 3 {
		put(f, s, 1, i)
	}
	values, missed := read(r)
	require.Equal(t, []int{0, 1, 2}, values)
	require.Zero(t, missed)
	for range 5 { // it has gone; a lap later so has the ring
		put(f, s, 1, 3)
	}
	require.False(t, s.Wants(all))
	values, missed = read(r)
	require.Empty(t, values)
	require.Equal(t, feed.Missed{Numbers: 4, Uncounted: true}, missed, "the fifth was not counted")
	put(f, s, 1, 4)
	values, missed = read(r)
	require.Equal(t, []int{4}, values, "it is on again")
	require.Zero(t, missed)
}

func TestAWiderReaderIsToldWhatNobodyWanted(t *testing.T) {
	f, s := feed.New[int](100), new(feed.Source)
	f.Add(s)
	narrow := f.Open(feed.Filter{Kinds: feed.Of(1)})
	narrow.Begin()
	put(f, s, 1, 1)
	got, _ := narrow.Next(nil, nil)
	put(f, s, 2, 2) // is lost
	wide, ok := f.OpenAfter(feed.Filter{Kinds: feed.Of(1, 2)}, got[0].Number)
	require.True(t, ok)
	put(f, s, 2, 3)
	values, missed := read(wide)
	require.Equal(t, []int{3}, values)
	require.Equal(t, feed.Missed{Uncounted: true}, missed)

	same, ok := f.OpenAfter(feed.Filter{Kinds: feed.Of(1)}, got[0].Number)
	require.True(t, ok)
	values, missed = read(same)
	require.Empty(t, values)
	require.Zero(t, missed, "all that it wants was kept")

	_, ok = f.OpenAfter(feed.Filter{Kinds: all}, 1000)
	require.False(t, ok, "a number of the future")
	_, ok = f.OpenAfter(feed.Filter{Kinds: all}, 0)
	require.False(t, ok)
}

func TestAClosedFeedEndsWithItsLastEvent(t *testing.T) {
	f, s := feed.New[int](4), new(feed.Source)
	f.Add(s)
	r := f.Open(feed.Filter{Kinds: all})
	r.Begin()
	var g sync.WaitGroup
	g.Go(func() {
		var values []int
		for {
			got, _ := r.Next(nil, nil)
			if len(got) == 0 {
				break
			}
			values = append(values, got[0].Value)
		}
		assert.Equal(t, []int{1}, values)
	})
	put(f, s, 1, 1)
	f.Close()
	put(f, s, 1, 2)
	g.Wait()
	late := f.Open(feed.Filter{Kinds: all})
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
	r       *feed.Reader[int]
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
	f := feed.New[int](size)
	var sources []*feed.Source
	add := func() {
		sources = append(sources, new(feed.Source))
		f.Add(sources[len(sources)-1])
	}
	add()
	var readers []*follower
	value := 0
	for range 200 {
		switch n := r.IntN(20); {
		case n == 0 && len(sources) < 4:
			add()
		case n < 3 && len(readers) < 5:
			w := &follower{kinds: []int{r.IntN(3), r.IntN(3)}}
			if r.IntN(2) == 0 {
				w.sources = []int{r.IntN(len(sources))}
			}
			filter := feed.Filter{Kinds: feed.Of(uint8(w.kinds[0]), uint8(w.kinds[1]))}
			if w.sources != nil {
				filter.Sources = []*feed.Source{sources[w.sources[0]]}
			}
			w.r = f.Open(filter)
			readers = append(readers, w)
		case n < 6 && len(readers) > 0:
			i := r.IntN(len(readers))
			readers[i].check(t)
			if r.IntN(4) == 0 {
				readers = slices.Delete(readers, i, i+1)
			}
		default:
			h := happened{r.IntN(len(sources)), r.IntN(3), value}
			value++
			put(f, sources[h.source], uint8(h.kind), h.value)
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
		require.LessOrEqual(t, lost, int(missed.Numbers), "it was not told")
	}
	w.owed = nil
}

// Under writers on many goroutines each writer's events come in their order, and what
// a reader got and was told of is all there was.
func TestManyWriters(t *testing.T) {
	const writers, each = 8, 3000
	f := feed.New[[2]int](256)
	sources := make([]feed.Source, writers)
	for i := range sources {
		f.Add(&sources[i])
	}
	var g, reading sync.WaitGroup
	for slow := range 3 {
		r := f.Open(feed.Filter{Kinds: all})
		r.Begin()
		reading.Go(func() {
			var last [writers]int
			var total, number uint64
			for {
				got, missed := r.Next(nil, nil)
				if len(got) == 0 && missed == (feed.Missed{}) {
					break
				}
				assert.False(t, missed.Uncounted)
				total += missed.Numbers + uint64(len(got))
				for _, e := range got {
					assert.Greater(t, e.Number, number)
					number = e.Number
					assert.Greater(t, e.Value[1], last[e.Value[0]])
					last[e.Value[0]] = e.Value[1]
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
				f.Put(&sources[w], feed.Event[[2]int]{Kind: 1, Value: [2]int{w, n}})
			}
		})
	}
	g.Wait()
	f.Close()
	reading.Wait()
}

func TestPutDoesNotAllocate(t *testing.T) {
	f, s := feed.New[int](64), new(feed.Source)
	f.Add(s)
	f.Open(feed.Filter{Kinds: all}).Begin()
	require.Zero(t, testing.AllocsPerRun(1000, func() { f.Put(s, feed.Event[int]{Kind: 1, Value: 1}) }))
}

func BenchmarkPut(b *testing.B) {
	f, s := feed.New[[10]uint64](4096), new(feed.Source)
	f.Add(s)
	f.Open(feed.Filter{Kinds: all}).Begin()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			f.Put(s, feed.Event[[10]uint64]{Kind: 1})
		}
	})
}
