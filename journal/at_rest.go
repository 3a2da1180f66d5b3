package journal

import (
	"errors"
	"slices"
)

// lockAtRest makes this process the owner of a journal that it only reads, so
// that nobody opens it meanwhile. On a disk that can't be written to nobody
// can, and the journal is read without.
func lockAtRest(dir string) (release func() error, err error) {
	if err := identify(dir); err != nil {
		return nil, err
	}
	if err := heldBy(dir); err != nil {
		return nil, err
	}
	lock, err := lockDir(dir)
	switch {
	case err == nil:
		return lock.undo, nil
	case slices.ContainsFunc(readOnlyDisk, func(e error) bool { return errors.Is(err, e) }):
		return func() error { return nil }, nil
	}
	return nil, err
}
