package main

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress is a bar on a terminal, and nothing elsewhere.
type progress struct{ bar *progressbar.ProgressBar }

func newProgress(out *os.File, total int) *progress {
	if !term.IsTerminal(int(out.Fd())) {
		return &progress{}
	}
	return &progress{progressbar.NewOptions(total, progressbar.OptionSetWriter(out), progressbar.OptionShowCount(),
		progressbar.OptionSetDescription("events"), progressbar.OptionClearOnFinish(), progressbar.OptionFullWidth(),
		progressbar.OptionThrottle(100*time.Millisecond))}
}

func (p *progress) set(n int) {
	if p.bar != nil {
		_ = p.bar.Set(n) // a bar that can't be drawn is no reason to stop
	}
}

func (p *progress) close() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
