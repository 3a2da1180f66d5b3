//go:build unix

package postgres

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// What is told of several partitions at a time is one line of the log; what differs is another one.
func TestTheSameOfPartitionsIsOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedText
		l := lines{log: log.logger()}
		for p := 15; p >= 0; p-- {
			l.tell(slog.LevelInfo, "partitions are taken", p)
			l.tell(slog.LevelWarn, "jobs wait", p, slog.String("queue", []string{"a", "b"}[p%2]))
			l.tell(slog.LevelWarn, "partitions are lost", p, slog.Any("error", errors.New("why")))
		}
		require.Empty(t, log.lines("="))
		synctest.Wait()
		time.Sleep(gatherFor)
		synctest.Wait()
		require.Len(t, log.lines("level="), 4)
		require.Len(t, log.lines(`level=INFO msg="partitions are taken" partitions="[0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15]"`), 1)
		require.Len(t, log.lines(`level=WARN msg="jobs wait" queue=b partitions="[1 3 5 7 9 11 13 15]"`), 1)
		require.Len(t, log.lines(`level=WARN msg="partitions are lost" error=why partitions="[0 1 2 3`), 1)
		l.tell(slog.LevelInfo, "partitions are taken", 3)
		l.flush()
		require.Len(t, log.lines("partitions=[3]"), 1)
		synctest.Wait()
	})
}
