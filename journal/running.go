package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
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

	// maxRunning bounds the words: more than all workers may have.
	maxRunning = 1 << 23
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
//
// Somebody may cut the file, or the disk may refuse a page of it. The system
// answers the next write to the map with a signal, which ends the recorder and
// nothing else: the log says so to Config.Logger, and jobs go on without. What they
// do to the process is then not held against them.
type Running struct {
	words []atomic.Uint64
	close func() error

	lost func(cause error) // called once, on a goroutine of its own
	gone atomic.Bool       // nothing is written to words any more
}

// Set notes that p runs in word i. About 12 ns, 8 of them for what may happen to
// the file: asking the system about it first would cost twenty times that.
func (r *Running) Set(i int, p Position) { r.store(i, uint64(p)) }

// Clear notes that nothing runs in word i.
func (r *Running) Clear(i int) { r.store(i, 0) }

func (r *Running) store(i int, v uint64) {
	if r.gone.Load() {
		return
	}
	defer r.survive(debug.SetPanicOnFault(true))
	r.words[i].Store(v)
}

// survive is deferred around each use of the map. It ends the recorder when that
// has failed; any other panic goes on.
func (r *Running) survive(before bool) {
	debug.SetPanicOnFault(before)
	cause := recover()
	if cause == nil {
		return
	}
	fault, ok := cause.(interface {
		runtime.Error
		Addr() uintptr
	})
	if !ok {
		panic(cause)
	}
	if !r.gone.Swap(true) && r.lost != nil {
		go r.lost(fault) // the caller may hold locks
	}
}

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
	if n > maxRunning {
		return nil, fmt.Errorf("journal: crash recorder: %d words, %d are possible", n, maxRunning)
	}
	f, err := l.createRunning(n)
	if err != nil {
		return nil, fmt.Errorf("journal: crash recorder: %w", err)
	}
	defer f.Close()
	ours, err := f.Stat()
	var unmap func() error
	if err == nil {
		r.words, unmap, err = mapWords(f, runningHeader, n)
	}
	if err != nil {
		return nil, fmt.Errorf("journal: crash recorder: %w", errors.Join(err, l.place.remove(runningName)))
	}
	r.lost = func(cause error) {
		l.cfg.Logger.Error("crash recorder lost: jobs that kill the process are not found out until the next start",
			slog.String("file", l.place.path(runningName)), slog.Any("error", cause))
	}
	r.close = func() (err error) {
		if l.place.has(runningName, ours) { // or it is somebody else's
			err = l.place.remove(runningName)
		}
		if r.idle() {
			return errors.Join(err, unmap())
		}
		return err // somebody will clear a word yet: the map has to stay
	}
	return r, nil
}

// createRunning makes the recorder's file anew. What the last process has left
// was read.
func (l *Log) createRunning(n int) (*os.File, error) {
	if info, err := l.place.Lstat(runningName); err == nil && !info.Mode().IsRegular() {
		return nil, &irregularError{l.place.path(runningName), info.Mode()}
	}
	if err := l.place.remove(runningName); err != nil {
		return nil, err
	}
	f, err := l.place.open(runningName, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return nil, err
	}
	b := binary.LittleEndian.AppendUint64(nil, runningMagic)
	b = binary.LittleEndian.AppendUint64(b, l.Stats().Epoch)
	b = binary.LittleEndian.AppendUint64(b, uint64(n))
	if _, err = f.Write(append(b, make([]byte, 8*n)...)); err != nil {
		return nil, errors.Join(err, f.Close(), l.place.remove(runningName))
	}
	return f, nil
}

// NewRunning returns a crash recorder that notes nothing beyond the process.
func NewRunning(n int) *Running {
	return &Running{words: make([]atomic.Uint64, n), close: func() error { return nil }}
}

// idle reports whether nobody has anything to clear any more.
func (r *Running) idle() (idle bool) {
	if r.gone.Load() {
		return false
	}
	defer r.survive(debug.SetPanicOnFault(true)) // and after a fault it says false
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
	f, err := openFile(filepath.Join(dir, runningName))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, fmt.Errorf("journal: crash recorder: %w", err)
	}
	epoch, positions, err = parseRunning(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, nil, fmt.Errorf("journal: crash recorder: %w", err)
	}
	return epoch, positions, nil
}

// parseRunning reads no more than the file says, and has, and a recorder could
// have written.
func parseRunning(f *os.File) (epoch uint64, positions []Position, err error) {
	var head [runningHeader]byte
	if _, err := f.ReadAt(head[:], 0); errors.Is(err, io.EOF) {
		return 0, nil, nil
	} else if err != nil {
		return 0, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint64(head[16:])
	if binary.LittleEndian.Uint64(head[:]) != runningMagic || n > maxRunning || info.Size() != runningHeader+8*int64(n) {
		return 0, nil, nil
	}
	words := make([]byte, 8*n)
	if _, err := f.ReadAt(words, runningHeader); err != nil && !errors.Is(err, io.EOF) {
		return 0, nil, err
	}
	for ; len(words) > 0; words = words[8:] {
		if p := Position(binary.LittleEndian.Uint64(words)); p != 0 {
			positions = append(positions, p)
		}
	}
	return binary.LittleEndian.Uint64(head[8:]), positions, nil
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
		if counted[p] != epoch && epoch < l.tail.epoch && p < l.tail.next {
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
