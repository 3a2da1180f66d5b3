package shard

import (
	"encoding/binary"
	"hash/fnv"
	"iter"
	"math/bits"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// named lists the lanes with their ids.
func (ls *lanes) named() iter.Seq2[string, *lane] {
	return func(yield func(string, *lane) bool) {
		for l := range ls.all() {
			if !yield(string(l.id(&ls.entries)), l) {
				return
			}
		}
	}
}

// check holds slabs and table against their laws.
func (ls *lanes) check(t tester) {
	t.Helper()
	used, idle := 0, 0
	for i, s := range ls.slabs {
		lanes := slabLanes - bits.OnesCount64(s.free)
		used += lanes
		idle += count(s.lanes != nil && lanes == 0)
		require.True(t, s.lanes != nil || lanes == 0, "slab %d", i)
		require.Equal(t, s.open, slices.Contains(ls.open, uint32(i)), "slab %d is open", i)
		require.True(t, s.open || s.free == 0, "slab %d has room", i)
	}
	require.Equal(t, ls.len(), used)
	require.Equal(t, ls.idle, idle)
	require.LessOrEqual(t, idle, 1)
	ls.byID.check(t)
}

// checkAgenda returns how many lanes are in the agenda.
func (c *Core) checkAgenda(t tester) (n int) {
	t.Helper()
	before, due := number(0), int64(0)
	for at := c.due.first; at != 0; at = c.lanes.at(at).next {
		l := c.lanes.at(at)
		require.Equal(t, inLine, l.standing)
		require.Equal(t, before, l.prev)
		require.True(t, before == 0 || due <= l.due, "in line, and not in order")
		before, due = at, l.due
		n++
	}
	require.Equal(t, before, c.due.last)
	stale := 0
	for _, e := range c.due.heap {
		if c.valid(e) {
			n++
		} else {
			stale++
		}
	}
	require.Equal(t, c.due.stale, stale, "stale turns")
	return n
}

// check holds a table against its laws.
func (t *table[V]) check(test tester) {
	test.Helper()
	var none V
	found, deepest := 0, 0
	for i := 0; i < len(t.dir); {
		s := t.dir[i]
		require.GreaterOrEqual(test, s.shift, t.shift)
		require.False(test, len(s.slots) > firstSlots && s.used == len(s.slots), "no end for a search")
		n := 1 << (s.shift - t.shift)
		for _, same := range t.dir[i : i+n] {
			require.True(test, s == same)
		}
		used := 0
		for _, at := range s.slots {
			if at.value != none {
				used++
				if i>>(s.shift-t.shift) != int(at.hash>>s.shift) {
					require.Fail(test, "in another's segment", "%x", at.hash) // require.Equal would be most of the test
				}
			}
		}
		require.Equal(test, s.used, used)
		found += used
		deepest += count(n == 1)
		i += n
	}
	require.Equal(test, t.n, found)
	require.Equal(test, t.deepest, deepest)
	if t.n == 0 && t.dir != nil {
		require.Len(test, t.dir, 1)
		require.LessOrEqual(test, len(t.dir[0].slots), keptSlots, "kept by an empty table")
	}
}

// TestTableFindsWhatIsThere holds a table against a map, with hashes that
// collide, share their first bits, or their last ones.
func TestTableFindsWhatIsThere(t *testing.T) {
	rapidFor(t, 20, 40)
	hashes := map[string]func(v int) uint32{
		"spread": func(v int) uint32 { return uint32(v) * 2654435769 },
		"few":    func(v int) uint32 { return uint32(v%7) * 2654435769 },
		"first":  func(v int) uint32 { return uint32(v) },
		"last":   func(v int) uint32 { return uint32(v) << 16 },
		"same":   func(int) uint32 { return 1<<31 + 5 },
	}
	for name, hash := range hashes {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				var tab table[int]
				want := map[int]bool{}
				next := 1
				t.Repeat(map[string]func(*rapid.T){
					"": func(t *rapid.T) {
						tab.check(t)
						require.Equal(t, len(want), tab.n)
						for _, v := range []int{1, next / 2, next - 1, next} {
							got := tab.find(hash(v), func(o int) bool { return o == v })
							require.Equal(t, want[v], got == v && v != 0, "%d", v)
						}
					},
					"insert": func(t *rapid.T) {
						for range rapid.IntRange(1, 900).Draw(t, "n") {
							if name == "same" && len(want) > 2000 {
								return // slow, as it should be
							}
							tab.insert(hash(next), next)
							want[next] = true
							next++
						}
					},
					"remove": func(t *rapid.T) {
						n := rapid.IntRange(1, 1500).Draw(t, "n")
						for v := range want {
							if n--; n < 0 {
								break
							}
							tab.remove(hash(v), v)
							delete(want, v)
						}
					},
				})
			})
		})
	}
}

// 100,000 ids that a hash without a key would put into one place of each segment are spread like any others, in
// the table by the first bits of their hashes and in a segment by the last.
func TestIDsCannotAimAtAPlace(t *testing.T) {
	const places, each = 16, 6250
	first, last := make([]int, places), make([]int, places)
	var id []byte
	for i, n := uint32(0), 0; n < places*each; i++ {
		id = binary.BigEndian.AppendUint32(id[:0], i)
		aimed := fnv.New32a()
		aimed.Write(id)
		if aimed.Sum32()%places == 0 {
			hash := hashOf(id)
			first[hash>>28]++
			last[hash%places]++
			n++
		}
	}
	for i := range places {
		assert.InDelta(t, each, first[i], each/10, "begin with %d", i)
		assert.InDelta(t, each, last[i], each/10, "end with %d", i)
	}
}

// TestTableNeverStops: however many values there are, one more or less moves
// no more than a segment.
func TestTableNeverStops(t *testing.T) {
	var tab table[int]
	hash := func(v int) uint32 { return uint32(v) * 2654435769 }
	n := 200_000 / oneIn
	for v := 1; v <= n; v++ {
		tab.insert(hash(v), v)
	}
	require.Greater(t, len(tab.dir), n/segmentSlots)
	for v := 1; v < n; v++ {
		tab.remove(hash(v), v)
		if v%10_000 == 0 {
			tab.check(t)
		}
	}
	require.Len(t, tab.dir, 1, "what is empty joins")
	require.Equal(t, n, tab.find(hash(n), func(v int) bool { return v == n }))
}

// A segment that many hashes alike have made large joins as a small one.
func TestTableJoinsWhatIsLarge(t *testing.T) {
	var tab table[int]
	const n = 2000
	hash := func(v int) uint32 {
		if v <= n {
			return 1<<31 + 5
		}
		return uint32(v) * 2654435769 >> 1
	}
	for v := 2 * n; v > 0; v-- {
		tab.insert(hash(v), v)
	}
	large := tab.dir[hash(1)>>tab.shift]
	require.Greater(t, len(large.slots), segmentSlots)
	for v := 2 * n; v > 1; v-- {
		tab.remove(hash(v), v)
	}
	tab.check(t)
	require.Len(t, tab.dir, 1, "it has joined")
	require.True(t, large == tab.dir[0])
	require.Equal(t, segmentSlots, len(large.slots))
}
