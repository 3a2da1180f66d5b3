// Package backdoor is how executor/executortest and executor/cluster get into an executor: onto a log of
// the test's own, to a witness of all that happens, and to its workers. It is no part of
// the API, and costs an executor that was opened through the front door nothing. Package
// executor, which this one can't import, sets what is here before a main function runs.
package backdoor

import (
	"context"

	"github.com/strandjobs/strand/executor/internal/fleet"
	"github.com/strandjobs/strand/executor/internal/tell"
)

// Witness hears of all that happens to jobs before anybody else.
type Witness = tell.Witness

var (
	// Open is a func(name string, executor.Config, Witness, func(journal.Config)
	// (*journal.Log, error)) (*executor.Executor, error), over the log that the function
	// opens. With a Witness, which may be nil, Config.Advanced.EventBuffer must not be below zero.
	Open any

	// What package cluster calls for its functions Open, Carry, Of and Part, and to have permits
	// lapse. The first two take types of package executor, which can't be named here.
	OpenCluster any
	Carry       any
	ClusterOf   func(x any) any
	Lapse       func(x any)
	Part        func(x any) fleet.Part

	// Hold keeps the workers of an *executor.Executor from jobs, or lets them go on. A
	// run that a worker has in hand goes on.
	Hold func(x any, held bool)

	// Busy is how many workers of an *executor.Executor are not idle.
	Busy func(x any) int

	// Settled waits until what an *executor.Executor has decided is on disk; on one that
	// is full, until there is room.
	Settled func(ctx context.Context, x any) error

	// Encode is what the codec of an *executor.Queue makes of a payload.
	Encode func(queue, payload any) ([]byte, error)

	// Decode is what the codec of a queue of an *executor.Executor makes of bytes.
	Decode func(x any, queue string, payload []byte) (any, error)
)
