package block

import "github.com/strandjobs/strand/journal/internal/format"

// Peek decodes the entry into e for a caller who can't know whether it has ended: one
// who got the Ref from its owner a moment ago, and looks on while the owner goes on.
// False: it has ended, and is gone. True of one that has ended, and is still there.
//
// The zero Ref is not found. Like Read it may read the disk, but an error does not have the
// log stop.
func (r Ref) Peek(e *format.Entry) (found bool, err error) {
	if r.IsZero() {
		return false, nil
	}
	h, err := r.decode(func(d *format.Decoder, b *Block) { d.Entry(e, b.First, b.Base) })
	return h != nil && err == nil, err
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
	h, err := r.decode(func(d *format.Decoder, _ *Block) { id, _ = d.Head() })
	return id, h != nil && err == nil, err
}
