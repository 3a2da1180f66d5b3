package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

// stateful is an executor that uses every kind of state key. Its jobs fail.
type stateful struct {
	x     *executor.Executor
	sales *executor.Queue[string]
}

// startStateful starts one; an error of it is one of a start.
func startStateful(t *testing.T, dir string) (s *stateful, err error) {
	silent := slog.New(slog.NewTextHandler(io.Discard, nil))
	s = new(stateful)
	if s.x, err = executor.Open(dir, executor.Config{Logger: silent}); err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = s.x.Stop(context.WithoutCancel(t.Context())) })
	serials, err := executor.NewSlots(s.x, "serials", executor.SlotsConfig[int]{
		Next: func(n int) int { return n + 1 }, TTL: time.Hour, KeepOnFailure: true, KeepOnBurial: true,
	})
	if err != nil {
		return s, err
	}
	s.sales, err = executor.Handle(s.x, "sales", func(_ context.Context, job executor.Job[string]) error {
		return map[string]error{"fails": errors.New("sold out"), "dies": executor.Cancel(errors.New("no such event"))}[job.ID]
	}, executor.QueueConfig[string]{
		Conditions: executor.Conditions[string]{
			Slots: []executor.SlotSource{serials},
			Locks: executor.Locks[string]{OnEnqueue: func(id, _ string) []string { return []string{"of " + id} }},
		}, RetryIn: func(int) time.Duration { return time.Hour },
	})
	if err != nil {
		return s, err
	}
	c, err := cron.New(s.x, cron.Config{})
	if err != nil {
		return s, err
	}
	return s, errors.Join(
		cron.Add(t.Context(), c, cron.Schedule[string]{Name: "nightly", Spec: "0 3 * * *", Queue: s.sales, Missed: cron.MissedOnce, Payload: func(time.Time) string { return "" }}),
		s.x.Start(t.Context()), c.Start(), s.call(t))
}

// call is accepted once, however often it is made.
func (s *stateful) call(t *testing.T) error {
	for _, o := range []executor.Option{executor.IdempotencyKey("request"), executor.FromSource("feed", 7)} {
		if _, err := s.sales.Enqueue(t.Context(), "works", "", o); err != nil && !errors.As(err, new(*executor.StaleError)) {
			return err
		}
	}
	return nil
}

// ofAllKinds is a journal with state keys of all kinds, and what they are.
func ofAllKinds(t *testing.T) (dir string, keys []journal.Set) {
	dir = filepath.Join(t.TempDir(), "kinds.strand")
	s, err := startStateful(t, dir)
	require.NoError(t, err)
	for _, id := range []string{"works", "fails", "dies"} {
		_, err = s.sales.Enqueue(t.Context(), id, "")
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		stats, err := s.sales.Stats(t.Context())
		require.NoError(t, err)
		return stats.Done >= 1 && stats.Retrying == 1 && stats.Buried == 1
	}, time.Minute, time.Millisecond)
	_, paused := s.x.Inspect().Pause(t.Context(), inspect.SelectQueue("sales"))
	_, stopped := s.x.Inspect().Pause(t.Context(), inspect.SelectExecutor())
	require.NoError(t, errors.Join(
		s.x.KeyLocks().Lock(t.Context(), "by hand"), stopped, paused,
		s.x.Stop(t.Context())))
	must(t, "", "pause", dir, "sales", "resting")
	v, err := journal.OpenView(dir)
	require.NoError(t, err)
	for set, err := range v.Keys() {
		require.NoError(t, err)
		keys = append(keys, journal.Set{Key: set.Key, Value: bytes.Clone(set.Value)})
	}
	require.NoError(t, v.Close())
	for _, kind := range []string{"mark/cron", "mark/feed", "key/", "lock/", "pause/executor", "pause/queue", "pause/id", "slot/7/serials/last", "slot/7/serials/open", "slot/7/serials/buried"} {
		require.True(t, slices.ContainsFunc(keys, func(s journal.Set) bool { return strings.HasPrefix(s.Key, kind) }), kind)
	}
	return dir, keys
}

