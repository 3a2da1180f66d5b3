package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// ledger checks the promise of order from outside of Strand. Handlers tell it
// when a run begins and how it ends; it writes that down in a file that only
// grows, one write per record, so a killed process loses at most what it was
// about to write; and it reads the file again in the next life.
//
// It knows from the history which commits touched a path, so it does not only
// see what goes backwards:
//
//   - runs of one path never overlap;
//   - the payloads of a run are neighbours in the history of the path, oldest
//     first, none missing and none twice;
//   - a run begins where the last one ended: at the first payload that did not
//     end well. It may begin earlier only after a crash, once, because results
//     that were not committed are worked out again; and never later.
//
// A record is a line: kind, milliseconds since the life began, path number,
// first event of the path, number of events.
type ledger struct {
	touched [][]int

	// mu guards what follows, and makes the order of the file that of the
	// calls. The write under it is to the page cache.
	mu     sync.Mutex
	file   *os.File
	err    error // the first error of file
	born   time.Time
	paths  []pathState
	totals totals
	clean  bool          // the last life ended as it should
	before time.Duration // lives before this one
	last   time.Duration // when the last record of this life was written
}

// pathState is what is known of one path. Events count from 0 for each path.
type pathState struct {
	next    int  // where the next run has to begin
	high    int  // events before it have ended well, in this life or another
	running bool // now
	failed  bool // the last run did not end well
	unsure  bool // a crash lies between: the next run may begin before next
}

// totals count over all lives.
type totals struct {
	lives, crashes, runs, retries, waits, merged, ended, violations int
}

// Kinds of records.
const (
	lifeBegins   = 'L'
	lifeEnds     = 'S' // cleanly
	runBegins    = 'b'
	runDone      = 'd'
	runFailed    = 'f'
	runWaits     = 'w' // for another path
	outOfOrder   = 'v'
	recordFormat = "%c %d %d %d %d\n"
)

// openLedger reads the ledger in file, or begins it, and starts a new life.
func openLedger(name string, h *history) (*ledger, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return nil, err
	}
	l := &ledger{touched: h.touched, file: file, born: time.Now(), clean: true, paths: make([]pathState, len(h.paths))}
	if err := l.replay(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), file.Close())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(lifeBegins, 0, 0, 0)
	return l, l.err
}

// replay applies all records. A half record at the end is cut off.
func (l *ledger) replay() error {
	in := bufio.NewReader(l.file)
	for size := int64(0); ; {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			if len(line) > 0 {
				return os.Truncate(l.file.Name(), size)
			}
			return nil
		}
		if err != nil {
			return err
		}
		size += int64(len(line))
		var kind rune
		var ms int64
		var path, first, n int
		if _, err := fmt.Fscanf(bytes.NewReader(line), recordFormat, &kind, &ms, &path, &first, &n); err != nil {
			return fmt.Errorf("record %q: %w", line, err)
		}
		if path < 0 || path >= len(l.paths) {
			return fmt.Errorf("record %q: the history has only %d paths; is it that of another repository?", line, len(l.paths))
		}
		l.apply(kind, path, first, n)
		l.last = time.Duration(ms) * time.Millisecond
	}
}

// write applies a record and appends it.
func (l *ledger) write(kind rune, path, first, n int) {
	l.apply(kind, path, first, n)
	l.last = time.Since(l.born)
	_, err := fmt.Fprintf(l.file, recordFormat, kind, l.last.Milliseconds(), path, first, n)
	if l.err == nil {
		l.err = err
	}
}

// apply is the one place where the state changes.
func (l *ledger) apply(kind rune, path, first, n int) {
	p, t := &l.paths[path], &l.totals
	switch kind {
	case lifeBegins:
		l.before, l.last = l.before+l.last, 0
		t.lives++
		if !l.clean {
			t.crashes++
		}
		for i := range l.paths {
			l.paths[i].running = false
			l.paths[i].unsure = l.paths[i].unsure || !l.clean
		}
		l.clean = false
	case lifeEnds:
		l.clean = true
	case runBegins:
		p.running, p.unsure, p.next = true, false, first
		t.runs++
	case runDone:
		p.running, p.failed, p.next = false, false, first+n
		if fresh := p.next - p.high; fresh > 0 {
			p.high = p.next
			t.ended += fresh
			t.merged += fresh - 1
		}
	case runFailed:
		p.running, p.failed = false, true
		t.retries++
	case runWaits:
		p.running = false
		t.waits++
	case outOfOrder:
		t.violations++
	}
}

// begin notes that a run of a path begins, with payloads of these commits.
func (l *ledger) begin(path int, commits []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first, found := slices.BinarySearch(l.touched[path], commits[0])
	rest := l.touched[path][first:]
	neighbours := found && len(commits) <= len(rest) && slices.Equal(commits, rest[:len(commits)])
	p := l.paths[path]
	inPlace := first == p.next || (first < p.next && p.unsure)
	if p.running || !neighbours || !inPlace {
		l.write(outOfOrder, path, first, len(commits))
	}
	l.write(runBegins, path, first, len(commits))
}

// end notes how a run ended: runDone, runFailed or runWaits.
func (l *ledger) end(path int, commits []int, how rune) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first, _ := slices.BinarySearch(l.touched[path], commits[0])
	l.write(how, path, first, len(commits))
}

// failed returns the paths whose last run failed.
func (l *ledger) failed() (paths []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, p := range l.paths {
		if p.failed {
			paths = append(paths, i)
		}
	}
	return paths
}

// counts returns the totals so far, and how long the lives took up to the last
// record of each.
func (l *ledger) counts() (totals, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.totals, l.before + l.last
}

// close ends the life; cleanly if nothing runs any more.
func (l *ledger) close(clean bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if clean {
		l.write(lifeEnds, 0, 0, 0)
	}
	return errors.Join(l.err, l.file.Close())
}
