package rest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/store"
)

// lockAtRest makes this process the owner of a journal that it only reads, so that
// no other process opens it meanwhile. On a disk that can't be written to, or has no
// room for the LOCK, none can, and the journal is read without.
func lockAtRest(dir string) (release func() error, err error) {
	if err := identify(dir); err != nil {
		return nil, err
	}
	lock, err := directory.Lock(dir)
	switch {
	case err == nil:
		return lock.Undo, nil
	case directory.NoSpace(err) || slices.ContainsFunc(directory.ReadOnlyDisk, func(e error) bool { return errors.Is(err, e) }):
		return func() error { return nil }, nil
	}
	return nil, err
}

// Clone copies the journal in dir to newDir, and locks it meanwhile.
func Clone(dir, newDir string) error {
	release, err := lockAtRest(dir)
	if err != nil {
		return err
	}
	err = directory.Fill(newDir, func(path string) error {
		from := &View{dir: dir}
		err := from.attach()
		if err == nil {
			err = from.store.CopyTo(path, nil)
		}
		if err = errors.Join(err, from.Close()); err != nil {
			return err
		}
		v := &View{dir: filepath.Dir(path)} // the copy is checked, too
		return errors.Join(v.open(0), v.Close())
	})
	return errors.Join(err, release())
}

// Compact makes the file of the journal in dir as small as what is in it.
func Compact(dir string) (before, after int64, err error) {
	if err := identify(dir); err != nil {
		return 0, 0, err
	}
	lock, err := directory.Lock(dir)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, lock.Undo()) }()
	p := lock.Place
	names, err := p.Syncer()
	if err != nil {
		return 0, 0, fmt.Errorf("journal: compact: %w", err)
	}
	defer names.Close()
	v := &View{dir: dir}
	err = v.open(0)
	before = v.size
	if err == nil {
		err = v.store.(*store.Logged).Rewrite(p)
	}
	// Closed first: Windows does not rename over an open file.
	if err = errors.Join(err, v.Close()); err == nil {
		err = p.Rename(directory.NewName, directory.FileName)
	}
	if err != nil {
		return before, before, errors.Join(err, p.DropFile(directory.NewName))
	}
	info, err := p.Lstat(directory.FileName)
	if err != nil {
		return before, 0, err
	}
	return before, info.Size(), dropLog(p, names)
}

// dropLog removes the log, which does not stand on the new file, once that has its name on disk, too.
func dropLog(p *directory.Dir, names *os.File) error {
	if err := directory.SyncNames(names); err != nil {
		return err
	}
	return p.DropFile(directory.WALFile)
}
