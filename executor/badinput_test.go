package executor_test

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// picky is a codec that does not encode everything.
type picky struct{ executor.JSON[string] }

func (picky) Encode(v string) ([]byte, error) {
	switch v {
	case "error":
		return nil, errors.New("this word is not for me")
	case "panic":
		panic("nor is this one")
	}
	return []byte(strconv.Quote(v)), nil
}

// What can't be accepted is refused with an error that says what was wrong. It
// leaves nothing in the journal.
func TestBadPayloadsAreRefused(t *testing.T) {
	x := open(t, filepath.Join(t.TempDir(), "journal"), executor.Config{Advanced: executor.Advanced{MaxPayloadBytes: 100}})
	q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{Codec: picky{}})
	before := must(x.Stats(t.Context())).Journal.Next
	for name, test := range map[string]struct {
		id, payload string
		options     []executor.Option
		want        error
		says        string
	}{
		"empty id":       {"", "x", nil, executor.ErrInvalidID, "0 bytes"},
		"long id":        {strings.Repeat("i", 513), "x", nil, executor.ErrInvalidID, "513 bytes"},
		"NaN":            {"a", "x", []executor.Option{executor.Score(math.NaN())}, executor.ErrInvalidItem, "NaN"},
		"Inf":            {"a", "x", []executor.Option{executor.Score(math.Inf(1))}, executor.ErrInvalidItem, "+Inf"},
		"minus Inf":      {"a", "x", []executor.Option{executor.Score(math.Inf(-1))}, executor.ErrInvalidItem, "-Inf"},
		"large":          {"a", strings.Repeat("x", 99), nil, executor.ErrTooLarge, "101 bytes"},
		"does not":       {"a", "error", nil, executor.ErrEncode, "not for me"},
		"codec panics":   {"a", "panic", nil, executor.ErrEncode, "nor is this one"},
		"zero option":    {"a", "x", []executor.Option{{}}, nil, ""},
		"longest id":     {strings.Repeat("i", 512), "x", nil, nil, ""},
		"any bytes":      {"\x00\xff<b>", "x", nil, nil, ""},
		"negative score": {"b", "x", []executor.Option{executor.Score(math.Copysign(0, -1))}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := q.Enqueue(t.Context(), test.id, test.payload, test.options...)
			if test.want == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, test.want)
			require.ErrorContains(t, err, test.says)
			_, err = q.EnqueueMany(t.Context(), []executor.Item[string]{{ID: "good", Payload: "x"}, {ID: test.id, Payload: "error"}})
			require.Error(t, err, "all or none")
			require.ErrorContains(t, err, "item 1")
		})
	}
	require.EqualValues(t, before+4, must(x.Stats(t.Context())).Journal.Next, "four were good")
}

func TestBadQueuesAreRefused(t *testing.T) {
	x := open(t, "", executor.Config{})
	p := &probe{}
	handle(t, x, "q", p.handle, executor.QueueConfig[string]{})
	for name, test := range map[string]struct {
		queue   string
		handler func(context.Context, executor.Merged[string]) error
		cfg     executor.QueueConfig[string]
		want    error
		says    string
	}{
		"twice":       {"q", p.handle, executor.QueueConfig[string]{}, executor.ErrConfig, `queue "q" is registered already`},
		"nil handler": {"r", nil, executor.QueueConfig[string]{}, executor.ErrConfig, "nil"},
		"no name":     {"", p.handle, executor.QueueConfig[string]{}, executor.ErrConfig, "name"},
		"shards":      {"r", p.handle, executor.QueueConfig[string]{Share: executor.Share{Shards: -1}}, executor.ErrConfig, "Shards is -1"},
		"merge":       {"r", p.handle, executor.QueueConfig[string]{Merge: "x"}, executor.ErrConfig, `Merge is "x", it must be one of ["KeepAll" `},
		"batch":       {"r", p.handle, executor.QueueConfig[string]{BatchSize: 2}, executor.ErrConfig, "HandleBatch"},
		"durability":  {"r", p.handle, executor.QueueConfig[string]{Defaults: executor.Defaults[string]{Durability: "x"}}, executor.ErrConfig, `Durability is "x", it must be one of ["Sync" "Async"]`},
		"weight":      {"r", p.handle, executor.QueueConfig[string]{Share: executor.Share{Weight: -1}}, executor.ErrConfig, "Weight is -1, it must be from 0 to 65536"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := executor.HandleMerged(x, test.queue, test.handler, test.cfg)
			require.ErrorIs(t, err, test.want)
			require.ErrorContains(t, err, test.says)
		})
	}
	_, err := enqueueRaw(t.Context(), x, "missing", "a", nil)
	require.ErrorIs(t, err, executor.ErrUnknownQueue)
	require.ErrorContains(t, err, "registered are: q")
	_, err = open(t, "", executor.Config{}).Inspect().Explain(t.Context(), "no", "a")
	require.ErrorContains(t, err, "registered are: none yet")
	for says, cfg := range map[string]executor.Config{
		"Workers is -1":        {Workers: -1},
		"TimerSlack is 1.001s": {Advanced: executor.Advanced{TimerSlack: 1001 * time.Millisecond}},
	} {
		_, err = executor.Open("", cfg)
		require.ErrorIs(t, err, executor.ErrConfig)
		require.ErrorContains(t, err, says)
	}
}

// Queues and key-locks that no executor has made say so, and do not panic.
func TestZeroQueuesAndKeyLocks(t *testing.T) {
	for _, q := range []*executor.Queue[string]{nil, {}} {
		require.Empty(t, q.Name())
		require.Nil(t, q.Executor())
		_, err := q.Enqueue(t.Context(), "a", "payload")
		require.ErrorIs(t, err, executor.ErrState)
	}
	k := (*executor.Executor)(nil).KeyLocks()
	require.ErrorIs(t, k.Lock(t.Context(), "key"), executor.ErrState)
	require.ErrorIs(t, k.Unlock(t.Context(), "key"), executor.ErrState)
	_, err := k.Locked(t.Context(), "key")
	require.ErrorIs(t, err, executor.ErrState)
	cancel, locked := k.Watch("key", func() {})
	cancel()
	require.False(t, locked)
}

func TestBadDirectoriesAreRefused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := executor.Open(file, executor.Config{})
	require.ErrorIs(t, err, journal.ErrNotJournal)
	_, err = executor.Open(filepath.Join(dir, "no", "such"), executor.Config{})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoFileExists(t, filepath.Join(dir, "no"))

	x := open(t, filepath.Join(dir, "journal"), executor.Config{})
	_, err = executor.Open(filepath.Join(dir, "journal"), executor.Config{})
	require.ErrorAs(t, err, new(*journal.LockedError))
	require.ErrorContains(t, err, strconv.Itoa(os.Getpid()))
	stop(t, x)
}

// TestJournalInUseElsewhere has another process hold the journal: this test binary
// again.
func TestJournalInUseElsewhere(t *testing.T) {
	const variable = "STRAND_TEST_IN_USE"
	if dir := os.Getenv(variable); dir != "" {
		_, err := executor.Open(dir, executor.Config{})
		locked, ok := errors.AsType[*journal.LockedError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, os.Getppid(), locked.PID)
		return
	}
	dir := filepath.Join(t.TempDir(), "journal")
	x := open(t, dir, executor.Config{})
	child := exec.Command(os.Args[0], "-test.run=^TestJournalInUseElsewhere$")
	child.Env = append(os.Environ(), variable+"="+dir)
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
	stop(t, x)
}
