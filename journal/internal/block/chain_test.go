package block

import (
	"strconv"
	"testing"

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
