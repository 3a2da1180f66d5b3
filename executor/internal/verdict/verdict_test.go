package verdict

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// asking is an error with a wish of its own.
type asking struct{ Wish }

func (asking) Error() string { return "asking" }

var errFails, errStops = errors.New("fails"), errors.New("stops")

// bench is a judge, and an item for it whose handler was called.
type bench struct {
	Judge
	it     *shard.Item
	cancel context.CancelCauseFunc // of the contexts of handlers
	failed []error                 // why the executor can't go on
}

func newBench(t *testing.T, payloads int) *bench {
	b := &bench{it: &shard.Item{ID: "id"}}
	log, err := journal.OpenMemory(nil, journal.Config{Deliver: func(d *journal.Delivery) {
		for i := range d.Len() {
			var e journal.Entry
			ref, err := d.Read(i, &e)
			require.NoError(t, err)
			b.it.Payloads = append(b.it.Payloads, shard.Payload{Ref: ref})
		}
		d.Done()
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, log.Close()) })
	number, err := log.Queue(t.Context(), "q")
	require.NoError(t, err)
	for range payloads {
		ticket, err := log.Append(t.Context(), []journal.Entry{{Queue: number, ID: []byte("id")}}, nil)
		require.NoError(t, err)
		require.NoError(t, ticket.Wait(t.Context()))
	}
	handlers, cancel := context.WithCancelCause(t.Context())
	pool := attempt.Pool{Parent: handlers}
	b.cancel = cancel
	b.Judge = Judge{
		Engine: &engine.Engine{
			Log: log, Logger: slog.New(slog.DiscardHandler), Handlers: handlers, Closed: errStops,
			Fail: func(err error) { b.failed = append(b.failed, err) }, Border: func(err error) error { return err },
		},
		Rules: &Rules{
			Core: shard.Config{MaxRetries: 25}, RetryIn: func(int) time.Duration { return time.Minute }, FormatError: error.Error,
			Wish: func(_ *shard.Item, err error) Wish {
				a, _ := errors.AsType[asking](err)
				return a.Wish
			},
		},
		Queue: &engine.Queue{Name: "q"}, Attempt: pool.Next(),
	}
	b.Queue.Lines.Logger = b.Logger
	return b
}

// end judges the item, and returns its outcome.
func (b *bench) end(err error) shard.Outcome {
	b.End(b.it, &err)
	return b.it.Outcome
}

func TestWishes(t *testing.T) {
	for name, test := range map[string]struct {
		wish Wish
		want shard.Outcome
	}{
		"failure":         {Wish{}, shard.Outcome{Verdict: shard.VerdictFailed, Delay: time.Minute, Error: "asking"}},
		"own pause":       {Wish{Kind: FailFor, After: time.Hour}, shard.Outcome{Verdict: shard.VerdictFailed, Delay: time.Hour, Error: "asking"}},
		"full disk":       {Wish{Kind: FullDisk, After: time.Second}, shard.Outcome{Verdict: shard.VerdictSnoozed, Delay: time.Minute, Error: "asking"}},
		"snooze":          {Wish{Kind: Snooze, After: time.Hour}, shard.Outcome{Verdict: shard.VerdictSnoozed, Delay: time.Hour}},
		"snooze, why":     {Wish{Kind: Snooze, After: time.Hour, Text: true}, shard.Outcome{Verdict: shard.VerdictSnoozed, Delay: time.Hour, Error: "asking"}},
		"discard":         {Wish{Kind: Discard}, shard.Outcome{Verdict: shard.VerdictDiscarded}},
		"cancel":          {Wish{Kind: Cancel}, shard.Outcome{Verdict: shard.VerdictCanceled, Error: "asking", Room: -1}},
		"panic":           {Wish{Kind: Panicked}, shard.Outcome{Verdict: shard.VerdictFailed, Delay: time.Minute, Error: "asking"}},
		"never decodes":   {Wish{Kind: Refused, Text: true, Undecoded: true}, shard.Outcome{Verdict: shard.VerdictCanceled, Error: "asking", Unrun: true}},
		"may decode":      {Wish{Undecoded: true}, shard.Outcome{Verdict: shard.VerdictFailed, Delay: time.Minute, Error: "asking", Unrun: true}},
		"fatal":           {Wish{Fatal: errStops}, shard.Outcome{Verdict: shard.VerdictFailed, Delay: time.Minute, Error: "asking", Room: -1}},
		"fatal, discards": {Wish{Kind: Discard, Fatal: errStops}, shard.Outcome{Verdict: shard.VerdictDiscarded}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 1)
			out := b.end(asking{test.wish})
			if test.want.Room < 0 { // some
				require.Positive(t, out.Room)
				test.want.Room = out.Room
			}
			require.Equal(t, test.want, out)
			require.Equal(t, test.wish.Fatal, b.Fatal)
			require.Empty(t, b.failed)
		})
	}
}

