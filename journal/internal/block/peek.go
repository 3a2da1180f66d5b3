package block

import "github.com/strandjobs/strand/journal/internal/format"

// Peek decodes the entry into e for a caller who can't know whether it has ended: one
// who got the Ref from its owner a moment ago, and looks on while the owner goes on.
// False: it has ended, and is gone. True of one that has ended, and is still there.
//
// The zero Ref is not found. Like Read it may read the disk. But an error does not fail the log: who only looks
// is no reason to stop.
func (r Ref) Peek(e *format.Entry) (found bool, err error) {
	return r.peek(func(d *format.Decoder, b *Block) { d.Entry(e, b.First, b.Base) })
}

// PeekID is Peek for the id alone, which is cheaper. It must not be changed.
func (r Ref) PeekID() (id []byte, found bool, err error) {
	if r.IsZero() {
		return nil, false, nil
	}
	if at, rest := r.follow(r.Block.Home.Load()); rest != nil && rest.Cold == nil {
		d := format.Decoder{B: rest.data, Off: int(at.Off)} // no allocation: there may be millions
		id, _ = d.Head()
		return id, true, nil
	}
	found, err = r.peek(func(d *format.Decoder, _ *Block) { id, _ = d.Head() })
	return id, found, err
}

func (r Ref) peek(f func(*format.Decoder, *Block)) (found bool, err error) {
	if r.IsZero() {
		return false, nil
	}
	for h := r.Block.Home.Load(); h != nil; {
		at, rest := r.follow(h)
		var bug, err error
		switch {
		case rest == nil: // it was carried once more since we looked, or ended
		case rest.Cold == nil:
			d := format.Decoder{B: rest.data, Off: int(at.Off)}
			f(&d, at.Block)
			bug = d.Err
		default:
			bug, err = rest.Cold.decode(int(at.Off), max(int(r.Bytes), guessedEntry), func(d *format.Decoder) { f(d, at.Block) })
		}
		if bug != nil {
			bugAt(at, bug)
		}
		if rest != nil && err == nil {
			return true, nil
		}
		again := r.Block.Home.Load()
		if again == h {
			return false, err
		}
		h = again
	}
	return false, nil
}
