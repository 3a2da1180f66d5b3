package journal

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/stretchr/testify/require"
)

// update writes the golden texts anew. The files stay as they are: each was
// written by the version of its time, and no later one may fail to read it.
var update = flag.Bool("update", false, "write the golden texts anew")

// Journals of all formats there ever were are read as they were meant, and go on.
func TestGoldenFiles(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.db.gz"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".db.gz")
		t.Run(name, func(t *testing.T) {
			packed, err := os.ReadFile(path)
			require.NoError(t, err)
			unpack, err := gzip.NewReader(bytes.NewReader(packed))
			require.NoError(t, err)
			file, err := io.ReadAll(unpack)
			require.NoError(t, err)
			dir := withFile(t, file)
			report, err := Check(dir)
			require.NoError(t, err)
			require.Equal(t, file, mustRead(t, filepath.Join(dir, directory.FileName)), "to look at it changes nothing")
			got := fmt.Sprintf("uuid %q, epoch %d, %d entries live\n%s", report.UUID, report.Epoch, report.Live, tell(t, dir))
			text := filepath.Join("testdata", name+".golden")
			if *update {
				require.NoError(t, os.WriteFile(text, []byte(got), 0o600))
			}
			require.Equal(t, string(mustRead(t, text)), got)
			require.Equal(t, tell(t, dir), strings.SplitN(got, "\n", 2)[1], "and again")
		})
	}
}

func mustRead(t testing.TB, path string) []byte {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}

// tell opens a journal and says what is in it.
func tell(t testing.TB, dir string) string {
	l, err := Open(dir, Config{})
	require.NoError(t, err)
	var b strings.Builder
	line := func(what string, e Entry) {
		fmt.Fprintf(&b, "%s: position %d, id %q, payload %q, due %d, score %v, retry %d, error %q\n",
			what, e.Position, e.ID, e.Payload, e.Due, e.Score, e.Retry, e.Error)
		if e.Accepted != 0 || len(e.Metadata) > 0 || len(e.History) > 0 {
			fmt.Fprintf(&b, "\taccepted %d, metadata %v, failures %v\n", e.AcceptedAt(), maps.Collect(e.Metadata.All()), e.History.Failures(string(e.Error)))
		}
	}
	fmt.Fprintf(&b, "next %d, queues %v\n", l.Stats().Next, l.Queues())
	for queue := range uint32(len(l.Queues()) + 1) {
		for _, r := range slices.Concat(l.PendingPages(queue)...) {
			var e Entry
			require.NoError(t, r.Read(&e))
			line(map[format.Kind]string{KindEnqueued: "payload", KindState: "state"}[e.Kind], e)
			if e.Halted {
				fmt.Fprintf(&b, "\thalted, crashed %t\n", e.Crashed)
			}
		}
		for d, err := range l.Morgue(queue, 0) {
			require.NoError(t, err)
			line(fmt.Sprintf("buried with retry %d for %q", d.Retry, d.Reason), d.Entry)
			fmt.Fprintf(&b, "\tcrashed %t, untold %t\n", d.Crashed, d.Untold)
			if len(d.History) > 0 {
				fmt.Fprintf(&b, "\tfailures %v\n", d.History.Failures(d.Reason))
			}
		}
	}
	for set, err := range l.Keys("", "") {
		require.NoError(t, err)
		fmt.Fprintf(&b, "key %q: %q\n", set.Key, set.Value)
	}
	if len(l.crash.Suspects) > 0 {
		fmt.Fprintf(&b, "suspects: %v\n", l.crash.Suspects)
	}
	require.NoError(t, l.Close())
	return b.String()
}

// A journal keeps its UUID, a copy has the same, and its epoch tells how often it
// was opened since. A damaged one is noticed.
func TestUUID(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "j")
	l, err := Open(dir, Config{})
	require.NoError(t, err)
	id := l.Stats().UUID
	require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, id)
	require.NoError(t, l.Compact(t.Context()))
	copied := dir + "-copy"
	require.NoError(t, l.Copy(t.Context(), copied))
	require.NoError(t, l.Close())
	l, err = Open(dir, Config{})
	require.NoError(t, err)
	require.Equal(t, id, l.Stats().UUID)
	require.NoError(t, l.Close())

	report, err := Check(copied)
	require.NoError(t, err)
	require.Equal(t, id, report.UUID)
	require.Equal(t, uint64(1), report.Epoch)
	v, err := OpenView(dir)
	require.NoError(t, err)
	require.Equal(t, id, v.Info().UUID)
	require.Equal(t, uint64(2), v.Info().Epoch)
	require.NoError(t, v.Close())

	other := dir + "-other"
	l, err = Open(other, Config{})
	require.NoError(t, err)
	require.NotEqual(t, id, l.Stats().UUID)
	require.NoError(t, l.Close())

	file := readFile(t, dir)
	at := bytes.Index(file, format.KeyUUID) // the value follows its key
	require.Positive(t, at)
	file[at+len(format.KeyUUID)+3] ^= 1
	_, err = Open(withFile(t, file), Config{})
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, "UUID")
}
