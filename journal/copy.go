package journal

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/store"
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
	defer func() { <-l.upkeep.token }()
	d, err := directory.NewDraft(dir)
	if err != nil {
		return err
	}
	if err = l.copyTo(ctx, filepath.Join(d.Path(), directory.FileName), over); err == nil {
		err = d.Reveal()
	}
	if err != nil {
		return errors.Join(err, d.Discard())
	}
	return nil
}

func (l *Log) copyTo(ctx context.Context, path string, over <-chan struct{}) error {
	// On a full disk, what is not on it waits for longer than a copy takes.
	err := l.Flush(ctx)
	if err == nil || err == ErrFull {
		err = l.store.CopyTo(path, over)
	}
	if errors.Is(err, store.ErrGivenUp) || err != nil && store.IsOver(over) {
		return ended(ctx)
	}
	return err
}
