package executor_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/lock"
)

// A setting that does nothing, or can't be meant, is refused when the queue is
// made, with advice.
func TestLocksThatDoNothingAreRefused(t *testing.T) {
	key := idempotencyRecord("k")
	type locks = executor.Locks[string]
	for name, test := range map[string]struct {
		locks locks
		want  string // "": it is all right
	}{
		"counted and TTL alone":         {locks{Counted: true, TTL: time.Minute}, "Locks.Counted does nothing without OnEnqueue, OnRun, BlockedBy or Unlock"},
		"waits for what others count":   {locks{Counted: true, BlockedBy: key}, ""},
		"TTL alone":                     {locks{TTL: time.Minute}, "Locks.TTL does nothing without OnEnqueue or OnRun"},
		"TTL, unlock only":              {locks{TTL: time.Minute, Unlock: key}, "Locks.TTL"},
		"on burial alone":               {locks{UnlockOnBurial: true}, "Locks.UnlockOnBurial does nothing without OnEnqueue or OnRun"},
		"on burial, blocked only":       {locks{UnlockOnBurial: true, BlockedBy: key}, "Locks.UnlockOnBurial"},
		"blocked by nothing":            {locks{OnRun: key, WhenBlocked: lock.Decision{Skip: true}}, "Locks.WhenBlocked does nothing without BlockedBy"},
		"a service for nothing":         {locks{Service: new(flags)}, "Locks.Service does nothing without OnEnqueue"},
		"two decisions":                 {locks{BlockedBy: key, WhenBlocked: lock.Decision{Fail: errBoom, After: time.Minute}}, "WhenBlocked has several of Skip, Fail and After"},
		"three decisions":               {locks{BlockedBy: key, WhenBlocked: lock.Decision{Skip: true, After: time.Minute}}, "WhenBlocked has several of"},
		"a service that only unlocks":   {locks{Service: new(flags), Unlock: key}, ""},
		"unlocks what others count":     {locks{Counted: true, Unlock: key}, ""},
		"all of it":                     {locks{OnEnqueue: key, BlockedBy: key, OnRun: key, Unlock: key, Counted: true, TTL: 1, UnlockOnBurial: true}, ""},
		"fails when blocked":            {locks{BlockedBy: key, WhenBlocked: lock.Decision{Fail: errBoom}}, ""},
		"nothing":                       {locks{}, ""},
		"what is not compared by ==":    {locks{BlockedBy: key, WhenBlocked: lock.Decision{Fail: uncomparable{nil}}}, ""},
		"the same, but never to be met": {locks{WhenBlocked: lock.Decision{Fail: uncomparable{nil}}}, "Locks.WhenBlocked"},
	} {
		t.Run(name, func(t *testing.T) {
			x := open(t, "", executor.Config{})
			_, err := executor.Handle(x, "orders", func(context.Context, executor.Job[string]) error { return nil },
				executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: test.locks}})
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, executor.ErrConfig)
			require.ErrorContains(t, err, test.want)
			require.ErrorContains(t, err, "orders")
			if !strings.Contains(test.want, "several of") {
				require.ErrorContains(t, err, "Unique with a Key")
			}
		})
	}
}

type uncomparable struct{ _ []int }

func (uncomparable) Error() string { return "of no comparable type" }

// One sequence gives a job one value.
func TestSlotsTwiceAreRefused(t *testing.T) {
	x := open(t, "", executor.Config{})
	config := executor.SlotsConfig[int]{Next: func(n int) int { return n + 1 }}
	s, err := executor.NewSlots(x, "serials", config)
	require.NoError(t, err)
	_, err = executor.Handle(x, "q", func(context.Context, executor.Job[string]) error { return nil },
		executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Slots: []executor.SlotSource{s, s}}})
	require.ErrorIs(t, err, executor.ErrConfig)
	require.ErrorContains(t, err, "twice")
}

