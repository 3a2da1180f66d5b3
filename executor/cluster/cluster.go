// Package cluster is for those who run one executor on several machines, as journal/postgres does:
// it makes an executor out of the executors of partitions. Programs call the Open of such a package.
//
//	Queue, Inspector of x ──▶ Cluster.Enqueue, Ask ──▶ Answer, where the partition is
//
// # What is promised
//
//   - The executor x of [Open] is used like any other. Its queues, and its limits, are those of all
//     partitions that this process has; what is done to them reaches the partition that has the id.
//   - Do and Wait follow a payload from one owner of its partition to the next. A result travels as JSON, and is lost
//     if no caller waits when the handler returns.
//   - A follow-up is accepted once, in whichever partition its id is.
//   - An action is never done twice: when an owner has gone meanwhile, it is executor.ErrUnknown. A call that only
//     looks is asked again of the next owner, and never returns ErrUnknown.
//
// # What is not
//
//   - Events, KeyLocks and slots are of the executor of a partition. On x they are
//     executor.ErrConfig or ErrState, but Unlock of KeyLocks asks all partitions.
//   - What is about all partitions waits for each of them until its context ends; calls that take
//     no context wait for five seconds. Paused then says what was known last.
//   - Two handlers that wait for each other over partitions are not found out: they wait until
//     their contexts end. Within a partition, and where no worker of the process is left for what
//     is waited for, it is executor.ErrDeadlock.
//   - Each partition has its own positions, so that a Selection with At is of one id, and its own bounds, as for ids
//     that are paused. Its dead letters are in order, before those of the next partition. QueueStats have no Shards.
//   - Do waits for an owner, also before Start. When its context ends before the owner's answer
//     it is executor.ErrUnknown.
//
// Census (goroutines, timers): none; see package fleet.
package cluster

import (
	"cmp"
	"context"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/internal/backdoor"
	"github.com/strandjobs/strand/executor/internal/fleet"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/quota"
	"github.com/strandjobs/strand/executor/internal/submit"
	"github.com/strandjobs/strand/journal"
)

// Cluster is what [Open] needs of the processes that run the jobs of an executor together. They
// divide the ids into partitions, each with a journal that one of them has at a time. All of its
// functions are needed, and any goroutine may call them.
type Cluster struct {
	Of          any // what Of returns
	Partitions  int // above 0
	PartitionOf func(id string) (int, error)

	// Enqueue is EnqueueMany of items, perhaps of several partitions, and conditions as [Carry] returned them.
	Enqueue func(ctx context.Context, queue string, items []executor.Item[[]byte], conditions []byte) ([]executor.Receipt, error)

	// FollowUp returns the state key that stands for a follow-up of another partition in the commit which
	// ends its job. When that is durable, who keeps the log has the item accepted at its partition, with
	// the option [Relayed], once, and in the order of commits. The error is that of Queue.FollowUp.
	FollowUp func(queue string, item executor.Item[[]byte]) (journal.Set, error)

	// Ask has the process that has a partition [Answer] a question, behind what was enqueued for the queue before;
	// "" is all queues. When that process has gone meanwhile, the next one is asked if again is set; otherwise, and
	// when ctx ends before the answer, it returns executor.ErrUnknown. An answer may come with an error.
	Ask func(ctx context.Context, partition int, queue string, question []byte, again bool) (answer []byte, err error)

	// Self tells this process from others, also from one before it.
	Self string

	// Rows lets change see the rows of some keys, as all processes know them, and replaces them by what it returns: all
	// or none, after other calls that have one of these keys, and before the next ones. A call that got no answer may
	// still take effect, but only before the next call changes a row. now is by one clock for all processes; lives says
	// whether the process with a Self may be running jobs still.
	Rows func(ctx context.Context, keys []string, change func(now time.Time, lives func(self string) bool, rows []Row) ([]Row, error)) error

	// Start is called once at most, after OnStart. Stop is called once, when x is stopped, also if Start was not called
	// or has failed. It lets handlers go on until ctx ends, and returns when all partitions are given away. What Err
	// returns is Err of x, until x is stopped or has failed: why this process can't do its work; nil: it can.
	Start func(ctx context.Context) error
	Stop  func(ctx context.Context) error
	Err   func() error
}

