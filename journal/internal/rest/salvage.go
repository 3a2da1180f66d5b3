package rest

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/strandjobs/strand/journal/internal/block"
	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
	"github.com/strandjobs/strand/journal/internal/wal"
)

// Salvaged says what was found in a damaged journal and what was not.
type Salvaged struct {
	Blocks int // intact
	Live   int // entries that had not ended
	Buried int // payloads in the morgue
	Queues int
	Keys   int    `wire:",omit"` // state keys: offsets, idempotency keys, locks, slots, suspects
	Losses []Loss `wire:"-"`
}

// Loss is one thing that could not be read.
type Loss struct {
	Block  uint64 `wire:",omit"` // its number; 0 when it is no block
	Reason string
	// Jobs are entries that can still be made out in a damaged block. They
	// may be wrong: a bit may have flipped in them, too, and some may have
	// ended. They are not in the new journal.
	Jobs []LostJob `wire:",omit"`
}

// LostJob is an entry of a damaged block.
type LostJob struct {
	Queue    string // "" when the number has no name
	ID       []byte
	Position format.Position
	State    bool `wire:",omit"` // of the job, not a payload
}

// How far the positions and the epoch of a salvaged journal jump when its end was lost, so that
// none is used twice. Tokens are epochs times 1<<32, and above 1<<53 JSON readers take one for another.
const (
	positionsAfterLoss = 1 << 20
	epochsAfterLoss    = 1 << 10
)

// Salvage writes what is intact of the journal in dir to a new one; with an empty
// newDir it only looks. A state key of which a check returns an error is lost.
func Salvage(dir, newDir string, checks ...func(format.Set) error) (report *Salvaged, err error) {
	v := &View{dir: dir}
	if newDir == "" {
		err = identify(dir)
	} else {
		v, err = lockAtRest(dir)
	}
	if err != nil {
		return nil, err
	}
	defer func() { // also when a check panics
		if err = errors.Join(err, v.lock.Undo()); err != nil {
			report = nil
		}
	}()
	f, err := directory.OpenFile(filepath.Join(dir, directory.FileName))
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	defer f.Close()
	w, err := openWreck(f)
	if err != nil {
		return nil, err
	}
	v.txid = w.txid
	r := &rescue{wreck: w, from: v, log: filepath.Join(dir, directory.WALFile), s: block.NewSurvey(), report: &Salvaged{}, checks: checks}
	if err := r.look(); err != nil || newDir == "" {
		return r.report, v.Undisturbed(err)
	}
	return r.report, r.write(newDir)
}

// rescue is the way from a wreck to a new journal.
type rescue struct {
	*wreck
	from     *View
	log      string // where it is, if one stands on what was found
	s        *block.Survey
	manifest format.Manifest
	stale    bool              // an older commit than the last one has left the manifest, or it was made up
	skip     bool              // positions and epochs, which may have been used behind the end
	edits    []format.Edit     // of what stands beside the log, after all that the file has
	intact   []uint64          // sequence of blocks
	names    map[uint32]string // of queues
	buried   []format.Buried
	state    []format.Set
	report   *Salvaged
	checks   []func(format.Set) error // of state keys
}

func (r *rescue) lose(block uint64, format string, args ...any) *Loss {
	r.report.Losses = append(r.report.Losses, Loss{Block: block, Reason: fmt.Sprintf(format, args...)})
	return &r.report.Losses[len(r.report.Losses)-1]
}

// look finds out what is there.
func (r *rescue) look() error {
	if r.version > format.OpenVersion && !slices.ContainsFunc(r.manifests, r.isLast) {
		return fmt.Errorf("%w: %s has version %d, this is version %d", format.ErrTooNew, directory.FileName, r.version, format.OpenVersion)
	}
	for _, what := range r.damage {
		r.lose(0, "%s", what)
	}
	seqs := r.findManifest()
	if len(r.manifests) > 0 && r.manifest.Version < format.FormatVersion {
		return fmt.Errorf("journal: %s has format %d, of which nothing is salvaged; a version of this package that wrote it may do so",
			directory.FileName, r.manifest.Version)
	}
	if r.version < format.FormatVersion || r.version > format.OpenVersion {
		r.lose(0, "the format version of the file")
	}
	r.findQueues()
	r.editQueues()
	if err := r.findBlocks(seqs); err != nil {
		return err
	}
	if r.skip {
		r.manifest.Next += positionsAfterLoss
		r.manifest.Epoch += epochsAfterLoss
	}
	r.findMorgue()
	r.findState()
	if len(r.intact)+len(r.names)+len(r.buried) == 0 && len(r.manifests) == 0 {
		return fmt.Errorf("%w: nothing of a journal was found in %s", format.ErrNotJournal, directory.FileName)
	}
	r.survivors()
	return nil
}

