package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

const lockName = "LOCK"

// lockPoll is how often a wait for another owner looks again: the systems'
// file locks offer no wait with an end.
const lockPoll = 20 * time.Millisecond

// lockBytes is more than a LOCK file ever has.
const lockBytes = 4 << 10

var (
	errHeld    = errors.New("held")
	errRemoved = errors.New("removed")
)

// dirLock is the right to use a directory.
type dirLock struct {
	place   *place
	f       *os.File
	created bool // the file was not there before
}

// lockDir makes this process the owner of dir and writes its pid where the
// next one can read it. The file stays behind; only the lock on it counts.
func lockDir(dir string, timeout time.Duration) (*dirLock, error) {
	for deadline := time.Now().Add(timeout); ; time.Sleep(lockPoll) {
		l, err := tryLock(dir, "")
		switch {
		case err == nil:
			return l, nil
		case errors.Is(err, errRemoved):
		case !errors.Is(err, errHeld):
			return nil, fmt.Errorf("journal: lock %s: %w", dir, err)
		case !time.Now().Before(deadline):
			return nil, &LockedError{Dir: dir, PID: readPID(dir)}
		}
	}
}

// tryLock locks dir now or never. What it writes is the pid and a note.
func tryLock(dir, note string) (*dirLock, error) {
	p, err := openPlace(dir)
	if err != nil {
		return nil, err
	}
	l := &dirLock{place: p}
	if err := l.try(note); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return l, nil
}

func (l *dirLock) try(note string) error {
	_, err := l.place.Lstat(lockName)
	l.created = errors.Is(err, fs.ErrNotExist)
	if l.f, err = l.place.open(lockName, os.O_RDWR|os.O_CREATE); err != nil {
		return err
	}
	if err = lockFile(l.f); err == nil {
		err = l.claim(note)
	}
	if err != nil {
		return errors.Join(err, l.f.Close())
	}
	return nil
}

// claim writes our pid into the file, which we hold the lock on, unless its
// last owner removed it under our hands.
func (l *dirLock) claim(note string) error {
	if !l.ours() {
		return errRemoved
	}
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	_, err := l.f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"+note), 0)
	return err
}

// ours reports whether the file that we hold the lock on still has its name.
func (l *dirLock) ours() bool {
	held, err := l.f.Stat()
	return err == nil && l.place.has(lockName, held)
}

func (l *dirLock) unlock() error { return errors.Join(l.f.Close(), l.place.Close()) }

// undo unlocks and leaves no trace, for an owner that did nothing. Removing the
// file while holding the lock is safe: see claim.
func (l *dirLock) undo() error {
	if l.created && l.ours() {
		_ = l.place.Remove(lockName) // Windows refuses; then an empty LOCK stays
	}
	return l.unlock()
}

// readPID returns who owns dir, 0 when its LOCK does not tell.
func readPID(dir string) int {
	line, _, _ := strings.Cut(readLock(dir), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}

func readLock(dir string) string {
	p, err := openPlace(dir)
	if err != nil {
		return ""
	}
	defer p.Close()
	b, err := p.read(lockName, lockBytes)
	if err != nil {
		return ""
	}
	return string(b)
}
