package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A ledger that finds nothing proves nothing: each of these breaks the order,
// or doesn't. A step is a kind of record with the commits of the run; L opens
// the ledger anew, S before it for a clean end.
func TestLedger(t *testing.T) {
	h := &history{paths: []string{"p"}, touched: [][]int{{2, 3, 5, 8}}}
	for _, c := range []struct {
		name, steps string
		violations  int
	}{
		{"one by one", "b2 d2 b3 d3 b5 d5 b8 d8", 0},
		{"merged", "b235 d235 b8 d8", 0},
		{"failed, then with more", "b2 f2 b235 d235", 0},
		{"waited", "b2 w2 b2 d2", 0},
		{"backwards", "b2 d2 b3 d3 b2", 1},
		{"twice", "b2 d2 b2", 1},
		{"overtaken", "b2 f2 b3", 1},
		{"lost", "b3", 1},
		{"lost within", "b25", 1},
		{"disorder within", "b32", 1},
		{"twice within", "b22", 1},
		{"unknown", "b4", 1},
		{"beyond", "b58888", 2}, // and too early
		{"overlap", "b2 b2", 1},
		{"again after a crash", "b2 d2 b3 d3 L b23 d23 b5 d5", 0},
		{"running at the crash", "b2 d2 b3 L b3 d3", 0},
		{"again only once", "b2 d2 b3 d3 L b2 d2 b3 d3 b2", 1},
		{"lost in a crash", "b2 L b3", 1},
		{"again after a clean end", "b2 d2 S L b2", 1},
		{"goes on after a clean end", "b2 f2 S L b23 d23", 0},
		{"crash before a clean end", "b2 d2 L S L b2", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "ledger")
			l, err := openLedger(name, h)
			require.NoError(t, err)
			for step := range strings.FieldsSeq(c.steps) {
				var commits []int
				for _, digit := range step[1:] {
					commits = append(commits, int(digit-'0'))
				}
				switch kind := rune(step[0]); kind {
				case runBegins:
					l.begin(0, commits)
				case lifeEnds:
					require.NoError(t, l.close(true))
				case lifeBegins:
					l, err = openLedger(name, h)
					require.NoError(t, err)
				default:
					l.end(0, commits, kind)
				}
			}
			found, _ := l.counts()
			if c.name == "beyond" {
				assert.NotZero(t, found.violations)
				return
			}
			assert.Equal(t, c.violations, found.violations)

			again, err := openLedger(name, h)
			require.NoError(t, err)
			replayed, _ := again.counts()
			assert.Equal(t, found.violations, replayed.violations, "violations last")
			assert.Equal(t, found.ended, replayed.ended)
			assert.Equal(t, found.runs, replayed.runs)
		})
	}
}

func TestLedgerHalfRecord(t *testing.T) {
	h := &history{paths: []string{"p"}, touched: [][]int{{0, 1}}}
	name := filepath.Join(t.TempDir(), "ledger")
	l, err := openLedger(name, h)
	require.NoError(t, err)
	l.begin(0, []int{0})
	l.end(0, []int{0}, runDone)
	require.NoError(t, l.close(false))
	whole, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, append(whole, "b 12 0"...), 0o666))

	l, err = openLedger(name, h)
	require.NoError(t, err)
	l.begin(0, []int{1})
	l.end(0, []int{1}, runDone)
	found, _ := l.counts()
	assert.Equal(t, totals{lives: 2, crashes: 1, runs: 2, ended: 2}, found)
	require.NoError(t, l.close(true))
	after, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(string(after), string(whole)+"L "))

	_, err = openLedger(name, &history{})
	require.ErrorContains(t, err, "another repository")
}

func TestWatcher(t *testing.T) {
	name := filepath.Join(t.TempDir(), "ledger")
	w := &watcher{ledger: name}
	assert.Zero(t, w.look())
	require.NoError(t, os.WriteFile(name, []byte("L 0 0 0 0\nb 1 0 0 3\nd 2 0 0 3\nd 3 1"), 0o666))
	assert.Equal(t, 3, w.look())
	require.NoError(t, os.WriteFile(name, []byte("L 0 0 0 0\nb 1 0 0 3\nd 2 0 0 3\nd 3 1 0 2\n"), 0o666))
	assert.Equal(t, 5, w.look())
	for range 100 {
		m := w.choose(10, 2)
		assert.True(t, m.ended > 5 && m.ended <= 5+1+10/3, m)
	}
	assert.Equal(t, moment{}, w.choose(10, 0))
}
