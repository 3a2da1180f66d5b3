package main

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// Each payload is with one producer, and those of an id with the same one, in
// order.
func TestNumbers(t *testing.T) {
	for _, c := range []struct{ n, ids, producers int }{{10, 3, 2}, {7, 100, 2}, {1000, 10, 256}, {1, 1, 4}, {12, 4, 4}} {
		l := newLoad(c.n, makeIDs(c.ids))
		owner, all := map[int]int{}, []int(nil)
		for p := range c.producers {
			numbers := slices.Collect(l.numbers(p, c.producers))
			assert.True(t, slices.IsSorted(numbers))
			for _, number := range numbers {
				slot := number % len(l.ids)
				if other, known := owner[slot]; known {
					assert.Equal(t, other, p)
				}
				owner[slot] = p
			}
			all = append(all, numbers...)
		}
		slices.Sort(all)
		require.Len(t, slices.Compact(all), c.n)
	}
}

// events are payloads of an id with these numbers.
func events(id string, numbers ...uint64) (jobs []executor.Job[[]byte]) {
	for _, number := range numbers {
		jobs = append(jobs, executor.Job[[]byte]{ID: id, Payload: binary.LittleEndian.AppendUint64(nil, number)})
	}
	return jobs
}

// A benchmark that loses jobs has to notice.
func TestLoadNotices(t *testing.T) {
	ids := []string{"a", "b"}
	for name, c := range map[string]struct {
		jobs [][]executor.Job[[]byte]
		want string
	}{
		"right":       {[][]executor.Job[[]byte]{events("a", 0), events("b", 1, 3), events("a", 2)}, ""},
		"lost":        {[][]executor.Job[[]byte]{events("a", 0), events("b", 1, 3)}, "3 payloads have run, want 4"},
		"twice":       {[][]executor.Job[[]byte]{events("a", 0), events("a", 0)}, `payload 0 of "a" ran when 2 of "a" was next`},
		"overtaken":   {[][]executor.Job[[]byte]{events("a", 2, 0)}, `payload 2 of "a" ran when 0 of "a" was next`},
		"another one": {[][]executor.Job[[]byte]{events("b", 0)}, `payload 0 of "b" ran when 0 of "a" was next`},
	} {
		l := newLoad(4, ids)
		for _, j := range slices.Concat(c.jobs...) {
			require.NoError(t, l.handle(t.Context(), j))
		}
		if c.want == "" {
			assert.NoError(t, l.check(), name)
			assert.NoError(t, l.wait(t.Context()), name)
		} else {
			assert.ErrorContains(t, l.check(), c.want, name)
		}
	}
}

func TestLoadStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		assert.ErrorContains(t, newLoad(4, []string{"a"}).wait(t.Context()), "0 of 4 payloads have run, and no more")
	})
}

func TestProduceJoinsErrors(t *testing.T) {
	err := newLoad(1, []string{"a"}).produce(2, func(p int) error { return errors.New([]string{"one", "two"}[p]) })
	assert.EqualError(t, err, "one\ntwo")
}

// The same for payloads that belong to ids in no pattern, and for those that
// have no room for a number.
func TestLoadNoticesWhatIsAssigned(t *testing.T) {
	for name, c := range map[string]struct {
		jobs [][]executor.Job[[]byte]
		want string
	}{
		"right":     {[][]executor.Job[[]byte]{events("a", 0, 1), events("b", 2), events("a", 3)}, ""},
		"lost":      {[][]executor.Job[[]byte]{events("a", 0, 3), events("b", 2)}, "3 payloads have run, want 4"},
		"twice":     {[][]executor.Job[[]byte]{events("a", 0, 0)}, `payload 0 of "a" ran when 1 of "a" was next`},
		"overtaken": {[][]executor.Job[[]byte]{events("a", 0, 3, 1)}, `payload 1 of "a" ran when 4 of "a" was next`},
		"elsewhere": {[][]executor.Job[[]byte]{events("b", 0)}, `payload 0 of "b" ran when 0 of "a" was next`},
	} {
		l := newLoad(4, []string{"a", "b"})
		l.assigned = []int32{0, 0, 1, 0}
		for _, j := range slices.Concat(c.jobs...) {
			require.NoError(t, l.handle(t.Context(), j))
		}
		if c.want == "" {
			assert.NoError(t, l.check(), name)
		} else {
			assert.ErrorContains(t, l.check(), c.want, name)
		}
	}
	assert.Equal(t, 42, numberOf("order-00000042", nil))
	assert.Equal(t, 7, numberOf("order-00000042", binary.LittleEndian.AppendUint64(nil, 7)))
}

func TestLoadFailsOnce(t *testing.T) {
	l := newLoad(4, []string{"a"})
	l.failed, l.fails = make([]bool, 4), func(number int) bool { return number == 1 }
	for _, j := range events("a", 0, 1, 1, 2, 3) {
		failed := !l.failed[1] && numberOf(j.ID, j.Payload) == 1
		require.Equal(t, failed, l.handle(t.Context(), j) != nil)
	}
	assert.NoError(t, l.check())
}

func TestCurvePoints(t *testing.T) {
	assert.Equal(t, []int{1000, 10_000, 100_000}, backlogs(100_000))
	assert.Equal(t, []int{60}, backlogs(60))
}
