package journal

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/store"
)

// long says that a test may take its time.
var long = os.Getenv("STRAND_LONG") != ""

// RaceEnabled is raceEnabled for the tests that see the package from outside.
const RaceEnabled = raceEnabled

// EveryDay says that this is a go test of every day, and of no push, which makes all.
var EveryDay = !long && os.Getenv("STRAND_PUSH") == ""

// oneIn thins out what is long for a go test of every day, and what one goroutine does alone,
// which has nothing to race with and takes several times as long under the detector: a test
// makes one in so many. With STRAND_PUSH=1, as in .ci/run, and without the detector it makes one
// in three, and with STRAND_LONG=1 all. It is odd.
var oneIn = func() int {
	switch {
	case EveryDay:
		return 27
	case raceEnabled:
		return 9
	case !long:
		return 3
	}
	return 1
}()

// must is for deliveries, which are not on the test's goroutine.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// children are what else the test binary can be, by the variable that says where.
var children = map[string]func(dir string) int{}

func TestMain(m *testing.M) {
	if dir, told := os.LookupEnv(ownEnv); told {
		os.Exit(own(dir))
	}
	for env, child := range children {
		if dir, told := os.LookupEnv(env); told {
			os.Exit(child(dir))
		}
	}
	if root, told := os.LookupEnv(hostileEnv); told {
		os.Exit(meetHostile(root))
	}
	os.Exit(m.Run())
}

// rapidFor sets how much rapid does, unless the command line says so.
func rapidFor(t *testing.T, checks, inLongTier int) {
	if checks = max(checks/oneIn, 1); long {
		checks = inLongTier
	}
	f := flag.Lookup("rapid.checks")
	if f.Value.String() == f.DefValue {
		require.NoError(t, flag.Set(f.Name, strconv.Itoa(checks)))
		t.Cleanup(func() { _ = flag.Set(f.Name, f.DefValue) })
	}
}

// hooked is a store that tells when it has committed.
type hooked struct {
	store.Store
	committed func()
}

func (h hooked) Commit(t *store.Transaction) error {
	err := h.Store.Commit(t)
	if err == nil {
		h.committed()
	}
	return err
}

// filesIn reads the files of a journal, by name.
func filesIn(t testing.TB, dir string) map[string][]byte {
	files := make(map[string][]byte)
	for _, name := range []string{directory.FileName, directory.WALFile} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if !errors.Is(err, fs.ErrNotExist) {
			require.NoError(t, err)
			files[name] = b
		}
	}
	return files
}

// withFiles makes a directory that holds files.
func withFiles(t testing.TB, files map[string][]byte) (dir string) {
	dir, err := os.MkdirTemp(t.TempDir(), "")
	require.NoError(t, err)
	for name, b := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	return dir
}

// onFile continues on a copy of the files of a journal, with a log of so many bytes.
func (m *model) onFile(t testing.TB, files map[string][]byte, log int) func(Config) (*Log, error) {
	return func(cfg Config) (*Log, error) {
		dir := withFiles(t, files)
		s, err := store.OpenLogged(must(directory.Open(dir)), log, 0)
		if err != nil {
			return nil, err
		}
		l := newLog(hooked{s, func() {
			if cfg.Deliver != nil && m.log != nil {
				m.committed()
			}
		}}, cfg, false)
		if cfg.Deliver != nil {
			m.snap = func() func(Config) (*Log, error) {
				return m.onFile(t, filesIn(t, dir), log)
			}
		}
		if err := l.boot(); err != nil {
			return nil, err
		}
		return l, nil
	}
}

// TestModelOnFile copies the files after every commit and opens every copy.
func TestModelOnFile(t *testing.T) {
	rapidFor(t, 6, 1000)
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		m := &model{with: tight}
		if n++; n%2 == 0 {
			m.with = func(c Config) Config { return frugal(tight(c)) }
		}
		m.open = m.onFile(t, nil, []int{8 << 10, -1, 32 << 10, 1 << 20}[n%4])
		m.run(r)
	})
}

// slow leaves a test that takes seconds to .ci/run, which sets CI, and to those who name tests.
func slow(t *testing.T) {
	t.Helper()
	if flag.Lookup("test.run").Value.String() == "" && os.Getenv("CI") == "" && os.Getenv("STRAND_LONG") == "" {
		t.Skip("takes seconds: CI=1 makes it")
	}
}
