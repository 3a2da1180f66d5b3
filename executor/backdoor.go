package executor

import (
	"context"

	"github.com/strandjobs/strand/executor/internal/backdoor"
)

func init() {
	backdoor.Open = openElsewhere
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
