package fleet

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"sync"

	"github.com/strandjobs/strand/executor/inspect"
)

// How the two travel. A message begins with a description of its types, for a process of another version. To
// write or read that takes many times as long as the value behind it, so who has done it once is kept.
var (
	Questions codec[Question]
	Answers   codec[Answer]
)

// describe makes the descriptions, in one order: so they are the same in all processes of a program, unless
// that uses gob itself.
var describe = sync.OnceFunc(func() {
	Questions.description = Questions.writer().out.Bytes()
	Answers.description = Answers.writer().out.Bytes()
})

type codec[T any] struct {
	description      []byte
	writers, readers sync.Pool // of *writer and *reader that have gone over it
}

type writer struct {
	out bytes.Buffer // the description, and a value
	enc *gob.Encoder
}

type reader struct {
	in  bytes.Reader
	dec *gob.Decoder
}

func (c *codec[T]) writer() *writer {
	w := new(writer)
	w.enc = gob.NewEncoder(&w.out)
	_ = w.enc.Encode(new(T)) // into memory
	first := w.out.Len()
	_ = w.enc.Encode(new(T)) // the same without a description
	w.out.Truncate(2*first - w.out.Len())
	return w
}

// Encode returns v as bytes.
func (c *codec[T]) Encode(v *T) ([]byte, error) {
	describe()
	w, _ := c.writers.Get().(*writer)
	if w == nil {
		w = c.writer()
	}
	w.out.Truncate(len(c.description))
	if err := w.enc.Encode(v); err != nil {
		return nil, err
	}
	defer c.writers.Put(w)
	return bytes.Clone(w.out.Bytes()), nil
}

// Decode is the inverse of Encode. The bytes may be anybody's.
func (c *codec[T]) Decode(b []byte) (*T, error) {
	describe()
	var r *reader
	value, ours := bytes.CutPrefix(b, c.description)
	if ours {
		r, _ = c.readers.Get().(*reader)
	}
	if r == nil {
		r, value = new(reader), b
		r.dec = gob.NewDecoder(&r.in)
	}
	r.in.Reset(value)
	v := new(T)
	if err := r.dec.Decode(v); err != nil {
		return nil, fmt.Errorf("%w: it can't be read: %w", inspect.ErrInvalidQuery, err)
	}
	if r.in.Reset(nil); ours {
		c.readers.Put(r)
	}
	return v, nil
}
