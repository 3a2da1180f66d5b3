package directory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/strandjobs/strand/journal/internal/format"
)

// The files of a journal that this package is about.
const (
	FileName = "journal.db"
	NewName  = FileName + ".new" // that is to take its place
	WALFile  = "journal.wal"     // what was accepted last, until it is in the other one
)

// Dir is the directory of a journal. What is written there goes through its open
// handle: it stays the same directory when it is moved, and another one that is put
// under its name is not touched.
type Dir struct{ *os.Root }

// Open holds a directory open. Close gives it back.
func Open(dir string) (*Dir, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Dir{root}, nil
}

// Path is that of a name in the directory, as long as it is not moved.
func (p *Dir) Path(name string) string { return filepath.Join(p.Name(), name) }

// OpenRegular opens a regular file of the place and nothing else: it follows no link,
// waits for no pipe and touches no device. With O_CREATE it makes a missing one,
// for us alone, or for the owner of the place.
func (p *Dir) OpenRegular(name string, flag int) (*os.File, error) {
	f, created, err := openRegular(p.Root.Lstat, p.Root.OpenFile, name, flag)
	if err != nil {
		return nil, p.named(name, err)
	}
	if uid, gid, ok := p.owner(); ok && created {
		_ = f.Chown(uid, gid) // where that is refused it stays ours
	}
	return f, nil
}

// OpenFile opens a regular file that is there, as Dir.OpenRegular does. Unlike that it
// need not be able to read the directory.
func OpenFile(path string) (*os.File, error) {
	f, _, err := openRegular(os.Lstat, os.OpenFile, path, os.O_RDONLY)
	return f, err
}

// attempts bounds how often a file is looked at that changes meanwhile.
const attempts = 10

// look and open are what an [os.Root] has, or the whole file system.
type (
	look func(name string) (fs.FileInfo, error)
	open func(name string, flag int, mode fs.FileMode) (*os.File, error)
)

func openRegular(look look, open open, name string, flag int) (f *os.File, created bool, err error) {
	for range attempts {
		if f, created, err = tryRegular(look, open, name, flag); !errors.Is(err, errRemoved) {
			break
		}
	}
	return f, created, err
}

func tryRegular(look look, open open, name string, flag int) (f *os.File, created bool, err error) {
	before, err := look(name)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case missing && flag&os.O_CREATE != 0:
		flag |= os.O_EXCL // nor through a link that comes meanwhile
	case err != nil:
		return nil, false, err
	case !before.Mode().IsRegular():
		return nil, false, &IrregularError{name, before.Mode()}
	case flag&os.O_EXCL == 0:
		flag &^= os.O_CREATE
	}
	f, err = open(name, flag|openSafely, 0o600)
	if missing && errors.Is(err, fs.ErrExist) || !missing && errors.Is(err, fs.ErrNotExist) {
		return nil, false, errRemoved
	}
	if err != nil || missing {
		return f, err == nil, err
	}
	if info, err := f.Stat(); err != nil || !os.SameFile(before, info) {
		return nil, false, errors.Join(errRemoved, err, f.Close())
	}
	return f, false, nil
}

// IrregularError says that a name stands for something that is not a file. It
// matches [ErrNotJournal].
type IrregularError struct {
	Path string
	Mode fs.FileMode
}

func (e *IrregularError) Error() string {
	return fmt.Sprintf("%v: %s is %s, not a regular file", format.ErrNotJournal, e.Path, NounOf(e.Mode))
}

// Is makes errors.Is(err, ErrNotJournal) true.
func (e *IrregularError) Is(target error) bool { return target == format.ErrNotJournal }

// named puts the whole path into an error about a name.
func (p *Dir) named(name string, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: "open", Path: p.Path(name), Err: e.Err}
	}
	if e, ok := errors.AsType[*IrregularError](err); ok {
		e.Path = p.Path(name)
	}
	return err
}

// CheckWAL says what is wrong with the name of the log before journal.db, of which dir is the
// path: it may stand for a file only, and the log is nothing without the other one.
func CheckWAL(lstat look, dir string) error {
	info, err := lstat(WALFile)
	if err != nil {
		return nil // there is none, or who opens it says why it can't be had
	}
	if !info.Mode().IsRegular() {
		return &IrregularError{filepath.Join(dir, WALFile), info.Mode()}
	}
	if _, err := lstat(FileName); errors.Is(err, fs.ErrNotExist) {
		return format.Damaged("%s is missing beside %s, which may have what was accepted last", FileName, WALFile)
	}
	return nil
}

