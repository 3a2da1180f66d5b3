package journal

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal/internal/directory"
)

// walHistory is a journal that was killed with records in the log before its file, behind
// which older ones lie.
type walHistory struct {
	testing.TB
	dir     string   // the last one; the others as they were after each record
	states  []string // after each of them
	were    []walState
	logs    [][]byte
	file    []byte
	records [][2]int // the sectors of each, from the first to before the last
}

// walSteps are how large the payloads are.
var walSteps = []int{100, 2000, 40, 900, 3000, 10, 1200, 2500}

func killedWithRecords(t testing.TB) *walHistory {
	f := startKillRig(t, 1)
	require.NoError(t, f.log.Close())
	var err error
	cfg := Config{WALBytes: 64 << 10, Deliver: func(d *Delivery) {
		for i := range d.Len() {
			r := must(d.Read(i, new(Entry)))
			f.refs[r.Position()] = r
		}
		d.Done()
	}}
	f.log, err = Open(f.dir, cfg)
	require.NoError(t, err)
	for range 12 { // records of an older generation, up to a burial
		f.append(1, 2000)
	}
	p := f.pick(1)[0]
	f.dead[p] = f.live[p]
	delete(f.live, p)
	f.log.Record(&Change{Buried: []Burial{{Ref: f.refs[p], Reason: "broken"}}})
	require.NoError(t, f.log.Flush(t.Context()))
	h := &walHistory{TB: t}
	h.snap(f)
	for i, size := range walSteps {
		list := []Entry{{Queue: f.queue, ID: []byte("a"), Payload: bytes.Repeat([]byte{byte(i), 255, 3}, size/3)}}
		ticket, err := f.log.Append(t.Context(), list, func(first Position) []Set {
			f.live[first] = string(list[0].Payload)
			f.keys["key/a"] = fmt.Sprint(i)
			return []Set{{Key: "key/a", Value: fmt.Append(nil, i)}}
		})
		require.NoError(t, err)
		require.NoError(t, ticket.Wait(t.Context()))
		require.NoError(t, f.log.Flush(t.Context()))
		h.snap(f)
	}
	require.NoError(t, f.log.Close())
	for i, log := range h.logs[1:] {
		first, end := -1, 0
		for at := 0; at+sectorSize <= len(log); at += sectorSize {
			if !bytes.Equal(log[at:at+sectorSize], h.logs[i][at:at+sectorSize]) {
				end = at/sectorSize + 1
				if first < 0 {
					first = at / sectorSize
				}
			}
		}
		require.GreaterOrEqual(t, first, 0, "record %d is in the log", i)
		h.records = append(h.records, [2]int{first, end})
	}
	require.Greater(t, h.records[len(walSteps)-1][1]-h.records[len(walSteps)-1][0], 2)
	return h
}

func (h *walHistory) snap(f *killRig) {
	h.dir = f.killed()
	h.states = append(h.states, f.walState.String())
	h.were = append(h.were, walState{maps.Clone(f.live), maps.Clone(f.dead), maps.Clone(f.keys)})
	h.logs = append(h.logs, mustRead(h, filepath.Join(h.dir, directory.WALFile)))
	file := mustRead(h, filepath.Join(h.dir, directory.FileName))
	require.True(h, h.file == nil || bytes.Equal(h.file, file), "the file is written to by who gives over only")
	h.file = file
}

// log is the last one, to be changed.
func (h *walHistory) log() []byte { return bytes.Clone(h.logs[len(h.logs)-1]) }

// with is a journal with another log.
func (h *walHistory) with(log []byte) (dir string) {
	dir, err := os.MkdirTemp(h.TempDir(), "with")
	require.NoError(h, err)
	require.NoError(h, os.WriteFile(filepath.Join(dir, directory.FileName), h.file, 0o600))
	require.NoError(h, os.WriteFile(filepath.Join(dir, directory.WALFile), log, 0o600))
	return dir
}

// outcome is what comes of a journal with another log: an error, or how many records it has.
// Who looks and who opens says the same, and nothing is changed by an error.
func (h *walHistory) outcome(log []byte) (records int, err error) {
	dir := h.with(log)
	defer os.RemoveAll(dir)
	looked := ""
	v, err := OpenView(dir)
	if err == nil {
		s, _ := readWAL(h, v.Queues(), v.PendingPages, func(queue uint32) iter.Seq2[Buried, error] { return v.Morgue(queue) }, v.Keys())
		require.NoError(h, v.Close())
		looked = s.String()
	}
	before := tree(h, dir)
	l, opened := Open(dir, Config{})
	if err != nil {
		require.Error(h, opened, "who looks says %v", err)
		require.ErrorIs(h, opened, ErrCorrupt)
		require.ErrorIs(h, err, ErrCorrupt)
		require.Equal(h, before, tree(h, dir), "nothing is changed")
		return 0, err
	}
	require.NoError(h, opened)
	s, _ := readWAL(h, l.Queues(), l.PendingPages, func(queue uint32) iter.Seq2[Buried, error] { return l.Morgue(queue, 0) }, l.Keys("", ""))
	require.NoError(h, l.Close())
	require.Equal(h, s.String(), looked)
	for i, state := range h.states {
		if state == looked {
			return i, nil
		}
	}
	require.Fail(h, "it is as it never was", looked)
	return 0, nil
}