// Of a batch only the first job that ends the executor has its room, and all say which error did.
func TestFatalOfABatch(t *testing.T) {
	b := newBench(t, 1)
	require.Positive(t, b.end(asking{Wish{Fatal: errStops}}).Room)
	b.it.Outcome = shard.Outcome{}
	require.Zero(t, b.end(asking{Wish{Fatal: errFails}}).Room)
	require.Equal(t, errStops, b.Fatal)
}

// What can't be read runs again, and ends the executor, unless the journal was closed.
func TestUnread(t *testing.T) {
	b := newBench(t, 1)
	require.Equal(t, shard.VerdictInterrupted, b.end(&Unread{Err: journal.ErrClosed}).Verdict)
	require.Empty(t, b.failed)
	require.Equal(t, shard.VerdictInterrupted, b.end(&Unread{Err: errFails}).Verdict)
	require.Equal(t, []error{errFails}, b.failed)
}

// Payloads with errors of their own end apart. What runs again does so together, after the longest of
// the pauses, and as the worst.
func TestPayloadsApart(t *testing.T) {
	discard, snooze := asking{Wish{Kind: Discard}}, asking{Wish{Kind: Snooze, After: time.Hour}}
	cancel := asking{Wish{Kind: Cancel}}
	for name, test := range map[string]struct {
		errs  map[int]error // by payload; −1: none of the item
		want  shard.Outcome
		parts []shard.Part
	}{
		"all are done":  {nil, shard.Outcome{Verdict: shard.VerdictDone}, nil},
		"one discarded": {map[int]error{1: discard}, shard.Outcome{Verdict: shard.VerdictDone}, []shard.Part{{Index: 1, Verdict: shard.VerdictDiscarded}}},
		"one fails": {
			map[int]error{1: errFails}, shard.Outcome{Verdict: shard.VerdictFailed, Delay: time.Minute, Error: "fails"},
			[]shard.Part{{Index: 0, Verdict: shard.VerdictDone}, {Index: 2, Verdict: shard.VerdictDone}},
		},
		"the worst, for the longest": {
			map[int]error{0: snooze, 1: errFails, 2: cancel}, shard.Outcome{Verdict: shard.VerdictFailed, Delay: time.Hour, Error: "fails"},
			[]shard.Part{{Index: 2, Verdict: shard.VerdictCanceled, Error: "asking"}},
		},
		"one of another job": {
			map[int]error{-1: discard, 1: discard}, shard.Outcome{Verdict: shard.VerdictFailed, Delay: time.Minute, Error: "asking"},
			[]shard.Part{{Index: 1, Verdict: shard.VerdictDiscarded}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 3)
			b.Apart = true
			each := map[uint64]error{}
			for i, err := range test.errs {
				at := uint64(1 << 40)
				if i >= 0 {
					at = uint64(b.it.Payloads[i].Ref.Position())
				}
				each[at] = err
			}
			out := b.end(asking{Wish{Payloads: each}})
			require.Equal(t, test.parts, append([]shard.Part(nil), out.Parts...))
			out.Parts, out.Room = nil, 0
			require.Equal(t, test.want, out)
		})
	}
}

