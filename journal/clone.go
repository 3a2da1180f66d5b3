package journal

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"go.etcd.io/bbolt"
)

// Clone copies the journal in dir, which must not be open, to newDir, which
// must not be there yet. The copy is exact, and is checked before it gets its
// name.
//
// The journal is locked meanwhile, if its disk can be written to.
func Clone(dir, newDir string) error {
	release, err := lockAtRest(dir)
	if err != nil {
		return err
	}
	return errors.Join(clone(dir, newDir), release())
}

func clone(dir, newDir string) error {
	d, err := newDraft(newDir)
	if err != nil {
		return err
	}
	if err = cloneFile(dir, filepath.Join(d.path(), fileName)); err == nil {
		err = d.reveal()
	}
	if err != nil {
		return errors.Join(err, d.discard())
	}
	return nil
}

func cloneFile(dir, path string) error {
	if err := checkPages(filepath.Join(dir, fileName)); err != nil {
		return err
	}
	s, err := readBolt(filepath.Join(dir, fileName))
	if err != nil {
		return err
	}
	f, err := createFile(path)
	if err != nil {
		return errors.Join(err, s.close())
	}
	err = s.view(func(tx *bbolt.Tx) error {
		_, err := tx.WriteTo(f)
		return err
	})
	err = errors.Join(err, f.Sync(), f.Close(), s.close())
	if err != nil {
		return fmt.Errorf("journal: copy: %w", err)
	}
	v := &View{dir: filepath.Dir(path)}
	if err := v.open(); err != nil {
		return errors.Join(err, v.Close())
	}
	return errors.Join(v.load(), v.Close())
}

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