// damaged checks what comes of damage to a sector.
func (h *walHistory) damaged(sector int, log []byte, what string) error {
	h.Helper()
	got, err := h.outcome(log)
	last := len(h.records)
	switch {
	case bytes.Equal(log, h.log()):
		require.NoError(h, err, what)
		require.Equal(h, last, got, what)
	case sector >= h.records[last-1][1]: // nothing is there; just behind the end it might be what is damaged
		require.True(h, err != nil && sector == h.records[last-1][1] || err == nil && got == last, what)
	case sector < h.records[last-1][0]:
		require.ErrorIs(h, err, ErrCorrupt, what)
		require.ErrorContains(h, err, directory.WALFile, what)
	case err == nil: // the last record may be torn
		require.Equal(h, last-1, got, what)
	}
	return err
}

// TestFlipsInTheLog flips bits of the log before the file: that is noticed, or the bit means
// nothing.
func TestFlipsInTheLog(t *testing.T) {
	t.Parallel()
	slow(t)
	h := killedWithRecords(t)
	end := h.records[len(h.records)-1][1]
	step := 61 * oneIn
	if long {
		step = 1
	}
	log := h.log()
	var bits []int
	for bit := 0; bit < (end+4)*sectorSize*8; bit += step {
		bits = append(bits, bit)
	}
	for sector := range end { // bytes that say what it is
		for at := sector % 3; at < 22; at += 1 + oneIn/3 {
			bits = append(bits, (sector*sectorSize+at)*8+(sector+at)%8)
		}
	}
	for _, bit := range bits {
		log[bit/8] ^= 1 << (bit % 8)
		err := h.damaged(bit/8/sectorSize, log, fmt.Sprintf("bit %d of byte %d", bit%8, bit/8))
		require.True(t, bit/8/sectorSize >= end || err != nil, "bit %d of byte %d", bit%8, bit/8)
		log[bit/8] ^= 1 << (bit % 8)
	}
}

// TestSectorsOfTheLog has each sector of the log be zero, what it was, or another one.
func TestSectorsOfTheLog(t *testing.T) {
	t.Parallel()
	h := killedWithRecords(t)
	end := h.records[len(h.records)-1][1]
	for sector := range end + 2 {
		at := sector * sectorSize
		try := func(content []byte, what string, args ...any) {
			log := h.log()
			copy(log[at:], content)
			h.damaged(sector, log, fmt.Sprintf("sector %d ", sector)+fmt.Sprintf(what, args...))
		}
		try(make([]byte, sectorSize), "is zero")
		try(bytes.Repeat([]byte{255}, sectorSize), "is full of ones")
		for i, older := range h.logs {
			if older := older[at : at+sectorSize]; !bytes.Equal(older, h.log()[at:at+sectorSize]) && (i == 0 || !bytes.Equal(older, h.logs[i-1][at:at+sectorSize])) {
				try(older, "as of record %d", i)
			}
		}
		for other := range end {
			if other != sector && (sector+other)%(2*oneIn) == 0 {
				try(h.log()[other*sectorSize:(other+1)*sectorSize], "is sector %d", other)
			}
		}
	}
}

// TestTornRecords loses the power while the last record is written: it is there as a whole, or
// it is not, and all before it is.
func TestTornRecords(t *testing.T) {
	t.Parallel()
	h := killedWithRecords(t)
	for n, record := range h.records {
		sectors := record[1] - record[0]
		for arrived := range 1 << sectors {
			if arrived%oneIn > 0 && sectors > 4 && arrived != 1<<sectors-1 {
				continue
			}
			log := bytes.Clone(h.logs[n])
			for i := range sectors {
				if at := (record[0] + i) * sectorSize; arrived>>i&1 == 1 {
					copy(log[at:at+sectorSize], h.logs[n+1][at:])
				}
			}
			want := n
			if arrived == 1<<sectors-1 {
				want++
			}
			got, err := h.outcome(log)
			require.NoError(t, err, "record %d, sectors %b", n, arrived)
			require.Equal(t, want, got, "record %d, sectors %b", n, arrived)
		}
	}
}

