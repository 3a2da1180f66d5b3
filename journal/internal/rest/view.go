package rest

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/journal/internal/block"
	"github.com/strandjobs/strand/journal/internal/crash"
	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/pages"
	"github.com/strandjobs/strand/journal/internal/store"
)

// View is a journal that is not open, read without changing it: no
// LOCK is written, no file is locked, no epoch begins. All of it was checked
// and replayed as Open does. Of its live entries, those that fill [AtHand] bytes are
// in memory, and 24 bytes of each other one; they are read back and checked again
// when they are asked for.
//
// One goroutine at a time may use a View; any may read its entries.
type View struct {
	dir      string             // empty: it stays as it is while it is read
	lock     *directory.DirLock // and with this one, too
	store    store.Store
	version  int    // of the format
	txid     uint64 // of the file when it was opened
	size     int64  // of both files, bytes
	manifest format.Manifest
	uuid     string
	queues   map[string]uint32
	live     block.Pending
	blocks   []BlockInfo

	suspects map[format.Position]crash.Suspicion
}

// AtHand is how many bytes of entries a View keeps in memory, unless it is to be less. Most
// journals are smaller; of a larger one only some is asked for, or all of it once.
const AtHand = 32 << 20

// Info are the figures of a journal at rest.
type Info struct {
	Format        int             // version of the format, as a start would leave it
	Epoch         uint64          // how many times the journal was opened
	UUID          string          // of the journal and its copies; empty for one from before there was one
	Next          format.Position // the next position
	Oldest        uint64          `wire:"oldest_block"` // sequence of the first block, and of
	Newest        uint64          `wire:"newest_block"` // the last one; Oldest is the greater one when there is none
	Blocks        int
	Entries, Live int   // in these blocks; the live ones have not ended
	Bytes         int   // of these blocks
	LiveBytes     int   // of live entries in them
	Buried        int   // payloads in the morgue
	Queues        int   // names known
	FileBytes     int64 // of journal.db and journal.wal
}

// BlockInfo describes one block of the log.
type BlockInfo struct {
	Seq           uint64          // its number
	Epoch         uint64          // of the process that wrote it
	First, Next   format.Position // the positions that it used: from First to before Next
	At            time.Time       // when it was begun
	Entries, Live int
	Bytes         int // header and marks included
	LiveBytes     int
}

// Check reads and checks all of the journal in dir.
func Check(dir string) (Info, error) {
	v, err := OpenView(dir, 0)
	if err != nil {
		return Info{}, err
	}
	return v.Info(), v.Close()
}

// OpenView reads the journal in dir. It may be opened meanwhile: see Undisturbed. The argument most is
// how many bytes of live entries stay in memory; 0: there are no entries to hand out, and no suspects.
func OpenView(dir string, most int) (*View, error) {
	if err := identify(dir); err != nil {
		return nil, err
	}
	v := &View{dir: dir}
	if cause := v.Undisturbed(v.open(most)); cause != nil {
		return nil, errors.Join(cause, v.Close())
	}
	return v, nil
}

// ViewOf reads what s has, which must not change until the View is closed; that closes s, too. The
// argument most is as for OpenView.
func ViewOf(s store.Store, most int) (*View, error) {
	v := &View{store: s, version: int(format.FormatVersion)}
	return v, v.load(most)
}

// open is load for the journal in the directory.
func (v *View) open(most int) error {
	if err := v.attach(); err != nil {
		return err
	}
	return v.load(most)
}

