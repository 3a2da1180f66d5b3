package journal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/strandjobs/strand/journal/internal/block"
	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/pages"
	"github.com/strandjobs/strand/journal/internal/store"
)

// sample is a small journal with a bit of everything: four blocks, one of them
// with a carried entry, a state, a marked entry, something in the morgue, and
// state keys.
func sample(t testing.TB) (dir string) {
	dir = filepath.Join(t.TempDir(), "sample.strand")
	var refs []Ref
	l, err := Open(dir, tight(Config{Deliver: func(d *Delivery) {
		var e Entry
		for i := range d.Len() {
			refs = append(refs, must(d.Read(i, &e)))
		}
		d.Done()
	}}))
	require.NoError(t, err)
	queue, err := l.Queue(t.Context(), "orders")
	require.NoError(t, err)
	for i := range 4 {
		list := make([]Entry, 8)
		for k := range list {
			list[k] = Entry{Queue: queue, ID: fmt.Appendf(nil, "id %d", k), Payload: fmt.Appendf(nil, "payload %d of %d", k, i), Due: 1e18}
		}
		ticket, err := l.Append(t.Context(), list, nil)
		require.NoError(t, err)
		require.NoError(t, ticket.Wait(t.Context()))
		recent := refs[len(refs)-8:]
		l.Record(&Change{
			Ended:  recent[:6],
			Buried: []Burial{{Ref: recent[6], Reason: "broken", Retry: 3, Crashed: i%2 == 0}},
			States: []JobState{{Entry: Entry{Queue: queue, ID: []byte("id 7"), Retry: i, Error: []byte("oh")}}},
			Sets:   []Set{{Key: "mark/feed", Value: []byte{byte(i)}}, {Key: fmt.Sprint("key/", i), Value: []byte("request")}, {Key: fmt.Sprint("key/", i-2), Value: nil}},
		})
		require.NoError(t, l.Flush(t.Context()))
	}
	require.NoError(t, l.Close())
	return dir
}

// describe says all that a journal holds, or returns its error.
func describe(dir string) (string, error) {
	l, err := Open(dir, Config{})
	if err != nil {
		return "", err
	}
	defer l.Close()
	var text strings.Builder
	text.WriteString(fmt.Sprintln(l.Queues(), l.Unclaimed(), l.Stats().Next, l.Stats().Epoch))
	for queue := range uint32(3) {
		for _, r := range slices.Concat(l.PendingPages(queue)...) {
			var e Entry
			if err := r.Read(&e); err != nil {
				return "", err
			}
			text.WriteString(show(e))
		}
		for b, err := range l.Morgue(queue, 0) {
			if err != nil {
				return "", err
			}
			text.WriteString(showB(b))
		}
	}
	for s, err := range l.Keys("", "") {
		if err != nil {
			return "", err
		}
		text.WriteString(fmt.Sprintf("%q: %q\n", s.Key, s.Value))
	}
	text.WriteString(fmt.Sprintln(l.crash.Suspects))
	return text.String(), nil
}

// withFile makes a directory that holds file as its journal.
func withFile(t testing.TB, file []byte) (dir string) {
	dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, directory.FileName), file, 0o600))
	return dir
}

// readFile reads the journal file in dir, without the pages at its end that
// nothing was ever written to.
func readFile(t testing.TB, dir string) []byte {
	b, err := os.ReadFile(filepath.Join(dir, directory.FileName))
	require.NoError(t, err)
	if m, size, err := pages.ReadMetas(bytes.NewReader(b), dir); err == nil {
		b = b[:min(int(m.End)*size, len(b))]
	}
	return b
}

// edit changes a copy of a journal with bbolt.
func edit(t testing.TB, file []byte, change func(*bbolt.Tx) error) (dir string) {
	dir = withFile(t, file)
	db, err := bbolt.Open(filepath.Join(dir, directory.FileName), 0o600, store.BoltOptions())
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		err := change(tx)
		if v := tx.Bucket([]byte(format.BucketMeta)).Get(format.KeyManifest); v != nil { // pretend that we did it
			last, broken := format.ParseManifest(v)
			err = errors.Join(err, broken, store.PutManifest(tx, last))
		}
		return err
	}))
	require.NoError(t, db.Close())
	return dir
}

