package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/strandjobs/strand/journal/internal/crash"
	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/pages"
	"github.com/strandjobs/strand/journal/internal/rest"
	"github.com/strandjobs/strand/journal/internal/store"
)

// content is what a salvaged journal should have of the old one: everything but
// its blocks, its numbers of queues and its UUID.
func content(t testing.TB, dir string) string {
	v, err := OpenView(dir)
	require.NoError(t, err)
	names := make(map[uint32]string)
	var b strings.Builder
	for name, number := range v.Queues() {
		names[number] = name
	}
	fmt.Fprintln(&b, len(names), v.Suspects())
	for _, queue := range slices.Sorted(maps.Keys(v.Unclaimed())) {
		for _, r := range slices.Concat(v.PendingPages(queue)...) {
			var e Entry
			require.NoError(t, r.Read(&e))
			e.Queue, e.Restored = 0, false
			fmt.Fprintln(&b, names[queue], show(e))
		}
	}
	for d, err := range v.Morgue() {
		require.NoError(t, err)
		name := names[d.Entry.Queue]
		d.Entry.Queue = 0
		fmt.Fprintln(&b, name, showB(d))
	}
	for s, err := range v.Keys() {
		require.NoError(t, err)
		fmt.Fprintf(&b, "%q %q\n", s.Key, s.Value)
	}
	require.NoError(t, v.Close())
	return b.String()
}

// salvaged checks the promises of Salvage about one damaged file, and returns what
// it lost. want is what the file had before.
func salvaged(t testing.TB, name, want string, file []byte) *Salvaged {
	dir := withFile(t, file)
	s, err := Salvage(dir, dir+"-saved")
	if err != nil {
		require.ErrorIs(t, err, ErrNotJournal, name)
		return nil
	}
	_, err = Check(dir + "-saved")
	require.NoError(t, err, name)
	_, err = describe(dir + "-saved")
	require.NoError(t, err, "%s: what was salvaged does not open", name)
	if len(s.Losses) == 0 {
		require.Equal(t, want, content(t, dir+"-saved"), "%s: nothing was lost, it says", name)
	}
	looked, err := Salvage(dir, "")
	require.NoError(t, err)
	require.Equal(t, s, looked, "looking finds the same")
	return s
}

// What is salvaged opens and is sound, and when nothing was lost, nothing was:
// after every fault of a page, and after flips and cuts at random.
func TestSalvageTellsAllThatIsLost(t *testing.T) {
	t.Parallel()
	slow(t)
	for _, keys := range []int{3, 300} {
		files := history(t, keys)
		file := files[len(files)-1]
		want := content(t, withFile(t, file))
		require.Empty(t, salvaged(t, "sound", want, file).Losses)
		n, each := 0, oneIn
		if keys > 100 && !long {
			each *= 10
		}
		pageFaults(files, func(name string, younger bool, damaged []byte) {
			if n++; !younger && n%each == 0 {
				salvaged(t, name, want, damaged)
			}
		})
		random := rand.New(rand.NewPCG(7, uint64(keys)))
		rounds := 100 / oneIn
		if long {
			rounds = 20_000
		}
		for i := range rounds {
			damaged := bytes.Clone(file)
			for range 1 + random.IntN(3) {
				damaged[random.IntN(len(damaged))] ^= 1 << random.IntN(8)
			}
			if i%10 == 0 {
				damaged = damaged[:random.IntN(len(damaged))]
			}
			salvaged(t, fmt.Sprint("round ", i), want, damaged)
		}
	}
}

// A journal of format 1, which is migrated when it is opened, is not salvaged, and
// that is no corruption.
func TestSalvageOfFormat1(t *testing.T) {
	dir := withFile(t, goldenFile(t, "v1-state"))
	_, err := Salvage(dir, dir+"-saved")
	require.ErrorContains(t, err, "has format 1")
	require.NotErrorIs(t, err, ErrCorrupt)
	require.NoDirExists(t, dir+"-saved")
}

// A journal of a newer version, whose end mark says nothing to this one, is not what older end marks on free pages say.
func TestSalvageOfANewerFormat(t *testing.T) {
	files := history(t, 3)
	dir := withFile(t, files[len(files)-1])
	db, err := bbolt.Open(filepath.Join(dir, directory.FileName), 0o600, store.BoltOptions())
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		meta := tx.Bucket([]byte(format.BucketMeta))
		mark := bytes.Clone(meta.Get(format.KeyManifest))
		mark[0] = format.OpenVersion + 1
		mark = format.AppendChecksum(mark[:len(mark)-format.ChecksumSize], format.KeyManifest)
		return errors.Join(meta.Put([]byte(format.KeyVersion), mark[:1]), meta.Put(format.KeyManifest, mark))
	}))
	require.NoError(t, db.Close())
	require.ErrorIs(t, errOf(Salvage(dir, dir+"-saved")), ErrTooNew)
	require.NoDirExists(t, dir+"-saved")
}

