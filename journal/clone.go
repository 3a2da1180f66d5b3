package journal

import (
	"errors"
	"path/filepath"
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

// cloneFile copies the file of a journal and checks the copy.
func cloneFile(dir, path string) error {
	if err := checkPages(filepath.Join(dir, fileName)); err != nil {
		return err
	}
	s, err := readBolt(filepath.Join(dir, fileName))
	if err != nil {
		return err
	}
	if err = errors.Join(s.copyTo(path, nil), s.close()); err != nil {
		return err
	}
	v := &View{dir: filepath.Dir(path)}
	if err := v.open(); err != nil {
		return errors.Join(err, v.Close())
	}
	return errors.Join(v.load(), v.Close())
}
