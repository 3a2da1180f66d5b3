package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const lockName = "LOCK"

// lockPoll is how often a wait for another owner looks again: the systems'
// file locks offer no wait with an end.
const lockPoll = 20 * time.Millisecond

var (
	errHeld    = errors.New("held")
	errRemoved = errors.New("removed")
)

// dirLock is the right to use a directory.
type dirLock struct {
	f       *os.File
	created bool // the file was not there before
}

// lockDir makes this process the owner of dir and writes its pid where the
// next one can read it. The file stays behind; only the lock on it counts.
func lockDir(dir string, timeout time.Duration) (*dirLock, error) {
	path := filepath.Join(dir, lockName)
	for deadline := time.Now().Add(timeout); ; time.Sleep(lockPoll) {
		l, err := tryLock(path)
		switch {
		case err == nil:
			return l, nil
		case errors.Is(err, errRemoved):
		case !errors.Is(err, errHeld):
			return nil, fmt.Errorf("journal: lock %s: %w", dir, err)
		case !time.Now().Before(deadline):
			return nil, &LockedError{Dir: dir, PID: readPID(path)}
		}
	}
}

func tryLock(path string) (*dirLock, error) {
	_, err := os.Lstat(path)
	l := &dirLock{created: errors.Is(err, fs.ErrNotExist)}
	if l.f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if err = lockFile(l.f); err == nil {
		err = l.claim(path)
	}
	if err != nil {
		return nil, errors.Join(err, l.f.Close())
	}
	return l, nil
}

// claim writes our pid into the file, which we hold the lock on, unless its
// last owner removed it under our hands.
func (l *dirLock) claim(path string) error {
	held, err := l.f.Stat()
	if err != nil {
		return err
	}
	if named, err := os.Stat(path); err != nil || !os.SameFile(held, named) {
		return errRemoved
	}
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	_, err = l.f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func (l *dirLock) unlock() error { return l.f.Close() }

// undo unlocks and leaves no trace, for an owner that did nothing. Removing the
// file while holding the lock is safe: see claim.
func (l *dirLock) undo() error {
	if l.created {
		_ = os.Remove(l.f.Name()) // Windows refuses; then an empty LOCK stays
	}
	return l.unlock()
}

func readPID(path string) int {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0
	}
	return pid
}
