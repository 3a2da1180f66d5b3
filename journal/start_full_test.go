package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strandjobs/strand/journal/internal/store"
	"github.com/stretchr/testify/require"
)

// fullLog is a log on a disk in memory that has just turned out to be full, and
// whose jobs are all there.
func fullLog(t *testing.T) (*Log, *[]Ref) { return fullLogTold(t, nil) }

func fullLogTold(t *testing.T, logger *slog.Logger) (*Log, *[]Ref) {
	disk := new(Memory)
	l, err := OpenMemory(disk, Config{})
	require.NoError(t, err)
	_, err = l.Queue(t.Context(), "orders")
	require.NoError(t, err)
	_, err = l.Queue(t.Context(), "mails")
	require.NoError(t, err)
	for i := range 50 {
		ticket, err := l.Append(t.Context(), []Entry{{Queue: 1, ID: fmt.Append(nil, i), Payload: make([]byte, 1000)}}, nil)
		require.NoError(t, err)
		require.NoError(t, ticket.Wait(t.Context()))
	}
	after := disk.Crash()
	require.NoError(t, l.Close())

	live := new([]Ref)
	l, err = OpenMemory(after, Config{Logger: logger})
	require.NoError(t, err)
	require.NoError(t, l.Flush(t.Context()))
	*live = slices.Concat(l.PendingPages(1)...)
	require.Len(t, *live, 50)
	after.Limit(after.Content() + 1500) // results fit, no payload
	ticket, err := l.Append(t.Context(), []Entry{{Queue: 1, ID: []byte("x"), Payload: make([]byte, 5000)}}, nil)
	require.NoError(t, err)
	require.ErrorIs(t, ticket.Wait(t.Context()), ErrFull)
	require.ErrorIs(t, l.Err(), ErrFull)
	return l, live
}

// What the journal knows about its queues takes no room: a start on a full disk
// must not fail for it, or nothing would run, and no room would come back.
func TestQueuesOnAFullDisk(t *testing.T) {
	l, live := fullLog(t)
	number, err := l.Queue(t.Context(), "orders")
	require.NoError(t, err, "the journal knows it")
	require.EqualValues(t, 1, number)
	_, err = l.Queue(t.Context(), "new")
	require.ErrorIs(t, err, ErrFull)
	require.NotContains(t, l.Queues(), "new")

	// A new name for what is there is as small as a result, and goes with them.
	require.NoError(t, l.Rename(t.Context(), "mails", "letters"))
	require.Equal(t, map[string]uint32{"letters": 2, "orders": 1}, l.Queues())

	l.Record(&Change{Ended: *live})
	for errors.Is(l.Err(), ErrFull) {
	}
	require.NoError(t, l.Err(), "it has come back by itself")
	disk := l.store.(*store.Memory).Crash()
	require.NoError(t, l.Close())
	l, err = OpenMemory(disk, Config{})
	require.NoError(t, err)
	require.Equal(t, map[string]uint32{"letters": 2, "orders": 1}, l.Queues())
	require.NoError(t, l.Close())
	_, err = l.Queue(t.Context(), "orders")
	require.ErrorIs(t, err, ErrClosed)
}

// notes keeps what is logged, without its time.
type notes struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *notes) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *notes) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// take returns the lines since the last call.
func (l *notes) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

// A full disk is told once, however many calls are refused, and the room once it
// lasts.
func TestFullDiskIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log notes
		disk := new(Memory)
		l, err := OpenMemory(disk, Config{Logger: log.logger()})
		require.NoError(t, err)
		_, err = l.Queue(t.Context(), "orders")
		require.NoError(t, err)
		refused := func() {
			disk.Limit(disk.Content() + 1500)
			for range 3 {
				ticket, err := l.Append(t.Context(), []Entry{{Queue: 1, ID: []byte("x"), Payload: make([]byte, 5000)}}, nil)
				if err == nil {
					err = ticket.Wait(t.Context())
				}
				require.ErrorIs(t, err, ErrFull)
			}
			synctest.Wait()
		}
		const full = `level=WARN msg="disk is full: what is new is refused until there is room, what ends is still written down; make some, the rest goes by itself" dir=""` + "\n"
		const room = `level=INFO msg="disk has room again: what is new is accepted" dir=""` + "\n"
		refused()
		require.Equal(t, full, log.take())
		time.Sleep(time.Hour)
		for range 3 { // it comes and goes
			disk.Limit(0)
			time.Sleep(roomAfter - time.Second)
			require.NoError(t, l.Err())
			refused()
			time.Sleep(2 * roomAfter)
			require.Empty(t, log.take())
		}
		disk.Limit(0)
		time.Sleep(2 * roomAfter)
		require.Equal(t, room, log.take())
		time.Sleep(time.Hour)
		require.Empty(t, log.take())
		refused()
		require.Equal(t, full, log.take())
		disk.Limit(0)
		time.Sleep(time.Second)
		require.NoError(t, l.Close())
		time.Sleep(time.Hour)
		require.Empty(t, log.take(), "a closed log says nothing more")
	})
}

// What is known of the last crash has the room of results. Where there is none, the crash
// recorder does not write over it, and whoever starts it is told within a second.
func TestCrashRecorderOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, live := fullLog(t)
		l.Record(&Change{Sets: []Set{Cleared((*live)[0].Position())}})
		r, err := l.RecordCrashes(1, 1)
		require.NoError(t, err)
		require.NoError(t, r.Close(false))

		disk := l.store.(*store.Memory)
		disk.Limit(1)
		l.Record(&Change{Sets: []Set{{Key: "suspect", Value: []byte("x")}}})
		began := time.Now()
		_, err = l.RecordCrashes(1, 1)
		require.ErrorContains(t, err, "no room")
		require.NotErrorIs(t, err, ErrFull, "there is no call to repeat")
		require.Equal(t, time.Second, time.Since(began))
		disk.Limit(0)
		require.NoError(t, l.Close())
	})
}

// A logger that does not return holds no commit.
func TestFullDiskIsToldToALoggerThatBlocks(t *testing.T) {
	l, _ := fullLogTold(t, slog.New(blockedHandler{slog.DiscardHandler, make(chan bool)}))
	l.store.(*store.Memory).Limit(0)
	for errors.Is(l.Err(), ErrFull) {
	}
	ticket, err := l.Append(t.Context(), []Entry{{Queue: 1, ID: []byte("x")}}, nil)
	require.NoError(t, err)
	require.NoError(t, ticket.Wait(t.Context()))
	require.NoError(t, l.Close())
}

type blockedHandler struct {
	slog.Handler
	never chan bool
}

func (blockedHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h blockedHandler) Handle(context.Context, slog.Record) error { <-h.never; return nil }

// Who asks for much room and waits no longer keeps nobody else out.
func TestAQuestionEndsWithItsCaller(t *testing.T) {
	l, live := fullLog(t)
	over := make(chan struct{})
	close(over)
	require.True(t, l.TakeRoom(over, Room{Bytes: 1 << 20}), "it is written if it can be")
	l.Record(&Change{Ended: *live})
	require.Eventually(t, func() bool {
		ticket, err := l.Append(t.Context(), []Entry{{Queue: 1, ID: []byte("x"), Payload: []byte("small")}}, nil)
		return err == nil && ticket.Wait(t.Context()) == nil
	}, 10*time.Second, time.Millisecond)
	l.GiveRoomBack(1 << 20)
	require.Zero(t, l.disk.promised.Load())
	require.NoError(t, l.Err())
	require.NoError(t, l.Close())
}
