package journal

// store is the disk under a log. A log calls commit from one goroutine only;
// get and page may run beside it.
type store interface {
	// commit makes all of t durable or none of it. It returns an error that
	// matches ErrFull when nothing was written for want of room. After any
	// other error it is unknown what is on disk, and the log stops.
	commit(t *transaction) error

	// scan calls block for every block, oldest first. The bytes are only valid
	// during the call.
	scan(block func(seq uint64, data []byte) error) error

	// get returns a copy of the value of a key, nil when there is none.
	get(bucket bucket, key []byte) ([]byte, error)

	// page returns copies of up to n keys and values from key from on, in key
	// order.
	page(bucket bucket, from []byte, n int) ([]pair, error)

	close() error
}

// bucket names one of bbolt's top-level buckets. Names are part of the format.
type bucket string

const (
	bucketLog    bucket = "log"
	bucketMeta   bucket = "meta"
	bucketQueues bucket = "queues" // name → number, 4 bytes big endian
	bucketMorgue bucket = "morgue" // queue, position → burial
	bucketState  bucket = "state"  // reserved for the state that belongs to jobs
)

var buckets = []bucket{bucketLog, bucketMeta, bucketQueues, bucketMorgue, bucketState}

type pair struct{ key, value []byte }

// change is one put, or a delete when value is nil, in a side bucket.
type change struct {
	bucket     bucket
	key, value []byte
}

// transaction is what one commit writes. Its slices are valid until commit
// returns.
type transaction struct {
	seq     uint64
	block   []byte
	drop    []dropped // blocks to delete, ascending
	changes []change  // in this order
	tail    tail
}

// dropped is a block that leaves the log.
type dropped struct {
	seq  uint64
	size int
}

// tail says where the log ends, so that a missing last block is noticed and no
// position is used twice after the log ran empty.
type tail struct {
	seq   uint64   // of the newest block ever written
	next  Position // first position that was never used
	epoch uint64   // number of times the journal was opened
}
