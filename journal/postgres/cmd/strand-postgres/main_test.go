//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

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
	ctx := context.Background()
	run := func(want int, says string, args ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		require.Equal(t, want, run(ctx, args, &out, &errs, time.Now()), "%s", &errs)
		require.Contains(t, out.String()+errs.String(), says)
		require.Equal(t, want == fine, errs.Len() == 0)
	}
	for _, help := range []string{"-h", "--help", "help"} {
		run(fine, "Exit status: 0 all is well", help)
	}
	run(notDone, `no command ""`)
	run(notDone, "no command \"exprot\"", "exprot", to)
	run(notDone, "takes 1 argument(s), got 2", "import", from, to, "-url", url)
	run(notDone, "-highest is for repartition", "import", from, "-highest")
	run(notDone, "invalid syntax", "repartition", "many", "-url", url)
	run(notDone, "-before is for import", "export", to, "-before", "/")
	run(notDone, "flag provided but not defined: -b", "import", "-b")
	run(notDone, `"--" is no flag`, "--", "check", "-url", url)
	run(notDone, `"--" is no flag`, "check", "--", "-url", url)
	run(notDone, `"-" is no flag`, "explain", "-", "-url", url)
	run(notDone, "run strand-postgres migrate", "check", "-url", url)
	run(notDone, "connection refused", "check", "-url", "postgres://127.0.0.1:1/postgres")
	run(fine, "as it should be", "migrate", "-url", url, "-partitions", "4")
	run(notDone, "has 4 partitions, and -partitions is 5", "migrate", "-url", url, "-partitions", "5")
	run(notDone, "or give -single-server\nNothing was imported.\n", "import", from, "-url", url)
	stopped, stop := context.WithCancelCause(ctx)
	stop(errors.New("interrupt signal received"))
	ctx = stopped
	run(notDone, "interrupt signal received", "import", from, "-single-server", "-url", url)
	ctx = context.Background()
	run(fine, "imported and compared: 3 live entries, 0 in the morgue, 0 state keys, 1 queues; 4 partitions", "import", from, "-single-server", "-before", "/", "-url", url)
	run(fine, "sound: 3 live entries", "-url", url, "check")
	run(fine, "exported and compared: 3 live entries", "export", "-url", url, to)
	run(notDone, "exists", "export", "-url", url, to)
	run(notDone, "were used", "import", from, "-single-server", "-url", url)
	run(fine, `schema "more" is as it should be`, "migrate", "-schema", "more", "-url", url, "-partitions", "12")
	run(notDone, "Nothing was imported.\nThe ids were divided otherwise: give the -before", "import", to, "-schema", "more", "-single-server", "-url", url)
	run(fine, "3 live entries, 0 in the morgue, 0 state keys, 1 queues; 12 partitions", "import", to, "-schema", "more", "-single-server", "-before", "/", "-url", url)
	run(notDone, "0 partitions, it must be from 1 to 4096\nNothing was repartitioned.\n", "repartition", "0", "-url", url)
	run(notDone, "which partition an id is in can't be changed", "repartition", "-single-server", "-url", url, "7") // without -before
	for _, n := range []string{"7", "7", "3"} {
		run(fine, "repartitioned and compared: 3 live entries, 0 in the morgue, 0 state keys, 1 queues; "+n+" partitions",
			"repartition", "-highest", n, "-single-server", "-before", "/", "-url", url)
	}
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

// Who calls it knows from the status what may be there.
func TestJudge(t *testing.T) {
	for err, want := range map[error]int{errors.New("any"): notDone, journal.ErrCorrupt: isDamaged, journal.ErrUnknown: isUnknown} {
		status, advice := (&call{words: []string{"import", "dir"}}).judge(fmt.Errorf("postgres: %w", err))
		require.Equal(t, want, status)
		require.Equal(t, want != isUnknown, advice == "Nothing was imported.\n", advice)
		_, advice = (&call{words: []string{"check"}}).judge(errors.New("any"))
		require.Empty(t, advice)
	}
}
