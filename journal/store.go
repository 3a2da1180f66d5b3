package journal

import (
	"iter"
	"math"
)

// store is the disk under a log. A log calls commit from one goroutine only;
// read, get and page may run beside it.
type store interface {
	// commit makes all of t durable or none of it. It returns an error that
	// matches ErrFull when nothing was written for want of room. After any
	// other error it is unknown what is on disk, and the log stops.
	commit(t *transaction) error

	// room looks how much the next commit can write, and tries to have room for
	// need bytes beside a reserve that is left to results. It is called by the
	// goroutine that commits. After an error the log stops.
	room(need int) (room, error)

	// scan calls block for every block, oldest first. The bytes are only valid
	// during the call.
	scan(block func(seq uint64, data []byte) error) error

	// read returns n chunks of a block that is committed, from the first of them
	// on, joined. Chunks have chunkSize bytes, except for the last one of a block.
	// It may be called from any goroutine.
	read(seq uint64, first, n int) ([]byte, error)
	chunkSize() int

	// get returns a copy of the value of a key, nil when there is none. Like page,
	// it returns ErrCorrupt, with bucket and key, for a value that is not what was
	// written.
	get(bucket bucket, key []byte) ([]byte, error)

	// page returns copies of some keys and values from key from on, in key order:
	// pageCount of them at most, and no more once their values have pageBytes. No
	// pair means that there is none.
	page(bucket bucket, from []byte) ([]pair, error)

	// buried returns how many payloads each queue had in the morgue when the store
	// was opened.
	buried() map[uint32]int

	// copyTo writes what the last commit left to a new journal file, unless over
	// is closed meanwhile.
	copyTo(path string, over <-chan struct{}) error

	// size returns the bytes of the file, and used those in use. They are called
	// by the goroutine that commits.
	size() int
	used() (int, error)

	// compact gives back to the disk what is not in use. It is called by the
	// goroutine that commits. After an error the log goes on, unless the file
	// was replaced by then. It gives up, and changes nothing, when over is closed.
	compact(over <-chan struct{}) (replaced bool, err error)

	close() error
}

// transaction is what one commit writes. Its slices are valid until commit
// returns.
type transaction struct {
	seq     uint64
	block   []byte    // empty: only the tail changes
	drop    []dropped // blocks to delete, ascending
	changes []change  // in this order
	tail    tail
}

// dropped is a block that leaves the log.
type dropped struct {
	seq     uint64
	size    int
	carried bool // its live entries are in the block of the same transaction
}

// room is how much a commit can write, in bytes.
type room struct {
	bytes int // at most, the reserve included
	spare int // beyond what was asked for and the reserve; negative when there is less
}

// endless is the room of a store that can't tell.
var endless = room{math.MaxInt32, math.MaxInt32}

// A page of a bucket is as much of it as is read at once.
const (
	pageCount = 256
	pageBytes = 1 << 20
)

// each lists what a bucket has from a key on, page by page, so that the loop may
// take as long as it likes. An error is yielded once and ends the list.
func each(page func(from []byte) ([]pair, error), from []byte) iter.Seq2[pair, error] {
	return func(yield func(pair, error) bool) {
		for {
			list, err := page(from)
			if err != nil {
				yield(pair{}, err)
				return
			}
			for _, kv := range list {
				if !yield(kv, nil) {
					return
				}
			}
			if len(list) == 0 {
				return
			}
			from = append(list[len(list)-1].key, 0)
		}
	}
}

// list is each of a store.
func list(s store, name bucket, from []byte) iter.Seq2[pair, error] {
	return each(func(from []byte) ([]pair, error) { return s.page(name, from) }, from)
}

// readTail returns the end mark, and what a journal begins with when nothing was
// ever written.
func readTail(s store) (tail, error) {
	v, err := s.get(bucketMeta, keyTail)
	if err != nil {
		return tail{}, err
	}
	if v == nil {
		return firstTail, nil
	}
	return parseTail(v)
}

// readQueues returns the number of each queue, by name.
func readQueues(s store) (map[string]uint32, error) {
	queues := make(map[string]uint32)
	for kv, err := range list(s, bucketQueues, nil) {
		if err != nil {
			return nil, err
		}
		if queues[string(kv.key)], err = parseQueue(kv.key, kv.value); err != nil {
			return nil, err
		}
	}
	return queues, nil
}

// readUUID returns the text of the journal's.
func readUUID(s store) (string, error) {
	v, err := s.get(bucketMeta, keyUUID)
	if err != nil {
		return "", err
	}
	return parseUUID(v)
}
