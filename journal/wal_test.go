package journal

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/store"
	"github.com/stretchr/testify/require"
)

const sectorSize = 512

// walRig is a journal whose small commits go to a log.
type walRig struct {
	*testing.T
	dir   string
	log   *Log
	queue uint32
	refs  []Ref
	next  int
}

func startWAL(t *testing.T, bytes int) *walRig {
	f := &walRig{T: t, dir: filepath.Join(t.TempDir(), "j")}
	f.open(bytes)
	var err error
	f.queue, err = f.log.Queue(t.Context(), "orders")
	require.NoError(t, err)
	return f
}

func (f *walRig) open(bytes int) {
	var err error
	f.log, err = Open(f.dir, Config{WALBytes: bytes, Deliver: func(d *Delivery) {
		for i := range d.Len() {
			f.refs = append(f.refs, must(d.Read(i, new(Entry))))
		}
		d.Done()
	}})
	require.NoError(f, err)
	f.Cleanup(func() { _ = f.log.Close() })
}

// add appends an entry with a payload of so many bytes, and a key, and ends what came two before.
func (f *walRig) add(size int) {
	f.next++
	sets := func(Position) []Set {
		return []Set{{Key: fmt.Sprint("key/", f.next%5), Value: fmt.Append(nil, f.next)}}
	}
	ticket, err := f.log.Append(f.Context(), []Entry{{Queue: f.queue, ID: fmt.Append(nil, f.next), Payload: bytes.Repeat([]byte{byte(f.next)}, size)}}, sets)
	require.NoError(f, err)
	require.NoError(f, ticket.Wait(f.Context()))
	if len(f.refs) > 2 {
		f.log.Record(&Change{Ended: f.refs[:1]})
		f.refs = f.refs[1:]
		require.NoError(f, f.log.Flush(f.Context()))
	}
}

// waits reports how many bytes of journal.wal differ from what it was.
func changedSectors(old, young []byte) (at []int) {
	for i := 0; i < len(young); i += sectorSize {
		if !bytes.Equal(old[i:i+sectorSize], young[i:i+sectorSize]) {
			at = append(at, i)
		}
	}
	return at
}

// seen is what a journal holds, without its numbers.
func seen(t testing.TB, dir string) string {
	text, _ := looked(t, dir)
	return text
}

// At every moment of a commit to the log, whichever of its sectors are on disk, the journal
// has all that was accepted before, and the commit as a whole or not at all.
func TestCrashAtEverySector(t *testing.T) {
	f := startWAL(t, 32<<10)
	random := rand.New(rand.NewPCG(3, 4))
	f.add(10)
	before, was := filesIn(t, f.dir), ""
	torn, steps := 0, 40
	if raceEnabled {
		steps = 10 // one goroutine makes the files, and looks at them
	}
	for step := range steps {
		if was == "" {
			was = seen(t, withFiles(t, before))
		}
		f.next++
		ticket, err := f.log.Append(t.Context(), []Entry{{Queue: f.queue, ID: fmt.Append(nil, f.next), Payload: make([]byte, random.IntN(4000))}}, nil)
		require.NoError(t, err)
		require.NoError(t, ticket.Wait(t.Context()))
		after := filesIn(t, f.dir)
		is := seen(t, withFiles(t, after))
		require.NotEqual(t, was, is)
		if bytes.Equal(before[directory.FileName], after[directory.FileName]) {
			changed := changedSectors(before[directory.WALFile], after[directory.WALFile])
			for range 1 + 20/min(oneIn, 9) {
				image, whole := bytes.Clone(before[directory.WALFile]), true
				for _, at := range changed {
					if random.IntN(2) == 0 {
						copy(image[at:at+sectorSize], after[directory.WALFile][at:])
					} else {
						whole = false
					}
				}
				want := was
				if whole {
					want = is
				} else {
					torn++
				}
				dir := withFiles(t, map[string][]byte{directory.FileName: before[directory.FileName], directory.WALFile: image})
				require.Equal(t, want, seen(t, dir), "step %d", step)
				l, err := Open(dir, Config{WALBytes: 32 << 10})
				require.NoError(t, err)
				require.NoError(t, l.Close())
				_, want, _ = strings.Cut(want, "\n") // the numbers
				_, got, _ := strings.Cut(seen(t, dir), "\n")
				require.Equal(t, want, got)
			}
		}
		before, was = after, is
	}
	require.Greater(t, torn, steps)
}