// A root page that is gone takes no healthy page with it.
func TestSalvageBelowTheRoot(t *testing.T) {
	files := history(t, 300)
	file := files[len(files)-1]
	want := content(t, withFile(t, file))
	m, size, err := pages.ReadMetas(bytes.NewReader(file), "")
	require.NoError(t, err)
	before := strings.Count(want, "slot/")
	require.Greater(t, before, 100)
	damaged := bytes.Clone(file)
	clear(damaged[int(m.Root)*size : int(m.Root+1)*size])
	dir := withFile(t, damaged)
	s, err := Salvage(dir, filepath.Join(t.TempDir(), "saved"))
	require.NoError(t, err)
	require.NotEmpty(t, s.Losses)
	require.GreaterOrEqual(t, s.Keys, before)
	text := fmt.Sprint(s.Losses)
	require.Contains(t, text, "state keys")
}

// A renamed queue keeps its last name.
func TestSalvageOfRenamed(t *testing.T) {
	files := history(t, 3)
	file := files[len(files)-1]
	want := content(t, withFile(t, file))
	keys, values := chunks(t, file)
	require.NotEmpty(t, keys)
	other := bytes.Clone(values[0][:format.HeaderSize])
	other[format.HeaderSize-1] ^= 1
	damaged := bytes.ReplaceAll(file, values[0][:format.HeaderSize], other) // then all pages are read, old ones, too
	s := salvaged(t, "a block", want, damaged)
	require.Len(t, s.Losses, 1)
	dir := withFile(t, damaged)
	_, err := Salvage(dir, dir+"-saved")
	require.NoError(t, err)
	got := content(t, dir+"-saved")
	for i := 1; i <= 3; i++ {
		require.NotContains(t, got, fmt.Sprint("queue ", i, " "))
		require.Contains(t, got, fmt.Sprint("renamed ", i, " "))
	}
}

// So it does when no page leads to the names any more, and both that the queue had
// are found: the last one is the younger one, whichever comes first.
func TestSalvageTakesTheYoungerName(t *testing.T) {
	for _, renamed := range []string{"a queue", "the queue"} {
		dir := filepath.Join(t.TempDir(), "renamed.strand")
		l, err := Open(dir, Config{WALBytes: -1})
		require.NoError(t, err)
		name := func(i int) string { return fmt.Sprintf("queue %03d, which has a name that takes some room", i) }
		for i := range 150 { // on several pages
			_, err := l.Queue(t.Context(), name(i))
			require.NoError(t, err)
		}
		require.NoError(t, l.Rename(t.Context(), name(70), renamed))
		require.NoError(t, l.Close())
		file, lost := mustRead(t, filepath.Join(dir, directory.FileName)), 0
		for page := range slices.Chunk(file, os.Getpagesize()) {
			if binary.NativeEndian.Uint16(page[8:]) == pages.BranchPage {
				clear(page)
				lost++
			}
		}
		require.Positive(t, lost)

		saved := filepath.Join(t.TempDir(), "saved.strand")
		s, err := Salvage(withFile(t, file), saved)
		require.NoError(t, err)
		require.Contains(t, fmt.Sprint(s.Losses), "former name")
		v, err := OpenView(saved)
		require.NoError(t, err)
		got := v.Queues()
		require.NoError(t, v.Close())
		require.Len(t, got, 150)
		_, last := got[renamed]
		_, former := got[name(70)]
		require.True(t, last && !former, renamed)
	}
}

// The newest block is missed although an older end mark is found, for which all is
// there.
func TestSalvageOfTheLastBlock(t *testing.T) {
	files := history(t, 3)
	file := files[len(files)-1]
	want := content(t, withFile(t, file))
	_, values := chunks(t, file)
	block := values[len(values)-1]
	other := bytes.Clone(block)
	other[len(other)-1] ^= 1
	s := salvaged(t, "the last block", want, bytes.ReplaceAll(file, block, other))
	require.Len(t, s.Losses, 1)
	require.NotZero(t, s.Losses[0].Block)
}