// What is deleted from the morgue unlocks what it had locked, and nothing else.
func TestMorgueDeleteUnlocks(t *testing.T) {
	dir, keys := ofAllKinds(t)
	must(t, "", "morgue", dir, "delete", "sales", "dies")
	v, err := journal.OpenView(dir)
	require.NoError(t, err)
	defer v.Close()
	for set, err := range v.Keys() {
		require.NoError(t, err)
		require.NotContains(t, string(set.Value), "of dies")
		keys = slices.DeleteFunc(keys, func(was journal.Set) bool { return was.Key == set.Key })
	}
	require.Len(t, keys, 1)
	require.Contains(t, string(keys[0].Value), "of dies")
}

// withKey is a copy of a journal with another state key, of which every checksum is right.
func withKey(t *testing.T, dir string, set journal.Set) string {
	forged := filepath.Join(t.TempDir(), "forged.strand")
	require.NoError(t, journal.Clone(dir, forged))
	l, err := journal.Open(forged, journal.Config{})
	require.NoError(t, err)
	l.Record(&journal.Change{Sets: []journal.Set{set}})
	require.NoError(t, errors.Join(l.Settled(t.Context()), l.Close()))
	return forged
}

func starts(t *testing.T, dir string) error {
	s, err := startStateful(t, dir)
	if s != nil {
		err = errors.Join(err, s.x.Stop(t.Context()))
	}
	return err
}

// A state key that an executor refuses, though every checksum is right, is found by check,
// is not brought in by import, and is left out by salvage, which says so; with what it
// writes a start succeeds.
func TestSalvagedStateKeysStart(t *testing.T) {
	t.Parallel()
	slow(t)
	dir, keys := ofAllKinds(t)
	forgeries := map[string]journal.Set{"a lock without a number": {Key: "lock/1", Value: make([]byte, 40)}}
	locks := 0
	for _, set := range keys {
		values := map[string][]byte{
			"empty": {}, "28 bytes": bytes.Repeat([]byte{1}, 28), "cut": set.Value[:len(set.Value)-1], "newer": append([]byte{200}, set.Value[1:]...),
		}
		switch {
		case strings.HasPrefix(set.Key, "lock/"):
			if locks++; locks > 1 {
				continue
			}
		case strings.HasPrefix(set.Key, "slot/7/serials/open/"):
			values["no token"] = []byte(`{"Held":{"Until":"2999-01-01T00:00:00Z"},"Value":9}`)
			values["negative"] = []byte(`{"Held":{"Until":"2999-01-01T00:00:00Z","Token":9,"TTL":-1},"Value":9}`)
			values["no value"] = []byte(`{"Held":{"Until":"2999-01-01T00:00:00Z","Token":9}}`)
			forgeries["twice reserved"] = journal.Set{Key: set.Key + "2", Value: set.Value}
		}
		for name, value := range values {
			forgeries[fmt.Sprintf("%s %.24q", name, set.Key)] = journal.Set{Key: set.Key, Value: value}
		}
	}
	refused := 0
	for name, set := range forgeries {
		t.Run(name, func(t *testing.T) {
			forged := withKey(t, dir, set)
			saved := filepath.Join(t.TempDir(), "saved.strand")
			checked, _, status := strand(t, "", "check", forged)
			out := must(t, "", "salvage", forged, saved)
			exported := must(t, "", "export", forged)
			_, said, imported := strand(t, exported, "import", filepath.Join(t.TempDir(), "imported.strand"))
			require.NoError(t, starts(t, saved), "of %s", out)
			must(t, "", "check", saved)
			if err := starts(t, forged); err != nil {
				refused++
				assert.ErrorContains(t, err, fmt.Sprintf("%q", set.Key))
				assert.ErrorContains(t, err, "strand salvage")
				assert.Equal(t, noClear, imported)
				assert.Contains(t, said, "line ")
				assert.Contains(t, out, "lost: state key")
				assert.NotEqual(t, fine, status, checked)
				return
			}
			assert.Contains(t, out, "nothing was lost")
			assert.Equal(t, fine, status, checked)
			assert.Equal(t, fine, imported, said)
		})
	}
	assert.Greater(t, refused, 30, "of %d", len(forgeries))
}