// findManifest takes the end mark of the last commit. When that is not known, it
// takes the newest one whose block is there, and the blocks behind that, or makes
// one up. It returns the blocks that belong to the log.
func (r *rescue) findManifest() []uint64 {
	slices.SortFunc(r.manifests, func(a, b format.Manifest) int {
		return -cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Next, b.Next), cmp.Compare(a.Tx, b.Tx))
	})
	if len(r.manifests) == 0 {
		r.manifest, r.skip, r.stale = format.Manifest{Oldest: 1, Next: 1}, true, true
		r.lose(0, "the end mark of the log: the newest blocks may be missing, and old ones may be back")
		return slices.Sorted(maps.Keys(r.chunks))
	}
	// Its block may be missing, but it was there.
	last := slices.IndexFunc(r.manifests, r.isLast)
	known := last >= 0
	if !known {
		last = max(slices.IndexFunc(r.manifests, func(t format.Manifest) bool { return r.sound(t.Seq) }), 0)
		r.skip, r.stale = true, r.txid != 0
	}
	r.manifest = r.manifests[last]
	r.findLog()
	if !known {
		for r.sound(r.manifest.Seq + 1) {
			r.manifest.Seq++
		}
		r.lose(0, "the end mark of the last commit: newer blocks than %d may be missing", r.manifest.Seq)
	}
	seqs := slices.Concat(slices.Collect(maps.Keys(r.chunks)), slices.Collect(maps.Keys(r.late)))
	slices.Sort(seqs)
	seqs = slices.Compact(seqs)
	from, _ := slices.BinarySearch(seqs, r.manifest.Oldest)
	to, _ := slices.BinarySearch(seqs, r.manifest.Seq+1)
	return seqs[min(from, to):to]
}

// findLog takes the records that stand on the end mark, and moves it to where they end.
func (r *rescue) findLog() {
	if r.manifest.Log == 0 {
		return
	}
	lost := func(cause error) {
		r.lose(0, "%s; some of what was accepted last may be missing", reasonOf(cause))
		r.skip = true
	}
	f, err := directory.OpenFile(r.log)
	if err == nil {
		defer f.Close()
		err = wal.Read(f, r.manifest.Log, r.manifest.Records, r.manifest.Encode(), func(record []byte) error {
			t, err := store.ParseRecord(record)
			if err != nil {
				lost(err)
				return nil
			}
			r.late[t.Seq] = t.Block
			r.edits = append(r.edits, t.Changes...)
			end := t.Manifest
			end.Sides, end.Version = r.manifest.Sides, r.manifest.Version // they are of what the file has
			r.manifest = end
			return nil
		}, func(damage error) error { lost(damage); return nil })
	}
	if err != nil {
		lost(err)
	}
}

// editQueues changes the names of queues as the records do.
func (r *rescue) editQueues() {
	for _, c := range r.edits {
		if c.Bucket != format.BucketQueues {
			continue
		}
		maps.DeleteFunc(r.names, func(_ uint32, name string) bool { return name == string(c.Key) })
		if number, err := format.ParseQueue(c.Key, c.Value); err == nil { // else it is deleted
			r.names[number] = string(c.Key)
		}
	}
}

// findBlocks looks at every block that should be there.
func (r *rescue) findBlocks(seqs []uint64) error {
	next := r.manifest.Oldest
	if len(r.manifests) == 0 && len(seqs) > 0 {
		next = seqs[0]
	}
	for _, seq := range seqs {
		r.gap(next, seq)
		if err := r.block(seq); err != nil {
			return err
		}
		next = seq + 1
	}
	r.gap(next, r.manifest.Seq+1)
	return nil
}

// gap notes that the blocks from one to before another are missing.
func (r *rescue) gap(from, to uint64) {
	switch {
	case from+1 == to:
		r.lose(from, "missing")
	case from < to:
		r.lose(from, "missing, and all up to block %d", to-1)
	}
}