// owner returns to whom what is made in the place is given: to its owner when we are root, because
// who works there otherwise must be able to.
func (p *Dir) owner() (uid, gid int, ok bool) {
	info, err := p.Stat(".")
	if err != nil || os.Geteuid() != 0 {
		return 0, 0, false
	}
	uid, gid, known := OwnerOf(info)
	return uid, gid, known && uid != 0
}

// mkdir makes a directory in the place, for its owner.
func (p *Dir) mkdir(name string) error {
	err := p.Mkdir(name, 0o700)
	if uid, gid, ok := p.owner(); ok && err == nil {
		_ = p.Lchown(name, uid, gid)
	}
	return err
}

// Drop removes a file, if it is there.
func (p *Dir) Drop(name string) error {
	if err := p.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// DropFile is Drop for what must be a file.
func (p *Dir) DropFile(name string) error {
	if info, err := p.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return &IrregularError{p.Path(name), info.Mode()}
	}
	return p.Drop(name)
}

// Has reports whether a name in the place still stands for an open file.
func (p *Dir) Has(name string, f fs.FileInfo) bool {
	there, err := p.Lstat(name)
	return err == nil && os.SameFile(there, f)
}

// Syncer returns what makes the names in the place durable. It is asked for
// before they change: afterwards there may be no descriptor left.
func (p *Dir) Syncer() (*os.File, error) {
	if !canSyncDir {
		return nil, nil
	}
	return p.Open(".")
}

// SyncNames makes names durable, through what Syncer returned.
func SyncNames(d *os.File) error {
	if d == nil {
		return nil
	}
	return d.Sync()
}

// NoSpace reports whether an error, or what bbolt made of it, is of a disk that has no room.
func NoSpace(err error) bool {
	return err != nil && slices.ContainsFunc(noSpace, func(full syscall.Errno) bool {
		return errors.Is(err, full) || strings.HasSuffix(err.Error(), full.Error())
	})
}

// NounOf names what is not a regular file.
func NounOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "something else"
}

// KeepAccess gives a file that takes the place of another one its owner, group
// and mode, or fails: who could read and write that one must not be locked out.
func KeepAccess(f *os.File, old fs.FileInfo) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	uid, gid, known := OwnerOf(old)
	if mine, group, _ := OwnerOf(info); known && (mine != uid || group != gid) {
		if err := f.Chown(uid, gid); err != nil {
			return fmt.Errorf("owner and group of the file can't be kept: %w", err)
		}
	}
	if info.Mode().Perm() == old.Mode().Perm() {
		return nil
	}
	return f.Chmod(old.Mode().Perm())
}

// Public reports whether all users may write to the place, as far as the system
// says, and its mode.
func (p *Dir) Public() (mode fs.FileMode, public bool) {
	info, err := p.Stat(".")
	if err != nil || !canLock {
		return 0, false
	}
	mode = info.Mode().Perm()
	return mode, mode&0o002 != 0
}

// Make makes dir itself but no parent: a missing parent is more often a
// wrong path than a wish. It reports whether dir was not there before.
func Make(dir string) (made bool, err error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		made, err = newDir(filepath.Clean(dir))
	case err == nil && !info.IsDir():
		return false, format.NotJournal(dir, NounOf(info.Mode())+"; a journal is a directory")
	}
	if err != nil {
		return false, fmt.Errorf("journal: %w", err)
	}
	return made, nil
}

// newDir makes a directory, unless another process does so meanwhile.
func newDir(dir string) (made bool, err error) {
	parent, err := Open(filepath.Dir(dir))
	if err != nil {
		return false, err
	}
	defer parent.Close()
	names, err := parent.Syncer()
	if err != nil {
		return false, err
	}
	defer names.Close()
	err = parent.mkdir(filepath.Base(dir))
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err == nil {
		if err = SyncNames(names); err != nil {
			_ = parent.Remove(filepath.Base(dir))
		}
	}
	return err == nil, err
}
