//go:build unix

package postgres

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// What is told of several partitions at a time is one line of the log; what differs is another one.
func TestTheSameOfPartitionsIsOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedText
		l := lines{log: log.logger()}
		for p := 15; p >= 0; p-- {
			l.tell(slog.LevelInfo, "partitions are taken", []int{p})
			l.tell(slog.LevelWarn, "jobs wait", []int{p}, slog.String("queue", []string{"a", "b"}[p%2]))
			l.tell(slog.LevelWarn, "partitions are lost", []int{p}, slog.Any("error", errors.New("why")))
		}
		require.Empty(t, log.lines("="))
		synctest.Wait()
		time.Sleep(gatherFor)
		synctest.Wait()
		require.Len(t, log.lines("level="), 4)
		require.Len(t, log.lines(`level=INFO msg="partitions are taken" partitions="[0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15]"`), 1)
		require.Len(t, log.lines(`level=WARN msg="jobs wait" queue=b partitions="[1 3 5 7 9 11 13 15]"`), 1)
		require.Len(t, log.lines(`level=WARN msg="partitions are lost" error=why partitions="[0 1 2 3`), 1)
		l.tell(slog.LevelInfo, "partitions are taken", []int{3})
		l.flush()
		require.Len(t, log.lines("partitions=[3]"), 1)
		synctest.Wait()
	})
}

// rude is a log that does something else first, by the message.
type rude struct {
	slog.Handler
	does map[string]func()
}

func (h rude) Handle(ctx context.Context, r slog.Record) error {
	if f := h.does[r.Message]; f != nil {
		f()
	}
	return h.Handler.Handle(ctx, r)
}
func (h rude) WithAttrs([]slog.Attr) slog.Handler { panic("no attributes") }

// Whatever the log does with a line, nobody who tells waits for it, and the other lines come.
func TestALogThatIsRude(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedText
		var l lines
		goOn := make(chan struct{})
		does := map[string]func(){"panics": func() { panic("no disk") }, "exits": runtime.Goexit, "blocks": func() { <-goOn },
			"tells": func() { l.tell(slog.LevelInfo, "told", nil) }}
		l.log = slog.New(rude{log.logger().Handler(), does})
		for message := range does {
			l.tell(slog.LevelInfo, message, nil)
		}
		time.Sleep(gatherFor + 1)
		synctest.Wait()
		l.tell(slog.LevelInfo, "last", nil)
		close(goOn)
		time.Sleep(2 * gatherFor)
		synctest.Wait()
		for _, message := range []string{"tells", "told", "blocks", "last"} {
			require.Len(t, log.lines("msg="+message), 1)
		}
		require.Len(t, log.lines("msg="), 4)
	})
}

// A log that blocks keeps no partition from another node, and no lease from being renewed.
func TestALogThatBlocksHoldsUpNoPartition(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	c := newCluster(t, pgtest.Shared(t).URL(), 2, lease)
	goOn := make(chan struct{})
	var log lockedText
	does := make(map[string]func())
	for _, message := range []string{"partitions are taken", "steps down from partitions", "partitions are given away"} {
		does[message] = func() { <-goOn }
	}
	a := c.start(c.url, func(cfg *Config) { cfg.Executor.Logger = slog.New(rude{log.logger().Handler(), does}) })
	t.Cleanup(func() { close(goOn) })
	c.serving(a)
	b := c.start(c.url)
	shared := func() bool { return len(a.Partitions()) == 1 && len(b.Partitions()) == 1 }
	require.Eventually(t, shared, 20*time.Second, time.Millisecond)
	require.Never(t, func() bool { return !shared() }, 3*lease, 10*time.Millisecond)
}