// refused checks that opening fails with want, and that nothing was changed.
func refused(t testing.TB, dir string, want error) error {
	t.Helper()
	before := tree(t, dir)
	_, err := describe(dir)
	require.ErrorIs(t, err, want)
	require.Equal(t, before, tree(t, dir), "nothing is created or changed")
	return err
}

// tree hashes all files below dir.
func tree(t testing.TB, dir string) map[string][32]byte {
	files := make(map[string][32]byte)
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		files[path] = sha256.Sum256(b)
		return err
	})
	require.NoError(t, err)
	return files
}

func chunks(t testing.TB, file []byte) (keys, values [][]byte) {
	edit(t, file, func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(format.BucketLog)).ForEach(func(k, v []byte) error {
			keys, values = append(keys, bytes.Clone(k)), append(values, bytes.Clone(v))
			return nil
		})
	})
	return keys, values
}

// TestFlipsInBlocks flips every bit of every block, behind bbolt's back.
func TestFlipsInBlocks(t *testing.T) {
	file := readFile(t, sample(t))
	keys, values := chunks(t, file)
	require.GreaterOrEqual(t, len(keys), 4)
	for i, value := range values {
		seq := binary.BigEndian.Uint64(keys[i])
		step := 1
		if !long {
			step = 5 // odd: all bits of a byte get their turn
		}
		for bit := 0; bit < len(value)*8; bit += step {
			s := block.NewSurvey()
			flipped := bytes.Clone(value)
			flipped[bit/8] ^= 1 << (bit % 8)
			err := s.Block(seq, flipped)
			corrupt, ok := errors.AsType[*CorruptError](err)
			require.True(t, ok, "bit %d of block %d: %v", bit, seq, err)
			require.Equal(t, seq, corrupt.Block)
		}
		// And once through the front door.
		err := refused(t, edit(t, file, func(tx *bbolt.Tx) error {
			value[len(value)/2] ^= 4
			return tx.Bucket([]byte(format.BucketLog)).Put(keys[i], value)
		}), ErrCorrupt)
		assert.ErrorContains(t, err, fmt.Sprintf("block %d", seq))
	}
}

// TestFlipsInFile flips bits of the whole file. Either the damage is noticed,
// or it was in a place that means nothing and all is as before.
func TestFlipsInFile(t *testing.T) {
	t.Parallel()
	slow(t)
	file := readFile(t, sample(t))
	want, err := describe(withFile(t, file))
	require.NoError(t, err)
	dir := t.TempDir()
	path := filepath.Join(dir, directory.FileName)
	step := 397
	if long {
		step = 1
	}
	noticed, harmless := 0, 0
	for bit := 0; bit < len(file)*8; bit += step {
		file[bit/8] ^= 1 << (bit % 8)
		require.NoError(t, os.WriteFile(path, file, 0o600))
		got, err := describe(dir)
		file[bit/8] ^= 1 << (bit % 8)
		if err == nil {
			harmless++
			require.Equal(t, want, got, "bit %d of byte %d", bit%8, bit/8)
			continue
		}
		noticed++
		if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotJournal) && !errors.Is(err, ErrTooNew) {
			t.Fatalf("bit %d of byte %d: %v", bit%8, bit/8, err)
		}
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		file[bit/8] ^= 1 << (bit % 8)
		require.True(t, bytes.Equal(file, after), "the file is left alone")
		file[bit/8] ^= 1 << (bit % 8)
	}
	t.Logf("%d flips noticed, %d in free space", noticed, harmless)
	assert.Positive(t, noticed)
}

