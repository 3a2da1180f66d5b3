package executor

import (
	"context"
	"fmt"
	"iter"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/tell"
)

// Events yields what happens to jobs, from a buffer in memory, as it happens. It yields
// what happens after the call, also if the loop begins later. A slow loop holds up
// neither jobs nor other readers, of which there may be any number. The loop ends when
// ctx does, and after [Executor.Stop] with the last event.
//
// The buffer keeps Config.Advanced.EventBuffer events. A reader that falls further
// behind gets a [*events.MissedError] once, and then the oldest event that is left. While no
// loop reads, the feed is switched off after so many events, to save the cost: a loop
// that begins after that has missed all of those, and others that were not counted. Any
// other error is yielded once and ends the loop: ErrConfig for an unknown kind, an
// invalid token, or an EventBuffer below zero; ErrUnknownQueue; and ErrContext.
//
// Package [events] says what is promised, and what not. A log that lasts is made otherwise:
// see "Events" in the guide (README.md). Without a reader, events cost an atomic load for
// each call of a handler; with one, about 0.2 µs each.
func (x *Executor) Events(ctx context.Context, f events.Filter) iter.Seq2[events.Event, error] {
	r, err := x.reader(ctx, f)
	return func(yield func(events.Event, error) bool) {
		if err != nil {
			yield(events.Event{}, err)
			return
		}
		again := *r // each loop begins where the call was
		again.Each(yield)
	}
}

func (x *Executor) reader(ctx context.Context, f events.Filter) (*tell.Reader, error) {
	ctx, err := guard.Context(ctx)
	if err != nil {
		return nil, err
	}
	if x == nil {
		return nil, fmt.Errorf("%w: there are no events without an executor; Open makes one", ErrConfig)
	}
	var queues []*tell.Source
	for _, name := range f.Queues {
		q, err := x.lookup(name)
		if err != nil {
			return nil, err
		}
		queues = append(queues, &q.Events)
	}
	r, err := x.events.Read(ctx, f, queues)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return r, nil
}
