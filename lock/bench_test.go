package lock_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/strandjobs/strand/lock"
)

// BenchmarkUncontended compares acquire and release of a free key with one map
// operation under a sync.Mutex, in the same run: "ratio" is the first divided by
// the second (aim: at most 5).
func BenchmarkUncontended(b *testing.B) {
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprintf("order-%d", i)
	}
	var mu sync.Mutex
	m := make(map[string]int)
	var base float64
	b.Run("guarded-map-op", func(b *testing.B) {
		i := 0
		for b.Loop() {
			mu.Lock()
			m[keys[i%100]]++
			mu.Unlock()
			i++
		}
		base = float64(b.Elapsed()) / float64(b.N)
	})
	for _, c := range []struct {
		name string
		opt  lock.Options
		keys func(i int) []string
	}{
		{"plain", lock.Options{}, func(i int) []string { return keys[i%100 : i%100+1] }},
		{"owner", lock.Options{Owner: "w"}, func(i int) []string { return keys[i%100 : i%100+1] }},
		{"ttl", lock.Options{TTL: time.Minute}, func(i int) []string { return keys[i%100 : i%100+1] }},
		{"two-keys", lock.Options{}, func(i int) []string { return keys[i%99 : i%99+2] }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			t := new(lock.Table)
			i := 0
			for b.Loop() {
				l, err := t.Acquire(b.Context(), c.opt, c.keys(i)...)
				if err != nil || l.Unlock() != nil {
					b.Fatal("not acquired")
				}
				i++
			}
			if base > 0 {
				b.ReportMetric(float64(b.Elapsed())/float64(b.N)/base, "ratio")
			}
		})
	}
}

// BenchmarkHandOver is the cost of one Unlock that hands a key to the next of n
// waiters, who goes back to the end.
func BenchmarkHandOver(b *testing.B) {
	for _, n := range []int{10, 1_000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			t := new(lock.Table)
			places := make([]*lock.Place, n)
			for i := range places {
				places[i], _ = t.Queue(lock.Options{}, nil, "k")
			}
			i := 0
			for b.Loop() {
				l, ok := places[i%n].Lease()
				if !ok || l.Unlock() != nil {
					b.Fatal("not granted in order")
				}
				places[i%n], _ = t.Queue(lock.Options{}, nil, "k")
				i++
			}
		})
	}
}
