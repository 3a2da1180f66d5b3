package sorted

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type item struct{ Place }

// TestTheFirstIsAtHand holds a list against a slice of what is in it.
func TestTheFirstIsAtHand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list List[*item]
		var in []*item
		all := make([]item, 10)
		one := func(t *rapid.T) *item { return &all[rapid.IntRange(0, len(all)-1).Draw(t, "one")] }
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				require.ElementsMatch(t, in, list)
				for i, v := range list {
					require.Equal(t, i+1, v.index)
				}
				if len(in) > 0 {
					require.Equal(t, slices.MinFunc(in, func(a, b *item) int { return int(a.Turn - b.Turn) }).Turn, list[0].Turn)
				}
			},
			"first": func(t *rapid.T) {
				n := rapid.IntRange(0, len(all)).Draw(t, "n")
				first, inOrder := list.First(n), slices.Clone(in)
				slices.SortFunc(inOrder, func(a, b *item) int { return int(a.Turn - b.Turn) })
				require.Len(t, first, min(n, len(in)))
				for i, v := range first {
					require.Contains(t, in, v)
					require.Equal(t, inOrder[i].Turn, v.Turn)
					require.NotContains(t, first[:i], v)
				}
			},
			"put": func(t *rapid.T) {
				v := one(t)
				v.Turn = rapid.Int64Range(0, 9).Draw(t, "at")
				if list.Put(v); !slices.Contains(in, v) {
					in = append(in, v)
				}
			},
			"remove": func(t *rapid.T) {
				v := one(t)
				list.Remove(v)
				in = slices.DeleteFunc(in, func(o *item) bool { return o == v })
				require.Zero(t, v.index)
			},
		})
	})
}
