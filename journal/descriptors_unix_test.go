//go:build unix && !solaris && !aix

package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/stretchr/testify/require"
)

// scarceEnv makes the test binary run every call with few descriptors, in the
// directory that it names.
const scarceEnv = "STRAND_TEST_SCARCE"

func init() { children[scarceEnv] = scarce }

// TestNoDescriptors sweeps over the number of descriptors that are left, for every
// call that opens files. Whatever the call says, the log goes on, and the same
// call works when there are descriptors again.
func TestNoDescriptors(t *testing.T) {
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), scarceEnv+"="+t.TempDir())
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// most is more descriptors than any call needs.
const most = 12

func scarce(top string) int {
	dir := filepath.Join(top, "j")
	l, err := Open(dir, Config{})
	if err == nil {
		err = sweepCalls(l, top)
	}
	if err == nil {
		err = l.Close()
	}
	if err == nil {
		err = sweepWAL(top)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func sweepCalls(l *Log, top string) error {
	n := 0
	fresh := func() string {
		n++
		return filepath.Join(top, "new"+strconv.Itoa(n))
	}
	rest := filepath.Join(top, "rest")
	if err := l.Copy(context.Background(), rest); err != nil {
		return err
	}
	for name, call := range map[string]func() error{
		"Compact": func() error { return l.Compact(context.Background()) },
		"Copy":    func() error { return l.Copy(context.Background(), fresh()) },
		"Running": func() error {
			r, err := l.RecordCrashes(1, 3)
			if err == nil {
				err = r.Close(false)
			}
			return err
		},
		"Open, new":       func() error { return readers["Open"](fresh(), "") },
		"Open":            func() error { return readers["Open"](rest, "") },
		"OpenView":        func() error { return readers["OpenView"](rest, "") },
		"Check":           func() error { return readers["Check"](rest, "") },
		"Compact at rest": func() error { return readers["Compact"](rest, "") },
		"Clone":           func() error { return Clone(rest, fresh()) },
		"Salvage":         func() error { return readers["Salvage"](rest, fresh()) },
		"append":          func() error { return oneIf(l) },
	} {
		for left := range most {
			if err := with(left, call); err != nil && (!errors.Is(err, syscall.EMFILE) || left == most-1) {
				return fmt.Errorf("%s with %d descriptors: %w", name, left, err)
			}
			if names, err := os.ReadDir(filepath.Join(top, "new"+strconv.Itoa(n))); err == nil && len(names) == 0 {
				return fmt.Errorf("%s with %d descriptors leaves an empty directory", name, left)
			}
			for _, work := range []func() error{l.Err, func() error { return oneIf(l) }, call} {
				if err := work(); err != nil {
					return fmt.Errorf("after %s with %d descriptors: %w", name, left, err)
				}
			}
			if drafts, _ := filepath.Glob(filepath.Join(top, "*"+directory.DraftSuffix+"*")); len(drafts) > 0 {
				return fmt.Errorf("%s with %d descriptors leaves %v", name, left, drafts)
			}
		}
	}
	return nil
}

// sweepWAL makes the log before the file with few descriptors, or does without.
func sweepWAL(top string) error {
	made := 0
	for left := range most {
		dir := filepath.Join(top, "wal"+strconv.Itoa(left))
		l, err := Open(dir, Config{WALBytes: 16 << 10, walAfter: 3})
		if err != nil {
			return err
		}
		appends := func() (err error) {
			for range 8 {
				err = errors.Join(err, oneIf(l))
			}
			return err
		}
		if err := errors.Join(with(left, appends), appends(), l.Err()); err != nil {
			return fmt.Errorf("a log with %d descriptors: %w", left, err)
		}
		if _, err := os.Stat(filepath.Join(dir, directory.WALFile)); err == nil {
			made++
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
	if made == 0 || made == most {
		return fmt.Errorf("a log was made %d of %d times", made, most)
	}
	return nil
}

func oneIf(l *Log) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ticket, err := l.Append(ctx, []Entry{{Queue: 1, ID: []byte("id")}}, nil)
	if err == nil {
		err = ticket.Wait(ctx)
	}
	return err
}

// with calls f while no more than some descriptors can be opened.
func with(left int, f func() error) error {
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		return err
	}
	// Those that are open may have gaps between them: these are filled.
	var fill []*os.File
	defer func() {
		for _, f := range fill {
			_ = f.Close()
		}
	}()
	highest := 0
	for range 64 {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		fill, highest = append(fill, f), int(f.Fd())
	}
	limit := before
	limit.Cur = uint64(highest + 1 + left)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	err := f()
	return errors.Join(err, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before))
}
