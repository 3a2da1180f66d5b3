package shard

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIDsAreCopies(t *testing.T) {
	var s idArena
	var got, want []string
	for i := range 3000 {
		id := bytes.Repeat([]byte{byte('a' + i%26)}, i%(longID+10))
		want = append(want, string(id))
		got = append(got, s.clone(id))
		clear(id) // it belongs to the caller
	}
	require.Equal(t, want, got)
}

func TestIDsShareAllocations(t *testing.T) {
	var s idArena
	var got string
	for id, most := range map[string]float64{
		"order-00000001":            0.03,
		strings.Repeat("x", longID): 0.13,
		strings.Repeat("x", 512):    1,
	} {
		data := []byte(id)
		allocs := testing.AllocsPerRun(10, func() {
			for range 1000 {
				got = s.clone(data)
			}
		})
		require.LessOrEqual(t, allocs/1000, most, id)
		require.Equal(t, id, got)
	}
}
