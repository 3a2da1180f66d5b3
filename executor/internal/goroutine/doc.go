// Package goroutine tells goroutines apart, as the runtime does not offer: for the
// watchdog, which shows the stack of a handler that is stuck, and the crash
// recorder, which finds the goroutine that Go's last words are about.
package goroutine
