package format

import (
	"encoding/binary"
	"fmt"
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

// MaxQueueName is the longest name of a queue, in bytes.
const MaxQueueName = 4096

// ChunkKeySize is the sequence of a block and the number of a chunk of it.
const ChunkKeySize = 8 + 4

// KeyVersion is where the meta bucket keeps the format version of the file.
const KeyVersion = "version"
