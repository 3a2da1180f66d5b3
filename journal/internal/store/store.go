package store

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
)

// Store is the disk under a log. A log calls Commit from one goroutine only; Read,
// Get and Page may run beside it.
type Store interface {
	// Commit makes all of t durable or none of it. It returns an error that
	// matches ErrFull when nothing was written for want of room. After any
	// other error it is unknown what is on disk, and the log stops.
	Commit(t *Transaction) error

	// Room looks how much the next commit can write, and tries to have room for
	// need bytes beside a reserve that is left to results, and for values that take
	// run bytes in one piece. It is called by the goroutine that commits. After an
	// error the log stops.
	Room(need, run int) (Room, error)

	// Scan calls block for every block, oldest first. The bytes are only valid
	// during the call.
	Scan(block func(seq uint64, data []byte) error) error

	// Read returns n chunks of a block that is committed, from the first of them
	// on, joined. Chunks have ChunkSize bytes, except for the last one of a block.
	// It may be called from any goroutine.
	Read(seq uint64, first, n int) ([]byte, error)
	ChunkSize() int

	// Get returns a copy of the value of a key, nil when there is none. Like page,
	// it returns ErrCorrupt, with bucket and key, for a value that is not what was
	// written.
	Get(bucket format.Bucket, key []byte) ([]byte, error)

	// Page returns copies of some keys and values from key from on, in key order:
	// pageCount of them at most, and no more once their values have pageBytes. No
	// pair means that there is none.
	Page(bucket format.Bucket, from []byte) ([]format.Pair, error)

	// Buried returns how many payloads each queue had in the morgue when the store
	// was opened.
	Buried() map[uint32]int

	// CopyTo writes what the last commit left to a new journal file, unless over
	// is closed meanwhile.
	CopyTo(path string, over <-chan struct{}) error

	// Size returns the bytes of the file, and used those in use. They are called
	// by the goroutine that commits.
	Size() int
	Used() (int, error)

	// Compact gives back to the disk what is not in use. It is called by the
	// goroutine that commits. After an error the log goes on, unless the file
	// was replaced by then. It gives up, and changes nothing, when over is closed.
	Compact(over <-chan struct{}) (replaced bool, err error)

	Close() error
}

// Shared is a Store on what other processes use, too: one of them may have the log after
// this one. Now is the time by the clock that they share. Its commits take turns with
// those of other stores: a log waits for Turn before it closes its block, so that what
// comes meanwhile is in it, and calls over when it has committed, or there was nothing to.
type Shared interface {
	Turn() (over func())
	Now() time.Time
}

// Transaction is what one commit writes. Its slices are valid until commit
// returns.
type Transaction struct {
	Seq      uint64
	Block    []byte        // empty: only the manifest changes
	Drop     []Dropped     // blocks to delete, ascending
	Changes  []format.Edit // in this order
	Manifest format.Manifest

	before []*Transaction // whose blocks come first, as far as the log still has them
}

// Dropped is a block that leaves the log.
type Dropped struct {
	Seq     uint64
	Size    int
	Carried bool // its live entries are in the block of the same transaction

	// Bytes of the entries and of the marks of that block: without the ones or the others, which
	// say what has become of its last entry, it must not go.
	Entries, Marks int
}

// Room is how much a commit can write, in bytes.
type Room struct {
	Bytes int // at most, the reserve included
	Spare int // beyond what was asked for and the reserve; negative when there is less
	Kept  int // of Bytes, for the largest block
	Run   int // of Bytes, in one piece; without end where the disk gives all that is wanted

	Gives  bool // the disk gave what it was asked for last, which is more than was needed
	Letter int  // bytes of the largest value that the morgue has had since it was opened
}

// Endless is the room of a store that can't tell; a little may be added to it also where an int has 32 bits.
var Endless = Room{Bytes: 1 << 30, Spare: 1 << 30, Run: math.MaxInt32, Gives: true}

// A page of a bucket is as much of it as is read at once.
const (
	pageCount = 256
	pageBytes = 1 << 20
)

// Pages is Page of a store, or of who says more than that.
type Pages func(bucket format.Bucket, from []byte) ([]format.Pair, error)

// Each lists what a bucket has from a key on, page by page, so that the loop may
// take as long as it likes. An error is yielded once and ends the list.
func (p Pages) Each(name format.Bucket, from []byte) iter.Seq2[format.Pair, error] {
	return func(yield func(format.Pair, error) bool) {
		for {
			list, err := p(name, from)
			if err != nil {
				yield(format.Pair{}, err)
				return
			}
			for _, kv := range list {
				if !yield(kv, nil) {
					return
				}
			}
			if len(list) == 0 {
				return
			}
			from = append(list[len(list)-1].Key, 0)
		}
	}
}

