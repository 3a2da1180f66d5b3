package rest

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/pages"
)

// wreck is a bbolt file that need not be sound, read without bbolt. First the
// tree of pages is walked as far as it goes. When that does not give everything,
// every page that looks like a leaf is read: also those that bbolt does not use
// any more, which hold older copies of the same things. What they say counts
// only when a checksum of ours vouches for it.
type wreck struct {
	f     *os.File
	walk  *pages.Walk
	pages uint64 // in the file

	damage    []string
	version   byte // of the format, 0 when it was not found
	chunks    map[uint64]map[uint32][]span
	manifests []format.Manifest
	late      map[uint64][]byte // blocks that are in the log yet
	txid      uint64            // of the last commit, as sound meta pages have it; 0: unknown
	morgue    map[string]format.Buried
	buried    format.Sum // of what is in morgue
	settled   bool       // the morgue is what the last commit left
	within    *copies    // of the bucket that is walked
	queues    *copies
	keys      *copies // of the state
	spare     int64   // bytes that may still be read and kept of pages which the tree does not lead to
}

// span is where a value stands in the file.
type span struct {
	at   int64
	size int
}

const (
	maxCopies = 4  // of one chunk that are tried
	maxDamage = 64 // that is listed
	// looseBytes bounds what is read and kept of pages that the tree does not lead
	// to, in sizes of the file: they may claim to overlap.
	looseBytes = 8
)

func openWreck(f *os.File) (*wreck, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	w := &wreck{
		f: f, chunks: map[uint64]map[uint32][]span{}, late: map[uint64][]byte{}, morgue: map[string]format.Buried{},
		queues: newCopies(format.BucketQueues), keys: newCopies(format.BucketState)}
	m, size, err := pages.ReadMetas(f, directory.FileName)
	if w.txid = m.Txid; err != nil {
		w.hurt("%s", reasonOf(err))
		if m, size, err = anyMeta(f); err != nil {
			return nil, err
		}
	}
	w.pages = pages.Possible(info, size)
	w.spare = looseBytes * int64(w.pages) * int64(size)
	if m.End > w.pages {
		w.hurt("the file ends early: %d pages of %d", w.pages, m.End)
	}
	w.walk = &pages.Walk{F: f, Size: size, End: w.pages, Seen: make([]uint64, w.pages/64+1)}
	if m.Root != 0 {
		w.root(m.Root)
	}
	if len(w.damage) > 0 || !w.whole() {
		w.settled = len(w.manifests) == 1 && w.isLast(w.manifests[0]) && w.buried == w.manifests[0].Sides.Morgue
		w.leaves()
	}
	return w, nil
}

func (w *wreck) hurt(format string, args ...any) {
	if len(w.damage) < maxDamage {
		w.damage = append(w.damage, fmt.Sprintf(format, args...))
	}
}

// anyMeta returns the one meta page that is sound. It may be the older one: the
// last commit is then among the pages that the tree does not lead to.
func anyMeta(f io.ReaderAt) (pages.Meta, int, error) {
	b := make([]byte, pages.MetaSize)
	for at := 0; at <= 1<<16; at = max(2*at, 1<<9) { // the second one is behind a page
		if _, err := f.ReadAt(b, int64(at+pages.PageHeader)); err != nil {
			continue
		}
		if m, size, ok := pages.ParseMeta(b); ok && (at == 0 || size == at) {
			return m, size, nil
		}
	}
	size := pages.GuessSize(f)
	if size == 0 {
		return pages.Meta{}, 0, fmt.Errorf("%w: %s has no pages of bbolt", format.ErrNotJournal, directory.FileName)
	}
	return pages.Meta{}, size, nil
}

// whole reports whether the tree gave every block and every burial that it
// should.
func (w *wreck) whole() bool {
	if len(w.manifests) != 1 {
		return false
	}
	t, beside := w.manifests[0], format.Sides{Queues: w.queues.total, Morgue: w.buried, State: w.keys.total}
	if beside != t.Sides || t.Seq+1-t.Oldest != uint64(len(w.chunks)) {
		return false
	}
	for seq := range w.chunks {
		if !w.sound(seq) {
			return false
		}
	}
	return true
}

// isLast reports whether an end mark is that of the last commit.
func (w *wreck) isLast(t format.Manifest) bool { return t.Tx == w.txid }

// sound reports whether a block is there, as a whole.
func (w *wreck) sound(seq uint64) bool {
	data, err := w.assemble(seq)
	if err == nil {
		_, err = format.ParseHeader(data, seq)
	}
	return err == nil
}