// A journal that a crash has left is read, copied and compacted with what is in the log, and
// salvage loses nothing of it. A copy, and what was closed, has one file that counts.
func TestLogAtRest(t *testing.T) {
	f := startWAL(t, 64<<10)
	for i := range 30 {
		f.add(100 * i)
	}
	crashed := filesIn(t, f.dir)
	dir := withFiles(t, crashed)
	want, format := looked(t, dir)
	require.Equal(t, 2, format)
	was := content(t, dir)

	clone := dir + "-clone"
	require.NoError(t, Clone(dir, clone))
	compact := withFiles(t, crashed)
	_, _, err := Compact(compact)
	require.NoError(t, err)
	require.NoError(t, f.log.Copy(t.Context(), dir+"-copy"))
	for _, at := range []string{clone, compact, dir + "-copy"} {
		got, format := looked(t, at)
		require.Equal(t, []any{want, 2}, []any{got, format}, at)
		require.NoFileExists(t, filepath.Join(at, directory.WALFile))
	}
	saved, err := Salvage(dir, dir+"-saved")
	require.NoError(t, err)
	require.Empty(t, saved.Losses)
	require.Equal(t, was, content(t, dir+"-saved"))

	require.NoError(t, f.log.Close())
	got, format := looked(t, f.dir)
	require.Equal(t, []any{want, 2}, []any{got, format})
	require.NoError(t, os.Remove(filepath.Join(f.dir, directory.WALFile)))
	require.Equal(t, want, seen(t, f.dir))
}

// What is in a log that is left counts no more once a log was closed, whatever comes after.
func TestOldLogIsVoid(t *testing.T) {
	f := startWAL(t, 16<<10)
	f.add(10)
	require.NoError(t, f.log.Close())
	rest := filesIn(t, f.dir)
	f.open(16 << 10)
	for range 8 {
		f.add(100)
	}
	left := filesIn(t, f.dir)[directory.WALFile]
	require.NoError(t, f.log.Close())
	// The same journal goes on again from the same past, with what the other life has left.
	f.dir = withFiles(t, map[string][]byte{directory.FileName: rest[directory.FileName], directory.WALFile: left})
	f.refs = nil
	f.open(16 << 10)
	for range 3 {
		f.add(10)
		dir := withFiles(t, filesIn(t, f.dir))
		l, err := Open(dir, Config{})
		require.NoError(t, err)
		require.Equal(t, f.log.Stats().Next, l.Stats().Next)
		require.NoError(t, l.Close())
	}
}

// Damage of either file is found, and salvage takes what is intact.
func TestDamagedLog(t *testing.T) {
	f := startWAL(t, 16<<10)
	for i := range 9 {
		f.add(50 * i)
	}
	files := filesIn(t, f.dir)
	log := files[directory.WALFile]
	end := 0
	for at := sectorSize; at < len(log) && !bytes.Equal(log[at:at+sectorSize], make([]byte, sectorSize)); at += sectorSize {
		end = at + sectorSize
	}
	require.Greater(t, end, 10*sectorSize)
	whole, err := Salvage(withFiles(t, files), "")
	require.NoError(t, err)
	for at := 0; at < end; at += sectorSize {
		hurt := bytes.Clone(log)
		hurt[at+at/sectorSize%sectorSize] ^= 0x10
		dir := withFiles(t, map[string][]byte{directory.FileName: files[directory.FileName], directory.WALFile: hurt})
		before := tree(t, dir)
		_, err := Check(dir)
		require.ErrorIs(t, err, ErrCorrupt)
		require.ErrorContains(t, err, fmt.Sprintf("damaged at byte %d", at))
		_, err = Open(dir, Config{})
		require.ErrorIs(t, err, ErrCorrupt)
		require.ErrorContains(t, err, "strand salvage")
		require.Equal(t, before, withoutLock(tree(t, dir)))
		s, err := Salvage(dir, dir+"-saved")
		require.NoError(t, err)
		require.NotEmpty(t, s.Losses)
		if at > 0 {
			require.GreaterOrEqual(t, s.Blocks, whole.Blocks-1)
		}
		_, err = Check(dir + "-saved")
		require.NoError(t, err)
	}
	for name, file := range map[string][]byte{"cut": log[:len(log)/2], "cut to nothing": {}, "gone": nil, "of another": otherLog(t)} {
		both := map[string][]byte{directory.FileName: files[directory.FileName], directory.WALFile: file}
		if file == nil {
			delete(both, directory.WALFile)
		}
		dir := withFiles(t, both)
		_, err := Check(dir)
		require.ErrorIs(t, err, ErrCorrupt, name)
		_, err = Open(dir, Config{})
		require.ErrorIs(t, err, ErrCorrupt, name)
		s, err := Salvage(dir, dir+"-saved")
		require.NoError(t, err, name)
		require.NotEmpty(t, s.Losses, name)
		_, err = Check(dir + "-saved")
		require.NoError(t, err, name)
	}
}

