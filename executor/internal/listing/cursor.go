package listing

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
)

// Cursor returns the text that stands for a key in the list of that name.
func Cursor(list string, k Key) string {
	b := binary.AppendVarint(nil, k.First)
	b = binary.AppendVarint(b, k.Second)
	b = binary.AppendVarint(b, k.Last)
	b = append(b, k.ID...)
	return base64.RawURLEncoding.EncodeToString(append(sum(list, b), b...))
}

// Parse returns the key that a text stands for. False: it is no cursor of that list.
func Parse(list, text string) (k Key, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < sumBytes || string(sum(list, b[sumBytes:])) != string(b[:sumBytes]) {
		return Key{}, false
	}
	b = b[sumBytes:]
	for _, number := range [...]*int64{&k.First, &k.Second, &k.Last} {
		n := 0
		if *number, n = binary.Varint(b); n <= 0 {
			return Key{}, false
		}
		b = b[n:]
	}
	k.ID = string(b)
	return k, Cursor(list, k) == text // base64 would pass over line ends
}

const sumBytes = 8

// sum is there against mistakes, not against who means harm: a key tells nothing,
// and allows nothing, beyond the list.
func sum(list string, key []byte) []byte {
	h := fnv.New64a()
	h.Write(binary.AppendUvarint(nil, uint64(len(list))))
	h.Write([]byte(list))
	h.Write(key)
	return h.Sum(nil)
}