// What keeps a handler from its work spends no retry, whatever it returns. Its own deadline does.
func TestInterrupted(t *testing.T) {
	for name, test := range map[string]struct {
		before func(*bench)
		err    error
		want   shard.Verdict
	}{
		"stop":                  {func(b *bench) { b.cancel(errStops) }, errFails, shard.VerdictInterrupted},
		"person":                {func(b *bench) { b.Attempt.End(attempt.ErrDeleted) }, errFails, shard.VerdictInterrupted},
		"drain":                 {func(b *bench) { b.Draining.Store(true) }, fmt.Errorf("call: %w", errStops), shard.VerdictInterrupted},
		"drain, of its own":     {func(b *bench) { b.Draining.Store(true) }, errFails, shard.VerdictFailed},
		"another has stopped":   {func(*bench) {}, errStops, shard.VerdictFailed},
		"was not called":        {func(b *bench) { b.it.Outcome.Unrun = true }, errFails, shard.VerdictInterrupted},
		"snooze during a stop":  {func(b *bench) { b.cancel(errStops) }, asking{Wish{Kind: Snooze}}, shard.VerdictSnoozed},
		"has returned":          {func(b *bench) { b.Attempt.Over() }, errFails, shard.VerdictFailed},
		"no heartbeat":          {func(b *bench) { b.Heartbeat = 1; b.Attempt.End(attempt.ErrNoHeartbeat) }, errFails, shard.VerdictFailed},
		"late":                  {func(b *bench) { b.Attempt.TakeOn(0); b.Attempt.Over() }, errFails, shard.VerdictFailed},
		"late, after the stop":  {func(b *bench) { b.Attempt.TakeOn(0); b.hurry(-time.Hour); b.cancel(errStops); b.Attempt.Over() }, errFails, shard.VerdictInterrupted},
		"late, before the stop": {func(b *bench) { b.Attempt.TakeOn(0); b.hurry(time.Hour); b.cancel(errStops); b.Attempt.Over() }, errFails, shard.VerdictFailed},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 1)
			test.before(b)
			require.Equal(t, test.want, b.end(test.err).Verdict)
		})
	}
}

// hurry says that a stop ended the contexts of handlers that long from now.
func (b *bench) hurry(in time.Duration) { b.Hurried.Store(new(time.Now().Add(in))) }

// An error that can't be asked is a failure. If it ends the goroutine, the next one says so.
func TestErrorsThatCantBeAsked(t *testing.T) {
	b := newBench(t, 1)
	b.Wish = func(*shard.Item, error) Wish { panic("a method of the error") }
	out := b.end(errFails)
	require.Equal(t, []any{shard.VerdictFailed, guard.NoText, false}, []any{out.Verdict, out.Error, out.Unrun})

	b = newBench(t, 1)
	b.Wish = func(*shard.Item, error) Wish { runtime.Goexit(); return Wish{} }
	b.Unrun = true
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		b.end(errFails)
	}()
	<-exited
	require.Equal(t, shard.VerdictUnstarted, b.it.Outcome.Verdict)
	b.GiveUp(b.it)
	require.Equal(t, []any{shard.VerdictFailed, true}, []any{b.it.Outcome.Verdict, b.it.Outcome.Unrun})

	b = newBench(t, 1)
	b.FormatError = func(error) string { panic("a function of the queue") }
	b.RetryIn = func(int) time.Duration { panic("a function of the queue") }
	out = b.end(errFails)
	require.Equal(t, []any{shard.VerdictFailed, "fails"}, []any{out.Verdict, out.Error})
	require.Positive(t, out.Delay)
}