// block looks at one block, of which little may be left.
func (r *rescue) block(seq uint64) error {
	data, err := r.assemble(seq)
	if err == nil {
		r.s.Newest = 0 // each by itself: the one before it may be missing
		err = r.s.Block(seq, data)
	}
	if errors.Is(err, format.ErrTooNew) {
		return err
	}
	if err != nil {
		r.lose(seq, "%s", reasonOf(err)).Jobs = r.suspects(data)
		return nil
	}
	r.manifest.Epoch = max(r.manifest.Epoch, r.s.Header.Epoch)
	r.manifest.Next = max(r.manifest.Next, r.s.Next)
	r.intact = append(r.intact, seq)
	return nil
}

func reasonOf(err error) string {
	if c, ok := errors.AsType[*format.CorruptError](err); ok {
		return c.Reason
	}
	return err.Error()
}

// suspects reads the entries of a damaged block as far as they make sense.
func (r *rescue) suspects(data []byte) (jobs []LostJob) {
	if len(data) < format.HeaderSize || [4]byte(data[:4]) != format.BlockMagic {
		return nil
	}
	n := binary.LittleEndian
	first, base := format.Position(n.Uint64(data[32:])), int64(n.Uint64(data[40:]))
	d := format.Decoder{B: data, Off: format.HeaderSize}
	var e format.Entry
	for range min(int(n.Uint32(data[52:])), len(data)) {
		if d.Entry(&e, first, base); d.Err != nil || len(e.ID) == 0 {
			break
		}
		jobs = append(jobs, LostJob{Queue: r.names[e.Queue], ID: slices.Clone(e.ID), Position: e.Position, State: e.Kind == format.KindState})
	}
	return jobs
}

// survivors counts the live entries.
func (r *rescue) survivors() {
	r.report.Blocks = len(r.intact)
	r.each(func(e *format.Entry) error {
		r.nameless(e.Queue)
		r.report.Live++
		return nil
	})
	for _, b := range r.buried {
		r.nameless(b.Entry.Queue)
	}
	r.report.Queues = len(r.names)
}

// nameless makes a name up for a queue if it has none. A person can start a
// queue of that name, or change it in an export.
func (r *rescue) nameless(number uint32) {
	if _, named := r.names[number]; named {
		return
	}
	name := fmt.Sprintf("lost-queue-%d", number)
	for r.queues.tree[name] != nil || r.queues.loose[name] != nil {
		name += "-"
	}
	r.lose(0, "the name of queue %d, now called %q", number, name)
	r.names[number] = name
}

// each calls f for every live entry of the intact blocks.
func (r *rescue) each(f func(*format.Entry) error) error {
	for _, seq := range r.intact {
		data, err := r.assemble(seq)
		if err != nil {
			return err
		}
		h, err := format.ParseHeader(data, seq)
		if err != nil {
			return err
		}
		var failed error
		err = h.Scan(data, func(_ uint32, _ int, e *format.Entry) {
			if failed == nil && r.s.Live(e.Position, seq) {
				failed = f(e)
			}
		}, nil)
		if err = cmp.Or(failed, err); err != nil {
			return err
		}
	}
	return nil
}

// write makes the new journal.
func (r *rescue) write(dir string) error {
	b, err := NewBuilder(dir, r.manifest.Next, r.manifest.Epoch)
	if err != nil {
		return err
	}
	if err := r.from.Undisturbed(r.fill(b)); err != nil {
		return errors.Join(err, b.Discard())
	}
	return b.Finish()
}

func (r *rescue) fill(b *Builder) error {
	// Numbers without gaps: a new queue gets the next one.
	numbers := make(map[uint32]uint32)
	for i, old := range slices.Sorted(maps.Keys(r.names)) {
		numbers[old] = uint32(i) + 1
		if err := b.Queue(r.names[old], numbers[old]); err != nil {
			return err
		}
	}
	err := r.each(func(e *format.Entry) error {
		e.Queue = numbers[e.Queue]
		return b.Add(*e)
	})
	for i := 0; err == nil && i < len(r.buried); i++ {
		d := r.buried[i]
		d.Entry.Queue = numbers[d.Entry.Queue]
		err = b.Bury(d)
	}
	for i := 0; err == nil && i < len(r.state); i++ {
		err = b.Set(r.state[i])
	}
	return err
}
