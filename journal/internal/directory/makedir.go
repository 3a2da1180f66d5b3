package directory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/strandjobs/strand/journal/internal/format"
)

// Make makes dir itself but no parent: a missing parent is more often a
// wrong path than a wish. It reports whether dir was not there before.
func Make(dir string) (made bool, err error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		made, err = newDir(filepath.Clean(dir))
	case err == nil && !info.IsDir():
		return false, format.NotJournal(dir, NounOf(info.Mode())+"; a journal is a directory")
	}
	if err != nil {
		return false, fmt.Errorf("journal: %w", err)
	}
	return made, nil
}

// newDir makes a directory, unless another process does so meanwhile.
func newDir(dir string) (made bool, err error) {
	parent, err := Open(filepath.Dir(dir))
	if err != nil {
		return false, err
	}
	defer parent.Close()
	names, err := parent.Syncer()
	if err != nil {
		return false, err
	}
	defer names.Close()
	err = parent.mkdir(filepath.Base(dir))
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err == nil {
		if err = SyncNames(names); err != nil {
			_ = parent.Remove(filepath.Base(dir))
		}
	}
	return err == nil, err
}