// What an error asks for counts, too, when the hook for its text ends the goroutine, and so may the next hook do.
func TestAHookExitsWhenTheWishIsKnown(t *testing.T) {
	for name, test := range map[string]struct {
		wish    Wish
		verdict shard.Verdict
		delay   time.Duration
	}{
		"cancel": {Wish{Kind: Cancel}, shard.VerdictCanceled, 0},
		"after":  {Wish{Kind: FailFor, After: time.Hour}, shard.VerdictFailed, time.Hour},
		"fail":   {Wish{}, shard.VerdictFailed, 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 1)
			b.FormatError = func(error) string { runtime.Goexit(); return "" }
			b.RetryIn = func(int) time.Duration { return 7 * time.Second }
			<-guard.Returned(func() { b.end(asking{test.wish}) })
			require.Equal(t, shard.VerdictUnstarted, b.it.Outcome.Verdict)
			b.GiveUp(b.it)
			out := b.it.Outcome
			require.Equal(t, []any{test.verdict, guard.NoText, test.delay}, []any{out.Verdict, out.Error, out.Delay})
		})
	}
	b := newBench(t, 1)
	b.FormatError, b.RetryIn = func(error) string { runtime.Goexit(); return "" }, func(int) time.Duration { runtime.Goexit(); return 0 }
	<-guard.Returned(func() { b.end(errFails) })
	<-guard.Returned(func() { b.GiveUp(b.it) })
	require.Equal(t, shard.VerdictUnstarted, b.it.Outcome.Verdict)
	b.GiveUp(b.it)
	require.Equal(t, shard.VerdictFailed, b.it.Outcome.Verdict)
}

// What a hook does for one payload of a job leaves the others done.
func TestAHookExitsForAPart(t *testing.T) {
	b := newBench(t, 3)
	b.Apart, b.FormatError = true, func(error) string { runtime.Goexit(); return "" }
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		b.end(asking{Wish{Payloads: map[uint64]error{uint64(b.it.Payloads[1].Ref.Position()): errFails}}})
	}()
	<-exited
	b.GiveUp(b.it)
	require.Equal(t, shard.VerdictFailed, b.it.Outcome.Verdict)
	require.Equal(t, []shard.Part{{Index: 0, Verdict: shard.VerdictDone}, {Index: 2, Verdict: shard.VerdictDone}}, b.it.Outcome.Parts)
}

// What the shard will bury is what is said to be buried.
func TestDoomed(t *testing.T) {
	failed, canceled := shard.VerdictFailed, shard.VerdictCanceled
	part := shard.Part{Index: 1, Verdict: canceled, Error: "part"}
	type doom struct {
		n, first int
		reason   string
	}
	for name, test := range map[string]struct {
		cfg  shard.Config
		out  shard.Outcome
		want doom
	}{
		"a retry":                {shard.Config{MaxRetries: 25}, shard.Outcome{Verdict: failed, Error: "e"}, doom{0, 3, ""}},
		"the last, oldest":       {shard.Config{}, shard.Outcome{Verdict: failed, Error: "e"}, doom{1, 0, "e"}},
		"the last, all":          {shard.Config{BuryAll: true}, shard.Outcome{Verdict: failed, Error: "e"}, doom{3, 0, "e"}},
		"the last, halt":         {shard.Config{Halt: true}, shard.Outcome{Verdict: failed, Error: "e"}, doom{0, 3, ""}},
		"the last, of a fold":    {shard.Config{Fold: func(*shard.Fold) {}, BuryAll: true}, shard.Outcome{Verdict: failed, Error: "e"}, doom{1, 0, "e"}},
		"canceled":               {shard.Config{Halt: true}, shard.Outcome{Verdict: canceled, Error: "e"}, doom{3, 0, "e"}},
		"canceled, one by one":   {shard.Config{Single: true}, shard.Outcome{Verdict: canceled, Error: "e", Done: 1}, doom{1, 1, "e"}},
		"a part":                 {shard.Config{}, shard.Outcome{Verdict: shard.VerdictDone, Parts: []shard.Part{part}}, doom{1, 1, "part"}},
		"a part, and the oldest": {shard.Config{}, shard.Outcome{Verdict: failed, Error: "e", Parts: []shard.Part{part}}, doom{2, 0, "e"}},
		"all are parts":          {shard.Config{}, shard.Outcome{Verdict: canceled, Error: "e", Parts: []shard.Part{{Index: 0}, part, {Index: 2}}}, doom{1, 1, "part"}},
		"a part, and all":        {shard.Config{}, shard.Outcome{Verdict: canceled, Error: "e", Parts: []shard.Part{part}}, doom{3, 0, "e"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := Rules{Core: test.cfg}
			n, first, reason := r.Doomed(&shard.Item{Payloads: make([]shard.Payload, 3), Outcome: test.out})
			require.Equal(t, test.want, doom{n, first, reason})
		})
	}
}
