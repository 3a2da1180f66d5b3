package format

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever the bytes are, a number is what encoding/binary reads in them, and what that
// refuses is an error that sticks.
func TestNumbersAreThoseOfThePackageBinary(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		b := make([]byte, 1+r.IntN(12))
		for i := range b {
			b[i] = byte(r.Uint32()) | byte(min(r.IntN(8), 1))<<7
		}
		want, n := binary.Uvarint(b[1:])
		d := Decoder{B: b, Off: 1}
		if got := d.Uvarint(); n > 0 {
			require.NoError(t, d.Err)
			require.Equal(t, want, got, "%x", b[1:])
			require.Equal(t, 1+n, d.Off)
			continue
		}
		require.ErrorIs(t, d.Err, errShort, "%x", b[1:])
		require.Zero(t, d.Uvarint())
		require.Equal(t, 1, d.Off)
	}
}
