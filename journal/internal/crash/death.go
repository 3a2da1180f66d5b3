package crash

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
)

// Death is the end of a process that did not close its journal.
type Death struct {
	Cause Cause
	How   string // the cause, for people
	Ran   int    // positions that were running

	epoch uint64
	ran   map[format.Position]ran
	lived time.Duration     // at least, after jobs began to run
	named []format.Position // by the report: the job, if the Cause is CauseJob, or a batch
}

// ran is a position that was running, and since when.
type ran struct{ began, age time.Duration }

// WasRunning reports whether p was running. Nil is no death.
func (d *Death) WasRunning(p format.Position) bool {
	if d == nil {
		return false
	}
	_, ran := d.ran[p]
	return ran
}

// Cause is what is known about a [Death].
type Cause uint8

const (
	// CauseUnknown: the process was killed, by another one or for memory; or it called
	// os.Exit; or it had a fatal error, such as a panic that was not recovered, without a
	// report of Go's, or with one that names no job, or a batch; see Log.ReportCrashes.
	CauseUnknown Cause = iota
	// CauseMemory: there was no memory left, by Go's report; or the system has killed a
	// process for memory, perhaps this one.
	CauseMemory
	// CauseJob: Go's report names the goroutine of a job.
	CauseJob
	// CauseOutside: the machine went down, or another process sent a signal. No job
	// can do that.
	CauseOutside
)

// Findings is what is known at a start about the end before it.
type Findings struct {
	Death    *Death                        // how the last process ended; nil: in order
	Suspects map[format.Position]Suspicion // who of the live ones was running then
	Sets     []format.Set                  // what has to be written down of it
}

// Investigate finds out who is suspected after the last death, which counts once,
// however often the process dies while it does so. epoch is that of this start,
// keys are the state keys of suspects, and live is what the log has.
func Investigate(dir string, epoch uint64, keys iter.Seq2[format.Set, error], live iter.Seq[format.Position]) (*Findings, error) {
	before := make(map[format.Position]Suspicion)
	counted := make(map[uint64]bool) // deaths, by epoch
	for kv, err := range keys {
		p, s, wrong := ParseSuspicion(kv.Key, kv.Value)
		if err = cmp.Or(err, wrong); err != nil {
			return nil, err
		}
		before[p], counted[s.epoch] = s, true
	}
	d, err := readRunning(dir)
	if err != nil {
		return nil, err
	}
	c := &Findings{Suspects: before}
	if d != nil && d.epoch < epoch {
		c.Death = d
		if !counted[d.epoch] {
			c.Suspects = d.judge(before)
		}
	}
	c.verdicts(before, live)
	return c, nil
}

// verdicts writes down what speaks against the live suspects, and forgets the others.
func (c *Findings) verdicts(before map[format.Position]Suspicion, positions iter.Seq[format.Position]) {
	if len(before)+len(c.Suspects) == 0 {
		return
	}
	live := make(map[format.Position]Suspicion)
	for p := range positions {
		if s, ok := c.Suspects[p]; ok {
			live[p] = s
			if s != before[p] {
				c.Sets = append(c.Sets, s.Set(p))
			}
		}
	}
	for p := range before {
		if _, ok := live[p]; !ok {
			c.Sets = append(c.Sets, Cleared(p))
		}
	}
	c.Suspects = live
}

// readRunning returns what the crash recorder of the last process says; nil if
// there is nothing to be told. A file that makes no sense says nothing: a power
// cut may have left any part of it.
func readRunning(dir string) (*Death, error) {
	if dir == "" {
		return nil, nil
	}
	f, err := directory.OpenFile(filepath.Join(dir, RunningName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("journal: crash recorder: %w", err)
	}
	v, err := runningWords(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("journal: crash recorder: %w", err)
	}
	return parseRunning(dir, v), nil
}

// runningWords reads no more than the file says, and has, and a recorder could
// have written; nil if that does not agree.
func runningWords(f *os.File) (v []uint64, err error) {
	head := make([]byte, 4*8)
	b, err := io.ReadAll(io.NewSectionReader(f, 0, int64(len(head))))
	if copy(head, b) < runningHeaderV1 || err != nil {
		return nil, err
	}
	magic, words, places := binary.LittleEndian.Uint64(head), binary.LittleEndian.Uint64(head[16:]), binary.LittleEndian.Uint64(head[24:])
	size := runningHeaderV1 + 8*int64(words)
	switch {
	case words > maxRunning, magic != RunningMagicV1 && (magic != RunningMagic || places > words):
		return nil, nil
	case magic == RunningMagic:
		size = RunningHeader + 8*int64(mappedWords(int(words), int(places)))
	}
	b, err = io.ReadAll(io.NewSectionReader(f, 0, size)) // room that it has beside is no matter
	if int64(len(b)) < size || err != nil {
		return nil, err
	}
	v = make([]uint64, size/8)
	_, err = binary.Decode(b, binary.LittleEndian, v)
	return v, err
}

// note takes in words of one place.
func (d *Death) note(words []uint64, began, beat uint64) {
	r := ran{time.Duration(began), leastBeat + time.Duration(beat-min(began, beat))}
	d.lived = max(d.lived, time.Duration(beat))
	for _, p := range words {
		if p != 0 {
			d.ran[format.Position(p)] = r
		}
	}
	d.Ran = len(d.ran)
}

// parseRunning returns what a recorder says, which may be nothing, and what is known of the cause.
func parseRunning(dir string, v []uint64) *Death {
	if v == nil {
		return nil
	}
	d := &Death{epoch: v[1], How: unknownDeath, ran: make(map[format.Position]ran)}
	if v[0] == RunningMagicV1 {
		d.note(v[3:], 0, 0)
		return d
	}
	n, places := v[2], v[3]
	if places == 0 {
		return nil
	}
	beat, v, booted, killed := v[6], v[7:], v[4], v[5]
	words, began, goroutines := v[:n], v[n:n+places], v[n+places:]
	at := make(map[uint64][]uint64) // words, by goroutine
	for i := range places {
		mine := words[i*(n/places):][:n/places]
		d.note(mine, began[i], beat)
		at[goroutines[i]] = mine
	}
	now := OutOfMemoryKills()
	report := ReadReport(dir, d.epoch)
	switch {
	case booted != Boot() && booted != 0:
		d.Cause, d.How = CauseOutside, "the machine was restarted"
	case report != "":
		d.blame(report, at)
	case killed != 0 && now > killed:
		d.Cause, d.How = CauseMemory, "the system killed a process for its memory, perhaps this one"
	}
	return d
}

// A panic that was not recovered leaves no trace here, unless Go was to report it.
const unknownDeath = "it was killed, or a job called os.Exit, or, without Crash.Reports, a goroutine panicked"

// Boot tells this boot of the machine from others; 0 if the system does not say.
func Boot() uint64 {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write(id)
	return h.Sum64()
}

// OutOfMemoryKills is how many processes the system has killed for their memory
// since it was booted, plus one; 0 if it does not say.
func OutOfMemoryKills() uint64 {
	f, err := os.Open("/proc/vmstat")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); { // a page at a time: the system adds all up for each read
		text, ok := bytes.CutPrefix(lines.Bytes(), []byte("oom_kill "))
		if n, err := strconv.ParseUint(string(text), 10, 64); ok && err == nil {
			return n + 1
		}
	}
	return 0
}
