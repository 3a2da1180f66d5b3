package directory

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strandjobs/strand/journal/internal/format"
)

const (
	LockName  = "LOCK"  // the file that an owner locks
	lockBytes = 4 << 10 // more than it ever has
)

var (
	errHeld    = errors.New("held")
	errRemoved = errors.New("its LOCK is removed all the time")
)

// DirLock is the right to use a directory.
type DirLock struct {
	Place   *Dir
	F       *os.File
	created bool      // the file was not there before
	reads   bool      // a full disk may have no room for who it is
	Since   time.Time // when it was locked
}

// Lock makes this process the owner of dir, now or never, and writes who that
// is where the next one can read it: behind the pid since when it is the owner, and on
// which host. The file stays behind; only the lock on it counts.
func Lock(dir string) (*DirLock, error) { return lock(dir, false) }

// LockToRead is Lock for who changes nothing: where a full disk has no room for who that is,
// nobody learns it. Where this process can't make a LOCK it is nil, but another one may make it.
func LockToRead(dir string) (*DirLock, error) {
	l, err := lock(dir, true)
	if NoSpace(err) || slices.ContainsFunc(readOnlyDisk, func(e error) bool { return errors.Is(err, e) }) {
		return nil, nil
	}
	return l, err
}

func lock(dir string, reads bool) (l *DirLock, err error) {
	host, _ := os.Hostname() // where there is none it is left out
	for range attempts {
		since := time.Now()
		l, err = tryLock(dir, since.UTC().Format(time.RFC3339Nano)+" "+host+"\n", reads)
		switch {
		case err == nil:
			l.Since = since
			return l, nil
		case errors.Is(err, errHeld):
			return nil, LockedBy(dir)
		case !errors.Is(err, errRemoved): // by one who did nothing: see undo
			return nil, fmt.Errorf("journal: lock %s: %w", dir, err)
		}
	}
	return nil, fmt.Errorf("journal: lock %s: %w", dir, err)
}

// tryLock locks dir now or never. What it writes is the pid and a note.
func tryLock(dir, note string, reads bool) (*DirLock, error) {
	p, err := Open(dir)
	if err != nil {
		return nil, err
	}
	l := &DirLock{Place: p, reads: reads}
	if err := l.try(note); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return l, nil
}

func (l *DirLock) try(note string) error {
	_, err := l.Place.Lstat(LockName)
	l.created = errors.Is(err, fs.ErrNotExist)
	if l.F, err = l.Place.OpenRegular(LockName, os.O_RDWR|os.O_CREATE); err != nil {
		return err
	}
	if err = lockFile(l.F); err == nil {
		if err = l.claim(note); err != nil && l.created && l.ours() {
			_ = l.Place.Remove(LockName) // a full disk had no room for what it says
		}
	}
	if err != nil {
		return errors.Join(err, l.F.Close())
	}
	return nil
}

// claim writes our pid into the file, which we hold the lock on, unless its
// last owner removed it under our hands.
func (l *DirLock) claim(note string) error {
	if !l.ours() {
		return errRemoved
	}
	err := l.F.Truncate(0)
	if err == nil {
		_, err = l.F.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"+note), 0)
	}
	if l.reads && NoSpace(err) {
		return nil // the lock needs none
	}
	return err
}

// ours reports whether the file that we hold the lock on still has its name.
func (l *DirLock) ours() bool {
	held, err := l.F.Stat()
	return err == nil && l.Place.Has(LockName, held)
}

// Unlock ends the ownership, also for a child process that is just being started and has
// the file open until its program begins. The file stays.
func (l *DirLock) Unlock() error {
	return errors.Join(UnlockFile(l.F), l.F.Close(), l.Place.Close())
}

// Undo unlocks and leaves no trace, for an owner that did nothing. Removing the
// file while holding the lock is safe: see claim. Of nil it does nothing: see LockToRead.
func (l *DirLock) Undo() error {
	if l == nil {
		return nil
	}
	if l.created && l.ours() {
		_ = l.Place.Remove(LockName) // Windows refuses; then an empty LOCK stays
	}
	return l.Unlock()
}

// HeldBy is Held for who goes on to read the journal: when it belongs to a user whose
// files we may not read, that says so.
func HeldBy(dir string) error {
	if err := Held(dir); !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// LockedBy says who owns dir, as far as its LOCK tells.
func LockedBy(dir string) *format.LockedError {
	e := &format.LockedError{Dir: dir}
	var text []byte
	if f, err := OpenFile(filepath.Join(dir, LockName)); err == nil {
		text, _ = io.ReadAll(io.LimitReader(f, lockBytes)) // what can be read of it
		_ = f.Close()
	}
	pid, note, _ := strings.Cut(string(text), "\n")
	if n, err := strconv.Atoi(pid); err == nil && n > 0 {
		e.PID = n
	}
	note, _, _ = strings.Cut(note, "\n")
	since, host, _ := strings.Cut(note, " ")
	if at, err := time.Parse(time.RFC3339Nano, since); err == nil {
		e.Since = at
		// What is in a LOCK may be anything.
		if len(host) <= 255 && !strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' }) {
			e.Host = host
		}
	}
	return e
}
