package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/pages"
	"github.com/strandjobs/strand/journal/internal/wal"
	"go.etcd.io/bbolt"
)

// Bolt keeps a log, and what stands beside it, in a bbolt file.
type Bolt struct {
	sides
	place  *directory.Dir // where the file is replaced; nil where it never is
	logged bool           // a log stands on the last commit
	log    *wal.Log       // that is to stand on the next one; nil: none
}

// ChunkFor returns the size of chunk that lets two of them, with their keys and
// headers, fill a leaf page.
func ChunkFor(pageSize int) int {
	return (pageSize-pages.PageHeader)/2 - pages.ElementHeader - format.ChunkKeySize - 4
}

func (s *Bolt) Commit(t *Transaction) error {
	return s.contain(func() error {
		tx, err := s.Db.Begin(true)
		if err != nil {
			return err
		}
		last := t.Manifest
		if err := s.write(tx, t, &last); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		id := tx.ID()
		err = tx.Commit()
		if wantsRoom(err) && s.last() == id-1 {
			return fmt.Errorf("%w: %w", format.ErrFull, err)
		}
		if err == nil {
			s.sums, s.logged = last.Sides, last.Log != 0
			if s.Version < format.FormatVersion { // the first one: there is no reader yet
				s.Version = format.FormatVersion
			}
			if s.mapped.touched.Add(int64(t.takes())) >= mappedMost { // it has read pages for that
				err = s.view(s.mapped.forget)
			}
		}
		return err
	})
}

// wantsRoom reports whether a commit failed for want of room before it synced:
// then nothing is lost but the attempt. After a failed sync nothing is known.
func wantsRoom(err error) bool {
	write, wrote := errors.AsType[*fs.PathError](err)
	// bbolt does not wrap what it gets when the file can't grow.
	return directory.NoSpace(err) && (wrote && write.Op == "write" || strings.HasPrefix(err.Error(), "file resize error: "))
}

// write writes t, and the manifest with what it fills in.
func (s *Bolt) write(tx *bbolt.Tx, t *Transaction, last *format.Manifest) error {
	log := tx.Bucket([]byte(format.BucketLog))
	log.FillPercent = 1 // keys only ever come at the end
	var key [format.ChunkKeySize]byte
	c := log.Cursor() // one for all: Bucket.Delete makes its own each time
	for _, d := range t.Drop {
		for i := range s.chunks(d.Size) {
			if k, _ := c.Seek(ChunkKey(&key, d.Seq, i)); !bytes.Equal(k, key[:]) {
				break
			}
			if err := c.Delete(); err != nil {
				return err
			}
		}
	}
	for _, b := range append(t.before, t) {
		if b != t && b.Seq < last.Oldest {
			continue // it left the log before it came here
		}
		for i := range s.chunks(len(b.Block)) {
			part := b.Block[i*s.chunk : min((i+1)*s.chunk, len(b.Block))]
			if err := log.Put(ChunkKey(&key, b.Seq, i), part); err != nil {
				return err
			}
		}
	}
	last.Version, last.Log = format.FormatVersion, 0
	if s.log != nil {
		last.Version, last.Log, last.Records = format.OpenVersion, s.log.ID, s.log.Records
	}
	if err := s.writeSides(tx, t.Changes, last); err != nil {
		return err
	}
	meta := tx.Bucket([]byte(format.BucketMeta))
	if version := []byte{last.Version}; !bytes.Equal(meta.Get([]byte(format.KeyVersion)), version) {
		if err := meta.Put([]byte(format.KeyVersion), version); err != nil {
			return err
		}
	}
	return PutManifest(tx, *last)
}

// PutManifest writes the end mark, with the number of the transaction.
func PutManifest(tx *bbolt.Tx, t format.Manifest) error {
	t.Tx = uint64(tx.ID())
	return tx.Bucket([]byte(format.BucketMeta)).Put(format.KeyManifest, t.Encode())
}

func (s *Bolt) ChunkSize() int { return s.chunk }

func (s *Bolt) chunks(size int) int { return (size + s.chunk - 1) / s.chunk }

// ChunkKey writes into key where a chunk of a block is kept.
func ChunkKey(key *[format.ChunkKeySize]byte, seq uint64, chunk int) []byte {
	binary.BigEndian.PutUint64(key[:], seq)
	binary.BigEndian.PutUint32(key[8:], uint32(chunk))
	return key[:]
}

// Scan joins the chunks of each block.
func (s *Bolt) Scan(block func(seq uint64, data []byte) error) error {
	return s.view(func(tx *bbolt.Tx) error {
		var data []byte
		var seq uint64
		next := 0
		c := tx.Bucket([]byte(format.BucketLog)).Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			if len(k) != format.ChunkKeySize {
				return &format.CorruptError{Reason: fmt.Sprintf("the log has a key of %d bytes", len(k))}
			}
			at, n := binary.BigEndian.Uint64(k), int(binary.BigEndian.Uint32(k[8:]))
			if at != seq && next > 0 {
				if err := block(seq, data); err != nil {
					return err
				}
				data, next = data[:0], 0
			}
			if seq = at; n != next {
				return format.DamagedBlock(seq, "chunk %d is missing", next)
			}
			data = append(data, v...)
			s.mapped.touch(tx, len(v))
			next++
		}
		if next == 0 {
			return nil
		}
		return block(seq, data)
	})
}

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

func (s *Bolt) Get(name format.Bucket, key []byte) (value []byte, err error) {
	err = s.view(func(tx *bbolt.Tx) error {
		value, err = s.inside(name, key, tx.Bucket([]byte(name)).Get(key))
		value = bytes.Clone(value)
		return err
	})
	return value, err
}

// Page returns the number of the newest block, too, when there was such a page.
func (s *Bolt) Page(name format.Bucket, from []byte) (page []format.Pair, newest uint64, err error) {
	err = s.view(func(tx *bbolt.Tx) error {
		end, err := format.ParseManifest(tx.Bucket([]byte(format.BucketMeta)).Get(format.KeyManifest))
		if err != nil {
			return err
		}
		newest = end.Seq
		size := 0
		c := tx.Bucket([]byte(name)).Cursor()
		for k, v := c.Seek(from); k != nil && len(page) < pageCount && size < pageBytes; k, v = c.Next() {
			value, err := s.inside(name, k, v)
			if err != nil {
				return err
			}
			page = append(page, format.Pair{Key: bytes.Clone(k), Value: bytes.Clone(value)})
			size += len(v)
			s.mapped.touch(tx, len(v))
		}
		return nil
	})
	return page, newest, err
}

// end is the end mark that bbolt has.
func (s *Bolt) end() (v []byte, end format.Manifest, err error) {
	if v, err = s.Get(format.BucketMeta, format.KeyManifest); err == nil {
		end, err = format.ParseManifest(v)
	}
	return v, end, err
}
