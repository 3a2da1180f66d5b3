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
	err = directory.Fill(newDir, func(file string) error { return clone(filepath.Join(dir, directory.FileName), file) })
	return errors.Join(err, release())
}

// clone copies the file of a journal and checks the copy.
func clone(from, path string) error {
	if err := pages.Check(from); err != nil {
		return err
	}
	s, err := store.ReadBolt(from)
	if err != nil {
		return err
	}
	if err = errors.Join(s.CopyTo(path, nil), s.Close()); err != nil {
		return err
	}
	v := &View{dir: filepath.Dir(path)}
	return errors.Join(v.open(0), v.Close())
}
