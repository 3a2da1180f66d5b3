//go:build race

package main

// oneIn thins out what waits for processes that have no race detector, and what one
// goroutine makes of their lines: under the detector a proof makes one in so many
// units. Without it a proof makes all, and so does .ci/run.
const oneIn = 9
