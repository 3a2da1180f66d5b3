package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The benchmarks are for profiles, and for allocations per job: one operation
// is one job, from Enqueue until it has run and that is written down. What the
// codec allocates, a copy of the payload, counts too.

func BenchmarkDurableBulk(b *testing.B)   { benchmark(b, true, inBulk) }
func BenchmarkDurableSingle(b *testing.B) { benchmark(b, true, oneByOne) }
func BenchmarkMemoryBulk(b *testing.B)    { benchmark(b, false, inBulk) }
func BenchmarkMemorySingle(b *testing.B)  { benchmark(b, false, oneByOne) }

func benchmark(b *testing.B, durable bool, enqueue way) {
	b.ReportAllocs()
	l := &lab{n: b.N, scratch: b.TempDir(), ids: makeIDs(idCount)}
	b.ResetTimer()
	_, err := bothWays(durable, enqueue)(b.Context(), l)
	require.NoError(b, err)
}
