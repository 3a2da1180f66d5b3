package journal

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// View is a journal that is not open, read without changing it: no
// LOCK is written, no file is locked, no epoch begins. All of it was checked
// and replayed as Open does, and its live entries are in memory.
//
// One goroutine at a time may use a View.
type View struct {
	dir    string
	store  *bolt
	txid   uint64 // of the file when it was opened
	size   int64  // of the file, bytes
	tail   tail
	uuid   string
	queues map[string]uint32
	now    *Moment
	blocks []BlockInfo

	suspects map[Position]Suspicion
}

// Info are the figures of a journal at rest.
type Info struct {
	Format         int      // version of the format
	Epoch          uint64   // how many times the journal was opened
	UUID           string   // of the journal and its copies; empty for one from before there was one
	Next           Position // the next position
	Oldest, Newest uint64   // sequence of the first and last block; Oldest is the greater one when there is none
	Blocks         int
	Entries, Live  int   // in these blocks; live ones did not end
	Bytes          int   // of these blocks
	LiveBytes      int   // of live entries in them
	Buried         int   // payloads in the morgue
	Queues         int   // names known
	FileBytes      int64 // of the file
}

// BlockInfo describes one block of the log.
type BlockInfo struct {
	Seq           uint64   // its number
	Epoch         uint64   // of the process that wrote it
	First, Next   Position // the positions that it used: from First to before Next
	At            int64    // when it was begun, Unix ns
	Entries, Live int
	Bytes         int // header and marks included
	LiveBytes     int
}

// OpenView reads the journal in dir. It returns a [LockedError] when somebody
// has it open or opens it meanwhile, and otherwise the errors of [Open], except
// that a directory without a journal is an error, too: ErrNotJournal.
//
// A process that opens the journal while it is being read is not held up.
func OpenView(dir string) (*View, error) {
	if err := identify(dir); err != nil {
		return nil, err
	}
	if err := heldBy(dir); err != nil {
		return nil, err
	}
	v := &View{dir: dir}
	err := v.open()
	if err == nil {
		err = v.load()
	}
	if cause := v.disturbed(err); cause != nil {
		return nil, errors.Join(cause, v.Close())
	}
	return v, nil
}

func (v *View) open() (err error) {
	path := filepath.Join(v.dir, fileName)
	if v.txid, err = youngest(path); err != nil {
		return err
	}
	if err := checkPages(path); err != nil {
		return err
	}
	if v.store, err = readBolt(path); err != nil {
		return err
	}
	// bbolt takes a shared lock. Given back, it keeps no starting owner out;
	// disturbed notices one instead.
	return errors.Join(unlockFile(v.store.file), v.store.check())
}

// youngest returns the number of the last commit to a bbolt file.
func youngest(path string) (uint64, error) {
	f, err := openFile(path)
	if err != nil {
		return 0, fmt.Errorf("journal: %w", err)
	}
	defer f.Close()
	m, _, err := readMetas(f, path)
	return m.txid, err
}

// disturbed tells why what was read does not count: err, if the journal is
// still as it was, and otherwise that somebody has opened it.
func (v *View) disturbed(err error) error {
	if held := heldBy(v.dir); held != nil {
		return held
	}
	txid, broken := youngest(filepath.Join(v.dir, fileName))
	if broken == nil && v.txid != 0 && txid != v.txid {
		return lockedBy(v.dir)
	}
	return err
}

// load replays the log without the commit that Open makes after it.
func (v *View) load() error {
	if info, err := v.store.file.Stat(); err == nil {
		v.size = info.Size()
	}
	var err error
	if v.queues, err = readQueues(v.store); err != nil {
		return err
	}
	c := newChain(v.store, limits{memory: -1}, nil)
	r := newReading(c.settleIn)
	if err := v.store.scan(func(seq uint64, data []byte) error { return v.block(r, seq, data) }); err != nil {
		return err
	}
	t, err := readTail(v.store)
	if err == nil {
		err = r.finish(t)
	}
	if err != nil {
		return err
	}
	v.tail = t
	if v.uuid, err = readUUID(v.store); err != nil {
		return err
	}
	return v.fill(c, r)
}

// block takes in a block, and what there is to say about it by itself.
func (v *View) block(r *reading, seq uint64, data []byte) error {
	if err := r.block(seq, data); err != nil {
		return err
	}
	if n := len(v.blocks); n > 0 {
		v.blocks[n-1].Next = r.header.first
	}
	v.blocks = append(v.blocks, BlockInfo{Seq: seq, Epoch: r.header.epoch, First: r.header.first, At: r.header.base})
	return nil
}

// fill adds the live entries, and what they say about each block.
func (v *View) fill(c *chain, r *reading) error {
	if n := len(v.blocks); n > 0 {
		v.blocks[n-1].Next = v.tail.next
	}
	live := r.load(c)
	for i, b := range c.blocks {
		info := &v.blocks[i]
		info.Entries, info.Live, info.Bytes, info.LiveBytes = b.count, b.live, b.size, b.bytes
	}
	v.now = newMoment(v, live)
	found, err := investigate(v.dir, v.tail.epoch+1, v.keys(suspectPrefix), positions(live)) // as a start would
	if err == nil {
		v.suspects = found.suspects
	}
	return err
}

// Close lets go of the file.
func (v *View) Close() error {
	if v.store == nil {
		return nil
	}
	return v.store.close()
}

// Info returns the figures of the journal.
func (v *View) Info() Info {
	i := Info{
		Format: int(v.store.version), Epoch: v.tail.epoch, UUID: v.uuid, Next: v.tail.next,
		Oldest: v.tail.oldest, Newest: v.tail.seq, Blocks: len(v.blocks),
		Buried: int(v.tail.sides.morgue.count), Queues: len(v.queues), FileBytes: v.size,
	}
	for _, b := range v.blocks {
		i.Entries += b.Entries
		i.Live += b.Live
		i.Bytes += b.Bytes
		i.LiveBytes += b.LiveBytes
	}
	return i
}

// Blocks lists the blocks of the log, oldest first.
func (v *View) Blocks() []BlockInfo { return slices.Clone(v.blocks) }

// Queues returns the number of every queue, by name.
func (v *View) Queues() map[string]uint32 { return maps.Clone(v.queues) }

// Suspects returns what the next start would: [Log.Suspects].
func (v *View) Suspects() map[Position]Suspicion { return maps.Clone(v.suspects) }

// Keys lists the state keys in key order. An error is yielded once and ends the
// list.
func (v *View) Keys() iter.Seq2[Set, error] {
	return func(yield func(Set, error) bool) {
		for set, err := range v.keys("") {
			if err = v.disturbed(err); !yield(set, err) || err != nil {
				return
			}
		}
	}
}

func (v *View) keys(prefix string) iter.Seq2[Set, error] {
	return func(yield func(Set, error) bool) {
		for kv, err := range list(v.store, bucketState, []byte(prefix)) {
			if err == nil && !strings.HasPrefix(string(kv.key), prefix) {
				return
			}
			if !yield(Set{string(kv.key), kv.value}, err) {
				return
			}
		}
	}
}

// Now returns what a start of the journal would find.
func (v *View) Now() *Moment { return v.now }

// Morgue lists the buried payloads of all queues, by queue and position. An
// error is yielded once and ends the list.
func (v *View) Morgue() iter.Seq2[Buried, error] {
	return func(yield func(Buried, error) bool) {
		for kv, err := range list(v.store, bucketMorgue, nil) {
			var b Buried
			if err = v.disturbed(err); err == nil {
				b, err = parseBuried(kv.key, kv.value)
			}
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}
