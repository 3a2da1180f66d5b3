package executor

import (
	"fmt"
	"log/slog"

	"github.com/strandjobs/strand/executor/internal/fold"
	"github.com/strandjobs/strand/shard"
)

// mayFold refuses what makes no sense together with Fold.
func (t *Queue[T]) mayFold(single bool) error {
	c := &t.cfg
	var why string
	switch {
	case c.Gather.Fold == nil:
		return nil
	case single:
		why = "its handler gets one payload per call, each for itself; use HandleMerged or HandleBatch"
	case c.Merge != MergeKeepAll:
		why = fmt.Sprintf("Merge is %v, which leaves some out of what is folded; leave it at MergeKeepAll", c.Merge)
	case c.Gather.MaxPayloads > 0:
		why = fmt.Sprintf("Gather.MaxPayloads is %d, and all payloads become one; leave it out", c.Gather.MaxPayloads)
	case c.Conditions.Locks.OnEnqueue != nil || c.Conditions.Locks.OnRun != nil || c.Conditions.Locks.Unlock != nil:
		why = "Conditions.Locks has OnEnqueue, OnRun or Unlock: the keys of what became a part of another payload would be forgotten; use BlockedBy, Unique or Limits"
	default:
		return nil
	}
	return fmt.Errorf("%w: Gather.Fold: %s", ErrConfig, why)
}

// newFolder returns what folds the payloads of the queue.
func (t *Queue[T]) newFolder(x *Executor) *fold.Folder {
	return fold.New(fold.Config{
		Log: x.log, Closing: x.crew.Starting.Done(), Go: x.life.Folding.Go, MaxBytes: x.cfg.Advanced.MaxPayloadBytes, TooLarge: ErrTooLarge,
		Failed: func(id string, err error, why string) {
			if panicked, _ := err.(*PanicError); panicked != nil {
				t.q.Lines.Panicked(id, why, panicked.Stack)
				return
			}
			x.cfg.Logger.Debug("payloads were not folded", slog.String("queue", t.q.Name), slog.String("id", id), slog.String("error", why))
		},
		Skip:    func(it *shard.Item, err error) bool { return !(&undecodable{err}).mayPass(t.q, it) },
		Refused: func(err error) string { return (&undecodable{err}).Error() },
	}, fold.Program[T]{Decode: t.decodeOne, Fold: t.cfg.Gather.Fold, Encode: t.encode})
}
