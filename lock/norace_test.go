//go:build !race

package lock_test

// histories is how many are checked per push.
const histories = 200
