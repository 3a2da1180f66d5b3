package executor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/shard"
)

func (c *controls) inspect(ctx context.Context, _ control.None) (control.Inspection, error) {
	i := c.x.log.Info()
	a := control.Inspection{
		Format: i.Format, UUID: i.UUID, Epoch: i.Epoch, Next: uint64(i.Next), Oldest: i.Oldest, Newest: i.Newest, Blocks: i.Blocks,
		Entries: i.Entries, Live: i.Live, Bytes: i.Bytes, LiveBytes: i.LiveBytes, Buried: i.Buried, QueueN: i.Queues, FileBytes: i.FileBytes,
	}
	var err error
	if a.Queues, err = c.queues(ctx); err != nil {
		return a, err
	}
	for i := range a.Queues {
		if q := &a.Queues[i]; q.Registered {
			if err := c.census(ctx, q); err != nil {
				return a, err
			}
		}
	}
	return a, nil
}

// queues are all that the journal knows, by name, with what their shards count.
func (c *controls) queues(ctx context.Context) ([]control.Queue, error) {
	infos, err := c.i.Queues(ctx)
	if err != nil {
		return nil, err
	}
	known := make(map[string]QueueInfo, len(infos))
	for _, q := range infos {
		known[q.Name] = q
	}
	var list []control.Queue
	for name, number := range c.x.log.Queues() {
		q := known[name]
		list = append(list, control.Queue{
			Name: []byte(name), Number: number, Registered: q.Registered, Unclaimed: q.Unclaimed, Dead: q.Dead,
			Jobs: q.Jobs, Payloads: q.Payloads, Retrying: q.Retrying, Halted: q.Halted,
			Running: q.Running, Parked: q.Parked, Paused: q.Paused, Lag: int64(q.Lag), Age: int64(q.Age),
		})
	}
	slices.SortFunc(list, func(a, b control.Queue) int { return slices.Compare(a.Name, b.Name) })
	return list, nil
}

// census counts the jobs of a queue as a journal at rest has them: none of them runs.
func (c *controls) census(ctx context.Context, to *control.Queue) error {
	q, err := c.x.lookup(string(to.Name))
	if err != nil {
		return err
	}
	now := time.Now().UnixNano()
	var all shard.Outlook
	w := newWalk(q)
	w.want = func(v *shard.View) bool { // on one shard after the other; after an error nobody asks
		switch {
		case v.State == shard.StateHalted:
			all.Halted++
			return false
		case v.Retry >= 0:
			all.Retrying++
		default:
			all.Fresh++
		}
		if v.Due <= now {
			all.Due++
		}
		return false
	}
	if err := w.all(ctx); err != nil {
		return err
	}
	to.Jobs, to.Retrying, to.Halted, to.Due = all.Fresh+all.Retrying+all.Halted, all.Retrying, all.Halted, all.Due
	return nil
}

// silence is how long status waits for the shards.
const silence = 2 * time.Second

// status answers also when no shard does, or the disk does not: then somebody asks.
func (c *controls) status(ctx context.Context, _ control.None) (control.Status, error) {
	x := c.x
	a := control.Status{Stuck: int(x.watchdog.stuck.Load()), CommitAge: int64(x.log.CommitAge())}
	a.Workers, a.Busy = x.dispatcher.load()
	a.Paused, _ = x.pauses.of("")
	if err := x.Err(); err != nil {
		a.Trouble = err.Error()
	}
	short, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	var err error
	if a.Queues, err = c.queues(short); err != nil {
		a.Queues, a.Silent = c.names(), err.Error()
	}
	for i := range a.Queues {
		a.Payloads += a.Queues[i].Payloads
	}
	return a, nil
}

