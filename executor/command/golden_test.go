package command

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o700))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

var (
	wallClock = regexp.MustCompile(`20[2-9]\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z`)
	process   = regexp.MustCompile(`(process |"pid":)\d+`)
	identity  = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	fileSize  = regexp.MustCompile(`(?m)("file_bytes":|^file +)[\d.]+( [KM]iB)?`)
)

// normal takes out of a text what differs from one run of the tests to the next.
func normal(s string, dirs ...string) string {
	for i, dir := range dirs {
		s = strings.ReplaceAll(s, dir, []string{"DIR", "NEWDIR"}[i])
	}
	s = wallClock.ReplaceAllString(s, "<time>")
	s = process.ReplaceAllString(s, "${1}<pid>")
	s = identity.ReplaceAllString(s, "<uuid>")
	return fileSize.ReplaceAllString(s, "${1}<size>")
}

// Every command that reads, for people and for programs, on a journal with a bit of
// everything.
func TestGolden(t *testing.T) {
	dir := office(t)
	untouched(t, dir)
	for name, args := range map[string][]string{
		"inspect":         {"inspect", dir, "-blocks"},
		"jobs":            {"jobs", dir},
		"jobs-limit":      {"jobs", dir, "-queue", "orders", "-limit", "1"},
		"job":             {"job", dir, "mails", "ann"},
		"job-long":        {"job", dir, "mails", "bob"},
		"job-full":        {"job", dir, "mails", "bob", "-full"},
		"replay":          {"replay", dir},
		"replay-policies": {"replay", dir, "-merge", "orders=KeepAll", "-max-payloads", "*=2"},
		"replay-events":   {"replay", dir, "-shape", "*=events"},
		"check":           {"check", dir},
		"export":          {"export", dir},
		"morgue-list":     {"morgue", dir},
		"morgue-list-one": {"morgue", dir, "list", "mails", "ann"},
	} {
		t.Run(name, func(t *testing.T) {
			golden(t, name, normal(must(t, "", args...), dir))
			if name != "export" {
				golden(t, name+".json", normal(must(t, "", append(args, "-json")...), dir))
			}
		})
	}
}

// What is said about calls that can't be carried out.
func TestGoldenErrors(t *testing.T) {
	dir := office(t)
	empty, files := t.TempDir(), t.TempDir()
	other := filepath.Join(files, "other")
	require.NoError(t, os.WriteFile(other, []byte("SQLite format 3\x00 and so on"), 0o600))
	var got strings.Builder
	for _, args := range [][]string{
		{"inspect"}, {"inspect", dir, dir}, {"inspect", dir, "-no"}, {"nonsense"}, {dir, "inspect"},
		{"inspect", filepath.Join(empty, "no")}, {"inspect", empty}, {"check", files}, {"inspect", other},
		{"inspect", filepath.Join(dir, "journal.db")}, {"import", dir}, {"copy", dir, dir},
		{"jobs", dir, "-queue", "no"}, {"job", dir, "mails", "missing"},
		{"replay", dir, "-merge", "orders=no"}, {"jobs", dir, "-on-failure", "*=no"}, {"jobs", dir, "-merge", "nope=KeepLast"}, {"replay", dir, "-max-payloads", "*=many"}, {"replay", dir, "-shape", "orders=no"}, {"morgue"}, {"morgue", dir, "burn"}, {"morgue", dir, "delete"}, {"morgue", dir, "list", "no"},
		{"job", dir, "no\x1b[31m", "x"}, {"inspect", "no\x1b[31m\u202e"},
	} {
		for _, args := range [][]string{args, append(args, "-json")} {
			_, errs, status := strand(t, `{"type":"export","version":1,"epoch":1,"next":9}`, args...)
			assert.Equal(t, noClear, status, args)
			text := strings.NewReplacer(files, "FILES", empty, "EMPTY").Replace(normal(strings.Join(args, " ")+"\n"+errs, dir))
			got.WriteString(strings.ReplaceAll(strings.ReplaceAll(text, "\x1b", "<ESC>"), "\u202e", "<RTL>") + "\n")
			assert.NotContains(t, errs, "\x1b")
			assert.NotContains(t, errs, "\u202e")
		}
	}
	golden(t, "errors", got.String())
}

// The directory is the first argument of every command, and help says so.
func TestTheDirectoryComesFirst(t *testing.T) {
	help := must(t, "", "help")
	assert.Contains(t, help, "strand COMMAND DIR [ARGUMENT...] [-FLAG...]")
	for _, v := range commands {
		assert.Regexp(t, `^(NEW)?DIR\b`, v.args, v.name)
		assert.Contains(t, help, "  "+v.name)
		assert.Contains(t, must(t, "", v.name, "-h"), "strand "+v.name+" "+v.args+" [-FLAG...]")
	}
	for _, of := range []string{"jobs", "status"} {
		assert.Contains(t, must(t, "", "help", of), "A parked job waits for a lock")
	}
	assert.Contains(t, must(t, "", "help", "cancel"), "--reason TEXT", "with the flags of one")
}

