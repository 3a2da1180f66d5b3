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

// Stack returns the stack of the goroutine. The runtime offers a dump of the
// caller's own goroutine or of all.
func (h Header) Stack() string {
	for size := 64 << 10; ; size *= 4 {
		dump := make([]byte, min(size, maxStacks))
		dump = dump[:runtime.Stack(dump, true)]
		from := bytes.Index(dump, h)
		if from >= 0 {
			one, _, whole := bytes.Cut(dump[from:], []byte("\n\n"))
			if whole || len(dump) < size || size >= maxStacks {
				return string(one)
			}
		}
		if len(dump) < size || size >= maxStacks {
			return fmt.Sprintf("not among the first %d MiB of stacks", maxStacks>>20)
		}
	}
}
