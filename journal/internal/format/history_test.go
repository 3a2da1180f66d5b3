package format

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// A history keeps the newest failures, and of all but the last a KiB of text, which
// stays valid.
func TestHistoryIsBounded(t *testing.T) {
	var h History
	require.Empty(t, h.Failures("none"))
	last := ""
	for i := range 2 * HistoryFailures {
		text := fmt.Sprint("failure ", i+1, strings.Repeat("ä", i*400))
		h = h.Add(last, Failure{i + 1, int64(i), text})
		last = text
		got := h.Failures(last)
		require.Len(t, got, min(i+1, HistoryFailures))
		for j, f := range got {
			attempt := i + 2 - len(got) + j
			require.Equal(t, []any{attempt, int64(attempt - 1)}, []any{f.Attempt, f.At})
			require.True(t, strings.HasPrefix(f.Text, fmt.Sprint("failure ", attempt)))
			require.True(t, utf8.ValidString(f.Text))
			if j < len(got)-1 {
				require.LessOrEqual(t, len(f.Text), HistoryTextBytes)
			}
		}
		require.Equal(t, last, got[len(got)-1].Text, "the newest is whole")
		require.LessOrEqual(t, len(h), (HistoryFailures-1)*HistoryTextBytes+16*HistoryFailures)
	}
	require.NotContains(t, string(h), last, "its text stands beside it")
}

// Failures that are all alike take no room for their texts.
func TestHistoryOfAnOutage(t *testing.T) {
	var h History
	last := ""
	for i := range 9 {
		text := "connection refused"
		if i == 5 {
			text = "timed out"
		}
		h = h.Add(last, Failure{i + 1, int64(i), text})
		last = text
	}
	want := []Failure{{5, 4, "connection refused"}, {6, 5, "timed out"}, {7, 6, "connection refused"}, {8, 7, "connection refused"}, {9, 8, "connection refused"}}
	require.Equal(t, want, h.Failures(last))
	require.Equal(t, 1, strings.Count(string(h), "connection refused"))
	require.Equal(t, History(nil).Failures(""), []Failure(nil))
}

// Pairs are read as they were given, by key, and nothing else is.
func TestMetadata(t *testing.T) {
	want := map[string]string{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "b": "", "a": "\x00\xff"}
	m := NewMetadata(want)
	require.Equal(t, want, maps.Collect(m.All()))
	require.Empty(t, NewMetadata(nil))
	for cut := range m {
		for key, value := range m[:cut].All() {
			require.Equal(t, want[key], value, "cut at %d", cut)
		}
	}
}

// What a payload without metadata takes in the log says as well when it was
// accepted, unless it came with a due time and with a score.
func TestTimeOfAcceptanceIsForNothing(t *testing.T) {
	const now, later, base = 1795337061094171025, 4102444800000000000, 1795337061094000000
	size := func(e Entry) int {
		e.Kind, e.ID = KindEnqueued, []byte("id")
		b := AppendEntry(nil, &e, false, 0, base)
		d, got := Decoder{B: b}, Entry{}
		d.Entry(&got, 0, base)
		require.NoError(t, d.Err)
		require.InDelta(t, now, got.AcceptedAt(), 1000)
		return len(b)
	}
	unknown := func(e Entry) int {
		e.Kind, e.ID = KindEnqueued, []byte("id")
		return len(AppendEntry(nil, &e, false, 0, base))
	}
	for name, e := range map[string]Entry{
		"plain":        {Due: now, Score: ScoreOf(now)},
		"put off":      {Due: later, Score: ScoreOf(now)},
		"with a score": {Due: now, Score: 7},
	} {
		with := e
		with.Accepted = now
		require.Equal(t, unknown(e), size(with), name)
	}
	require.Greater(t, size(Entry{Due: later, Score: 7, Accepted: now}), unknown(Entry{Due: later, Score: 7}))
}
