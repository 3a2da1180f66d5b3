// Package goroutine tells goroutines apart, as the runtime does not offer: for the
// watchdog, which shows the stack of a handler that is stuck, and the crash
// recorder, which finds the goroutine that Go's last words are about.
package goroutine

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
)

// maxStacks bounds a dump of all goroutines.
const maxStacks = 16 << 20

// Header is how the dump of a goroutine begins, up to its state.
type Header []byte

// Own returns the header of the goroutine that calls it.
func Own() Header {
	head := make([]byte, 64)
	head = head[:runtime.Stack(head, false)]
	return slices.Clone(head[:bytes.IndexByte(head, '[')])
}

// Number returns the number of the goroutine, 0 if there is none.
func (h Header) Number() (number uint64) {
	_, _ = fmt.Sscanf(string(h), "goroutine %d ", &number)
	return number
}

// Dump is the stacks of all goroutines.
type Dump []byte

// All returns the stacks of all goroutines, 16 MiB at most. They stand still
// meanwhile: a thousand take some milliseconds.
func All() Dump {
	for size := 256 << 10; ; size *= 4 {
		dump := make(Dump, min(size, maxStacks))
		if dump = dump[:runtime.Stack(dump, true)]; len(dump) < size || size >= maxStacks {
			return dump
		}
	}
}

// Of returns the stack of a goroutine; empty: it is not there.
func (d Dump) Of(h Header) string {
	from := bytes.Index(d, h)
	if from < 0 || len(h) == 0 {
		return ""
	}
	one, _, _ := bytes.Cut(d[from:], []byte("\n\n"))
	return string(one)
}
