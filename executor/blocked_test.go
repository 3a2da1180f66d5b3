package executor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// brakes block their first caller until they are released.
type brakes struct {
	called  atomic.Bool
	release chan struct{}
}

func (b *brakes) block() {
	if b.called.CompareAndSwap(false, true) {
		<-b.release
	}
}

// blockedLog is a log that blocks.
type blockedLog struct{ *brakes }

func (blockedLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (l blockedLog) Handle(context.Context, slog.Record) error      { l.block(); return nil }
func (l blockedLog) WithAttrs([]slog.Attr) slog.Handler             { return l }
func (l blockedLog) WithGroup(string) slog.Handler                  { return l }

// A hook that does not return holds its own id, or its caller, and with a spare
// worker no other job. Figures are told, Stop returns in time, and when the hook
// returns, all that waited goes on.
func TestHooksThatBlock(t *testing.T) {
	for _, hook := range []string{"RetryIn", "FormatError", "RetriesExhausted", "Logger", "LoggerOfTheWatchdog", "Decode", "Pick", "OnEnqueue", "OnRun", "Unlock", "Encode", "ID", "Score", "Due"} {
		for _, stops := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s stops=%v", hook, stops), func(t *testing.T) {
				bubble(t, func(t *testing.T) { blockHook(t, hook, stops) })
			})
		}
	}
}

func blockHook(t *testing.T, hook string, stops bool) {
	b := &brakes{release: make(chan struct{})}
	// bad has the hook block for the payload "bad".
	bad := func(payload string) {
		if payload == "bad" {
			b.block()
		}
	}
	h := &hooks{encode: says[error](nil, nil), decode: says[error](nil, nil)}
	cfg := executor.QueueConfig[string]{
		Share: executor.Share{Shards: 1}, MaxRetries: -1, Codec: h, Defaults: executor.Defaults[string]{ID: func(payload string) string { return payload }},
		Timeout: time.Minute,
	}
	xcfg := executor.Config{Workers: 1, Stuck: executor.Stuck{SpareWorkers: 1, After: time.Minute}}
	keysOf := func(_, payload string) []string { bad(payload); return nil }
	map[string]func(){
		"RetryIn":     func() { cfg.MaxRetries = 1; cfg.RetryIn = func(int) time.Duration { b.block(); return 0 } },
		"FormatError": func() { cfg.DeadLetters.FormatError = func(err error) string { b.block(); return err.Error() } },
		"RetriesExhausted": func() {
			cfg.DeadLetters.RetriesExhausted = func(context.Context, []executor.Merged[string]) { b.block() }
		},
		"Logger":              func() { xcfg.Logger = slog.New(blockedLog{b}) },
		"LoggerOfTheWatchdog": func() { xcfg.Logger = slog.New(blockedLog{b}) },
		"Decode":              func() { h.decode = func(payload string) error { bad(payload); return nil } },
		"Pick":                func() { xcfg.Scheduler, h.pick = h, func(string) int { b.block(); return 0 } },
		"OnEnqueue":           func() { cfg.Conditions.Locks.OnEnqueue = keysOf },
		"OnRun":               func() { cfg.Conditions.Locks.OnRun = keysOf },
		"Unlock":              func() { cfg.Conditions.Locks.Unlock = keysOf },
		"Encode":              func() { h.encode = func(payload string) error { bad(payload); return nil } },
		"ID":                  func() { cfg.Defaults.ID = func(payload string) string { bad(payload); return payload } },
		"Score":               func() { cfg.Defaults.Score = func(payload string) float64 { bad(payload); return 0 } },
		"Due":                 func() { cfg.Defaults.Due = func(payload string) time.Time { bad(payload); return time.Time{} } },
	}[hook]()
	x := open(t, "", xcfg)
	p := &probe{decide: func(_ context.Context, s seen) error {
		if s.id != "bad" {
			return nil
		}
		if hook == "LoggerOfTheWatchdog" {
			<-b.release // deaf: that is to be logged
		}
		return errBoom
	}}
	q := handle(t, x, "q", p.handle, cfg)
	put := func(payload string) {
		_, err := q.Enqueue(context.Background(), "", payload)
		if !stops || !errors.Is(err, executor.ErrClosed) {
			assert.NoError(t, err)
		}
	}
	start(t, x)
	go put("bad")
	synctest.Wait()
	for i := range 5 {
		put(fmt.Sprint("good ", i))
	}
	time.Sleep(time.Hour)
	s, err := x.Stats(t.Context())
	require.NoError(t, err)
	if hook != "Pick" { // no other goroutine may decide what runs
		require.EqualValues(t, 5, s.Queues[0].Done)
	}
	if stops {
		began := time.Now()
		err := within(time.Second, x.Stop)
		require.LessOrEqual(t, time.Since(began), 4*time.Second)
		if err != nil {
			require.True(t, errors.Is(err, executor.ErrStuck), err)
		}
		close(b.release)
		time.Sleep(time.Hour)
		return
	}
	close(b.release)
	time.Sleep(time.Hour)
	require.Zero(t, stats(t, q).Jobs)
	require.EqualValues(t, 5, stats(t, q).Done)
	require.EqualValues(t, 1, stats(t, q).Buried)
	stop(t, x)
}