// withoutLock is a tree without the file that an attempt to open may leave.
func withoutLock(files map[string][32]byte) map[string][32]byte {
	delete(files, directory.LockName)
	return files
}

func otherLog(t *testing.T) []byte {
	f := startWAL(t, 16<<10)
	f.add(1)
	return filesIn(t, f.dir)[directory.WALFile]
}

// While the log is open, a change of the file by another program is noticed at the next commit.
func TestLogIsTouched(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"cut":      func(path string) error { return os.Truncate(path, 8192) },
		"grown":    func(path string) error { return os.Truncate(path, 100_000) },
		"deleted":  os.Remove,
		"replaced": func(path string) error { return replaced(path) },
		"a link":   linked,
	} {
		t.Run(name, func(t *testing.T) {
			f := startWAL(t, 16<<10)
			f.add(10)
			require.NoError(t, harm(filepath.Join(f.dir, directory.WALFile)))
			ticket, err := f.log.Append(t.Context(), []Entry{{Queue: f.queue, ID: []byte("x")}}, nil)
			require.NoError(t, err)
			require.ErrorIs(t, ticket.Wait(t.Context()), ErrUnknown)
			before := tree(t, f.dir)
			require.ErrorIs(t, f.log.Close(), ErrFailed)
			require.Equal(t, before[directory.FileName], tree(t, f.dir)[directory.FileName])
		})
	}
}

// linked puts a link to a file in its place.
func linked(path string) error {
	if err := os.Rename(path, path+".away"); err != nil {
		return err
	}
	return os.Symlink(path+".away", path)
}

func replaced(path string) error {
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o600)
}

// The size of the log may be another one at each opening, also after a crash.
func TestLogOfAnotherSize(t *testing.T) {
	f := startWAL(t, 16<<10)
	want := 0
	for _, bytes := range []int{64 << 10, -1, 8 << 10, 32 << 10, 16 << 10, -1, -1} {
		for range 5 {
			f.add(100)
		}
		want = int(f.log.Stats().Next)
		if want%2 == 0 {
			require.NoError(t, f.log.Close())
		}
		f.dir = withFiles(t, filesIn(t, f.dir))
		f.open(bytes)
		require.Equal(t, want, int(f.log.Stats().Next))
		f.refs = slices.Concat(f.log.PendingPages(f.queue)...)
		info, err := os.Stat(filepath.Join(f.dir, directory.WALFile))
		switch bytes {
		case -1:
			require.ErrorIs(t, err, os.ErrNotExist)
		default:
			require.EqualValues(t, bytes, info.Size())
		}
	}
}

// A life of a few commits makes no log, unless it was asked for.
func TestLogIsMadeLater(t *testing.T) {
	f := startWAL(t, 0)
	path := filepath.Join(f.dir, directory.WALFile)
	f.add(10)
	require.NoFileExists(t, path)
	for range 40 {
		f.add(10)
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 4<<20, info.Size())
	require.EqualValues(t, 3, versionOf(t, withFiles(t, filesIn(t, f.dir))))
}

// The figures of the size tell of both files.
func TestLogIsCounted(t *testing.T) {
	f := startWAL(t, 16<<10)
	f.add(10)
	s := f.log.store.(*store.Logged)
	file, err := s.File.Stat()
	require.NoError(t, err)
	require.Equal(t, file.Size()+16<<10, f.log.Info().FileBytes)
	crashed, err := Check(withFiles(t, filesIn(t, f.dir)))
	require.NoError(t, err)
	require.Equal(t, file.Size()+16<<10, crashed.FileBytes)
}