// TestPages damages whole pages in every way, for every page in use.
func TestPages(t *testing.T) {
	t.Parallel()
	file := readFile(t, sample(t))
	want, err := describe(withFile(t, file))
	require.NoError(t, err)
	const size = 4096
	for at := 0; at+size <= len(file); at += size {
		faults := map[string]func(page []byte){
			"zeroed": func(p []byte) { clear(p) },
			"ones":   func(p []byte) { copy(p, bytes.Repeat([]byte{0xff}, size)) },
		}
		for from := 0; from+size <= len(file); from += size {
			if from != at {
				other := bytes.Clone(file[from : from+size])
				faults[fmt.Sprint("copy of ", from/size)] = func(p []byte) { copy(p, other) }
				faults[fmt.Sprint("copy that pretends ", from/size)] = func(p []byte) { copy(p[8:], other[8:]) }
			}
		}
		for name, damage := range faults {
			damagedFile := bytes.Clone(file)
			damage(damagedFile[at : at+size])
			if bytes.Equal(damagedFile, file) {
				continue
			}
			got, err := describe(withFile(t, damagedFile))
			if err == nil {
				require.Equal(t, want, got, "page %d: %s", at/size, name)
			}
		}
	}
}

func TestMissingAndSwappedBlocks(t *testing.T) {
	file := readFile(t, sample(t))
	keys, values := chunks(t, file)
	for i, key := range keys {
		dir := edit(t, file, func(tx *bbolt.Tx) error { return tx.Bucket([]byte(format.BucketLog)).Delete(key) })
		err := refused(t, dir, ErrCorrupt)
		assert.ErrorContains(t, err, fmt.Sprintf("block %d: missing", binary.BigEndian.Uint64(key)))
		if i > 0 {
			dir := edit(t, file, func(tx *bbolt.Tx) error {
				b := tx.Bucket([]byte(format.BucketLog))
				return errors.Join(b.Put(keys[i-1], values[i]), b.Put(key, values[i-1]))
			})
			refused(t, dir, ErrCorrupt)
		}
	}
	dir := edit(t, file, func(tx *bbolt.Tx) error {
		return errors.Join(tx.DeleteBucket([]byte(format.BucketLog)), second(tx.CreateBucket([]byte(format.BucketLog))))
	})
	assert.ErrorContains(t, refused(t, dir, ErrCorrupt), "has no blocks")
}

func second(_ *bbolt.Bucket, err error) error { return err }

// TestSideBuckets takes away, adds and changes values beside the log.
func TestSideBuckets(t *testing.T) {
	t.Parallel()
	file := readFile(t, sample(t))
	for _, name := range []format.Bucket{format.BucketQueues, format.BucketMorgue, format.BucketState} {
		t.Run(string(name), func(t *testing.T) {
			dir := edit(t, file, func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(name)) })
			_, err := describe(dir)
			require.Error(t, err, "bucket %q is missing", name)
			dir = edit(t, file, func(tx *bbolt.Tx) error {
				c := tx.Bucket([]byte(name)).Cursor()
				c.First()
				return c.Delete()
			})
			refused(t, dir, ErrCorrupt)
			for _, key := range []string{"\x00", "zzz"} {
				dir = edit(t, file, func(tx *bbolt.Tx) error { return tx.Bucket([]byte(name)).Put([]byte(key), nil) })
				refused(t, dir, ErrCorrupt)
			}
		})
	}
}

// TestNoManifest takes away what says where the log ends.
func TestNoManifest(t *testing.T) {
	file := readFile(t, sample(t))
	meta := func(tx *bbolt.Tx) *bbolt.Bucket { return tx.Bucket([]byte(format.BucketMeta)) }
	refused(t, edit(t, file, func(tx *bbolt.Tx) error { return meta(tx).Delete(format.KeyManifest) }), ErrCorrupt)
	refused(t, edit(t, file, func(tx *bbolt.Tx) error { return meta(tx).Delete([]byte(format.KeyVersion)) }), ErrNotJournal)
	refused(t, edit(t, file, func(tx *bbolt.Tx) error { return meta(tx).Put([]byte(format.KeyVersion), []byte{0}) }), ErrNotJournal)
}

