package shard

import (
	"cmp"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type card struct{ v, n int }

func (a card) before(b card) bool { return a.v < b.v }

func (t *timeline[T]) slice() (all []T) {
	for v := range t.all {
		all = append(all, v)
	}
	return all
}

// TestTimelineSorts holds a timeline against a slice that is sorted.
func TestTimelineSorts(t *testing.T) {
	rapidFor(t, 200, 100)
	rapid.Check(t, func(t *rapid.T) {
		var line timeline[card]
		var want []card
		n := 0
		push := func(v int) {
			n++
			line.push(card{v, n})
			want = append(want, card{v, n})
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				require.Equal(t, len(want), line.len())
				require.ElementsMatch(t, want, line.slice())
				if first := line.first(); first != nil {
					require.Equal(t, slices.MinFunc(want, func(a, b card) int { return cmp.Compare(a.v, b.v) }).v, first.v)
				}
			},
			"push": func(t *rapid.T) { push(rapid.IntRange(0, 9).Draw(t, "v")) },
			"push in order": func(t *rapid.T) {
				for range rapid.IntRange(0, 40).Draw(t, "n") {
					push(n)
				}
			},
			"pop": func(t *rapid.T) {
				for range min(len(want), rapid.IntRange(0, 40).Draw(t, "n")) {
					first := *line.first()
					require.Equal(t, first, line.pop())
					require.Contains(t, want, first)
					want = slices.DeleteFunc(want, func(v card) bool { return v == first })
				}
			},
			"keep": func(t *rapid.T) {
				m := rapid.IntRange(1, 3).Draw(t, "m")
				line.keep(func(v card) bool { return v.n%m == 0 })
				want = slices.DeleteFunc(want, func(v card) bool { return v.n%m != 0 })
			},
		})
	})
}

func TestTimelineKeepsEqualsInOrderWhenPushedInOrder(t *testing.T) {
	var line timeline[card]
	for n := range 1000 {
		line.push(card{n / 100, n})
	}
	line.keep(func(v card) bool { return v.n%2 == 0 })
	for n := 0; n < 1000; n += 2 {
		require.Equal(t, n, line.pop().n)
	}
	require.Nil(t, line.first())
}

// TestTimelineGivesMemoryBack leaves one value after a burst.
func TestTimelineGivesMemoryBack(t *testing.T) {
	n := 100_000 / oneIn
	for name, next := range map[string]func(i int) int{
		"in order": func(i int) int { return i },
		"reverse":  func(i int) int { return n - i },
		"random":   func(int) int { return rand.IntN(n) },
	} {
		t.Run(name, func(t *testing.T) {
			before := heapBytes()
			var line timeline[card]
			for i := range n {
				line.push(card{next(i), i})
			}
			for range n - 1 {
				line.pop()
			}
			left := heapBytes() - before
			require.Equal(t, 1, line.len())
			require.Less(t, left, 64<<10, "bytes of heap for one value")
			runtime.KeepAlive(&line)
		})
	}
}

// heapBytes is what is on the heap after a collection.
func heapBytes() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the first one may have begun before
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