// An end mark that is damaged takes nothing with it that the last commit left, and no position or epoch that it used
// is used again.
func TestSalvageWithoutTheEndMark(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "j")
	for i, last := range []func(*Log) error{
		func(l *Log) error {
			_, err := l.Queue(t.Context(), "orders")
			return err
		},
		func(l *Log) error {
			for i := range 3 {
				ticket, err := l.Append(t.Context(), []Entry{{Queue: 1, ID: []byte("a"), Payload: []byte("b")}}, func(first Position) []Set {
					return []Set{{Key: "mark/feed", Value: fmt.Append(nil, i)}, {Key: fmt.Sprint("key/", first), Value: []byte("accepted")}}
				})
				if err = errors.Join(err, ticket.Wait(t.Context())); err != nil {
					return err
				}
			}
			return nil
		},
		func(l *Log) error {
			l.Record(&Change{Ended: slices.Concat(l.PendingPages(1)...)[:2]})
			return l.Flush(t.Context())
		},
		func(*Log) error { return nil }, // to open it is a commit, too
	} {
		l, err := Open(dir, Config{WALBytes: -1})
		require.NoError(t, err)
		require.NoError(t, last(l))
		require.NoError(t, l.Close())
		file, was, want := readFile(t, dir), must(Check(dir)), content(t, dir)
		mark := endMark(t, file)
		require.Equal(t, 1, bytes.Count(file, mark))
		other := bytes.Clone(mark)
		other[20] ^= 1
		at := withFile(t, bytes.Replace(file, mark, other, 1))
		s, err := Salvage(at, at+"-saved")
		require.NoError(t, err)
		require.NotEmpty(t, s.Losses)
		require.Equal(t, want, content(t, at+"-saved"), i)
		now := must(Check(at + "-saved"))
		require.GreaterOrEqual(t, now.Next, was.Next, i)
		require.GreaterOrEqual(t, now.Epoch, was.Epoch, i)
		require.Less(t, now.Epoch, was.Epoch+1<<11, "the tokens of many salvages are exact in JSON: they are below 1<<53")
	}
}

// endMark is that of the last commit, as it stands in a file.
func endMark(t testing.TB, file []byte) (mark []byte) {
	edit(t, file, func(tx *bbolt.Tx) error {
		mark = bytes.Clone(tx.Bucket([]byte(format.BucketMeta)).Get(format.KeyManifest))
		return nil
	})
	return mark
}

// Without any end mark what stands beside the log is there all the same.
func TestSalvageWithoutEndMarks(t *testing.T) {
	files := history(t, 3)
	file := files[len(files)-1]
	want := content(t, withFile(t, file))
	mark := append(bytes.Clone(format.KeyManifest), format.FormatVersion)
	dir := withFile(t, bytes.ReplaceAll(file, mark, append(bytes.Clone(format.KeyManifest), 0)))
	s, err := Salvage(dir, dir+"-saved")
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(s.Losses), "the newest blocks may be missing")
	saved := content(t, dir+"-saved")
	for line := range strings.Lines(want) {
		require.Contains(t, saved, line)
	}
}

// Where the morgue is whole, what has left it does not come back when something else is damaged, and what has died again
// stays dead without the block that says so.
func TestSalvageOfAMorgueThatIsWhole(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "j")
	refs := make(map[Position]Ref)
	l, err := Open(dir, Config{WALBytes: -1, Deliver: func(d *Delivery) {
		for i := range d.Len() {
			ref := must(d.Read(i, new(Entry)))
			refs[ref.Position()] = ref
		}
		d.Done()
	}})
	require.NoError(t, err)
	queue, err := l.Queue(t.Context(), "orders")
	require.NoError(t, err)
	list := []Entry{{Queue: queue, ID: []byte("lives"), Payload: make([]byte, 400<<10)}} // nothing is carried
	for range 200 {
		list = append(list, Entry{Queue: queue, ID: []byte("dies"), Payload: make([]byte, 500)})
	}
	ticket, err := l.Append(t.Context(), list, nil)
	require.NoError(t, err)
	require.NoError(t, ticket.Wait(t.Context()))
	var die, leave Change
	for i := range 200 {
		p := ticket.Position(i + 1)
		die.Buried = append(die.Buried, Burial{Ref: refs[p], Reason: "once"})
		if i < 180 {
			leave.Queue, leave.Exhumed = queue, append(leave.Exhumed, p)
		}
	}
	for _, c := range []*Change{&die, &leave} {
		l.Record(c)
		require.NoError(t, l.Flush(t.Context()))
	}
	done, again := ticket.Position(190), ticket.Position(191)
	require.NoError(t, l.Restore(t.Context(), queue, []Position{done, again}, 0, func([]byte) uint32 { return 0 }))
	l.Record(&Change{Ended: []Ref{refs[done]}, Buried: []Burial{{Ref: refs[again], Reason: "twice"}}})
	require.NoError(t, l.Close())

	dead := func(dir string) (dead []string) {
		v, err := OpenView(dir)
		require.NoError(t, err)
		for b, err := range v.Morgue() {
			require.NoError(t, err)
			dead = append(dead, fmt.Sprint(b.Entry.Position, " ", b.Reason))
		}
		require.NoError(t, v.Close())
		return dead
	}
	want, file := dead(dir), readFile(t, dir)
	require.Len(t, want, 19)
	keys, values := chunks(t, file)
	for i, value := range values {
		if binary.BigEndian.Uint32(keys[i][8:]) > 0 {
			continue
		}
		other := bytes.Clone(value)
		other[len(other)-1] ^= 1
		at := withFile(t, bytes.ReplaceAll(file, value, other))
		s, err := Salvage(at, at+"-saved")
		require.NoError(t, err)
		require.NotEmpty(t, s.Losses)
		require.False(t, slices.ContainsFunc(s.Losses, func(l rest.Loss) bool { return strings.Contains(l.Reason, "morgue") }))
		require.Equal(t, want, dead(at+"-saved"))
	}
}

