package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"
	"sync"
)

// target is the directory that becomes the replica.
//
// There is no order between ids, so the change that makes "a" a directory and
// the one that removes the file "a" meet in any order, and "a/b" may be written
// while "a" is still a file, or a link that leads elsewhere. The rule that
// makes the end right whatever the order:
//
//   - a path removes and replaces only what it made itself: a file or a link of
//     its own name, and directories that have become empty;
//   - a path that finds another one in its way (a file where it needs a
//     directory, a directory where it needs a file) changes nothing and says
//     errBusy, and its job is snoozed;
//   - a path that is to be removed never waits.
//
// The last tree has no two such paths, so whatever is in the way of a path that
// stays belongs to one that goes, and going never waits. A path that waits for
// one that comes back later goes itself, as soon as its newer change arrives.
//
// A crash may leave half a file: its job was not finished, so it runs again. A
// replica that must survive a power cut would have to fsync here.
type target struct {
	root *os.Root // nothing outside can be reached, whatever the paths say

	// mu guards which names exist. Contents are written without it: the name
	// belongs to the one job of its path.
	mu sync.Mutex
}

// errBusy is returned while another path is in the way.
var errBusy = errors.New("another path is in the way")

// hasExecutable: the system keeps the executable bit.
const hasExecutable = runtime.GOOS != "windows"

// write makes name a file, or a symbolic link, with the content that fill
// gives.
func (t *target) write(name, mode string, fill func(io.Writer) error) error {
	if mode == modeSymlink {
		var link strings.Builder
		if err := fill(&link); err != nil {
			return err
		}
		_, err := t.make(name, func() (*os.File, error) { return nil, t.root.Symlink(link.String(), name) })
		return err
	}
	f, err := t.make(name, func() (*os.File, error) {
		return t.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	})
	if err != nil {
		return err
	}
	err = fill(f)
	if hasExecutable && err == nil {
		err = f.Chmod(permissions(mode))
	}
	return errors.Join(err, f.Close())
}

func permissions(mode string) fs.FileMode {
	if isExecutable(mode) {
		return 0o755
	}
	return 0o644
}

// isExecutable looks at the owner's bit: octal digits 1, 3, 5, 7.
func isExecutable(mode string) bool {
	return len(mode) == 6 && strings.HasPrefix(mode, "100") && (mode[3]-'0')&1 == 1
}

// make clears the way to name and creates it.
func (t *target) make(name string, create func() (*os.File, error)) (*os.File, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.makeParents(name); err != nil {
		return nil, err
	}
	info, err := t.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, errBusy
	default:
		if err := t.root.Remove(name); err != nil {
			return nil, err
		}
	}
	return create()
}

func (t *target) makeParents(name string) error {
	for i, c := range name {
		if c != '/' {
			continue
		}
		info, err := t.root.Lstat(name[:i])
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := t.root.Mkdir(name[:i], 0o777); err != nil {
				return err
			}
		case err != nil:
			return err
		case !info.IsDir():
			return errBusy
		}
	}
	return nil
}

// remove takes away what name made, if it is still there, and the directories
// that are empty then.
func (t *target) remove(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		info, err := t.root.Lstat(dir)
		if err == nil && !info.IsDir() {
			return nil // so name is gone, and dir belongs to another path
		}
	}
	info, err := t.root.Lstat(name)
	if err == nil && !info.IsDir() {
		err = t.root.Remove(name)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if err := t.root.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return t.mustHold(dir)
		}
	}
	return nil
}

// mustHold returns nil if dir has something in it: then it is right to keep it.
func (t *target) mustHold(dir string) error {
	d, err := t.root.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if _, err := d.ReadDir(1); err != nil {
		return fmt.Errorf("empty directory %q can't be removed: %w", dir, err)
	}
	return nil
}
