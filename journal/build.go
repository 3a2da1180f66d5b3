package journal

import (
	"errors"
	"fmt"
	"strings"
)

// ErrExists is returned when a new journal is to be made where something is.
var ErrExists = errors.New("journal: already exists; give a new directory")

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
	*draft
	store   *bolt
	open    *openBlock
	tail    tail
	changes []change
	size    int // of changes, bytes
	taken   positionSet
	queues  map[string]uint32
	numbers map[uint32]bool
	built   bool
}

// NewBuilder begins a journal in dir, which must not be there yet. Its
// positions go on at next, its epochs after epoch.
func NewBuilder(dir string, next Position, epoch uint64) (*Builder, error) {
	d, err := newDraft(dir)
	if err != nil {
		return nil, err
	}
	b := &Builder{
		draft: d, taken: positionSet{}, queues: map[string]uint32{}, numbers: map[uint32]bool{},
		tail: tail{oldest: 1, next: max(next, 1), epoch: epoch},
	}
	if b.store, err = openBolt(d.lock.place); err != nil {
		return nil, errors.Join(err, b.Discard())
	}
	b.open = newOpenBlock(nil, b.tail)
	return b, nil
}

// Queue gives a queue its number. Numbers are from 1 to the number of queues,
// in any order; Finish refuses others.
func (b *Builder) Queue(name string, number uint32) error {
	if name == "" || len(name) > maxQueueName {
		return fmt.Errorf("%w, not %d", ErrQueueName, len(name))
	}
	if _, known := b.queues[name]; known || b.numbers[number] || number == 0 {
		return fmt.Errorf("%w: queue %q with number %d: zero, or not the first one", ErrContent, name, number)
	}
	b.queues[name], b.numbers[number] = number, true
	return b.change(queueChange(name, number))
}

// Add writes a live entry at its position.
func (b *Builder) Add(e Entry) error {
	if e.Kind != KindEnqueued && e.Kind != KindState {
		return fmt.Errorf("%w: an entry of kind %d", ErrContent, e.Kind)
	}
	if err := b.take(&e); err != nil {
		return err
	}
	b.open.add(&e, true)
	if b.open.size()+b.size < buildBlock {
		return nil
	}
	return b.commit()
}

// Bury writes a payload of the morgue.
func (b *Builder) Bury(d Buried) error {
	if d.Entry.Kind != KindEnqueued {
		return fmt.Errorf("%w: a buried entry of kind %d", ErrContent, d.Entry.Kind)
	}
	if err := b.take(&d.Entry); err != nil {
		return err
	}
	c, err := buriedChange(&d)
	if err != nil {
		return err
	}
	return b.change(c)
}

// Set writes a state key.
func (b *Builder) Set(s Set) error {
	if s.Key == "" || s.Value == nil {
		return fmt.Errorf("%w: a state key without name or value", ErrContent)
	}
	if strings.HasPrefix(s.Key, suspectPrefix) { // the others are the consumer's business
		if _, _, err := parseSuspicion(s.Key, s.Value); err != nil {
			return fmt.Errorf("%w: %w", ErrContent, err)
		}
	}
	return b.change(s.change())
}

func (b *Builder) take(e *Entry) error {
	switch p := e.Position; {
	case !b.numbers[e.Queue]:
		return fmt.Errorf("%w: position %d has queue %d, which has no name", ErrContent, p, e.Queue)
	case p == 0 || p >= b.tail.next:
		return fmt.Errorf("%w: position %d is not between 0 and the next one, %d", ErrContent, p, b.tail.next)
	case b.taken.has(p):
		return fmt.Errorf("%w: position %d comes twice", ErrContent, p)
	case entryBound(e) > maxAppendBytes:
		return fmt.Errorf("%w: position %d", ErrTooLarge, p)
	}
	b.taken.add(e.Position)
	return nil
}

func (b *Builder) change(c change) error {
	b.changes = append(b.changes, c)
	if b.size += len(c.key) + len(c.value); b.size < buildBlock {
		return nil
	}
	return b.commit()
}

// commit writes what has gathered.
func (b *Builder) commit() error {
	t := &transaction{changes: b.changes}
	if b.open.block.count > 0 {
		b.tail.seq++
		t.seq, t.block = b.tail.seq, b.open.seal(b.tail.epoch, false)
	}
	t.tail = b.tail
	if err := b.store.commit(t); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	b.open, b.changes, b.size = newOpenBlock(b.open, b.tail), nil, 0
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
	if err = errors.Join(err, b.store.close()); err == nil {
		b.store, b.built = nil, true
		err = b.reveal()
	}
	if err != nil {
		b.built = false
		return errors.Join(err, b.Discard())
	}
	return nil
}

// Discard gives up. After Finish it has no effect.
func (b *Builder) Discard() error {
	if b.built {
		return nil
	}
	var err error
	if b.store != nil {
		err = b.store.close()
		b.store = nil
	}
	return errors.Join(err, b.discard())
}

// buriedChange is [Burial.change] for a payload that is in no log.
func buriedChange(d *Buried) (change, error) {
	block := newOpenBlock(nil, tail{next: d.Entry.Position + 1})
	ref := block.add(&d.Entry, true)
	block.block.home.Store(&home{data: block.entries})
	burial := Burial{Ref: ref, Retry: d.Retry, Reason: d.Reason, At: d.At, History: d.History}
	return burial.change()
}
