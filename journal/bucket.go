package journal

// bucket names one of bbolt's top-level buckets. Names are part of the format.
type bucket string

const (
	bucketLog    bucket = "log"
	bucketMeta   bucket = "meta"
	bucketQueues bucket = "queues" // name → number, 4 bytes big endian
	bucketMorgue bucket = "morgue" // queue, position → burial
	bucketState  bucket = "state"  // state key → value: marks, locks, slots, suspects
)

var buckets = []bucket{bucketLog, bucketMeta, bucketQueues, bucketMorgue, bucketState}

type pair struct{ key, value []byte }

// change is one put, or a delete when value is nil, in a side bucket.
type change struct {
	bucket     bucket
	key, value []byte
	owner      uint32 // offset of the entry in the open block that it goes with; 0: none
}

// chunkKeySize is the sequence of a block and the number of a chunk of it.
const chunkKeySize = 8 + 4

// keyVersion is where the meta bucket keeps the format version of the file.
const keyVersion = "version"
