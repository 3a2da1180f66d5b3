package crash

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
)

const (
	ReportName = "CRASH" // the file that Go's runtime writes its last words to, after our line with the epoch
	maxReport  = 1 << 20 // bounds what is read of it: what matters comes first
)

// reporting guards whose reports Go writes: there is one file for a process.
var reporting struct {
	sync.Mutex
	place *directory.Dir // of the journal that they are for
	file  os.FileInfo    // its own
}

// Report has Go's last words go to a file in the directory of a journal.
func Report(p *directory.Dir, epoch uint64) error {
	if err := p.DropFile(ReportName); err != nil {
		return fmt.Errorf("journal: crash report: %w", err)
	}
	f, err := p.OpenRegular(ReportName, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND)
	if err != nil {
		return fmt.Errorf("journal: crash report: %w", err)
	}
	defer f.Close() // the runtime has a descriptor of its own
	_, unwritten := f.WriteString(reportHeader(epoch))
	ours, err := f.Stat()
	if err = cmp.Or(unwritten, err); err != nil {
		return fmt.Errorf("journal: crash report: %w", err)
	}
	reporting.Lock()
	defer reporting.Unlock()
	if err := debug.SetCrashOutput(f, debug.CrashOptions{}); err != nil {
		return fmt.Errorf("journal: crash report: %w", err)
	}
	reporting.place, reporting.file = p, ours
	return nil
}

// EndReport lets go of the file, if it is still that of this journal; nil is none.
func EndReport(p *directory.Dir) {
	reporting.Lock()
	defer reporting.Unlock()
	if p != nil && reporting.place == p {
		reporting.place = nil
		_ = debug.SetCrashOutput(nil, debug.CrashOptions{})
		if p.Has(ReportName, reporting.file) {
			_ = p.Drop(ReportName)
		}
	}
}

func reportHeader(epoch uint64) string { return fmt.Sprintf("strand: epoch %d\n", epoch) }

// ReadReport returns what Go said when the process of an epoch died; empty if
// there is nothing that can be read.
func ReadReport(dir string, epoch uint64) string {
	f, err := directory.OpenFile(filepath.Join(dir, ReportName))
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxReport))
	report, ours := strings.CutPrefix(string(b), reportHeader(epoch))
	if err != nil || !ours {
		return ""
	}
	return strings.TrimSpace(report)
}

var (
	// A goroutine as a traceback begins it: number, and state.
	goroutineLine = regexp.MustCompile(`(?m)^goroutine (\d+)(?: [^\n\[]*)? \[([^\n\],:]+)`)
	createdLine   = regexp.MustCompile(`(?m)^created by .* in goroutine (\d+)$`)
	// sigcode 0: a process has sent the signal, with kill.
	signalLine = regexp.MustCompile(`(?s)^(SIG[A-Z]+): .*\n.* sigcode=0\b`)
)

// blame finds out from a report which job it was, or of which batch. Memory runs out under the
// goroutine that asks for it next, so there the report names no job.
func (d *Death) blame(report string, at map[uint64][]uint64) {
	lines := strings.SplitN(report, "\n", 3)
	if signal := signalLine.FindStringSubmatch(report); signal != nil {
		d.Cause, d.How = CauseOutside, "a process sent "+signal[1]
		return
	}
	d.How = "Go reported a fatal error: " + lines[0]
	if goroutineLine.MatchString(lines[0]) && len(lines) > 1 {
		d.How = "Go reported a fatal error in " + lines[1] // the error itself goes to stderr only
	}
	crashed, memory, parents := tracebacks(report)
	if memory {
		d.Cause = CauseMemory
	}
	for n := len(parents); n >= 0 && len(d.named) == 0; n-- {
		for _, p := range at[crashed] {
			if p != 0 && crashed != 0 {
				d.named = append(d.named, format.Position(p))
			}
		}
		crashed = parents[crashed]
	}
	if len(d.named) == 1 {
		d.Cause = CauseJob
	}
}

// tracebacks reads a crash report. It returns the goroutine that the report begins with (0
// if that says little), whether that asked for memory, and the creator of each goroutine,
// where the report has it.
func tracebacks(report string) (crashed uint64, memory bool, parents map[uint64]uint64) {
	parents = make(map[uint64]uint64)
	heads := goroutineLine.FindAllStringSubmatchIndex(report, -1)
	for i, at := range heads {
		end := len(report)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		body, number := report[at[1]:end], numberOf(report[at[2]:at[3]])
		if by := createdLine.FindStringSubmatch(body); by != nil {
			parents[number] = numberOf(by[1])
		}
		if i == 0 && strings.HasPrefix(report[at[4]:at[5]], "running") {
			if memory = strings.Contains(body, "\nruntime.mallocgc("); !memory {
				crashed = number
			}
		}
	}
	return crashed, memory, parents
}

func numberOf(digits string) uint64 {
	n, _ := strconv.ParseUint(digits, 10, 64) // what is too large is no goroutine's
	return n
}
