package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// Copy writes a copy of the journal to dir, which must not be there yet, while
// the log is at work. The copy is what one commit left: everything that was
// durable when Copy began is in it, and nothing that was not when it returns.
// It is synced before it gets its name.
//
// Appends go on meanwhile. Only a commit for which the memory map of the file
// has to grow, which doubles each time, waits for the end of the copy.
//
// It returns ErrExists, ErrClosed, what the system says about the directory, or
// errors.ErrUnsupported for a log that works in memory only.
func (l *Log) Copy(dir string) error {
	if l.isClosed() {
		return ErrClosed
	}
	if l.volatile {
		return fmt.Errorf("journal: copy a log that keeps nothing: %w", errors.ErrUnsupported)
	}
	l.copying.RLock()
	defer l.copying.RUnlock()
	tmp, err := reserve(dir)
	if err != nil {
		return err
	}
	if err = l.store.copyTo(filepath.Join(tmp, fileName)); err == nil {
		err = reveal(tmp, filepath.Clean(dir))
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	return nil
}

// copyTo reads the file below bbolt: pages that a reader of this commit can see
// are not written to while it reads.
func (s *bolt) copyTo(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("journal: copy: %w", err)
	}
	err = s.view(func(tx *bbolt.Tx) error {
		_, err := tx.WriteTo(f)
		return err
	})
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("journal: copy: %w", err)
	}
	// The memory map can't tell when the disk reads something else.
	return checkPages(path)
}

// copyTo commits what is on the disk in memory to a new file.
func (m *Memory) copyTo(path string) error {
	c := m.Crash() // nothing changes that one
	s, err := openBolt(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(c.transfer(s), s.close())
}

// transfer commits everything to s: the blocks one by one, the rest with the
// true end mark.
func (m *Memory) transfer(s store) error {
	err := m.scan(func(seq uint64, data []byte) error {
		return s.commit(&transaction{seq: seq, block: data, tail: firstTail})
	})
	if err != nil || m.side == nil {
		return err
	}
	t, err := parseTail(m.side[bucketMeta][string(keyTail)])
	if err != nil {
		return err
	}
	last := &transaction{tail: t}
	for _, name := range []bucket{bucketQueues, bucketMorgue, bucketState} {
		for key, value := range m.side[name] {
			last.changes = append(last.changes, change{bucket: name, key: []byte(key), value: value})
		}
	}
	return s.commit(last)
}
