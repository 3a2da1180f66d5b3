package executortest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/backdoor"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/each"
)

// RequireEnqueued requires that an id of a queue was enqueued with exactly these payloads, in this order, by calls and
// follow-ups, merged or not; without payloads, that it was enqueued at all. It returns what was accepted for the id.
// The queue may be of an earlier life.
func RequireEnqueued[T any](x *Executor, queue *executor.Queue[T], id string, payloads ...T) []Enqueued {
	x.t.Helper()
	all := x.Enqueued(queue.Name())
	mine := slices.DeleteFunc(slices.Clone(all), func(e Enqueued) bool { return e.ID != id })
	same := slices.EqualFunc(mine, payloads, func(e Enqueued, want T) bool { return bytes.Equal(e.Raw, encoded(x, queue, want)) })
	if len(payloads) == 0 && len(mine) > 0 || len(payloads) > 0 && same {
		return mine
	}
	others := slices.DeleteFunc(all, func(e Enqueued) bool { return e.ID == id })
	x.t.Fatalf("executortest: %s/%s: want enqueued\n%s\nbut there was\n%s\nand for other ids of the queue\n%s", queue.Name(), id,
		values(payloads), lines(mine, Enqueued.String), lines(others, Enqueued.String))
	return nil
}

// RequireRan requires that the handler of a queue was called for an id with exactly these payloads, in this order, each
// as often as it was tried: those of one call after those of another.
func RequireRan[T any](x *Executor, queue *executor.Queue[T], id string, payloads ...T) {
	x.t.Helper()
	var got [][]byte
	mine := runsOf(x, queue, id)
	for _, r := range mine {
		for _, p := range r.Payloads {
			raw := []byte(nil)
			if v, ok := p.Value.(T); ok {
				raw = encoded(x, queue, v)
			}
			got = append(got, raw)
		}
	}
	if !slices.EqualFunc(got, payloads, func(raw []byte, want T) bool { return bytes.Equal(raw, encoded(x, queue, want)) }) {
		x.t.Fatalf("executortest: %s/%s: want runs with\n%s\nbut there were\n%s\n%s", queue.Name(), id,
			values(payloads), lines(mine, Ran.String), state(x, queue.Name(), id))
	}
}

// encoded is what the codec of the queue makes of a payload.
func encoded[T any](x *Executor, queue *executor.Queue[T], payload T) []byte {
	x.t.Helper()
	raw, err := backdoor.Encode(queue, payload)
	if err != nil {
		x.t.Fatalf("executortest: %s: %+v does not encode: %v", queue.Name(), payload, err)
	}
	return raw
}

// RequireNotEnqueued requires that nothing was enqueued for some ids of a queue; without
// ids, for none at all. The queue is an [executor.Queue] or an [executor.Caller].
func RequireNotEnqueued(x *Executor, queue Named, ids ...string) {
	x.t.Helper()
	if all := slices.DeleteFunc(x.Enqueued(nameOf(x, queue)), func(e Enqueued) bool { return !contains(ids, e.ID) }); len(all) > 0 {
		x.t.Fatalf("executortest: %s: want nothing enqueued %q, but there was\n%s", queue.Name(), ids, lines(all, Enqueued.String))
	}
}

// RequireMerged requires that the payload of one receipt was merged into that of another,
// whichever of the two came first.
func RequireMerged(x *Executor, payload, into executor.Receipt) {
	x.t.Helper()
	var merged []events.Event
	for _, e := range x.History() {
		if e.Kind != events.Merged {
			continue
		}
		if e.Position == payload.Position && e.Into == into.Position {
			return
		}
		merged = append(merged, e)
	}
	x.t.Fatalf("executortest: want payload %d of %s merged into %d, but merged were\n%s", payload.Position, payload.ID, into.Position,
		lines(merged, func(e events.Event) string {
			return fmt.Sprintf("%s/%s: %d into %d", e.Queue, e.ID, e.Position, e.Into)
		}))
}

// RequireOrder requires that handlers were called in exactly this order, over all
// queues; a run is named as queue/id.
func RequireOrder(x *Executor, runs ...string) {
	x.t.Helper()
	all := x.Runs()
	if !slices.EqualFunc(all, runs, func(r Ran, name string) bool { return r.Queue+"/"+r.ID == name }) {
		x.t.Fatalf("executortest: want runs in the order\n%s\nbut there were\n%s", indent(runs...), lines(all, Ran.String))
	}
}