// What is left out of a text is said, and how to see it.
func TestWhatIsLeftOutIsSaid(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "many.strand")
	l := newLedger(t, dir)
	q := l.queue("many")
	entries := make([]journal.Entry, defaultLimit+3)
	for i := range entries {
		entries[i] = journal.Entry{Queue: q, ID: []byte("one"), Payload: []byte("lost"), Due: ago(0), Score: float64(i)}
	}
	ticket, err := l.Append(t.Context(), entries, nil)
	require.NoError(t, err)
	require.NoError(t, ticket.Wait(t.Context()))
	l.put(q, "two", "kept", ago(0), 1)
	l.state(journal.Entry{Queue: q, ID: []byte("two"), Due: ago(0), Error: []byte(strings.Repeat("bad ", 30))})
	l.close()

	out := must(t, "", "replay", dir)
	assert.Contains(t, out, "1 2 3 4 +49")
	assert.Contains(t, out, "… (120 B, -json shows all)", "replay and jobs have no -full")
	assert.Contains(t, out, "+N: so many more positions; -json names all")
	assert.NotContains(t, must(t, "", "replay", dir, "-shape", "many=events", "-limit", "2"), "+")
	assert.Contains(t, must(t, "", "replay", dir, "-shape", "many=events"), "4 more are not shown; -limit 0 shows all")

	hurt := damaged(t, dir, func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("lost"), []byte("LOST")) })
	out, _, status := strand(t, "", "check", hurt)
	assert.Equal(t, isHurt, status)
	assert.Equal(t, defaultLimit, strings.Count(out, "perhaps a payload of many one"))
	assert.Contains(t, out, "and 3 more; -json lists all")
	out, _, _ = strand(t, "", "check", hurt, "-json")
	assert.Equal(t, len(entries), strings.Count(out, `"id":"one"`))
}

// A queue of HandleLatest: of an id the newest payload runs, unless a newer one is done.
func TestReplayOfStates(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mirrors.strand")
	x, err := executor.Open(dir, executor.Config{})
	require.NoError(t, err)
	mirrors, err := executor.HandleLatest(x, "mirrors", func(context.Context, executor.Job[string]) error { return nil }, executor.QueueConfig[string]{})
	require.NoError(t, err)
	require.NoError(t, x.Start(t.Context()))
	receipt, err := mirrors.Enqueue(t.Context(), "a", "new", executor.Score(61))
	require.NoError(t, err)
	require.NoError(t, mirrors.Wait(t.Context(), receipt))
	require.NoError(t, x.Stop(t.Context()))
	for id, done := range map[string]string{"a": "; newest done: score 61\n", "b": "\n"} {
		_, errs, status := strand(t, "", "job", dir, "mirrors", id)
		assert.Equal(t, noClear, status)
		assert.Contains(t, errs, `queue "mirrors" has no job "`+id+`", neither waiting nor in the morgue`+done)
	}
	l := newLedger(t, dir)
	for _, score := range []float64{3, 1, 2} {
		l.put(l.queue("mirrors"), "a", fmt.Sprint(score), ago(time.Minute), score)
		l.put(l.queue("mirrors"), "b", fmt.Sprint(score), ago(time.Minute), score)
	}
	l.close()
	for want, flags := range map[string][][]string{
		"[3]":           {{"mirrors=state"}, {"*=state"}, {"mirrors=state", "*=events"}},
		"[1 2 3 1 2 3]": {{"mirrors=merged"}, {}, {"*=state", "mirrors=merged"}},
	} {
		for _, shapes := range flags {
			var args, got []string
			for _, shape := range shapes {
				args = append(args, "-shape", shape)
			}
			for _, r := range predicted(t, dir, someday, args...) {
				for _, p := range r.Waiting {
					got = append(got, string(p.Raw))
				}
			}
			assert.Equal(t, want, fmt.Sprint(got), shapes)
		}
	}
}

// A queue that was one of HandleMerged when a run of two payloads failed, and is
// one of Handle now: each runs once, and alone.
func TestReplayOfAQueueThatBecameOneOfEvents(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "events.strand")
	l := newLedger(t, dir)
	q := l.queue("events")
	failed := []journal.Position{l.put(q, "one", "a", ago(0), 1), l.put(q, "one", "b", ago(0), 2)}
	l.state(journal.Entry{Queue: q, ID: []byte("one"), Due: in(time.Hour), Retry: 1, Failed: failed})
	l.put(q, "one", "c", ago(time.Minute), 0)
	l.close()
	runs := predicted(t, dir, someday, "-shape", "events=events")
	var got []string
	for _, r := range runs {
		assert.GreaterOrEqual(t, r.Due.UnixNano(), in(time.Hour), "behind the retry")
		got = append(got, fmt.Sprintf("%s %d", r.Waiting[0].Raw, r.Payloads))
	}
	assert.Len(t, got, 3)
	assert.ElementsMatch(t, []string{"a 1", "b 1", "c 1"}, got)
}
