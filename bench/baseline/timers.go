package baseline

import "time"

// Timers has call made for each of n at the time that is due for it, on a
// goroutine of its own. Stop ends those that are left.
func Timers(n int, due func(i int) time.Time, call func(i int)) (stop func()) {
	timers := make([]*time.Timer, n)
	for i := range timers {
		timers[i] = time.AfterFunc(time.Until(due(i)), func() { call(i) })
	}
	return func() {
		for _, t := range timers {
			t.Stop()
		}
	}
}