// RequireOutcomes requires that the runs of an id ended exactly so, in this order.
func RequireOutcomes(x *Executor, queue Named, id string, outcomes ...events.Kind) {
	x.t.Helper()
	mine := runsOf(x, queue, id)
	if !slices.EqualFunc(mine, outcomes, func(r Ran, kind events.Kind) bool { return r.Outcome == kind }) {
		x.t.Fatalf("executortest: %s/%s: want outcomes %v, but the runs were\n%s\n%s", queue.Name(), id, outcomes,
			lines(mine, Ran.String), state(x, queue.Name(), id))
	}
}

// RequireDone requires of each of the ids that it has run, that its last run has
// succeeded, and that nothing of it is left, neither waiting nor in the morgue.
func RequireDone(x *Executor, queue Named, ids ...string) {
	x.t.Helper()
	for _, id := range ids {
		mine := runsOf(x, queue, id)
		e, err := x.Executor.Inspect().Explain(context.Background(), queue.Name(), id)
		done := len(mine) > 0 && mine[len(mine)-1].Outcome == events.Done
		if !done || err != nil || e.State != inspect.JobUnknown {
			x.t.Fatalf("executortest: %s/%s: want it done, but the runs were\n%s\n%s", queue.Name(), id,
				lines(mine, Ran.String), state(x, queue.Name(), id))
		}
	}
}

// RequireFailed requires that the last run of an id has failed, with an error that
// contains text, and that it waits for a retry. A payload that does not decode has no run.
func RequireFailed(x *Executor, queue Named, id, text string) {
	x.t.Helper()
	mine := runsOf(x, queue, id)
	if n := len(mine); n > 0 {
		if r := mine[n-1]; r.Outcome == events.Failed && !r.Final && strings.Contains(r.Error, text) {
			return
		}
	}
	x.t.Fatalf("executortest: %s/%s: want a failure with %q and a retry, but the runs were\n%s\n%s", queue.Name(), id, text,
		lines(mine, Ran.String), state(x, queue.Name(), id))
}

// RequireRetries requires that the failures of an id were followed by these pauses, in
// this order; the last one, after which there is none, does not count.
func RequireRetries(x *Executor, queue Named, id string, pauses ...time.Duration) {
	x.t.Helper()
	mine := runsOf(x, queue, id)
	var got []time.Duration
	for _, r := range mine {
		if r.Outcome == events.Failed && !r.Final {
			got = append(got, r.Delay)
		}
	}
	if !slices.Equal(got, pauses) {
		x.t.Fatalf("executortest: %s/%s: want retries after %v, but they were after %v; the runs were\n%s\n%s", queue.Name(), id, pauses, got,
			lines(mine, Ran.String), state(x, queue.Name(), id))
	}
}

// RequireBuried requires that the morgue has a payload of an id whose error contains
// text.
func RequireBuried(x *Executor, queue Named, id, text string) {
	x.t.Helper()
	var dead []inspect.DeadPayload
	for query := (inspect.JobQuery{Queue: nameOf(x, queue), Limit: brief.MaxRows}); ; {
		page, err := x.Inspect().Dead(context.Background(), query)
		if err != nil {
			x.t.Fatalf("executortest: %s: %v", queue.Name(), err)
		}
		for _, d := range page.Dead {
			if d.ID == id && strings.Contains(d.Error, text) {
				return
			}
		}
		dead = append(dead, page.Dead...)
		if query.Cursor = page.Next; query.Cursor == "" {
			break
		}
	}
	x.t.Fatalf("executortest: %s/%s: want a dead payload with %q, but in the morgue were\n%s\n%s", queue.Name(), id, text,
		lines(dead, func(d inspect.DeadPayload) string {
			return fmt.Sprintf("%s/%s: %s: attempt %d: %s", d.Queue, d.ID, d.Raw, d.Attempt, d.Error)
		}), state(x, queue.Name(), id))
}