// attach opens the files in the directory, and checks what they are.
func (v *View) attach() error {
	path := filepath.Join(v.dir, directory.FileName)
	var err error
	if v.txid, err = youngest(path); err != nil {
		return err
	}
	if err := pages.Check(path); err != nil {
		return err
	}
	file, err := store.ReadBolt(path)
	if err != nil {
		return err
	}
	l := &store.Logged{Bolt: file}
	v.store = l
	if info, err := file.File.Stat(); err == nil {
		v.size = info.Size()
	}
	// bbolt takes a shared lock. Given back, it keeps no starting owner out;
	// Undisturbed notices one instead.
	if err := errors.Join(directory.UnlockFile(file.File), file.Check()); err != nil {
		return err
	}
	v.version = int(min(file.Version, format.FormatVersion)) // as a start would leave it
	if info, err := os.Lstat(filepath.Join(v.dir, directory.WALFile)); err == nil {
		v.size += info.Size()
	}
	return l.Replay(func(name string, _ int) (*os.File, error) { return directory.OpenFile(filepath.Join(v.dir, name)) })
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

// Undisturbed tells why what was read since OpenView does not count: err, if the
// journal is still as it was, and otherwise that a process has opened it. Who has
// read entries asks before trusting them.
func (v *View) Undisturbed(err error) error {
	if v.dir == "" || v.lock != nil {
		return err
	}
	if held := directory.HeldBy(v.dir); held != nil {
		return held
	}
	txid, broken := youngest(filepath.Join(v.dir, directory.FileName))
	if broken == nil && v.txid != 0 && txid != v.txid {
		return directory.LockedBy(v.dir)
	}
	return err
}

// load replays the log without the commit that Open makes after it. most is how many bytes of its
// entries stay in memory; 0: there are none to hand out.
func (v *View) load(most int) (err error) {
	var noManifest, noUUID error
	v.queues, err = store.ReadQueues(v.store)
	v.manifest, noManifest = store.ReadManifest(v.store)
	v.uuid, noUUID = store.ReadUUID(v.store)
	if err = cmp.Or(err, noManifest, noUUID); err != nil {
		return err
	}
	if most > 0 {
		err = v.replay(most)
	} else {
		err = v.survey()
	}
	if err != nil {
		return err
	}
	keys := store.Pages(v.store.Page).Sets(crash.SuspectPrefix, "")
	found, err := crash.Investigate(v.dir, v.manifest.Epoch+1, keys, v.live.Positions()) // as a start would
	if err == nil {
		v.suspects = found.Suspects
	}
	return err
}

// survey reads the log twice: what of it is live is known at its end.
func (v *View) survey() error {
	s := block.NewSurvey()
	if err := v.scan(s, s.Block); err != nil {
		return err
	}
	rest := v.blocks
	return v.store.Scan(func(seq uint64, data []byte) (err error) {
		if len(rest) == 0 || rest[0].Seq != seq {
			return format.DamagedBlock(seq, "it was not there a moment ago")
		}
		rest[0].Live, rest[0].LiveBytes, err = s.Surviving(seq, data)
		rest = rest[1:]
		return err
	})
}

// replay reads the log once, and keeps where its entries are.
func (v *View) replay(most int) error {
	c := block.NewChain(v.store, block.Limits{Memory: most}, func(error) {})
	r := block.NewReading(c.SettleIn)
	if err := v.scan(r.Survey, r.Block); err != nil {
		return err
	}
	v.live = r.Load(c)
	for i, b := range c.Blocks {
		v.blocks[i].Live, v.blocks[i].LiveBytes = b.Live, b.Bytes
	}
	return nil
}

// scan has s take in each block, and notes what there is to say about it by itself.
func (v *View) scan(s *block.Survey, take func(seq uint64, data []byte) error) error {
	next := func(p format.Position) {
		if n := len(v.blocks); n > 0 {
			v.blocks[n-1].Next = p
		}
	}
	err := v.store.Scan(func(seq uint64, data []byte) error {
		if err := take(seq, data); err != nil {
			return err
		}
		h := &s.Header
		next(h.First)
		v.blocks = append(v.blocks, BlockInfo{Seq: seq, Epoch: h.Epoch, First: h.First, At: time.Unix(0, h.Base), Entries: h.Count, Bytes: len(data)})
		return nil
	})
	if err != nil {
		return err
	}
	next(v.manifest.Next)
	return s.Finish(v.manifest)
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
		Format: v.version, Epoch: v.manifest.Epoch, UUID: v.uuid, Next: v.manifest.Next,
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

// Suspects returns what [Log.Crash] would at the next start.
func (v *View) Suspects() map[format.Position]crash.Suspicion { return maps.Clone(v.suspects) }

// Unclaimed returns the number of live payloads that each queue has, without those
// that PendingPages has handed over.
func (v *View) Unclaimed() map[uint32]int { return v.live.Counts() }

// PendingPages hands over what a start would: the live entries of a queue in position
// order, in pages, of which the caller lets go as it takes them in. A second call
// returns none.
func (v *View) PendingPages(queue uint32) [][]block.Ref { return v.live.Take(queue) }

// Buried returns how many payloads each queue has in the morgue.
func (v *View) Buried() map[uint32]int { return v.store.Buried() }

// Keys lists the state keys, or those with a prefix, in key order. An error is yielded once and
// ends the list.
func (v *View) Keys(prefix ...string) iter.Seq2[format.Set, error] {
	return store.Pages(v.page).Sets(strings.Join(prefix, ""), "")
}

// Morgue lists the buried payloads of a queue, or of all queues without one, by queue and
// position. An error is yielded once and ends the list.
func (v *View) Morgue(queue ...uint32) iter.Seq2[format.Buried, error] {
	var prefix []byte
	if len(queue) > 0 {
		prefix = binary.BigEndian.AppendUint32(nil, queue[0])
	}
	return store.Pages(v.page).Burials(prefix, prefix)
}

// page is one of a bucket, if the journal is as it was.
func (v *View) page(name format.Bucket, from []byte) ([]format.Pair, error) {
	page, err := v.store.Page(name, from)
	return page, v.Undisturbed(err)
}