func TestNewer(t *testing.T) {
	file := readFile(t, sample(t))
	t.Run("meta", func(t *testing.T) {
		refused(t, edit(t, file, func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte(format.BucketMeta)).Put([]byte(format.KeyVersion), []byte{format.OpenVersion + 1})
		}), ErrTooNew)
	})
	t.Run("block", func(t *testing.T) {
		keys, values := chunks(t, file)
		value := values[len(values)-1]
		value[4] = format.BlockVersion + 1
		binary.LittleEndian.PutUint32(value[8:], format.BlockChecksum(value))
		refused(t, edit(t, file, func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte(format.BucketLog)).Put(keys[len(keys)-1], value)
		}), ErrTooNew)
	})
	t.Run("buried payload", func(t *testing.T) {
		refused(t, edit(t, file, func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte(format.BucketMorgue))
			k, v := b.Cursor().First()
			v = bytes.Clone(v[:len(v)-format.ChecksumSize])
			v[0] = format.BlockVersion + 1
			return b.Put(k, format.AppendChecksum(v, k))
		}), ErrTooNew)
	})
}

// TestNotAJournal opens all kinds of other files.
func TestNotAJournal(t *testing.T) {
	t.Parallel()
	file := readFile(t, sample(t))
	want, err := describe(withFile(t, file))
	require.NoError(t, err)
	random := make([]byte, 1<<16)
	for i := range random {
		random[i] = byte(i * i >> 3)
	}
	for name, other := range map[string][]byte{
		"empty": {}, "one byte": {1}, "random": random, "zeroes": make([]byte, 1<<16), "text": []byte("hello\n"),
	} {
		t.Run(name, func(t *testing.T) { refused(t, withFile(t, other), ErrNotJournal) })
	}
	t.Run("cut short", func(t *testing.T) {
		for n := 1; n < len(file); n += 1 + len(file)/41 {
			dir := withFile(t, file[:n])
			got, err := describe(dir)
			if err == nil { // only free pages are gone
				require.Equal(t, want, got)
				continue
			}
			if !errors.Is(err, ErrNotJournal) && !errors.Is(err, ErrCorrupt) {
				t.Errorf("%d bytes of %d: %v", n, len(file), err)
			}
			require.True(t, bytes.Equal(file[:n], readFile(t, dir)), "the file is left alone")
		}
	})
	t.Run("another bbolt file", func(t *testing.T) {
		dir := t.TempDir()
		db, err := bbolt.Open(filepath.Join(dir, directory.FileName), 0o600, nil)
		require.NoError(t, err)
		require.NoError(t, db.Update(func(tx *bbolt.Tx) error { return second(tx.CreateBucket([]byte("users"))) }))
		require.NoError(t, db.Close())
		refused(t, dir, ErrNotJournal)
	})
}

// TestTruncatedWhileOpen cuts the file under a running log: bbolt's memory map
// faults. The log latches and can be closed, and the lock is free again.
func TestTruncatedWhileOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "j")
	failed := make(chan error, 1)
	l, err := Open(dir, Config{Failed: func(err error) { failed <- err }})
	require.NoError(t, err)
	queue, err := l.Queue(t.Context(), "orders")
	require.NoError(t, err)
	ticket, err := l.Append(t.Context(), []Entry{{Queue: queue, Payload: make([]byte, 100_000)}}, nil)
	require.NoError(t, err)
	require.NoError(t, ticket.Wait(t.Context()))
	require.NoError(t, os.Truncate(filepath.Join(dir, directory.FileName), 0))

	for _, err := range l.Morgue(queue, 0) {
		assert.ErrorIs(t, err, ErrCorrupt)
	}
	ticket, err = l.Append(t.Context(), []Entry{{Queue: queue}}, nil)
	require.NoError(t, err)
	assert.ErrorIs(t, ticket.Wait(t.Context()), ErrUnknown)
	assert.ErrorIs(t, <-failed, ErrCorrupt)
	_, err = l.Append(context.Background(), nil, nil)
	assert.ErrorIs(t, err, ErrFailed)
	assert.ErrorIs(t, l.Close(), ErrFailed)
	_, err = Open(dir, Config{})
	assert.ErrorIs(t, err, ErrNotJournal, "the lock is free")
}
