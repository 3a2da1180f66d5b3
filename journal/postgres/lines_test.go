//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
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

// While the log blocks, what waits for it has a bound, and the log hears what was left out.
func TestALogThatBlocksKeepsWhatItCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedText
		goOn := make(chan struct{})
		l := lines{log: slog.New(rude{log.logger().Handler(), map[string]func(){"blocks": func() { <-goOn }}})}
		l.tell(slog.LevelInfo, "blocks", nil)
		time.Sleep(gatherFor + 1)
		for number := range 3 * mostLines {
			l.tell(slog.LevelError, "a row is refused", []int{0}, slog.Int("number", number))
			l.tell(slog.LevelError, "a row is refused", []int{0, 1}, slog.Int("number", 0))
		}
		close(goOn)
		synctest.Wait()
		time.Sleep(gatherFor)
		synctest.Wait()
		require.Len(t, log.lines("a row is refused"), mostLines)
		require.Len(t, log.lines(`number=0 partitions="[0 1]"`), 1)
		require.Len(t, log.lines(fmt.Sprintf("level=WARN msg=\"lines of the log were left out\" left_out=%d", 2*mostLines)), 1)
		l.tell(slog.LevelInfo, "last", nil)
		l.flush()
		require.Len(t, log.lines("left_out"), 1)
		require.Len(t, log.lines("last"), 1)
		synctest.Wait()
	})
}

// Whatever the log does with a line about partitions, or of the executor of one, that keeps no partition from another node,
// no lease from being renewed, and no stop from its end.
func TestALogThatIsRudeHoldsUpNoPartition(t *testing.T) {
	goOn := make(chan struct{})
	t.Cleanup(func() { close(goOn) })
	blocks := func() { <-goOn }
	for name, does := range map[string]map[string]func(){
		"blocks at partitions": {"partitions are taken": blocks, "partitions are given away": blocks},
		"blocks at a start":    {"executor starts": blocks},
		"blocks at a stop":     {"executor stopped": blocks},
		"exits":                {"executor starts": runtime.Goexit, "executor stopped": runtime.Goexit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const lease = time.Second
			c := newCluster(t, pgtest.Shared(t).URL(), 2, lease)
			var log lockedText
			a := c.start(c.url, func(cfg *Config) { cfg.Executor.Logger = slog.New(rude{log.logger().Handler(), does}) })
			c.serving(a)
			b := c.start(c.url)
			shared := func() bool { return len(a.Partitions()) == 1 && len(b.Partitions()) == 1 }
			require.Eventually(t, shared, 20*time.Second, time.Millisecond)
			require.Never(t, func() bool { return !shared() }, 3*lease, 10*time.Millisecond)
			require.NoError(t, a.front.Stop(within(t, 20*time.Second)))
			require.Zero(t, a.pool.Stat().TotalConns())
			c.serving(b)
		})
	}
}
