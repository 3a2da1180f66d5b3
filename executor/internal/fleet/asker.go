package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/await"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/guard"
)

// Asker puts questions to partitions, and waits for their answers.
type Asker struct {
	Partitions int
	Of         func(id string) (int, error) // the partition of an id

	// Ask has a partition answer a question by Do, after it has taken in all that was enqueued
	// for the queue before; see package cluster.
	Ask func(ctx context.Context, partition int, queue string, question []byte, again bool) (answer []byte, err error)

	// Handlers of this process, which share so many workers, must not all wait for partitions here.
	Handler func(ctx context.Context) bool
	Here    func(partition int) bool
	Workers int
	waiting atomic.Int64 // handlers that do
}

// Put has a partition answer a question: again if it has moved meanwhile. There is an answer also with an error.
func (as *Asker) Put(ctx context.Context, number int, q *Question, again bool) (*Answer, error) {
	ctx, err := guard.Context(ctx)
	if err != nil {
		return new(Answer), err
	}
	question, err := Questions.Encode(q)
	if err != nil {
		return new(Answer), err
	}
	behind := ""
	if q.Do == "do" { // nothing else adds to what is in its order
		behind = q.Which.Queue
	}
	answer, err := as.Ask(ctx, number, behind, question, again)
	if len(answer) == 0 {
		if q.Looks() && err != nil {
			err = unanswered{err}
		}
		return &Answer{silent: err != nil}, err
	}
	a, unreadable := Answers.Decode(answer)
	if unreadable != nil {
		return new(Answer), cmp.Or(err, unreadable)
	}
	for i, e := range a.explained() {
		if i < len(a.Zeros) && a.Zeros[i] {
			e.Newest = new(float64)
		}
	}
	return a, err
}

// unanswered is the error of a question that changes nothing: nothing is unknown after it.
type unanswered struct{ err error }

func (e unanswered) Error() string {
	return strings.Replace(e.err.Error(), engine.ErrUnknown.Error(), "executor: no answer", 1)
}

func (e unanswered) Is(target error) bool {
	return target != engine.ErrUnknown && errors.Is(e.err, target)
}

func (e unanswered) As(target any) bool { return errors.As(e.err, target) }

// About asks the partition of an id, and its next owner if it took nothing in. Where no worker would
// be left here for what a handler waits for, it is [await.ErrDeadlock].
func (as *Asker) About(ctx context.Context, queue, id string, q Question, again bool) (*Answer, error) {
	number, err := as.Of(id)
	if err != nil {
		return new(Answer), err
	}
	if (q.Do == "do" || q.Do == "Wait") && as.Handler(ctx) && as.Here(number) {
		defer as.waiting.Add(-1)
		if as.waiting.Add(1) >= int64(as.Workers) {
			return new(Answer), await.AllWait(as.Workers)
		}
	}
	q.Which = inspect.SelectIDs(queue, id)
	for {
		a, err := as.Put(ctx, number, &q, again)
		switch {
		case errors.Is(err, engine.ErrUnknownQueue): // which is not this process's list
			return a, part(number, err)
		case err != nil || !a.Moved:
			return a, err
		}
		select {
		case <-time.After(moveTime):
		case <-ctx.Done():
			return a, guard.Cause(ctx)
		}
	}
}

const (
	moveTime = 10 * time.Millisecond // that a partition has to move before it is asked again
	patience = 5 * time.Second       // how long methods that have no context wait for partitions
)

// all asks some partitions, each its own question, and returns answers by number: those of the others
// are empty. An error is of one of them, and the answers of the others are there all the same.
func (as *Asker) all(ctx context.Context, question func(number int) *Question) ([]*Answer, error) {
	answers, errs := make([]*Answer, as.Partitions), make([]error, as.Partitions)
	var calls sync.WaitGroup
	for number := range answers {
		q := question(number)
		if answers[number] = new(Answer); q == nil {
			continue
		}
		calls.Go(func() {
			a, err := as.Put(ctx, number, q, q.Looks())
			answers[number], errs[number] = a, part(number, err)
		})
	}
	calls.Wait()
	return answers, errors.Join(errs...)
}

// every asks all partitions the same.
func (as *Asker) every(ctx context.Context, q *Question) ([]*Answer, error) {
	return as.all(ctx, func(int) *Question { return q })
}

// divided asks a question about some ids, each partition about those of its own.
func (as *Asker) divided(ctx context.Context, q Question) ([]*Answer, error) {
	parts := make(map[int]*Question)
	for _, id := range q.Which.IDs {
		number, err := as.Of(id)
		if err != nil {
			return nil, err
		}
		if parts[number] == nil {
			own := q
			own.Which.IDs = nil
			parts[number] = &own
		}
		parts[number].Which.IDs = append(parts[number].Which.IDs, id)
	}
	return as.all(ctx, func(number int) *Question { return parts[number] })
}

// Letters yields the dead letters of a queue, one partition after the other.
func (as *Asker) Letters(queue string, yield func(inspect.DeadPayload, error) bool) {
	for number := range as.Partitions {
		for from, more := uint64(0), true; more; {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			a, err := as.Put(ctx, number, &Question{Do: "Letters", Which: inspect.SelectQueue(queue), Position: from}, true)
			cancel()
			if err != nil {
				yield(inspect.DeadPayload{}, part(number, err))
				return
			}
			for _, d := range a.Page.Dead {
				if !yield(d, nil) {
					return
				}
				from = d.Position + 1
			}
			more = len(a.Page.Dead) > 0
		}
	}
}

// Unlock unlocks a key in all partitions, and reports whether it was locked in any.
func (as *Asker) Unlock(ctx context.Context, key string) (was bool, err error) {
	answers, err := as.every(ctx, &Question{Do: "unlock", Reason: key})
	return slices.ContainsFunc(answers, func(a *Answer) bool { return a.Did.Back > 0 }), err
}

// Offset is the highest offset of a source that any partition has.
func (as *Asker) Offset(name string) (highest int64, found bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answers, err := as.every(ctx, &Question{Do: "SourceOffset", Reason: name})
	for _, a := range answers {
		if a.All && (!found || a.Offset > highest) {
			highest, found = a.Offset, true
		}
	}
	return highest, found, err
}

// PutOffset changes the offset of a source in all partitions. When only some have, it is [engine.ErrUnknown].
func (as *Asker) PutOffset(ctx context.Context, do, name string, offset int64) error {
	_, err := as.every(ctx, &Question{Do: do, Reason: name, Offset: offset})
	failed, ok := errors.AsType[interface { // which every has joined
		error
		Unwrap() []error
	}](err)
	if ok && len(failed.Unwrap()) < as.Partitions && !errors.Is(err, engine.ErrUnknown) {
		err = fmt.Errorf("%w: other partitions have changed it: %w", engine.ErrUnknown, err)
	}
	return err
}

// part says of which partition an error is.
func part(number int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("partition %d: %w", number, err)
}
