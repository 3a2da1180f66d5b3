package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

// Every command that reads, for people and for programs, on a journal with a
// bit of everything.
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
		"replay-until":    {"replay", dir, "-until", "7"},
		"check":           {"check", dir},
		"export":          {"export", dir},
		"morgue-list":     {"morgue", dir, "list"},
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
		{"inspect"}, {"inspect", dir, dir}, {"inspect", dir, "-no"}, {"nonsense"},
		{"inspect", filepath.Join(empty, "no")}, {"inspect", empty}, {"check", files}, {"inspect", other},
		{"inspect", filepath.Join(dir, "journal.db")}, {"import", dir}, {"copy", dir, dir},
		{"jobs", dir, "-queue", "no"}, {"job", dir, "mails", "nobody"}, {"replay", dir, "-until", "99"},
		{"replay", dir, "-merge", "orders=no"}, {"morgue", dir, "burn"}, {"morgue", dir, "delete"}, {"morgue", dir, "list", "no"},
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
