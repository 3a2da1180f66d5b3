package executor

import (
	"context"
	"fmt"

	"github.com/strandjobs/strand/executor/internal/backdoor"
	"github.com/strandjobs/strand/executor/internal/feed"
	"github.com/strandjobs/strand/journal"
)

func init() {
	backdoor.Open = openOnDisk
	backdoor.Hold = func(x any, held bool) {
		if d := x.(*Executor).dispatcher; held {
			d.hold()
		} else {
			d.release()
		}
	}
	backdoor.Settled = func(ctx context.Context, x any) error { return x.(*Executor).log.Settled(ctx) }
	backdoor.Encode = func(queue, payload any) ([]byte, error) {
		return queue.(interface{ encodeAny(any) ([]byte, error) }).encodeAny(payload)
	}
	backdoor.Decode = func(x any, queue string, payload []byte) (any, error) {
		q, err := x.(*Executor).lookup(queue)
		if err != nil {
			return nil, err
		}
		return q.decode(payload)
	}
}

func (t *Queue[T]) encodeAny(payload any) ([]byte, error) { return t.encode(payload.(T)) }

// openOnDisk is Open on a disk in memory that has crashes and faults on demand: for
// tests of what happens then. witness may be nil.
func openOnDisk(disk *journal.Memory, cfg Config, witness backdoor.Witness) (*Executor, error) {
	if disk == nil {
		return nil, fmt.Errorf("%w: no disk; new(journal.Memory) is an empty one", ErrConfig)
	}
	return openElsewhere("a disk in memory", cfg, witness, func(c journal.Config) (*journal.Log, error) { return journal.OpenMemory(disk, c) })
}

// setWitness has a witness hear of everything. It is called before there is a queue.
func (e *events) setWitness(witness backdoor.Witness) {
	if e.witness = witness; witness == nil {
		return
	}
	e.feed.SetWitness(func(f feed.Event[fact]) { witness.Told(eventOf(&f, e.life)) })
}
