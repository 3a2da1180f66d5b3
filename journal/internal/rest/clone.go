package rest

import (
	"errors"
	"path/filepath"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/pages"
	"github.com/strandjobs/strand/journal/internal/store"
)

// Clone copies the journal in dir to newDir, and locks it meanwhile.
func Clone(dir, newDir string) error {
	release, err := lockAtRest(dir)
	if err != nil {
		return err
	}
	return errors.Join(clone(dir, newDir), release())
}

func clone(dir, newDir string) error {
	d, err := directory.NewDraft(newDir)
	if err != nil {
		return err
	}
	if err = cloneFile(dir, filepath.Join(d.Path(), directory.FileName)); err == nil {
		err = d.Reveal()
	}
	if err != nil {
		return errors.Join(err, d.Discard())
	}
	return nil
}

// cloneFile copies the file of a journal and checks the copy.
func cloneFile(dir, path string) error {
	if err := pages.Check(filepath.Join(dir, directory.FileName)); err != nil {
		return err
	}
	s, err := store.ReadBolt(filepath.Join(dir, directory.FileName))
	if err != nil {
		return err
	}
	if err = errors.Join(s.CopyTo(path, nil), s.Close()); err != nil {
		return err
	}
	v := &View{dir: filepath.Dir(path)}
	if err := v.open(); err != nil {
		return errors.Join(err, v.Close())
	}
	return errors.Join(v.load(false), v.Close())
}
