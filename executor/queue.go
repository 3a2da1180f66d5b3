package executor

import (
	"fmt"

	"github.com/strandjobs/strand/executor/internal/dispatch"
	"github.com/strandjobs/strand/executor/internal/roster"
)

// Queue is a registered queue. Its methods may be called from any goroutine.
type Queue[T any] struct {
	q   *queue
	cfg QueueConfig[T]
}

// queue is a registered queue without its type parameter: what the engine works
// with.
type queue struct {
	roster.Queue
	x *Executor

	durability Durability
	layers     layers // what stands around its calls
}

// errNoQueue is what a Queue says that no registration made.
var errNoQueue = fmt.Errorf("%w: this queue was not made by Handle, HandleMerged or HandleBatch", ErrState)

// Name returns the name of the queue, empty if it was not made by Handle,
// HandleMerged or HandleBatch.
func (t *Queue[T]) Name() string {
	if t == nil || t.q == nil {
		return ""
	}
	return t.q.Name
}

// Executor returns the executor that the queue was registered with, nil if it was
// not made by Handle, HandleMerged or HandleBatch.
func (t *Queue[T]) Executor() *Executor {
	if t == nil || t.q == nil {
		return nil
	}
	return t.q.x
}

// Tuning returns what holds for the queue now. That of a queue which no registration
// has made is zero.
func (t *Queue[T]) Tuning() QueueTuning {
	if t == nil || t.q == nil {
		return QueueTuning{}
	}
	return QueueTuning(t.q.Share.Share())
}

// Tune sets how the queue shares the workers with others, from the next grant of a
// worker on; what runs goes on. All fields count: to change one of them, begin with
// those that hold:
//
//	tuning := queue.Tuning()
//	tuning.Weight = 5
//	err := queue.Tune(tuning)
//
// It is for this process: after a restart the [QueueConfig] holds again. It returns
// ErrConfig, or ErrState for a queue that no registration has made; then it is as it
// was. After Stop it has no effect.
func (t *Queue[T]) Tune(tuning QueueTuning) error {
	if t == nil || t.q == nil {
		return errNoQueue
	}
	if err := tuning.check(""); err != nil {
		return err
	}
	t.q.Share.Tune(dispatch.Share(tuning))
	if t.q.x.cluster != nil {
		t.q.x.cluster.Do(func(part *Executor) {
			if own := part.queues.Named(t.q.Name); own != nil {
				own.Share.Tune(dispatch.Share(tuning))
			}
		})
	}
	return nil
}
