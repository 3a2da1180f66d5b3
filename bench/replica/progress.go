package main

import (
	"fmt"
	"io"
	"time"
)

// progress says once a second how far it is.
type progress struct {
	out   io.Writer
	total int
	next  time.Time
}

func newProgress(out io.Writer, total int) *progress {
	return &progress{out, total, time.Now().Add(time.Second)}
}

func (p *progress) set(n int) {
	if now := time.Now(); !now.Before(p.next) {
		p.next = now.Add(time.Second)
		fmt.Fprintf(p.out, "%d of %d events\n", n, p.total)
	}
}
