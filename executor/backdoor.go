package executor

import (
	"context"

	"github.com/strandjobs/strand/executor/internal/backdoor"
	"github.com/strandjobs/strand/executor/internal/fleet"
	"github.com/strandjobs/strand/executor/internal/quota"
	"github.com/strandjobs/strand/journal"
)

func init() {
	backdoor.Open = openElsewhere
	backdoor.Staged = Option{kind: optionStaged}
	backdoor.OpenCluster = func(cfg Config, of any, all *fleet.Inspector, enqueue func(context.Context, string, []Item[[]byte], []byte) ([]Receipt, error),
		followUp func(string, Item[[]byte]) (journal.Set, error), start, stop func(context.Context) error, failing func() error, with quota.Processes,
	) (*Executor, openPartition, error) {
		return openCluster(&cluster{Inspector: all, of: of, enqueue: enqueue, followUp: followUp, start: start, stop: stop, failing: failing, all: with}, cfg)
	}
	backdoor.Lapse = func(x any) { x.(*Executor).limits.Lapse() }
	backdoor.ClusterOf = func(x any) any {
		if x := x.(*Executor); x != nil && x.cluster != nil {
			return x.cluster.of
		}
		return nil
	}
	backdoor.Part = func(x any) fleet.Part { return asked{x.(*Executor), x.(*Executor).inspector} }
	backdoor.Hold = func(x any, held bool) {
		if d := x.(*Executor).crew.Dispatcher; held {
			d.Hold()
		} else {
			d.Release()
		}
	}
	backdoor.Busy = func(x any) int { _, busy := x.(*Executor).crew.Dispatcher.Load(); return busy }
	backdoor.Settled = func(ctx context.Context, x any) error { return x.(*Executor).log.Settled(ctx) }
	backdoor.Encode = func(queue, payload any) ([]byte, error) {
		return queue.(interface{ encodeAny(any) ([]byte, error) }).encodeAny(payload)
	}
	backdoor.Decode = func(x any, queue string, payload []byte) (any, error) {
		q, err := x.(*Executor).lookup(queue)
		if err != nil {
			return nil, err
		}
		return q.Decode(payload)
	}
}

func (t *Queue[T]) encodeAny(payload any) ([]byte, error) { return t.encode(payload.(T)) }
