package fleet

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"sync"

	"github.com/strandjobs/strand/executor/inspect"
)

// How the two travel. Each message begins with a description of its types, for a process of another version.
// To write or read that takes many times as long as the value behind it, so who has done it once is kept.
var (
	Questions codec[Question]
	Answers   codec[Answer]
)

type codec[T any] struct {
	writers sync.Pool // of *writer

	mu      sync.Mutex
	readers map[string]*sync.Pool // of *reader, by the description that they have read
}

// mostDescriptions bounds those that are kept: each process may have its own, and who asks may be anybody.
const mostDescriptions = 16

type writer struct {
	description []byte
	out         bytes.Buffer
	enc         *gob.Encoder
}

type reader struct {
	in  bytes.Reader
	dec *gob.Decoder
}

// Encode returns v as bytes.
func (c *codec[T]) Encode(v *T) ([]byte, error) {
	w, again := c.writers.Get().(*writer)
	if !again {
		w = new(writer)
		w.enc = gob.NewEncoder(&w.out)
	}
	w.out.Write(w.description)
	if err := w.enc.Encode(v); err != nil {
		return nil, err
	}
	b := bytes.Clone(w.out.Bytes())
	w.out.Reset()
	if !again {
		w.description = bytes.Clone(b[:described(b)])
	}
	c.writers.Put(w)
	return b, nil
}

// Decode is the inverse of Encode. The bytes may be anybody's.
func (c *codec[T]) Decode(b []byte) (*T, error) {
	description, value := string(b[:described(b)]), b[described(b):]
	pool := c.pool(description)
	r, again := pool.Get().(*reader)
	if !again {
		r, value = new(reader), b
		r.dec = gob.NewDecoder(&r.in)
	}
	r.in.Reset(value)
	v := new(T)
	if err := r.dec.Decode(v); err != nil {
		return nil, fmt.Errorf("%w: it can't be read: %w", inspect.ErrInvalidQuery, err)
	}
	r.in.Reset(nil)
	pool.Put(r)
	return v, nil
}

// pool returns the readers that know a description.
func (c *codec[T]) pool(description string) *sync.Pool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.readers[description]
	if p == nil {
		if p = new(sync.Pool); c.readers == nil || len(c.readers) == mostDescriptions {
			c.readers = make(map[string]*sync.Pool, mostDescriptions)
		}
		c.readers[description] = p
	}
	return p
}

// described returns how many bytes of a message describe its types: a length and a number below zero, the
// type, begin each part of them (see the package comment of encoding/gob).
func described(b []byte) int {
	for at := 0; ; {
		length, n := number(b[at:])
		kind, m := number(b[at+n:])
		if n == 0 || m == 0 || kind&1 == 0 || length > uint64(len(b)-at-n) {
			return at
		}
		at += n + int(length)
	}
}

// number reads an unsigned integer as gob writes it. n is the length, 0: there is none.
func number(b []byte) (u uint64, n int) {
	switch {
	case len(b) == 0:
		return 0, 0
	case b[0] < 0x80:
		return uint64(b[0]), 1
	}
	if n = 1 - int(int8(b[0])); n > 9 || n > len(b) {
		return 0, 0
	}
	for _, c := range b[1:n] {
		u = u<<8 | uint64(c)
	}
	return u, n
}
