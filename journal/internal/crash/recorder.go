package crash

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
)

// RunningName is the crash recorder: a file next to the journal with one word
// for everything that may run at a time, mapped into memory. A word holds the
// position that runs there, so what a dead process was running can be read
// afterwards. The kernel keeps a mapped page when the process dies; it may lose
// it when the machine does, which no job can cause.
//
// The file stays after an orderly end, when it is nobody's, and so does its room: on a
// disk that is full there would be none for another one.
const RunningName = "RUNNING"

// The file begins with a magic number, the epoch, and the number of words. The
// first version goes on with these. The second one has the number of places,
// what tells the machine's boot from others, and how many processes the system
// had killed for memory, plus one. After that comes what is mapped: the beat, the
// words, and for each place when its run began and the number of its goroutine.
const (
	RunningMagicV1  = 0x31_4e_55_52_42_52_54_53 // "STRBRUN1"
	runningHeaderV1 = 3 * 8
	RunningMagic    = 0x32_4e_55_52_42_52_54_53 // "STRBRUN2"
	RunningHeader   = 6 * 8

	// maxRunning bounds the words: more than all workers may have.
	maxRunning = 1 << 23

	// nobody is the epoch of a file that says nothing.
	nobody = math.MaxUint64

	// reserved is how long the file is at least: enough for a hundred workers.
	reserved = 16 << 10
)

// The beat says how long the process has lived at least: while something runs, exact to a
// sixteenth, so it is hardly ever noted in the long run; and else whether for the alibi.
const (
	leastBeat     = 5 * time.Millisecond
	beatPrecision = 16
)

// Recorder notes which positions run at the moment. A word, and a place, has one
// owner at a time; different owners need no lock.
//
// Another program may cut the file, or the disk may refuse a page of it. The system
// answers the next write to the map with a signal, which ends the recorder and
// nothing else: the log says so to Config.Logger, and jobs go on without. What they
// do to the process is then not held against them.
type Recorder struct {
	words      []atomic.Uint64 // of all places, one after the other
	began      []atomic.Uint64 // ns since start, by place
	goroutines []atomic.Uint64 // by place
	epoch      *atomic.Uint64  // whose file it is
	start      time.Time
	close      func(keep bool) error

	lost func(cause error) // called once, on a goroutine of its own
	gone atomic.Bool       // nothing is written to the map any more

	// The beat waits until something runs. Set before words are read, read after one is set.
	resting atomic.Bool

	// mu guards what follows. No timer may write into a map that is gone.
	mu     sync.Mutex
	beat   *atomic.Uint64
	timer  *time.Timer // nil: there is no beat, because what is noted ends with the process
	origin time.Time   // what it grows from
	closed bool
}

// Set notes that p runs in word i. About 12 ns, 8 of them for what may happen to
// the file: asking the system about it first would cost twenty times that.
func (r *Recorder) Set(i int, p format.Position) {
	if r.note(&r.words[i], uint64(p)); r.resting.Load() {
		r.noteBeat()
	}
}

// Clear notes that word i is free.
func (r *Recorder) Clear(i int) { r.note(&r.words[i], 0) }

// Began notes when what runs at a place from now on began.
func (r *Recorder) Began(place int, at time.Time) {
	r.note(&r.began[place], uint64(max(at.Sub(r.start), 0)))
}

// Goroutine notes the number of the goroutine that works at a place, which is
// how a crash report names it.
func (r *Recorder) Goroutine(place int, number uint64) { r.note(&r.goroutines[place], number) }

func (r *Recorder) note(word *atomic.Uint64, v uint64) {
	if r.gone.Load() {
		return
	}
	defer r.survive(debug.SetPanicOnFault(true))
	word.Store(v)
}

