package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal/internal/crash"
	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/pages"
)

// history is a journal with state of every kind, as it was after each commit.
// With more keys the buckets beside the log have pages of their own.
func history(t testing.TB, keys int) (files [][]byte) {
	dir := filepath.Join(t.TempDir(), "history.strand")
	l, err := Open(dir, Config{WALBytes: -1})
	require.NoError(t, err)
	snap := func() {
		b, err := os.ReadFile(filepath.Join(dir, directory.FileName))
		require.NoError(t, err)
		files = append(files, b)
	}
	ctx := context.Background()
	word := func(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }
	for i := range 6 {
		name := fmt.Sprint("queue ", i)
		queue, err := l.Queue(ctx, name)
		require.NoError(t, err)
		ticket, err := l.Append(ctx, []Entry{{Queue: queue, ID: []byte("a"), Payload: []byte("first")}, {Queue: queue, ID: []byte("b")}}, func(first Position) []Set {
			return []Set{{Key: "mark/feed", Value: word(i)}, {Key: fmt.Sprint("key/", i), Value: word(int(first))}, {Key: crash.SuspectKey(first), Value: append(word(1), word(1)...)}}
		})
		require.NoError(t, err)
		require.NoError(t, ticket.Wait(ctx))
		snap()
		var sets []Set
		for k := range keys {
			if (i+k)%3 == 0 {
				sets = append(sets, Set{Key: fmt.Sprintf("slot/%03d", k), Value: fmt.Append(nil, "value ", i, " of ", k, bytes.Repeat([]byte{'.'}, 50))})
			} else if (i+k)%5 == 0 {
				sets = append(sets, Set{Key: fmt.Sprintf("slot/%03d", k)})
			}
		}
		require.NoError(t, l.Put(ctx, append(sets, Set{Key: string(append([]byte("lock/"), word(i)...)), Value: []byte("held")}, Set{Key: string(append([]byte("lock/"), word(i-2)...))})...))
		snap()
		if i > 2 {
			require.NoError(t, l.Rename(ctx, fmt.Sprint("queue ", i-2), fmt.Sprint("renamed ", i-2)))
			snap()
		}
	}
	require.NoError(t, l.Close())
	for i, file := range files { // without the pages that nothing was ever written to
		m, size, err := pages.ReadMetas(bytes.NewReader(file), "")
		require.NoError(t, err)
		files[i] = file[:int(m.End)*size]
	}
	return files
}

// pageFaults calls fault with every page of the file in turn being what it was at
// some time before, zero, or another page. name says so; younger: it is the meta
// page of the last commit.
func pageFaults(files [][]byte, fault func(name string, younger bool, file []byte)) {
	const size = 4096
	file := files[len(files)-1]
	m, _, _ := pages.ReadMetas(bytes.NewReader(file), "")
	for at := 0; at+size <= len(file); at += size {
		seen := [][]byte{file[at : at+size]}
		try := func(name string, page []byte) {
			if slices.ContainsFunc(seen, func(p []byte) bool { return bytes.Equal(p, page) }) {
				return
			}
			seen = append(seen, page)
			changed := bytes.Clone(file)
			copy(changed[at:], page)
			fault(fmt.Sprint("page ", at/size, " ", name), at == int(m.Txid%2)*size, changed)
		}
		try("zero", make([]byte, size))
		for i, older := range files[:len(files)-1] {
			if at+size <= len(older) {
				try(fmt.Sprint("as of commit ", i), older[at:at+size])
			}
		}
		for from := 0; from+size <= len(file); from += size {
			try(fmt.Sprint("swapped with ", from/size), append(bytes.Clone(file[at:at+16]), file[from+16:from+size]...))
		}
	}
}