// names are the queues without what their shards count.
func (c *controls) names() (list []control.Queue) {
	registered := make(map[string]bool)
	for _, q := range c.x.registered() {
		registered[q.name] = true
	}
	for name, number := range c.x.log.Queues() {
		all, one := c.x.pauses.of(name)
		list = append(list, control.Queue{
			Name: []byte(name), Number: number, Registered: registered[name], Dead: c.x.log.Buried(number), Paused: all || one,
		})
	}
	slices.SortFunc(list, func(a, b control.Queue) int { return slices.Compare(a.Name, b.Name) })
	return list
}

func (c *controls) explain(ctx context.Context, one control.One) (control.Explanation, error) {
	e, err := c.x.Explain(ctx, string(one.Queue), string(one.ID))
	if err != nil {
		return control.Explanation{}, err
	}
	a := control.Explanation{
		State: string(e.State), Attempt: e.Attempt, LastError: []byte(e.LastError), Payloads: e.Payloads, Dead: e.Dead,
		Paused: e.Paused, Behind: []byte(e.Behind), More: e.More, Text: e.String(),
	}
	if !e.Due.IsZero() {
		a.Due = e.Due.UnixNano()
	}
	for _, k := range e.Keys {
		a.Waits = append(a.Waits, k.String())
	}
	for _, s := range e.Unique {
		a.Waits = append(a.Waits, s.String())
	}
	for _, s := range e.Slots {
		a.Waits = append(a.Waits, fmt.Sprintf("slot %s is %s's", brief(s.Slot), brief(s.By)))
	}
	if e.Limit != nil {
		a.Waits = append(a.Waits, e.Limit.String())
	}
	if e.Turn != nil {
		a.Waits = append(a.Waits, e.Turn.String())
	}
	return a, nil
}

func (c *controls) running(ctx context.Context, q control.RunningQuery) (control.RunningList, error) {
	list, err := c.i.Running(ctx, RunningQuery{Queue: string(q.Queue), Stacks: q.Stacks, Limit: q.Limit})
	a := control.RunningList{More: list.More}
	for _, r := range list.Running {
		o := control.Running{
			Queue: []byte(r.Queue), Worker: r.Worker, More: r.More, Since: r.Since.UnixNano(), Age: int64(r.Age), Stuck: r.Stuck, Stack: r.Stack,
		}
		for _, j := range r.Jobs {
			o.Jobs = append(o.Jobs, control.InHand{ID: []byte(j.ID), Attempt: j.Attempt, Position: j.Position, Payloads: j.Payloads})
		}
		if p := r.Progress; p != nil {
			o.Progress, o.Message = &[2]int64{p.Done, p.Total}, []byte(p.Message)
		}
		a.Running = append(a.Running, o)
	}
	return a, err
}

func (c *controls) events(ctx context.Context, request func(v any) error, send func(line any) error) error {
	var q control.EventsQuery
	if err := request(&q); err != nil {
		return err
	}
	f := EventFilter{Queues: texts(q.Queues), After: q.After, Kinds: make([]EventKind, len(q.Kinds))}
	for i, name := range q.Kinds {
		if err := f.Kinds[i].UnmarshalText([]byte(name)); err != nil || f.Kinds[i] == 0 {
			return fmt.Errorf("there is no kind of events %q; there are: %s", brief(name), strings.Join(eventKindNames[1:], ", "))
		}
	}
	r, err := c.x.openEvents(ctx, f)
	if err == nil {
		err = send(nil) // from here on it sees all
	}
	if err != nil {
		return err
	}
	r.yield(func(e Event, missed error) bool {
		if missed != nil {
			err = send(control.Event{Missed: missed.Error()})
			return err == nil
		}
		err = send(control.Event{
			Token: e.Token(), Time: e.Time.UnixNano(), Kind: e.Kind.String(), Queue: []byte(e.Queue), ID: []byte(e.ID),
			Position: e.Position, Payloads: e.Payloads, Attempt: e.Attempt, Took: int64(e.Duration), Delay: int64(e.Delay),
			Error: []byte(e.Error), Done: e.Done, Total: e.Total,
		})
		return err == nil
	})
	return err
}
