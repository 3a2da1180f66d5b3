package format

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
)

// Bucket names one of bbolt's top-level buckets. Names are part of the format.
type Bucket string

// The buckets of a journal.
const (
	BucketLog    Bucket = "log"
	BucketMeta   Bucket = "meta"
	BucketQueues Bucket = "queues" // name → number, 4 bytes big endian
	BucketMorgue Bucket = "morgue" // queue, position → burial
	BucketState  Bucket = "state"  // state key → value: marks, locks, slots, suspects
)

// Buckets are all of them.
var Buckets = []Bucket{BucketLog, BucketMeta, BucketQueues, BucketMorgue, BucketState}

// Pair is a key of a bucket and its value.
type Pair struct{ Key, Value []byte }

// Edit is one put, or a delete when value is nil, in a side bucket.
type Edit struct {
	Bucket     Bucket
	Key, Value []byte
	Owner      uint32 // offset of the entry in the open block that it goes with; 0: none
}

// Set puts a value under a key of the state bucket, in the commit of the Change
// that it is part of. A nil Value deletes the key. What the state means is the
// consumer's business; keys begin with a word of its own and a slash.
type Set struct {
	Key   string
	Value []byte
}

// Edit is the change of the bucket.
func (s Set) Edit() Edit { return Edit{Bucket: BucketState, Key: []byte(s.Key), Value: s.Value} }

// QueueEdit gives a queue its number.
func QueueEdit(name string, number uint32) Edit {
	return Edit{Bucket: BucketQueues, Key: []byte(name), Value: binary.BigEndian.AppendUint32(nil, number)}
}

// ParseQueue returns the number of a queue.
func ParseQueue(name, value []byte) (uint32, error) {
	if len(value) != 4 {
		return 0, BrokenValue(BucketQueues, name, fmt.Errorf("%d bytes", len(value)))
	}
	return binary.BigEndian.Uint32(value), nil
}

const (
	MaxQueueName = 4096      // the longest name of a queue, in bytes
	ChunkKeySize = 8 + 4     // of the sequence of a block and the number of a chunk of it
	KeyVersion   = "version" // where the meta bucket keeps the format version of the file
)

// Sum tells what a bucket holds, in whatever order it came there: how many
// values, and the sum of what each of them hashes to. A value that is missing, or
// an older version of itself, makes another sum.
type Sum struct{ Count, Hash uint64 }

// Add takes a value into the sum.
func (s *Sum) Add(key, v []byte) {
	s.Count++
	s.Hash += hashOf(key, v)
}

// Remove takes a value out.
func (s *Sum) Remove(key, v []byte) {
	s.Count--
	s.Hash -= hashOf(key, v)
}

// hashOf takes what is hashed already: values end with a checksum over key and
// value. CRCs are linear, so that those of two changes can cancel each other out;
// mixed (as splitmix64 does) they don't.
func hashOf(key, v []byte) uint64 {
	h := uint64(len(key)) << 32
	if n := len(v) - ChecksumSize; n >= 0 {
		h |= uint64(binary.LittleEndian.Uint32(v[n:]))
	}
	h += 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// Sides are the sums of the buckets beside the log.
type Sides struct{ Queues, Morgue, State Sum }

// SideBuckets are the buckets that have one, in the order of Sides. Records and rows have their places here.
var SideBuckets = []Bucket{BucketQueues, BucketMorgue, BucketState}

// Of returns the sum of a bucket, which must have one.
func (s *Sides) Of(name Bucket) *Sum {
	return [...]*Sum{&s.Queues, &s.Morgue, &s.State}[slices.Index(SideBuckets, name)]
}

// SealSize is what the values of queues and state keys end with: the number of the
// newest block when they were written, and a checksum over bucket, key, value and
// number. The number tells a salvage which of two copies is the older one.
const SealSize = 8 + ChecksumSize

// Sealed reports whether the values of a bucket are. Those of the morgue are not:
// there is only one version of each, and they bring a checksum of their own.
func Sealed(name Bucket) bool { return name == BucketQueues || name == BucketState }

// Seal returns value as it is written: a copy, if the bucket is sealed.
func Seal(name Bucket, key, value []byte, seq uint64) []byte {
	if !Sealed(name) {
		return value
	}
	v := append(make([]byte, 0, len(value)+SealSize), value...)
	v = binary.BigEndian.AppendUint64(v, seq)
	return binary.LittleEndian.AppendUint32(v, sealOf(name, key, v))
}

func sealOf(name Bucket, key, v []byte) uint32 {
	return crc32.Update(checksumOf([]byte(name), key), Castagnoli, v)
}

// Unseal is the opposite of Seal. The value is a part of v; nil, where there is none, is nil.
func Unseal(name Bucket, key, v []byte) (value []byte, seq uint64, err error) {
	if !Sealed(name) || v == nil {
		return v, 0, nil
	}
	n := len(v) - SealSize
	if n < 0 {
		return nil, 0, BrokenValue(name, key, fmt.Errorf("%d bytes", len(v)))
	}
	if binary.LittleEndian.Uint32(v[n+8:]) != sealOf(name, key, v[:n+8]) {
		return nil, 0, BrokenValue(name, key, errChecksum)
	}
	return v[:n:n], binary.BigEndian.Uint64(v[n:]), nil
}
