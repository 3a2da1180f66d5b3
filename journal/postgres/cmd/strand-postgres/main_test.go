//go:build unix

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// The command does what it says, tells what it did, and exits with the status that it says.
func TestCommand(t *testing.T) {
	url := pgtest.Shared(t).URL()
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	b, err := journal.NewBuilder(from, 10, 3)
	require.NoError(t, err)
	require.NoError(t, b.Queue("q", 1))
	for i, id := range []string{"a/1", "a/2", "a/3"} {
		require.NoError(t, b.Add(journal.Entry{Kind: journal.KindEnqueued, Queue: 1, Position: journal.Position(i + 1), ID: []byte(id)}))
	}
	require.NoError(t, b.Finish())
	run := func(want int, says string, args ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		require.Equal(t, want, run(context.Background(), args, &out, &errs), "%s", &errs)
		require.Contains(t, out.String()+errs.String(), says)
	}
	run(fine, "import DIR", "-h")
	run(notDone, `no command ""`)
	run(notDone, "no command \"exprot\"", "exprot", to)
	run(notDone, "takes 1 argument(s), got 2", "import", from, to, "-url", url)
	run(notDone, "-before is for import", "export", to, "-before", "/")
	run(notDone, "flag provided but not defined: -b", "import", "-b")
	run(notDone, "run Migrate", "check", "-url", url)
	run(fine, "as it should be", "migrate", "-url", url, "-partitions", "4")
	run(notDone, "has 4, not 5", "migrate", "-url", url, "-partitions", "5")
	run(notDone, "SingleServer", "import", from, "-url", url)
	run(fine, "imported and compared: 3 live entries, 0 in the morgue, 0 state keys, 1 queues; 4 partitions", "import", from, "-single-server", "-before", "/", "-url", url)
	run(fine, "sound: 3 live entries", "-url", url, "check")
	run(fine, "exported and compared: 3 live entries", "export", "-url", url, to)
	run(notDone, "exists", "export", "-url", url, to)
	counts := make(map[int]int)
	for p := range 4 {
		info, err := journal.Check(filepath.Join(to, "000"+string(rune('0'+p))))
		require.NoError(t, err)
		counts[info.Live]++
	}
	require.Equal(t, map[int]int{0: 3, 3: 1}, counts, "-before has kept them together")
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	_, err = conn.Exec(t.Context(), "DELETE FROM strand.block")
	require.NoError(t, err)
	run(isDamaged, "the log has no blocks", "check", "-url", url)
}