// A damaged state key is a loss of its kind, said with what it means.
func TestSalvageSaysWhatALossMeans(t *testing.T) {
	files := history(t, 3)
	file := files[len(files)-1]
	want := content(t, withFile(t, file))
	for key, text := range map[string][]string{
		"mark/feed": {"1 offsets of FromSource", `"mark/feed"`, "taken twice"},
		"key/3":     {"1 idempotency keys", "a second time"},
		"slot/001":  {"1 values of slots", "handed out again"},
		"lock/":     {"2 locks", "may run at once"},
		"suspect/":  {"6 suspects", "found out later"},
	} {
		damaged := bytes.Clone(file)
		for at := 0; ; at++ { // the last byte of each key, and of its older copies
			i := bytes.Index(damaged[at:], []byte(key))
			if i < 0 {
				break
			}
			at += i + len(key)
			damaged[at] ^= 1
		}
		s := salvaged(t, key, want, damaged)
		said := fmt.Sprint(s.Losses)
		for _, word := range text {
			require.Contains(t, said, word, key)
		}
	}
}

// A new journal gets no state key that Open would refuse.
func TestBuilderRefusesSuspects(t *testing.T) {
	b, err := NewBuilder(filepath.Join(t.TempDir(), "new"), 5, 1)
	require.NoError(t, err)
	value := make([]byte, 16)
	require.NoError(t, b.Set(Set{Key: crash.SuspectKey(3), Value: value}))
	for _, bad := range []Set{{Key: "suspect/x", Value: value}, {Key: crash.SuspectKey(3) + "z", Value: value}, {Key: crash.SuspectKey(3), Value: value[1:]}, {Key: "suspect/000000000000000A", Value: value}} {
		require.ErrorIs(t, b.Set(bad), rest.ErrContent)
	}
	require.NoError(t, b.Discard())
}

// What a check refuses is left out and told, with the reason; the rest is kept. A check
// that panics leaves nothing behind, and nothing locked.
func TestSalvageWithoutWhatACheckRefuses(t *testing.T) {
	files := history(t, 3)
	dir, to := withFile(t, files[len(files)-1]), filepath.Join(t.TempDir(), "saved.strand")
	require.Panics(t, func() { _, _ = Salvage(dir, to, func(Set) error { panic("no") }) })
	require.NoDirExists(t, to)
	var seen []string
	s, err := Salvage(dir, to, func(s Set) error {
		seen = append(seen, s.Key)
		return nil
	}, func(s Set) error {
		if s.Key == "slot/001" {
			return fmt.Errorf("a slot of %d bytes", len(s.Value))
		}
		return nil
	})
	require.NoError(t, err)
	require.Len(t, s.Losses, 1)
	require.Contains(t, s.Losses[0].Reason, `state key "slot/001": a slot of `)
	require.Contains(t, s.Losses[0].Reason, "handed out again")
	require.True(t, slices.IsSorted(seen))
	require.Len(t, seen, s.Keys+1)
	require.Equal(t, strings.Count(content(t, dir), "\n")-1, strings.Count(content(t, to), "\n"))
}

// Pages that an older commit left, with every checksum right, are no whole journal, and a salvage says so.
func TestSalvageOfAnOlderCommit(t *testing.T) {
	told := 0
	pageFaults(history(t, 3), func(name string, _ bool, file []byte) {
		dir := withFile(t, file)
		if _, err := Check(dir); err == nil || !strings.Contains(err.Error(), "this is what commit") {
			return
		}
		told++
		s, err := Salvage(dir, "")
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(s.Losses, func(l rest.Loss) bool { return strings.Contains(l.Reason, "what is left is what commit") }), name)
	})
	require.NotZero(t, told)
}
