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
	for _, name := range []string{directory.NewName, crash.RunningName} {
		if info, err := lstat(name); err == nil && !info.Mode().IsRegular() {
			return &directory.IrregularError{Path: filepath.Join(dir, name), Mode: info.Mode()}
		}
	}
	info, err = lstat(directory.FileName)
	if errors.Is(err, fs.ErrNotExist) {
		if names, err := os.ReadDir(dir); err == nil && len(names) == 0 {
			return format.NotJournal(dir, "an empty directory")
		}
		return format.NotJournal(dir, "a directory without a "+directory.FileName)
	}
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if !info.Mode().IsRegular() {
		return &directory.IrregularError{Path: filepath.Join(dir, directory.FileName), Mode: info.Mode()}
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