// survive is deferred around each use of the map. It ends the recorder when that
// has failed; any other panic goes on.
func (r *Recorder) survive(before bool) {
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

// Record starts the crash recorder of an epoch in the directory of the journal,
// with a number of places that have so many words each. What the last process has
// left there was read, and what that says is durable.
func Record(p *directory.Dir, epoch uint64, places, words int, logger *slog.Logger) (*Recorder, error) {
	n := places * words
	if n > maxRunning {
		return nil, fmt.Errorf("journal: crash recorder: %d words, %d are possible", n, maxRunning)
	}
	f, err := beginRunning(p, epoch, n, places)
	if err != nil {
		return nil, fmt.Errorf("journal: crash recorder: %w", err)
	}
	defer f.Close()
	ours, err := f.Stat()
	var mapped []atomic.Uint64
	var unmap func() error
	if err == nil {
		mapped, unmap, err = mapWords(f, RunningHeader/8+mappedWords(n, places))
	}
	if err != nil {
		return nil, fmt.Errorf("journal: crash recorder: %w", errors.Join(err, p.Drop(RunningName)))
	}
	r := NewRecorder(places, words)
	r.lay(mapped[RunningHeader/8:], n, places)
	r.epoch = &mapped[1]
	r.lost = func(cause error) {
		logger.Error("crash recorder lost: its file was cut, or the disk refuses it; jobs that kill the process are not found out until the next start",
			slog.String("file", p.Path(RunningName)), slog.Any("error", cause))
	}
	r.close = func(keep bool) (err error) {
		r.note(r.epoch, nobody)
		if (r.gone.Load() || !inFile) && p.Has(RunningName, ours) { // only our own file, not another owner's
			err = p.Drop(RunningName)
		}
		if !keep {
			err = errors.Join(err, unmap())
		}
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.origin, r.timer = r.start, time.AfterFunc(alibi, r.noteBeat)
	r.resting.Store(true)
	return r, nil
}

// mappedWords is how many words a recorder maps behind the header.
func mappedWords(n, places int) int { return 1 + n + 2*places }

// Reserve has the disk give room to the recorder's file, unless it has some. Who may use
// the journal may use it.
func Reserve(p *directory.Dir) error {
	f, err := p.OpenRegular(RunningName, os.O_WRONLY|os.O_CREATE)
	if err != nil {
		return err
	}
	if journal, err := p.Stat(directory.FileName); err == nil {
		_ = f.Chmod(journal.Mode().Perm()) // or it is another user's
	}
	info, err := f.Stat()
	if err == nil && info.Size() < reserved {
		_, err = f.WriteAt(make([]byte, reserved-info.Size()), info.Size())
	}
	return errors.Join(err, f.Close())
}

// beginRunning makes the recorder's file that of an epoch, in the room that it has. What
// the last process has left there was read. Until all of it is written it is nobody's.
func beginRunning(p *directory.Dir, epoch uint64, n, places int) (*os.File, error) {
	f, err := p.OpenRegular(RunningName, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	header := []uint64{RunningMagic, nobody, uint64(n), uint64(places), Boot(), OutOfMemoryKills()}
	b, _ := binary.Append(nil, binary.LittleEndian, header)
	b = append(b, make([]byte, max(8*mappedWords(n, places), reserved-len(b)))...)
	if _, err = f.WriteAt(b, 0); err == nil {
		_, err = f.WriteAt(binary.LittleEndian.AppendUint64(nil, epoch), 8)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// NewRecorder returns a crash recorder whose notes end with the process.
func NewRecorder(places, words int) *Recorder {
	r := &Recorder{start: time.Now(), close: func(bool) error { return nil }}
	r.lay(make([]atomic.Uint64, mappedWords(places*words, places)), places*words, places)
	return r
}

// lay divides what is mapped among its uses.
func (r *Recorder) lay(mapped []atomic.Uint64, n, places int) {
	r.beat, mapped = &mapped[0], mapped[1:]
	r.words, mapped = mapped[:n], mapped[n:]
	r.began, r.goroutines = mapped[:places], mapped[places:]
}

// Rebeat has the beat begin anew, so that it is exact for what begins now.
func (r *Recorder) Rebeat() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.origin = time.Now(); r.timer != nil {
		r.timer.Reset(leastBeat)
	}
}

// noteBeat notes the beat and sees to the next one, if there is to be one.
func (r *Recorder) noteBeat() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.resting.Store(false); r.closed || r.gone.Load() {
		return
	}
	lived := time.Since(r.start)
	r.note(r.beat, uint64(lived))
	r.resting.Store(true)
	if !r.idle() {
		r.resting.Store(false)
		r.timer.Reset(max(time.Since(r.origin)/beatPrecision, leastBeat))
	} else if lived < alibi {
		r.timer.Reset(alibi - lived)
	}
}

// idle reports whether nothing runs.
func (r *Recorder) idle() (idle bool) {
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
// the process ends. With keep, the map stays: a worker that was left behind notes something yet.
// Set must not be called afterwards, and without keep nothing else.
func (r *Recorder) Close(keep bool) error {
	r.mu.Lock()
	r.closed = true
	if r.timer != nil {
		r.timer.Stop()
	}
	r.mu.Unlock()
	return r.close(keep)
}