// value files a value of which it is known which bucket it is in.
func (w *wreck) value(name format.Bucket, key []byte, v []byte, at span) {
	switch name {
	case format.BucketLog:
		if len(key) == format.ChunkKeySize {
			w.chunk(key, at)
			return
		}
		w.hurt("the log has a key of %d bytes", len(key))
	case format.BucketMeta:
		w.meta(key, v)
	case format.BucketQueues:
		w.queues.reached(key, v)
	case format.BucketState:
		w.keys.reached(key, v)
	case format.BucketMorgue:
		if !w.burial(key, v) {
			w.hurt("buried payload %x", key)
		}
	}
}

func (w *wreck) meta(key, v []byte) {
	_, noUUID := format.ParseUUID(v)
	t, noManifest := format.ParseManifest(v)
	switch k := string(key); {
	case k == format.KeyVersion && len(v) == 1:
		w.version = v[0]
	case k == string(format.KeyUUID) && noUUID == nil: // the new journal has its own
	case k == string(format.KeyUUID):
		w.hurt("the UUID of the journal")
	case k != string(format.KeyManifest) || noManifest != nil:
		w.hurt("the end mark of the log")
	default:
		w.manifests = append(w.manifests, t)
		if w.txid != 0 && !w.isLast(t) {
			w.hurt("what is left is what commit %d wrote, and commit %d was the last one", t.Tx, w.txid)
		}
	}
}

// anyValue files a value by what its checksum says that it is. What is left
// may be part of a block.
func (w *wreck) anyValue(key, v []byte, at span) {
	switch {
	case string(key) == string(format.KeyManifest):
		if t, err := format.ParseManifest(v); err == nil {
			w.manifests = append(w.manifests, t)
		}
	case len(key) == format.ChunkKeySize && w.burial(key, v):
	case w.queues.found(key, v), w.keys.found(key, v):
	case len(key) == format.ChunkKeySize:
		w.chunk(key, at)
	}
}

func (w *wreck) burial(key, v []byte) bool {
	if _, have := w.morgue[string(key)]; have {
		return true
	}
	b, err := format.ParseBuried(key, slices.Clone(v))
	if err != nil || b.Entry.Kind != format.KindEnqueued {
		return false
	}
	if !w.settled {
		w.morgue[string(key)] = b
		w.buried.Add(key, v)
	}
	return true
}

func (w *wreck) chunk(key []byte, at span) {
	seq, n := binary.BigEndian.Uint64(key), binary.BigEndian.Uint32(key[8:])
	if w.chunks[seq] == nil {
		w.chunks[seq] = make(map[uint32][]span)
	}
	if copies := w.chunks[seq][n]; len(copies) < maxCopies && !slices.Contains(copies, at) {
		w.chunks[seq][n] = append(copies, at)
	}
}

// assemble joins a block from its chunks. Where there are several copies of a
// chunk, it looks for those that give the right checksum; otherwise it takes
// the first of each, for whatever they are worth.
func (w *wreck) assemble(seq uint64) ([]byte, error) {
	if late := w.late[seq]; late != nil {
		return late, nil
	}
	chunks := w.chunks[seq]
	if len(chunks) == 0 {
		return nil, format.DamagedBlock(seq, "missing")
	}
	var first []byte
	for try := range maxCopies {
		data, complete, err := w.join(chunks, try)
		if err != nil || !complete {
			return data, err
		}
		if first == nil {
			first = data
		}
		if len(data) >= format.HeaderSize && format.BlockChecksum(data) == binary.LittleEndian.Uint32(data[8:]) {
			return data, nil
		}
	}
	return first, nil
}

// join takes, for each chunk, copy number try or the last one that there is.
func (w *wreck) join(chunks map[uint32][]span, try int) (data []byte, complete bool, err error) {
	for n := range uint32(len(chunks)) {
		copies := chunks[n]
		if len(copies) == 0 {
			return data, false, &format.CorruptError{Offset: -1, Reason: fmt.Sprintf("chunk %d is missing", n)}
		}
		at := copies[min(try, len(copies)-1)]
		start := len(data)
		data = append(data, make([]byte, at.size)...)
		if _, err := w.f.ReadAt(data[start:], at.at); err != nil {
			return data[:start], false, fmt.Errorf("journal: %w", err)
		}
	}
	return data, true, nil
}
