package journal

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Pages of a disk in memory are what they would be if it sorted every time.
func TestMemoryPages(t *testing.T) {
	var m Memory
	m.side = make(map[bucket]map[string][]byte)
	for i := range 300 {
		key := fmt.Appendf(nil, "%02d", i*37%100)
		if i%3 == 2 {
			m.put(bucketState, key, nil)
		} else {
			m.put(bucketState, key, key)
		}
		page, err := m.page(bucketState, []byte("20"))
		require.NoError(t, err)
		var want []string
		for k := 20; k < 100; k++ {
			if name := fmt.Sprintf("%02d", k); m.side[bucketState][name] != nil {
				want = append(want, name)
			}
		}
		var got []string
		for _, kv := range page {
			require.Equal(t, kv.key, kv.value)
			got = append(got, string(kv.key))
		}
		require.Equal(t, want, got)
	}
}
