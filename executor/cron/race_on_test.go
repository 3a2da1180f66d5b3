//go:build race

package cron_test

// oneIn thins out what one goroutine does alone, see package journal: .ci/run makes all of it
// without the detector.
const oneIn = 9