// Sets are the state keys with a prefix, from the key first on; from the beginning if that is empty.
func (p Pages) Sets(prefix, first string) iter.Seq2[format.Set, error] {
	pairs := p.Each(format.BucketState, []byte(max(prefix, first)))
	return parsed(pairs, []byte(prefix), func(key, value []byte) (format.Set, error) {
		return format.Set{Key: string(key), Value: value}, nil
	})
}

// Burials are the payloads of the morgue from a key on, up to one with another prefix.
func (p Pages) Burials(from, prefix []byte) iter.Seq2[format.Buried, error] {
	return parsed(p.Each(format.BucketMorgue, from), prefix, format.ParseBuried)
}

func parsed[T any](pairs iter.Seq2[format.Pair, error], prefix []byte, parse func(key, value []byte) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for kv, err := range pairs {
			var t T
			if err == nil {
				if !bytes.HasPrefix(kv.Key, prefix) {
					return
				}
				t, err = parse(kv.Key, kv.Value)
			}
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

// ReadManifest returns the end mark, and what a journal begins with when nothing was
// ever written.
func ReadManifest(s Store) (format.Manifest, error) {
	v, err := s.Get(format.BucketMeta, format.KeyManifest)
	if err != nil {
		return format.Manifest{}, err
	}
	if v == nil {
		return format.FirstManifest, nil
	}
	return format.ParseManifest(v)
}

// ReadQueues returns the number of each queue, by name.
func ReadQueues(s Store) (map[string]uint32, error) {
	queues := make(map[string]uint32)
	for kv, err := range Pages(s.Page).Each(format.BucketQueues, nil) {
		if err != nil {
			return nil, err
		}
		if queues[string(kv.Key)], err = format.ParseQueue(kv.Key, kv.Value); err != nil {
			return nil, err
		}
	}
	return queues, nil
}

// ReadUUID returns the text of the journal's.
func ReadUUID(s Store) (string, error) {
	v, err := s.Get(format.BucketMeta, format.KeyUUID)
	if err != nil {
		return "", err
	}
	return format.ParseUUID(v)
}

// kept and deleted are what a change does to its key, in a record.
const kept, deleted = 0, 1

// record is t as a log has it: numbers of varying length, and before each text how long it
// is. What a log stands on says the rest of the end mark.
func (t *Transaction) record() []byte {
	b := make([]byte, 0, t.takes()+64+16*(len(t.Drop)+len(t.Changes)))
	m := &t.Manifest
	for _, n := range []uint64{m.Oldest, m.Seq, uint64(m.Next), m.Epoch, t.Seq, uint64(len(t.Drop)), uint64(len(t.Changes))} {
		b = binary.AppendUvarint(b, n)
	}
	for _, d := range t.Drop {
		b = binary.AppendUvarint(binary.AppendUvarint(b, d.Seq), uint64(d.Size))
	}
	for _, c := range t.Changes {
		what := byte(kept)
		if c.Value == nil {
			what = deleted
		}
		b = append(b, byte(slices.Index(format.SideBuckets, c.Bucket)), what)
		b = format.AppendText(format.AppendText(b, c.Key), c.Value)
	}
	return format.AppendText(b, t.Block)
}

// ParseRecord reads a record, whose bytes the transaction keeps.
func ParseRecord(b []byte) (*Transaction, error) {
	t, d := new(Transaction), format.Decoder{B: b}
	m := &t.Manifest
	m.Oldest, m.Seq, m.Next, m.Epoch = d.Uvarint(), d.Uvarint(), format.Position(d.Uvarint()), d.Uvarint()
	t.Seq = d.Uvarint()
	drops, changes := d.Uvarint(), d.Uvarint()
	for ; drops > 0 && d.Err == nil; drops-- {
		t.Drop = append(t.Drop, Dropped{Seq: d.Uvarint(), Size: int(d.Uvarint())})
	}
	sound := true
	for ; changes > 0 && d.Err == nil; changes-- {
		bucket, what := d.Byte(), d.Byte()
		c := format.Edit{Key: d.Bytes(d.Uvarint()), Value: d.Bytes(d.Uvarint())}
		if what == deleted {
			c.Value = nil
		}
		if sound = sound && int(bucket) < len(format.SideBuckets); sound {
			c.Bucket = format.SideBuckets[bucket]
			sound = c.Bucket != format.BucketMorgue
		}
		t.Changes = append(t.Changes, c)
	}
	t.Block = d.Bytes(d.Uvarint())
	if d.Err != nil || !sound || d.Off != len(b) || t.Seq == 0 || len(t.Block) == 0 {
		return nil, format.Damaged("%s: what is in a record makes no sense", directory.WALFile)
	}
	return t, nil
}
