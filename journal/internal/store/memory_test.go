package store

import (
	"fmt"
	"testing"

	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/stretchr/testify/require"
)

// Pages of a disk in memory are what they would be if it sorted every time.
func TestMemoryPages(t *testing.T) {
	var m Memory
	m.side = make(map[format.Bucket]map[string][]byte)
	for i := range 300 {
		key := fmt.Appendf(nil, "%02d", i*37%100)
		if i%3 == 2 {
			m.put(format.BucketState, key, nil)
		} else {
			m.put(format.BucketState, key, key)
		}
		page, err := m.Page(format.BucketState, []byte("20"))
		require.NoError(t, err)
		var want []string
		for k := 20; k < 100; k++ {
			if name := fmt.Sprintf("%02d", k); m.side[format.BucketState][name] != nil {
				want = append(want, name)
			}
		}
		var got []string
		for _, kv := range page {
			require.Equal(t, kv.Key, kv.Value)
			got = append(got, string(kv.Key))
		}
		require.Equal(t, want, got)
	}
}
