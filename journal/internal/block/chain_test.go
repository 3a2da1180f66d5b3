package block

import (
	"strconv"
	"testing"

	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
	"github.com/stretchr/testify/require"
)

// A block of any size has a class, also one that no log writes.
func TestBlocksOfAnySizeAreCounted(t *testing.T) {
	for bits := 17; bits < strconv.IntSize-2; bits++ {
		for more := -4; more <= 4; more++ {
			size := 1<<bits + more
			c := NewChain(nil, Limits{Memory: -1}, nil)
			b := &Block{Size: size, Live: 1}
			c.Admit(b)
			if bits < 32 {
				require.GreaterOrEqual(t, c.Kept(0), (size-Small)/2*3)
			} else {
				require.Greater(t, c.Kept(0), 1<<30)
			}
			c.gone(b)
			require.Zero(t, c.Kept(0))
		}
	}
}

// However many blocks have run empty, one commit deletes a part of them, and nothing behind that is read back for it.
func TestOneCommitDeletesAPartOfWhatRanEmpty(t *testing.T) {
	c := NewChain(nil, Limits{Memory: -1, MinCarry: 1 << 20}, nil)
	for seq := range uint64(2*mostDropped + 10) {
		c.Admit(&Block{Seq: seq, Size: 100})
	}
	c.Blocks[10].parts = []store.Dropped{{Seq: 10, Size: 50}, {Seq: 11, Size: 50}} // of one that a full disk had written in pieces
	live := &Block{Seq: 3 * mostDropped, Size: 100, Bytes: 10, Live: 1}
	live.Home.Store(&blockData{Cold: new(cold)})
	c.Admit(live)
	b, s := NewWriter(nil, format.Manifest{Seq: live.Seq}), Strain{Room: store.Room{Spare: 1 << 20}}
	for range 2 {
		require.Empty(t, c.Doomed(&b, s), "it is not reached")
		drop := c.Trim(&b, s)
		require.Len(t, drop, mostDropped)
		require.Less(t, drop[len(drop)-1].Seq, c.Blocks[0].Seq)
	}
	require.Equal(t, []*Block{live}, c.Doomed(&b, s))
	require.Len(t, c.Trim(&b, s), 11)
	require.Equal(t, []*Block{live}, c.Blocks, "it was not read back")
}
