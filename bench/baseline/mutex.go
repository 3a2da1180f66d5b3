package baseline

import (
	"fmt"
	"sync"
	"time"
)

// Guarded counts in a map of len(keys) integers n times, each time under a mutex.
func Guarded(n int, keys []string) (time.Duration, error) {
	var mu sync.Mutex
	counts := make(map[string]int)
	start := time.Now()
	for i := range n {
		mu.Lock()
		counts[keys[i%len(keys)]]++
		mu.Unlock()
	}
	elapsed := time.Since(start)
	total := 0
	for _, c := range counts {
		total += c
	}
	if total != n {
		return 0, fmt.Errorf("baseline: counted to %d, want %d", total, n)
	}
	return elapsed, nil
}
