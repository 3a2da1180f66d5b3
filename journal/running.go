package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
)

// runningName is the crash recorder: a file next to the journal with one word
// for everything that may run at a time, mapped into memory. A word holds the
// position that runs there, so what a dead process was running can be read
// afterwards. The kernel keeps a mapped page when the process dies; it may lose
// it when the machine does, which no job can cause.
const runningName = "RUNNING"

// The file begins with a magic number, the epoch, and the number of words.
const (
	runningMagic  = 0x31_4e_55_52_42_52_54_53 // "STRBRUN1"
	runningHeader = 3 * 8
)

// suspectPrefix is followed by a position in hexadecimal. The value is the
// number of times that the process died while that position was running, and
// the epoch of the last time: 8 bytes each.
const suspectPrefix = "suspect/"

func suspectKey(p Position) string { return fmt.Sprintf("%s%016x", suspectPrefix, uint64(p)) }

func parseSuspect(key string, value []byte) (p Position, deaths int, epoch uint64, err error) {
	n, err := strconv.ParseUint(strings.TrimPrefix(key, suspectPrefix), 16, 64)
	if p = Position(n); err != nil || key != suspectKey(p) || len(value) != 16 {
		return 0, 0, 0, damaged("the state key %q makes no sense", key)
	}
	return p, int(binary.BigEndian.Uint64(value)), binary.BigEndian.Uint64(value[8:]), nil
}

// Running notes which positions run at the moment. Each word has one owner at a
// time; different owners need no lock.
type Running struct {
	words []atomic.Uint64
	close func() error
}

// Set notes that p runs in word i. About 10 ns.
func (r *Running) Set(i int, p Position) { r.words[i].Store(uint64(p)) }

// Clear notes that nothing runs in word i.
func (r *Running) Clear(i int) { r.words[i].Store(0) }

// Running starts the crash recorder with n words. Call it once, before anything
// runs. In memory, and on systems without memory-mapped files, it notes nothing
// that outlives the process.
func (l *Log) Running(n int) (*Running, error) {
	// What the file says about the last run has to be durable before the file
	// is written over.
	if err := l.Flush(context.Background()); err != nil {
		return nil, err
	}
	r := NewRunning(n)
	if l.dir == "" {
		return r, nil
	}
	path := filepath.Join(l.dir, runningName)
	head := binary.LittleEndian.AppendUint64(nil, runningMagic)
	head = binary.LittleEndian.AppendUint64(head, l.Stats().Epoch)
	head = binary.LittleEndian.AppendUint64(head, uint64(n))
	if err := os.WriteFile(path, append(head, make([]byte, 8*n)...), 0o600); err != nil {
		return nil, fmt.Errorf("journal: crash recorder: %w", err)
	}
	words, unmap, err := mapWords(path, runningHeader, n)
	if err != nil {
		return nil, fmt.Errorf("journal: crash recorder: %w", err)
	}
	r.words = words
	r.close = func() error {
		if r.idle() {
			return errors.Join(unmap(), os.Remove(path))
		}
		// Somebody will clear a word yet: the map has to stay.
		return os.Remove(path)
	}
	return r, nil
}

// NewRunning returns a crash recorder that notes nothing beyond the process.
func NewRunning(n int) *Running {
	return &Running{words: make([]atomic.Uint64, n), close: func() error { return nil }}
}

func (r *Running) idle() bool {
	for i := range r.words {
		if r.words[i].Load() != 0 {
			return false
		}
	}
	return true
}

// Close ends the crash recorder: what still runs is not held against it when
// the process ends. Nothing may be set afterwards.
func (r *Running) Close() error { return r.close() }

// Suspects returns the positions that were running whenever the process died,
// and how many times that was. They are live.
func (l *Log) Suspects() map[Position]int { return l.suspects }

// Cleared is the [Set] that takes the suspicion off a position.
func Cleared(p Position) Set { return Set{suspectKey(p), nil} }

// readRunning returns what the crash recorder of the last process says. A file
// that makes no sense says nothing: a power cut may have left any part of it.
func readRunning(dir string) (epoch uint64, positions []Position, err error) {
	if dir == "" {
		return 0, nil, nil
	}
	b, err := os.ReadFile(filepath.Join(dir, runningName))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, fmt.Errorf("journal: crash recorder: %w", err)
	}
	if len(b) < runningHeader || binary.LittleEndian.Uint64(b) != runningMagic {
		return 0, nil, nil
	}
	for words := b[runningHeader:]; len(words) >= 8; words = words[8:] {
		if p := Position(binary.LittleEndian.Uint64(words)); p != 0 {
			positions = append(positions, p)
		}
	}
	return binary.LittleEndian.Uint64(b[8:]), positions, nil
}

// investigate counts the suspects of the last crash, once, however often the
// process dies while it does so. The log has been replayed; nothing runs yet.
// It returns what has to be written down.
func (l *Log) investigate() ([]Set, error) {
	l.suspects = make(map[Position]int)
	counted := make(map[Position]uint64) // the epoch of the last time
	for kv, err := range l.Keys(suspectPrefix) {
		if err != nil {
			return nil, err
		}
		p, deaths, epoch, err := parseSuspect(kv.Key, kv.Value)
		if err != nil {
			return nil, err
		}
		l.suspects[p], counted[p] = deaths, epoch
	}
	epoch, positions, err := readRunning(l.dir)
	if err != nil {
		return nil, err
	}
	for _, p := range positions {
		if counted[p] != epoch && epoch < l.tail.epoch {
			l.suspects[p]++
			counted[p] = epoch
		}
	}
	if len(l.suspects) == 0 {
		return nil, nil
	}
	return l.verdicts(counted), nil
}

// verdicts writes the counts of the live suspects down, and forgets the others.
func (l *Log) verdicts(counted map[Position]uint64) (sets []Set) {
	live := make(map[Position]bool)
	for _, pages := range l.pending {
		for _, page := range pages {
			for _, r := range page {
				if _, ok := l.suspects[r.pos]; ok {
					live[r.pos] = true
				}
			}
		}
	}
	for p, n := range l.suspects {
		set := Cleared(p)
		if live[p] {
			set.Value = binary.BigEndian.AppendUint64(nil, uint64(n))
			set.Value = binary.BigEndian.AppendUint64(set.Value, counted[p])
		} else {
			delete(l.suspects, p)
		}
		sets = append(sets, set)
	}
	return sets
}
