package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// Copy writes a copy of the journal to dir, which must not be there yet, while
// the log is at work. The copy is what one commit left: everything that was
// accepted when Copy began is in it, posted or not. Only what waits in memory
// because the disk is full is not. It is synced before it gets its name.
//
// Appends go on meanwhile. Only a commit for which the memory map of the file
// has to grow, which doubles each time, waits for the end of the copy. Copies are
// made one at a time, and not while the file is compacted.
//
// It returns ErrExists, ErrClosed, ErrFailed, ErrContext, the cause of ctx when that
// ended before, what the system says about the directory, or errors.ErrUnsupported
// for a log that works in memory only; then there is no copy.
func (l *Log) Copy(ctx context.Context, dir string) error {
	if l.volatile {
		return fmt.Errorf("journal: copy a log that keeps nothing: %w", errors.ErrUnsupported)
	}
	over := done(ctx)
	if err := l.beginUpkeep(ctx, over); err != nil {
		return err
	}
	defer func() { <-l.upkeep }()
	d, err := newDraft(dir)
	if err != nil {
		return err
	}
	if err = l.copyTo(ctx, filepath.Join(d.path(), fileName), over); err == nil {
		err = d.reveal()
	}
	if err != nil {
		return errors.Join(err, d.discard())
	}
	return nil
}

func (l *Log) copyTo(ctx context.Context, path string, over <-chan struct{}) error {
	// On a full disk, what is not on it waits for longer than a copy takes.
	err := l.Flush(ctx)
	if err == nil || err == ErrFull {
		err = l.store.copyTo(path, over)
	}
	if errors.Is(err, errGivenUp) || err != nil && isOver(over) {
		return ended(ctx)
	}
	return err
}

// copyTo reads the file below bbolt: pages that a reader of this commit can see
// are not written to while it reads.
func (s *bolt) copyTo(path string, over <-chan struct{}) error {
	f, err := createFile(path)
	if err != nil {
		return fmt.Errorf("journal: copy: %w", err)
	}
	err = s.view(func(tx *bbolt.Tx) error {
		_, err := tx.WriteTo(&patient{f, over})
		if err != nil && isOver(over) {
			return errGivenUp // bbolt does not wrap it
		}
		return err
	})
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("journal: copy: %w", err)
	}
	// The memory map can't tell when the disk reads something else.
	return checkPages(path)
}

// patient writes until over is closed.
type patient struct {
	io.Writer
	over <-chan struct{}
}

func (w *patient) Write(b []byte) (int, error) {
	if isOver(w.over) {
		return 0, errGivenUp
	}
	return w.Writer.Write(b)
}

// copyTo commits what is on the disk in memory to a new file.
func (m *Memory) copyTo(path string, _ <-chan struct{}) error {
	c := m.Crash() // nothing changes that one
	p, err := openPlace(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer p.Close()
	s, err := openBolt(p)
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