// A log that is gone, empty or cut is damage, and no journal without one.
func TestLogThatIsGone(t *testing.T) {
	h := killedWithRecords(t)
	dir := h.with(nil)
	require.NoError(t, os.Remove(filepath.Join(dir, directory.WALFile)))
	refused(t, dir, ErrCorrupt)
	_, err := Check(dir)
	require.ErrorIs(t, err, ErrCorrupt)
	for _, record := range h.records[1:] {
		_, err := h.outcome(h.log()[:record[0]*sectorSize])
		require.ErrorIs(t, err, ErrCorrupt)
	}
}

// Of a damaged log all that is intact is salvaged, before the damage and behind it.
func TestSalvageOfADamagedLog(t *testing.T) {
	t.Parallel()
	h := killedWithRecords(t)
	last := h.were[len(h.records)]
	for sector := range h.records[len(h.records)-1][1] {
		log := h.log()
		log[sector*sectorSize+100+sector%300] ^= 16
		dir := h.with(log)
		to := dir + "-to"
		found, err := Salvage(dir, to)
		require.NoError(t, err, "sector %d", sector)
		require.NotEmpty(t, found.Losses, "sector %d", sector)
		require.Contains(t, found.Losses[0].Reason, directory.WALFile)
		v, err := OpenView(to)
		require.NoError(t, err)
		s, _ := readWAL(t, v.Queues(), v.PendingPages, func(queue uint32) iter.Seq2[Buried, error] { return v.Morgue(queue) }, v.Keys())
		require.NoError(t, v.Close())
		require.Equal(t, last.dead, s.dead)
		missing := 0
		for p, payload := range last.live {
			switch got, there := s.live[p]; {
			case there:
				require.Equal(t, payload, got, "sector %d", sector)
			case sector == 0:
				require.NotContains(t, h.were[0].live, p, "the file is whole")
			default:
				missing++
			}
		}
		require.LessOrEqual(t, missing, 1, "sector %d: a record has one", sector)
		for p := range s.live {
			require.Contains(t, last.live, p)
		}
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.RemoveAll(to))
	}
}

// A file that is older than its log, because a disk has lost commits to it or a person has put a
// copy there, is told: whichever it is, some of what was accepted is in neither.
func TestOlderFileBesideTheLog(t *testing.T) {
	t.Parallel()
	f := startWAL(t, 8<<10)
	files := map[string]bool{}
	var older [][]byte
	for range 150 {
		f.add(300)
		now := mustRead(t, filepath.Join(f.dir, directory.FileName))
		if !files[string(now)] {
			files[string(now)] = true
			older = append(older, now)
		}
	}
	f.add(10)
	now := filesIn(t, f.dir)
	require.Greater(t, len(older), 8)
	told := 0
	for _, file := range older[:len(older)-2] {
		dir := withFiles(t, map[string][]byte{directory.FileName: file, directory.WALFile: now[directory.WALFile]})
		if versionOf(t, dir) == 3 { // not of before the log
			refused(t, dir, ErrCorrupt)
			told++
		}
	}
	require.Greater(t, told, 4)
}

// A log without its file is no new journal, and nothing is written where its name stands for
// anything but a file.
func TestLogWithoutAFile(t *testing.T) {
	t.Parallel()
	f := startWAL(t, 8<<10)
	f.add(10)
	crashed := filesIn(t, f.dir)
	require.NoError(t, f.log.Close())
	calls := map[string]func(dir string) error{
		"open": func(dir string) error { return errOf(describe(dir)) },
		"check": func(dir string) error {
			_, err := Check(dir)
			return err
		},
		"view":    func(dir string) error { return errOf(OpenView(dir)) },
		"clone":   func(dir string) error { return Clone(dir, dir+"-new") },
		"salvage": func(dir string) error { return errOf(Salvage(dir, dir+"-new")) },
		"compact": func(dir string) error {
			_, _, err := Compact(dir)
			return err
		},
	}
	for name, call := range calls {
		dir := withFiles(t, map[string][]byte{directory.WALFile: crashed[directory.WALFile]})
		before := tree(t, dir)
		require.ErrorIs(t, call(dir), ErrCorrupt, name)
		require.Equal(t, before, tree(t, dir), name)

		dir = withFiles(t, map[string][]byte{directory.FileName: mustRead(t, filepath.Join(f.dir, directory.FileName))})
		require.NoError(t, os.Mkdir(filepath.Join(dir, directory.WALFile), 0o700))
		before = tree(t, dir)
		require.ErrorIs(t, call(dir), ErrNotJournal, name)
		require.Equal(t, before, tree(t, dir), name)
	}
}

func errOf[T any](_ T, err error) error { return err }