// Row is what the processes of a cluster know of a key, for Rows to keep.
type Row = quota.Stored

// Open returns the executor of a cluster, and open, which opens the executor of a partition over a log, as
// executor.OpenLog does, with the queues of x. Who calls open gives the number of the partition in the
// Splitter.Self of its cfg, and starts and stops what it returns. Queues and limits of x are to be made before
// Start: later it is executor.ErrState. Open returns executor.ErrConfig for cfg, and does not check c.
func Open(c Cluster, cfg executor.Config) (x *executor.Executor,
	open func(name string, log func(journal.Config) (*journal.Log, error), cfg executor.Config) (*executor.Executor, error), err error) {
	type opens = func(string, func(journal.Config) (*journal.Log, error), executor.Config) (*executor.Executor, error)
	door := backdoor.OpenCluster.(func(executor.Config, any, *fleet.Inspector,
		func(context.Context, string, []executor.Item[[]byte], []byte) ([]executor.Receipt, error), func(string, executor.Item[[]byte]) (journal.Set, error),
		func(context.Context) error, func(context.Context) error, func() error, quota.Processes) (*executor.Executor, opens, error))
	return door(cfg, c.Of, &fleet.Inspector{Asker: fleet.Asker{Partitions: c.Partitions, Of: c.PartitionOf, Ask: c.Ask}}, c.Enqueue, c.FollowUp, c.Start, c.Stop, c.Err,
		quota.Processes{Self: c.Self, Rows: c.Rows})
}

// Relayed is an option of EnqueueMany for items that another process has accepted: the call returns its FullError,
// and never waits for room. Staged ones are of [Cluster].FollowUp: no middleware for enqueueing is called for them.
func Relayed(staged bool) executor.Option { return submit.Relayed(staged) }

// Carry checks and encodes items for a program that carries them to another one, which has the queue, too, and
// enqueues them there with the Queue[[]byte] of Executor.Lookup. They have what options and the functions of Defaults
// say of an item. What options say of the call is in rest, for [Carried]; nil: nothing. Carry returns the errors of
// EnqueueMany about its arguments; only IfAbsent with several items is refused where they are enqueued.
func Carry[T any](q *executor.Queue[T], items []executor.Item[T], options ...executor.Option) (filled []executor.Item[[]byte], rest []byte, err error) {
	return backdoor.Carry.(func(queue, items any, options []executor.Option) ([]executor.Item[[]byte], []byte, error))(q, items, options)
}

// Carried turns what [Carry] returned, here or in another program, into options for EnqueueMany with the
// carried items. It returns executor.ErrInvalidKey for other bytes, and for options that no call may have.
func Carried(rest []byte) ([]executor.Option, error) { return submit.Carried(rest) }

// Lapsed says that the others may have taken this process for dead, so that what x, which [Open] returned, had
// of the limits of the cluster is theirs. It is called before the process has a partition again.
func Lapsed(x *executor.Executor) { backdoor.Lapse(x) }

// Of returns Of of the [Cluster] of an executor; nil: it has none.
func Of(x *executor.Executor) any { return backdoor.ClusterOf(x) }

// Answer answers a question of the Ask of a [Cluster] with the executor of the partition that is asked. The question
// need not be trusted: if it makes Answer panic, Answer returns that as an error. An executor.PendingError says that a
// wait has ended before the payload, which the next executor of the partition can be asked for.
func Answer(ctx context.Context, part *executor.Executor, question []byte) (answer []byte, err error) {
	ctx, err = guard.Context(ctx)
	if err != nil {
		return nil, err
	}
	q, err := fleet.Questions.Decode(question)
	if err != nil {
		return nil, err
	}
	a := new(fleet.Answer)
	err = guard.Call(func() (err error) {
		a, err = fleet.Do(ctx, backdoor.Part(part), q)
		return err
	})
	answer, unsaid := fleet.Answers.Encode(a)
	return answer, cmp.Or(err, unsaid)
}

// Names returns the queues of a partition: queues maps each name, present or former (see QueueConfig.RenamedFrom), to
// the present one, and lanes maps a present name to its SharedLanes; "": its order is its own.
func Names(part *executor.Executor) (queues, lanes map[string]string) {
	return backdoor.Part(part).Names()
}
