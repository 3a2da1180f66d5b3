package format

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

// ChunkKeySize is the sequence of a block and the number of a chunk of it.
const ChunkKeySize = 8 + 4

// KeyVersion is where the meta bucket keeps the format version of the file.
const KeyVersion = "version"
