package rest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/strandjobs/strand/journal/internal/crash"
	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/pages"
	"github.com/strandjobs/strand/journal/internal/store"
)

// identify says what is at dir when it can't be a journal, and who has it open.
func identify(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("journal: %w", err)
	case !info.IsDir() && !info.Mode().IsRegular():
		return format.NotJournal(dir, directory.NounOf(info.Mode())+"; a journal is a directory with a "+directory.FileName+" in it")
	case !info.IsDir():
		return format.NotJournal(dir, fmt.Sprintf("a file%s; a journal is a directory with a %s in it", kindOf(dir), directory.FileName))
	}
	lstat := func(name string) (fs.FileInfo, error) { return os.Lstat(filepath.Join(dir, name)) }
	if err := directory.CheckWAL(lstat, dir); err != nil {
		return err
	}
	for _, name := range []string{directory.NewName, crash.RunningName, directory.FileName} {
		if info, err = lstat(name); err == nil && !info.Mode().IsRegular() {
			return &directory.IrregularError{Path: filepath.Join(dir, name), Mode: info.Mode()}
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		if names, err := os.ReadDir(dir); err == nil && len(names) == 0 {
			return format.NotJournal(dir, "an empty directory")
		}
		return format.NotJournal(dir, "a directory without a "+directory.FileName)
	}
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return directory.HeldBy(dir)
}

// magics are files that are mistaken for a journal, by their first bytes.
var magics = []struct{ prefix, name string }{
	{"SQLite format 3\x00", " of SQLite"},
	{"\x1f\x8b", " compressed with gzip"},
	{"\x28\xb5\x2f\xfd", " compressed with zstd"},
	{"PK\x03\x04", " in a zip archive's format"},
	{"{", " that begins like JSON (an export? see strand import)"},
}

// kindOf names what a file looks like, with a space before it, or says nothing.
func kindOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if _, _, err := pages.ReadMetas(f, path); err == nil {
		return " of bbolt"
	}
	head := make([]byte, 16)
	n, err := io.ReadFull(f, head)
	if n == 0 && err != nil {
		return " without a byte in it"
	}
	for _, m := range magics {
		if bytes.HasPrefix(head[:n], []byte(m.prefix)) {
			return m.name
		}
	}
	return ""
}

// lockAtRest makes this process the owner of a journal that it only reads, so that
// no other process opens it meanwhile. Where it can't be, who has read asks Undisturbed.
func lockAtRest(dir string) (*View, error) {
	if err := identify(dir); err != nil {
		return nil, err
	}
	lock, err := directory.LockToRead(dir)
	return &View{dir: dir, lock: lock}, err
}

// Clone copies the journal in dir to newDir, and locks it meanwhile.
func Clone(dir, newDir string) error {
	v, err := lockAtRest(dir)
	if err != nil {
		return err
	}
	return errors.Join(v.clone(newDir), v.lock.Undo())
}

func (v *View) clone(newDir string) error {
	return directory.Fill(newDir, func(path string) error {
		err := v.attach()
		if err == nil {
			err = v.store.CopyTo(path, nil)
		}
		if err = errors.Join(err, v.Close()); err == nil {
			to := &View{dir: filepath.Dir(path)} // the copy is checked, too
			err = errors.Join(to.open(0), to.Close())
		}
		return v.Undisturbed(err)
	})
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