// RequireDue requires that an id has a job which is due in exactly so much time from now:
// put off, debounced, or waiting for a retry. 0: it is due, or long overdue, and waits.
func RequireDue(x *Executor, queue Named, id string, in time.Duration) {
	x.t.Helper()
	e, err := x.Executor.Inspect().Explain(context.Background(), queue.Name(), id)
	waits := err == nil && e.State != inspect.JobUnknown && e.State != inspect.JobDead && e.State != inspect.JobRunning
	if got := max(time.Until(e.Due), 0); !waits || got != max(in, 0) {
		x.t.Fatalf("executortest: %s/%s: want it due in %v, but: %s (due in %v)", queue.Name(), id, in, explain(x.Executor, queue.Name(), id), got)
	}
}

// RequireEmpty requires that no queue has a job: nothing waits, runs, is put off or
// halted. The morgue does not count.
func RequireEmpty(x *Executor) {
	x.t.Helper()
	stats, err := x.Executor.Stats(context.Background())
	if err != nil {
		x.t.Fatalf("executortest: %v", err)
	}
	for _, q := range stats.Queues {
		if q.Jobs > 0 || q.Unclaimed > 0 {
			x.t.Fatalf("executortest: want no jobs, but %s has %d, and %d payloads of a queue that is not registered:\n%s",
				q.Name, q.Jobs, q.Unclaimed, whatWaits(x.Executor))
		}
	}
}

// Named is a queue of any type, by its name: [executor.Queue] and [executor.Caller] are.
type Named interface{ Name() string }

// nameOf fails the test for a queue of which nothing can be known.
func nameOf(x *Executor, queue Named) string {
	x.t.Helper()
	if queue == nil || queue.Name() == "" { // a nil or a zero Queue
		x.t.Fatalf("executortest: the queue is nil, or no registration has made it")
	}
	return queue.Name()
}

func runsOf(x *Executor, queue Named, id string) []Ran {
	return slices.DeleteFunc(x.Runs(nameOf(x, queue)), func(r Ran) bool { return r.ID != id })
}

// state says how it stands with an id now.
func state(x *Executor, queue, id string) string { return "and now: " + explain(x.Executor, queue, id) }

// What a message has at most: lines of one kind, and bytes of a text.
const (
	shownAtMost = brief.Listed
	mostText    = 200
)

// String is one line.
func (e Enqueued) String() string {
	payload := fmt.Sprintf("%+v", e.Payload)
	if e.Payload == nil {
		payload = fmt.Sprintf("%q", e.Raw)
	}
	line := fmt.Sprintf("%s/%s: %s", e.Queue, e.ID, brief.Cut(payload, mostText))
	if wait := e.Due.Sub(e.At); wait > 0 {
		line += fmt.Sprintf(", due in %v", wait)
	}
	return line
}

// String is one line.
func (r Ran) String() string {
	payloads := each.Of(r.Payloads[:min(len(r.Payloads), shownAtMost)], func(p executor.Payload[any]) string {
		return brief.Cut(fmt.Sprintf("%+v", p.Value), mostText)
	})
	if more := len(r.Payloads) - len(payloads); more > 0 {
		payloads = append(payloads, fmt.Sprintf("and %d more", more))
	}
	line := fmt.Sprintf("%s %s/%s: %s, attempt %d: ", r.Began.UTC().Format("01-02T15:04:05.000"), r.Queue, r.ID, strings.Join(payloads, " | "), r.Attempt)
	switch {
	case r.Outcome == "" && r.Err != nil:
		line += fmt.Sprintf("no outcome: %v", r.Err)
	case r.Outcome == "":
		line += "no outcome"
	default:
		line += string(r.Outcome)
	}
	if r.Error != "" {
		line += ": " + brief.Cut(r.Error, mostText)
	}
	if r.Delay > 0 {
		line += fmt.Sprintf(", again in %v", r.Delay)
	}
	if r.Final {
		line += ", for the last time"
	}
	return line
}

// lines shows the last of a list.
func lines[T any](all []T, line func(T) string) string {
	var shown []string
	if more := len(all) - shownAtMost; more > 0 {
		shown = append(shown, fmt.Sprintf("(%d before)", more))
		all = all[more:]
	}
	return indent(append(shown, each.Of(all, line)...)...)
}

func values[T any](all []T) string {
	if len(all) == 0 {
		return "\tanything"
	}
	return lines(all, func(v T) string { return brief.Cut(fmt.Sprintf("%+v", v), mostText) })
}

func indent(lines ...string) string {
	if len(lines) == 0 {
		return "\tnothing"
	}
	return "\t" + strings.ReplaceAll(strings.TrimSpace(strings.Join(lines, "\n")), "\n", "\n\t")
}
