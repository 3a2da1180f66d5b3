package listing_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/strandjobs/strand/executor/internal/listing"
)

// Pages, walked one after the other while rows come and go, are the rows in order:
// what stays is on exactly one.
func TestPagesAgainstASort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		limit, descending := 1+r.IntN(7), r.IntN(2) == 0
		rows := make(map[listing.Key]bool) // whether it stays
		add := func(stays bool) {
			rows[listing.Key{First: r.Int64N(5), Second: r.Int64N(3), ID: fmt.Sprint(r.IntN(50)), Last: r.Int64N(4)}] = stays
		}
		for range r.IntN(60) {
			add(r.IntN(2) == 0)
		}
		stay := make(map[listing.Key]int)
		for k, stays := range rows {
			if stays {
				stay[k] = 0
			}
		}
		var after *listing.Key // nil: the beginning
		for more := true; more; {
			p := listing.NewPage[listing.Key](limit, descending, after)
			var behind []listing.Key
			for k := range rows {
				if p.May(k.First, k.Second) {
					p.Offer(k, k)
				}
				if after == nil || k != *after && descending == (k.Compare(*after) < 0) {
					behind = append(behind, k)
				}
			}
			slices.SortFunc(behind, listing.Key.Compare)
			if descending {
				slices.Reverse(behind)
			}
			var got []listing.Key
			var last listing.Key
			got, last, more = p.Rows()
			require.True(t, slices.Equal(behind[:min(limit, len(behind))], got), "%v of %v", got, behind)
			require.Equal(t, len(behind) > limit, more)
			for _, k := range got {
				if _, stays := stay[k]; stays {
					stay[k]++
				}
			}
			after = &last
			for range r.IntN(4) { // some go, some come
				for k, stays := range rows {
					if !stays {
						delete(rows, k)
						break
					}
				}
				if len(rows) < 80 {
					rows[listing.Key{First: r.Int64N(5), Second: r.Int64N(3), ID: fmt.Sprint("new", r.IntN(1000))}] = false
				}
			}
		}
		for k, n := range stay {
			require.Equal(t, 1, n, "%v", k)
		}
	})
}

func TestCursorsBelongToTheirList(t *testing.T) {
	for _, k := range []listing.Key{{}, {First: -1, Second: 1 << 62, ID: "id\x00\xff", Last: 7}, {ID: "a"}} {
		text := listing.Cursor("list", k)
		got, ok := listing.Parse("list", text)
		require.True(t, ok)
		require.Equal(t, k, got)
		_, ok = listing.Parse("tsil", text) // as long as "list"
		require.False(t, ok)
		for i := range text { // no part of it can be changed
			b := []byte(text)
			b[i] = map[bool]byte{true: 'A', false: 'B'}[b[i] != 'A']
			_, ok = listing.Parse("list", string(b))
			require.False(t, ok, "%q for %q", b, text)
		}
		_, ok = listing.Parse("list", text+"A")
		require.False(t, ok)
	}
	for _, text := range []string{"", "A", "!", "AAAAAAAAAAA"} {
		_, ok := listing.Parse("list", text)
		require.False(t, ok, text)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(listing.Cursor("list", listing.Key{First: 1, ID: "id"}))
	f.Fuzz(func(t *testing.T, text string) {
		if k, ok := listing.Parse("list", text); ok {
			require.Equal(t, text, listing.Cursor("list", k))
		}
	})
}
