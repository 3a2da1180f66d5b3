package rest

import (
	"errors"
	"slices"

	"github.com/strandjobs/strand/journal/internal/directory"
)

// lockAtRest makes this process the owner of a journal that it only reads, so that
// no other process opens it meanwhile. On a disk that can't be written to none can,
// and the journal is read without.
func lockAtRest(dir string) (release func() error, err error) {
	if err := identify(dir); err != nil {
		return nil, err
	}
	lock, err := directory.Lock(dir)
	switch {
	case err == nil:
		return lock.Undo, nil
	case slices.ContainsFunc(directory.ReadOnlyDisk, func(e error) bool { return errors.Is(err, e) }):
		return func() error { return nil }, nil
	}
	return nil, err
}
