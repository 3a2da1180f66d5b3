package rest

import (
	"errors"
	"fmt"

	"github.com/strandjobs/strand/journal/internal/block"
	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
)

// ErrContent is returned by a [Builder] for something that no journal holds.
var ErrContent = errors.New("journal: not the content of a journal")

// buildBlock is how large a Builder lets a block become.
const buildBlock = 1 << 20

// Builder writes a new journal entry by entry, at the positions that they had
// in another one. The journal appears under its name when it is whole and on
// disk, or not at all: until then it is a draft beside it, see the package
// comment.
//
// One goroutine at a time may use a Builder. After an error only Discard is of
// use.
type Builder struct {
	draft    *directory.Draft // nil: the journal is elsewhere, see [BuildOn], or has its name
	store    *store.Bolt      // of the draft
	write    func(*store.Transaction) error
	most     int // bytes that a block and its changes may have
	open     block.Writer
	manifest format.Manifest
	changes  []format.Edit
	size     int               // of changes, bytes
	taken    block.PositionSet // nil: nobody asks
	queues   map[string]uint32
	numbers  map[uint32]bool
}

// NewBuilder begins a journal in dir, which must not be there yet.
func NewBuilder(dir string, next format.Position, epoch uint64) (*Builder, error) {
	d, err := directory.NewDraft(dir)
	if err != nil {
		return nil, err
	}
	b := BuildOn(nil, next, epoch, buildBlock)
	b.draft, b.taken = d, block.PositionSet{}
	if b.store, err = store.OpenBolt(d.Lock.Place); err != nil {
		return nil, errors.Join(err, b.Discard())
	}
	b.write = b.store.Commit
	return b, nil
}

// BuildOn begins a journal that is empty where write puts it, in blocks of most bytes or
// so. What the last transaction has, which Finish writes, counts together with those before:
// write keeps them from being seen until then. To discard them is its business, too. What
// comes is of a journal that was checked: positions that come twice are not looked for.
func BuildOn(write func(*store.Transaction) error, next format.Position, epoch uint64, most int) *Builder {
	b := &Builder{
		write: write, most: most, queues: map[string]uint32{}, numbers: map[uint32]bool{},
		manifest: format.Manifest{Oldest: 1, Next: max(next, 1), Epoch: epoch},
	}
	b.open = block.NewWriter(nil, b.manifest)
	return b
}

// Queue gives a queue its number. Numbers are from 1 to the number of queues,
// in any order; Finish refuses others.
func (b *Builder) Queue(name string, number uint32) error {
	if name == "" || len(name) > format.MaxQueueName {
		return fmt.Errorf("%w, not %d", format.ErrQueueName, len(name))
	}
	if _, known := b.queues[name]; known || b.numbers[number] || number == 0 {
		return fmt.Errorf("%w: queue %q with number %d: zero, or not the first one", ErrContent, name, number)
	}
	b.queues[name], b.numbers[number] = number, true
	return b.change(format.QueueEdit(name, number))
}

// Add writes a live entry at its position.
func (b *Builder) Add(e format.Entry) error {
	if e.Kind != format.KindEnqueued && e.Kind != format.KindState {
		return fmt.Errorf("%w: an entry of kind %d", ErrContent, e.Kind)
	}
	if err := b.take(&e); err != nil {
		return err
	}
	b.open.Add(&e, true)
	if b.open.Size()+b.size < b.most {
		return nil
	}
	return b.commit()
}

// Bury writes a payload of the morgue.
func (b *Builder) Bury(d format.Buried) error {
	if d.Entry.Kind != format.KindEnqueued {
		return fmt.Errorf("%w: a buried entry of kind %d", ErrContent, d.Entry.Kind)
	}
	if err := b.take(&d.Entry); err != nil {
		return err
	}
	return b.change(d.Edit())
}

// Set writes a state key.
func (b *Builder) Set(s format.Set) error {
	if s.Key == "" || s.Value == nil {
		return fmt.Errorf("%w: a state key without name or value", ErrContent)
	}
	if err := checkSuspect(s); err != nil {
		return fmt.Errorf("%w: %w", ErrContent, err)
	}
	return b.change(s.Edit())
}

// checkSuspect checks a state key that opening a journal reads. The others are the
// consumer's business.
func checkSuspect(s format.Set) error {
	return store.CheckSide(format.BucketState, []byte(s.Key), s.Value, nil)
}

func (b *Builder) take(e *format.Entry) error {
	switch p := e.Position; {
	case !b.numbers[e.Queue]:
		return fmt.Errorf("%w: position %d has queue %d, which has no name", ErrContent, p, e.Queue)
	case p == 0 || p >= b.manifest.Next:
		return fmt.Errorf("%w: position %d is not between 0 and the next one, %d", ErrContent, p, b.manifest.Next)
	case b.taken != nil && b.taken.Has(p):
		return fmt.Errorf("%w: position %d comes twice", ErrContent, p)
	case format.EntryBound(e) > format.MaxAppendBytes:
		return fmt.Errorf("%w: position %d", format.ErrTooLarge, p)
	}
	if b.taken != nil {
		b.taken.Add(e.Position)
	}
	return nil
}

func (b *Builder) change(c format.Edit) error {
	b.changes = append(b.changes, c)
	if b.size += len(c.Key) + len(c.Value); b.size < b.most {
		return nil
	}
	return b.commit()
}

// commit writes what has gathered.
func (b *Builder) commit() error {
	t := &store.Transaction{Changes: b.changes}
	if b.open.Block.Count > 0 {
		b.manifest.Seq++
		t.Seq, t.Block = b.manifest.Seq, b.open.Seal(b.manifest.Epoch)
	}
	t.Manifest = b.manifest
	if err := b.write(t); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	b.open, b.changes, b.size = block.NewWriter(&b.open, b.manifest), nil, 0
	return nil
}

// Finish makes the journal appear.
func (b *Builder) Finish() error {
	for number := range b.numbers {
		if int(number) > len(b.numbers) {
			return errors.Join(fmt.Errorf("%w: %d queues, one has number %d", ErrContent, len(b.numbers), number), b.Discard())
		}
	}
	err := b.commit()
	if b.draft == nil {
		return err
	}
	if err = errors.Join(err, b.store.Close()); err == nil {
		err = b.draft.Reveal()
	}
	if err != nil {
		return errors.Join(err, b.Discard())
	}
	b.draft = nil
	return nil
}

// Discard gives up. After Finish it has no effect.
func (b *Builder) Discard() error {
	if b.draft == nil {
		return nil
	}
	var err error
	if b.store != nil {
		err = b.store.Close() // once more has no effect
	}
	return errors.Join(err, b.draft.Discard())
}
