package store

import (
	"errors"
	"fmt"
	"io"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/pages"
	"go.etcd.io/bbolt"
)

// CopyTo reads the file below bbolt: pages that a reader of this commit can see
// are not written to while it reads.
func (s *Bolt) CopyTo(path string, over <-chan struct{}) error {
	f, err := directory.CreateFile(path)
	if err != nil {
		return fmt.Errorf("journal: copy: %w", err)
	}
	err = s.view(func(tx *bbolt.Tx) error {
		_, err := tx.WriteTo(&interruptible{f, over})
		if err != nil && IsOver(over) {
			return ErrGivenUp // bbolt does not wrap it
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
	return pages.Check(path)
}

// interruptible writes until over is closed.
type interruptible struct {
	io.Writer
	over <-chan struct{}
}

func (w *interruptible) Write(b []byte) (int, error) {
	if IsOver(w.over) {
		return 0, ErrGivenUp
	}
	return w.Writer.Write(b)
}

// ErrGivenUp is what comes of a compacting or a copy whose caller has gone.
var ErrGivenUp = errors.New("journal: given up")

// IsOver reports whether a channel is closed; nil never is.
func IsOver(over <-chan struct{}) bool {
	select {
	case <-over:
		return true
	default:
		return false
	}
}
