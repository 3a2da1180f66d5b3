package rest

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/strandjobs/strand/journal/internal/block"
	"github.com/strandjobs/strand/journal/internal/crash"
	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/pages"
	"github.com/strandjobs/strand/journal/internal/store"
)

// View is a journal that is not open, read without changing it: no
// LOCK is written, no file is locked, no epoch begins. All of it was checked
// and replayed as Open does, and its live entries are in memory.
//
// One goroutine at a time may use a View.
type View struct {
	dir      string
	store    *store.Bolt
	txid     uint64 // of the file when it was opened
	size     int64  // of the file, bytes
	manifest format.Manifest
	uuid     string
	queues   map[string]uint32
	now      *Moment
	blocks   []BlockInfo

	suspects map[format.Position]crash.Suspicion
}

// Info are the figures of a journal at rest.
type Info struct {
	Format         int             // version of the format
	Epoch          uint64          // how many times the journal was opened
	UUID           string          // of the journal and its copies; empty for one from before there was one
	Next           format.Position // the next position
	Oldest, Newest uint64          // sequence of the first and last block; Oldest is the greater one when there is none
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
	Seq           uint64          // its number
	Epoch         uint64          // of the process that wrote it
	First, Next   format.Position // the positions that it used: from First to before Next
	At            int64           // when it was begun, Unix ns
	Entries, Live int
	Bytes         int // header and marks included
	LiveBytes     int
}

// Check reads and checks all of the journal in dir, without writing to it, not even
// the LOCK file, and returns its figures. Damage is an error that matches
// ErrCorrupt; the others are those of [OpenView].
func Check(dir string) (Info, error) {
	v, err := OpenView(dir)
	if err != nil {
		return Info{}, err
	}
	return v.Info(), v.Close()
}

// OpenView reads the journal in dir. It returns a [format.LockedError] when a
// process has it open or opens it meanwhile, and otherwise the errors of [Open],
// except that a directory without a journal is an error, too: ErrNotJournal.
//
// A process that opens the journal while it is being read is not held up.
func OpenView(dir string) (*View, error) {
	if err := identify(dir); err != nil {
		return nil, err
	}
	if err := directory.HeldBy(dir); err != nil {
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
	path := filepath.Join(v.dir, directory.FileName)
	if v.txid, err = youngest(path); err != nil {
		return err
	}
	if err := pages.Check(path); err != nil {
		return err
	}
	if v.store, err = store.ReadBolt(path); err != nil {
		return err
	}
	// bbolt takes a shared lock. Given back, it keeps no starting owner out;
	// disturbed notices one instead.
	return errors.Join(directory.UnlockFile(v.store.File), v.store.Check())
}

// youngest returns the number of the last commit to a bbolt file.
func youngest(path string) (uint64, error) {
	f, err := directory.OpenFile(path)
	if err != nil {
		return 0, fmt.Errorf("journal: %w", err)
	}
	defer f.Close()
	m, _, err := pages.ReadMetas(f, path)
	return m.Txid, err
}

// disturbed tells why what was read does not count: err, if the journal is still as
// it was, and otherwise that a process has opened it.
func (v *View) disturbed(err error) error {
	if held := directory.HeldBy(v.dir); held != nil {
		return held
	}
	txid, broken := youngest(filepath.Join(v.dir, directory.FileName))
	if broken == nil && v.txid != 0 && txid != v.txid {
		return directory.LockedBy(v.dir)
	}
	return err
}

// load replays the log without the commit that Open makes after it.
func (v *View) load() error {
	if info, err := v.store.File.Stat(); err == nil {
		v.size = info.Size()
	}
	var err error
	if v.queues, err = store.ReadQueues(v.store); err != nil {
		return err
	}
	c := block.NewChain(v.store, block.Limits{Memory: -1}, nil)
	r := block.NewReading(c.SettleIn)
	if err := v.store.Scan(func(seq uint64, data []byte) error { return v.block(r, seq, data) }); err != nil {
		return err
	}
	t, err := store.ReadManifest(v.store)
	if err == nil {
		err = r.Finish(t)
	}
	if err != nil {
		return err
	}
	v.manifest = t
	if v.uuid, err = store.ReadUUID(v.store); err != nil {
		return err
	}
	return v.fill(c, r)
}

// block takes in a block, and what there is to say about it by itself.
func (v *View) block(r *block.Reading, seq uint64, data []byte) error {
	if err := r.Block(seq, data); err != nil {
		return err
	}
	if n := len(v.blocks); n > 0 {
		v.blocks[n-1].Next = r.Header.First
	}
	v.blocks = append(v.blocks, BlockInfo{Seq: seq, Epoch: r.Header.Epoch, First: r.Header.First, At: r.Header.Base})
	return nil
}

// fill adds the live entries, and what they say about each block.
func (v *View) fill(c *block.Chain, r *block.Reading) error {
	if n := len(v.blocks); n > 0 {
		v.blocks[n-1].Next = v.manifest.Next
	}
	live := r.Load(c)
	for i, b := range c.Blocks {
		info := &v.blocks[i]
		info.Entries, info.Live, info.Bytes, info.LiveBytes = b.Count, b.Live, b.Size, b.Bytes
	}
	v.now = newMoment(v, live)
	found, err := crash.Investigate(v.dir, v.manifest.Epoch+1, v.keys(crash.SuspectPrefix), block.Positions(live)) // as a start would
	if err == nil {
		v.suspects = found.Suspects
	}
	return err
}

// Close lets go of the file.
func (v *View) Close() error {
	if v.store == nil {
		return nil
	}
	return v.store.Close()
}

// Info returns the figures of the journal.
func (v *View) Info() Info {
	i := Info{
		Format: int(v.store.Version), Epoch: v.manifest.Epoch, UUID: v.uuid, Next: v.manifest.Next,
		Oldest: v.manifest.Oldest, Newest: v.manifest.Seq, Blocks: len(v.blocks),
		Buried: int(v.manifest.Sides.Morgue.Count), Queues: len(v.queues), FileBytes: v.size,
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
func (v *View) Suspects() map[format.Position]crash.Suspicion { return maps.Clone(v.suspects) }

// Keys lists the state keys in key order. An error is yielded once and ends the
// list.
func (v *View) Keys() iter.Seq2[format.Set, error] {
	return func(yield func(format.Set, error) bool) {
		for set, err := range v.keys("") {
			if err = v.disturbed(err); !yield(set, err) || err != nil {
				return
			}
		}
	}
}

func (v *View) keys(prefix string) iter.Seq2[format.Set, error] {
	return func(yield func(format.Set, error) bool) {
		for kv, err := range store.List(v.store, format.BucketState, []byte(prefix)) {
			if err == nil && !strings.HasPrefix(string(kv.Key), prefix) {
				return
			}
			if !yield(format.Set{Key: string(kv.Key), Value: kv.Value}, err) {
				return
			}
		}
	}
}

// Now returns what a start of the journal would find.
func (v *View) Now() *Moment { return v.now }

// Morgue lists the buried payloads of all queues, by queue and position. An
// error is yielded once and ends the list.
func (v *View) Morgue() iter.Seq2[format.Buried, error] {
	return func(yield func(format.Buried, error) bool) {
		for kv, err := range store.List(v.store, format.BucketMorgue, nil) {
			var b format.Buried
			if err = v.disturbed(err); err == nil {
				b, err = format.ParseBuried(kv.Key, kv.Value)
			}
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}
