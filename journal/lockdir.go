package journal

import (
	"errors"
	"fmt"
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

var errHeld = errors.New("held")

// lockDir makes this process the owner of dir and writes its pid where the
// next one can read it. The file stays behind; only the lock on it counts.
func lockDir(dir string, timeout time.Duration) (unlock func() error, err error) {
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	for deadline := time.Now().Add(timeout); ; time.Sleep(lockPoll) {
		if err = lockFile(f); !errors.Is(err, errHeld) || !time.Now().Before(deadline) {
			break
		}
	}
	if errors.Is(err, errHeld) {
		return nil, errors.Join(&LockedError{Dir: dir, PID: readPID(path)}, f.Close())
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("journal: lock %s: %w", path, err), f.Close())
	}
	return f.Close, nil
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
