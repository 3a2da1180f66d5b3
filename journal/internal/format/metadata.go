package format

import (
	"encoding/binary"
	"iter"
	"maps"
	"slices"
)

// Metadata are pairs of strings that belong to a payload, as they stand in the log.
// Nil: there are none. The log does not look into them.
type Metadata []byte

// NewMetadata returns pairs as an [Entry] has them, in the order of their keys.
func NewMetadata(pairs map[string]string) (m Metadata) {
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		m = AppendText(AppendText(m, key), pairs[key])
	}
	return m
}

// All yields the pairs, by key. It ends where bytes make no sense.
func (m Metadata) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for d := (Decoder{B: m}); d.Off < len(m); {
			key, value := d.Bytes(d.Uvarint()), d.Bytes(d.Uvarint())
			if d.Err != nil || !yield(string(key), string(value)) {
				return
			}
		}
	}
}

// Valid reports whether all of its bytes make sense.
func (m Metadata) Valid() bool {
	return valid(m, func(d *Decoder) {
		d.Bytes(d.Uvarint())
		d.Bytes(d.Uvarint())
	})
}

// valid reports whether b is a list of items.
func valid(b []byte, item func(*Decoder)) bool {
	d := Decoder{B: b}
	for d.Err == nil && d.Off < len(b) {
		item(&d)
	}
	return d.Err == nil
}

// AppendText writes how long a text is, and the text.
func AppendText[T ~string | ~[]byte](b []byte, text T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}