// A sequence that was not made is refused, as one of another executor is.
func TestSlotsThatWereNotMadeAreRefused(t *testing.T) {
	other, err := executor.NewSlots(open(t, "", executor.Config{}), "serials", executor.SlotsConfig[int]{Next: func(n int) int { return n + 1 }})
	require.NoError(t, err)
	for _, source := range []executor.SlotSource{nil, (*executor.Slots[int])(nil), other} {
		_, err := executor.Handle(open(t, "", executor.Config{}), "q", func(context.Context, executor.Job[string]) error { return nil },
			executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Slots: []executor.SlotSource{source}}})
		require.ErrorIs(t, err, executor.ErrConfig)
		require.ErrorContains(t, err, "must come from NewSlots")
	}
}

// A bad key is told to who enqueues, and not to the morgue: nothing is accepted,
// and nothing locked, wherever the key is wanted.
func TestBadKeysFailAtEnqueue(t *testing.T) {
	key := func(_, payload string) string {
		switch payload {
		case "panics":
			panic(errBoom)
		case "too long":
			return strings.Repeat("x", 513)
		case "empty":
			return ""
		}
		return "good"
	}
	keys := func(id, payload string) []string { return []string{"other", key(id, payload)} }
	for of, cfg := range map[string]executor.QueueConfig[string]{
		"OnEnqueue":  {Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{OnEnqueue: keys}}},
		"BlockedBy":  {Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{BlockedBy: keys}}},
		"OnRun":      {Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{OnRun: keys}}},
		"Unlock":     {Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{Unlock: keys}}},
		"Unique.Key": {Conditions: executor.Conditions[string]{Unique: executor.Unique[string]{Key: key}}},
	} {
		t.Run(of, func(t *testing.T) {
			x := open(t, "", executor.Config{})
			p := &probe{}
			q := handle(t, x, "orders", p.handle, cfg)
			ctx := t.Context()
			for bad, says := range map[string]string{"panics": "boom", "too long": `"` + strings.Repeat("x", 120) + `…" has 513 bytes`, "empty": "empty"} {
				_, plain := q.Enqueue(ctx, "a", bad)
				_, keyed := q.Enqueue(ctx, "a", bad, executor.IdempotencyKey("k"))
				_, many := q.EnqueueMany(ctx, []executor.Item[string]{{ID: "b", Payload: "fine"}, {ID: "a", Payload: bad}})
				_, raw := enqueueRaw(ctx, x, "orders", "a", []byte(`"`+bad+`"`))
				for _, err := range []error{plain, keyed, many, raw} {
					require.ErrorIs(t, err, executor.ErrInvalidKey)
					for _, part := range []string{says, of, `queue "orders", id "a"`} {
						require.ErrorContains(t, err, part)
					}
				}
				require.ErrorContains(t, many, "item 1")
				assert.Equal(t, bad == "panics", errors.Is(plain, errBoom))
				assert.Equal(t, bad == "empty", errors.Is(plain, lock.ErrEmptyKey))
			}
			require.Zero(t, stats(t, q).Payloads)
			require.Empty(t, lockedKeys(x))
			enqueue(t, q, "a", "fine", executor.IdempotencyKey("k")) // no call has used it
			start(t, x)
			drained(t, q)
			require.Equal(t, []string{"a[fine]"}, p.log())
			stop(t, x)
		})
	}
}

// What does not decode has no keys: where nothing is locked by the enqueue it goes
// to the morgue, as everywhere.
func TestBytesWithoutKeysAreAccepted(t *testing.T) {
	x := open(t, "", executor.Config{})
	q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{BlockedBy: idempotencyRecord("k")}}})
	_, err := enqueueRaw(t.Context(), x, "q", "a", []byte("{"))
	require.NoError(t, err)
	start(t, x)
	drained(t, q)
	require.Equal(t, 1, stats(t, q).Dead)
	stop(t, x)
}
