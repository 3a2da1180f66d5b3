package store

import (
	"bytes"
	"sync/atomic"

	"github.com/strandjobs/strand/journal/internal/format"
	"go.etcd.io/bbolt"
)

// Read joins chunks of a block.
func (s *Bolt) Read(seq uint64, first, n int) (data []byte, err error) {
	err = s.view(func(tx *bbolt.Tx) error {
		parts := make([][]byte, n)
		var key [format.ChunkKeySize]byte
		c := tx.Bucket([]byte(format.BucketLog)).Cursor()
		k, v := c.Seek(ChunkKey(&key, seq, first))
		for i := range parts {
			if !bytes.Equal(k, ChunkKey(&key, seq, first+i)) {
				return format.DamagedBlock(seq, "chunk %d is missing", first+i)
			}
			parts[i] = v
			k, v = c.Next()
		}
		data = bytes.Join(parts, nil) // into memory that was not cleared first
		s.mapped.touch(tx, len(data))
		return nil
	})
	return data, err
}

// forget lets go of all pages of the memory map.
func (s *Bolt) forget() error {
	return s.view(func(tx *bbolt.Tx) error {
		s.mapped.forget(tx)
		return nil
	})
}

// mapped keeps the memory map of the file out of memory: pages that were touched
// count as memory of the process, although the kernel could have them back at
// any time.
type mapped struct {
	touched atomic.Int64 // bytes since the last time
}

// mappedMost is about how much of the file may stay mapped.
const mappedMost = 16 << 20

// touch notes that bytes of the file were read, and lets go of the pages once
// that is much. What they hold stays with the kernel. The transaction keeps the
// map where it is.
func (m *mapped) touch(tx *bbolt.Tx, bytes int) {
	if m.touched.Add(int64(bytes)) >= mappedMost {
		m.forget(tx)
	}
}

func (m *mapped) forget(tx *bbolt.Tx) {
	m.touched.Store(0)
	unmapPages(tx.DB().Info().Data, int(tx.Size()))
}