// A page that is an older version of itself, zero, or another one is noticed,
// whichever it is; the only one that is not is the meta page of the last commit,
// and then all is as the commit before left it.
func TestStalePages(t *testing.T) {
	t.Parallel()
	slow(t)
	for _, keys := range []int{3, 300} {
		files := history(t, keys)
		var told []string
		for _, file := range files[len(files)-2:] {
			text, err := describe(withFile(t, file))
			require.NoError(t, err)
			told = append(told, text)
		}
		n, noticed := 0, 0
		pageFaults(files, func(name string, younger bool, file []byte) {
			if n++; n%oneIn != 0 {
				return
			}
			dir := withFile(t, file)
			_, err := Check(dir)
			if err != nil && noticed%16 != 0 && !long { // to open takes a commit
				noticed++
				return
			}
			text, opened := describe(dir)
			require.Equal(t, err == nil, opened == nil, "%s: check says %v, open %v", name, err, opened)
			if err != nil {
				noticed++
				require.True(t, errors.Is(err, ErrCorrupt) || errors.Is(err, ErrNotJournal), "%s: %v", name, err)
				return
			}
			if younger {
				require.Contains(t, told, text, name)
				return
			}
			require.Equal(t, told[1], text, name)
		})
		t.Log(noticed, "faults noticed")
		require.Greater(t, noticed, 50/oneIn)
	}
}

// Of every bit of a journal with state of every kind: Check notices that it
// flipped, or it means nothing. It changes nothing, and sees all that Open needs.
func TestEveryBit(t *testing.T) {
	files := history(t, 3)
	file := files[len(files)-1]
	want, err := describe(withFile(t, file))
	require.NoError(t, err)
	dir := withFile(t, file)
	f, err := os.OpenFile(filepath.Join(dir, directory.FileName), os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	step, look := 131*oneIn, 10 // odd: all bits of a byte get their turn
	if long {
		step, look = 1, 100
	}
	noticed, harmless := 0, 0
	for bit := 0; bit < 8*len(file); bit += step {
		at := int64(bit / 8)
		_, err := f.WriteAt([]byte{file[at] ^ 1<<(bit%8)}, at)
		require.NoError(t, err)
		_, err = Check(dir)
		if err != nil {
			noticed++
			require.True(t, errors.Is(err, ErrCorrupt) || errors.Is(err, ErrNotJournal) || errors.Is(err, ErrTooNew), "bit %d: %v", bit, err)
		} else if harmless++; harmless%look == 0 {
			changed := bytes.Clone(file)
			changed[at] ^= 1 << (bit % 8)
			got, err := describe(withFile(t, changed))
			require.NoError(t, err)
			require.Equal(t, want, got, "bit %d", bit)
		}
		_, err = f.WriteAt(file[at:at+1], at)
		require.NoError(t, err)
	}
	t.Log(noticed, "flips noticed,", harmless, "where nothing is")
}

// flip changes a bit of a value that the log has written, in the file.
func flip(t testing.TB, path string, what []byte) {
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	found := false
	for at := 0; ; at++ {
		i := bytes.Index(file[at:], what)
		if i < 0 {
			break
		}
		at += i
		_, err := f.WriteAt([]byte{what[0] ^ 1}, int64(at))
		require.NoError(t, err)
		found = true
	}
	require.True(t, found)
}

// State that changes on the disk while the log is at work is not returned, and is
// not written over as if nothing were.
func TestEveryReadOfStateIsChecked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "j")
	l, err := Open(dir, Config{WALBytes: -1})
	require.NoError(t, err)
	require.NoError(t, l.Put(t.Context(), Set{Key: "mark/a", Value: []byte("the first")}, Set{Key: "mark/b", Value: []byte("the second")}))
	flip(t, filepath.Join(dir, directory.FileName), []byte("the second"))
	v, err := l.Get("mark/a")
	require.NoError(t, err)
	require.Equal(t, "the first", string(v))
	_, err = l.Get("mark/b")
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, `bucket "state", key "mark/b"`)
	for _, err = range l.Keys("mark/b", "") {
		require.ErrorIs(t, err, ErrCorrupt)
	}
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorIs(t, l.Put(t.Context(), Set{Key: "mark/b", Value: []byte("the third")}), ErrCorrupt)
	require.ErrorIs(t, l.Close(), ErrFailed)
	_, err = Open(dir, Config{})
	require.ErrorContains(t, err, `bucket "state", key "mark/b"`)
}
