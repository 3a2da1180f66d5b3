package admit

import (
	"context"
	"errors"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// ErrWaits is what a condition returns for a job that stands in its line: it has kept the
// claim, and calls Wake of that once when the job may ask again.
var ErrWaits = errors.New("admit: the job waits")

// Condition is one reason for which a job does not run.
type Condition interface {
	// Enter lets a job pass that a worker has in hand. It returns what the job holds
	// while it runs, or nil if that is nothing; ErrWaits; or what becomes of a job that
	// does not run.
	Enter(ctx context.Context, c *Claim) (Hold, error)

	// Aside says that a job does not wait here for now, because it waits for something
	// else, is paused or put off. The condition may remember when it came, unless it is
	// to forget the job.
	Aside(by Owner, forget bool)

	// Waits says for what a job waits here, for the search for circles.
	Waits(by Owner) []Wait

	// Explain says what a job waits for here, for people; false: it does not.
	Explain(by Owner, e *inspect.Explanation) bool
}

// Wait is what keeps a job waiting, as the search for circles sees it.
type Wait struct {
	For string  // for people: a key, the name of a limit, "the end" of a job
	On  []Owner // those that have it; the zero Owner is a person
	Any bool    // one of On is enough; else all of them have to go on
}

// Hold is what a job has of a condition while it runs. Release lets others have what Settled has
// left. It may wake them: nothing is held.
type Hold interface{ Release() }

// What follows a condition or a hold may be besides.
type (
	// Settled is a hold of which the journal has to know. Settle ends it as the verdict says;
	// over: the job does not run again. VerdictUnstarted takes back what was taken for a job
	// that waits after all. The ledger is held.
	Settled interface {
		Settle(v shard.Verdict, over bool) []journal.Set
	}

	// Lease is a hold that may be lost while the job runs.
	Lease interface {
		KeepAlive() // from when the handler is called
		Lost() bool
		OnLost(f func(reason error)) (forget func())
	}

	// Durable is a condition whose holds are on disk before the job runs. Those that
	// come after it in the list are asked when they are.
	Durable interface{ Durable() }

	// Renewed is a hold that is asked again when all that was to be on disk is: the time of
	// a lease counts from then; false: it has expired, or the job is blocked by now.
	Renewed interface{ Renew() bool }

	// Concluded is a hold that has a part in the success of its job: an error of it makes
	// that a failure.
	Concluded interface {
		Conclude(ctx context.Context) error
	}

	// Early is a hold that ends when the handler has returned, before anybody hears what
	// became of the job.
	Early interface{ Returned() }

	// Holder is a condition that adds what a job has of it, for people.
	Holder interface {
		Held(by Owner, h *inspect.Holdings)
	}

	// Caller is a condition that keeps a turn for a job until a worker comes to it.
	Caller interface {
		Called(queue string) (ids []string)
	}

	// Keeper is a condition that keeps something for jobs that don't run. Abandoned is
	// Settle for a job that ends, or has failed, without having entered.
	Keeper interface {
		Abandoned(by Owner, v shard.Verdict, over bool) []journal.Set
	}

	// Witness sees what becomes of payloads, before and after the holds of a change are
	// settled. The ledger is held.
	Witness interface {
		Merging(c *shard.Change)
		Ending(c *shard.Change)
	}

	// Listener hears of a change when the journal has it.
	Listener interface{ Recorded(c *shard.Change) }

	// Checker refuses a payload of which it can't be computed what its job will ask for.
	Checker interface {
		Check(id string, value any) error
	}
)
