//go:build race

package lock_test

// The race detector makes a history cost ten times as much.
const histories = 40
