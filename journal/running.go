package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// runningName is the crash recorder: a file next to the journal with one word
// for everything that may run at a time, mapped into memory. A word holds the
// position that runs there, so what a dead process was running can be read
// afterwards. The kernel keeps a mapped page when the process dies; it may lose
// it when the machine does, which no job can cause.
const runningName = "RUNNING"

// The file begins with a magic number, the epoch, and the number of words. The
// first version goes on with these. The second one has the number of places,
// what tells the machine's boot from others, and how many processes the system
// had killed for memory, plus one. After that comes what is mapped: the beat, the
// words, and for each place when its run began and the number of its goroutine.
const (
	runningMagicV1  = 0x31_4e_55_52_42_52_54_53 // "STRBRUN1"
	runningHeaderV1 = 3 * 8
	runningMagic    = 0x32_4e_55_52_42_52_54_53 // "STRBRUN2"
	runningHeader   = 6 * 8
)

// The beat says how long the process has lived at least: the recorder notes it
// when that is a sixteenth more than at the last time, so hardly ever in the
// long run.
const (
	leastBeat     = 5 * time.Millisecond
	beatPrecision = 16
)

// Running notes which positions run at the moment. A word, and a place, has one
// owner at a time; different owners need no lock.
type Running struct {
	words      []atomic.Uint64 // of all places, one after the other
	began      []atomic.Uint64 // ns since start, by place
	goroutines []atomic.Uint64 // by place
	start      time.Time
	close      func() error

	// mu guards what follows. No timer may write into a map that is gone.
	mu     sync.Mutex
	beat   *atomic.Uint64
	timer  *time.Timer // nil: there is no beat
	origin time.Time   // what it grows from
	closed bool
}

// Set notes that p runs in word i. About 10 ns.
func (r *Running) Set(i int, p Position) { r.words[i].Store(uint64(p)) }

// Clear notes that nothing runs in word i.
func (r *Running) Clear(i int) { r.words[i].Store(0) }

// Began notes when what runs at a place from now on began.
func (r *Running) Began(place int, at time.Time) {
	r.began[place].Store(uint64(max(at.Sub(r.start), 0)))
}

// Goroutine notes the number of the goroutine that works at a place, which is
// how a crash report names it.
func (r *Running) Goroutine(place int, number uint64) { r.goroutines[place].Store(number) }

// Running starts the crash recorder with a number of places that have so many
// words each. Call it once, before anything runs. In memory, and on systems
// without memory-mapped files, it notes nothing that outlives the process.
func (l *Log) Running(places, words int) (*Running, error) {
	// What the file says about the last run has to be durable before the file
	// is written over.
	if err := l.Flush(context.Background()); err != nil {
		return nil, err
	}
	r := NewRunning(places, words)
	if l.dir == "" {
		return r, nil
	}
	path, n := filepath.Join(l.dir, runningName), places*words
	var head []byte
	for _, v := range []uint64{runningMagic, l.Stats().Epoch, uint64(n), uint64(places), boot(), outOfMemoryKills()} {
		head = binary.LittleEndian.AppendUint64(head, v)
	}
	if err := os.WriteFile(path, append(head, make([]byte, 8*(1+n+2*places))...), 0o600); err != nil {
		return nil, fmt.Errorf("journal: crash recorder: %w", err)
	}
	mapped, unmap, err := mapWords(path, runningHeader, 1+n+2*places)
	if err != nil {
		return nil, fmt.Errorf("journal: crash recorder: %w", err)
	}
	r.lay(mapped, n, places)
	r.close = func() error {
		if r.idle() {
			return errors.Join(unmap(), os.Remove(path))
		}
		// Somebody will clear a word yet: the map has to stay.
		return os.Remove(path)
	}
	r.Rebeat()
	return r, nil
}

// NewRunning returns a crash recorder that notes nothing beyond the process.
func NewRunning(places, words int) *Running {
	r := &Running{start: time.Now(), close: func() error { return nil }}
	r.lay(make([]atomic.Uint64, 1+places*words+2*places), places*words, places)
	return r
}

// lay divides what is mapped among its uses.
func (r *Running) lay(mapped []atomic.Uint64, n, places int) {
	r.beat, mapped = &mapped[0], mapped[1:]
	r.words, mapped = mapped[:n], mapped[n:]
	r.began, r.goroutines = mapped[:places], mapped[places:]
}

// Rebeat has the beat be exact for what begins now.
func (r *Running) Rebeat() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.origin = time.Now()
	if r.timer == nil {
		r.timer = time.AfterFunc(leastBeat, r.noteBeat)
	} else {
		r.timer.Reset(leastBeat)
	}
}

func (r *Running) noteBeat() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.beat.Store(uint64(time.Since(r.start)))
	r.timer.Reset(max(time.Since(r.origin)/beatPrecision, leastBeat))
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
func (r *Running) Close() error {
	r.mu.Lock()
	r.closed = true
	if r.timer != nil {
		r.timer.Stop()
	}
	r.mu.Unlock()
	return r.close()
}
