// Package executortest tests handlers and producers on a real executor: its journal is
// on a disk in memory, its clock is that of a bubble of testing/synctest, and its jobs
// run when the test says so.
//
//	func TestOrders(t *testing.T) {
//		var orders *executor.Queue[Order]
//		setup := func(x *executor.Executor) (err error) { // as in production
//			orders, err = executor.Handle(x, "orders", deliver, executor.QueueConfig[Order]{})
//			return err
//		}
//		executortest.Run(t, executortest.Config{}, setup, func(t *testing.T, x *executortest.Executor) {
//			_, _ = orders.Enqueue(t.Context(), "order-42", Order{Total: 7})
//			x.UntilIdle()
//			executortest.RequireDone(x, orders, "order-42")
//		})
//	}
//
// # When jobs run
//
// Payloads are accepted at any time; workers take up jobs only inside of one of these
// calls. So what is enqueued between two of them waits together, merges, and runs in the
// same order each time as far as one id goes. In what order different ids run is the
// choice of scheduler and workers: with one of Workers, one of Shards, and a millisecond
// of sleep between the calls of Enqueue the jobs of a queue run one after the other,
// oldest first.
//
// They are [Executor.UntilIdle], [Executor.Advance], [Executor.UntilEmpty], [Executor.Live] and [Work].
//
// Time is the bubble's: it goes on when all goroutines in it wait, for a handler that
// sleeps for example, and then to the next timer. It begins at midnight UTC on
// 2000-01-01. Between these calls a handler that was left running by Advance goes on
// when the test sleeps.
//
// A call that does not come to its end within Config.Patience and Config.MaxRuns fails the
// test, and says which jobs wait for what, and which handlers have not returned, with
// their stacks. A handler that waits for something outside of the bubble, the network for
// example, keeps its clock from going on; [Run] ends the process with all stacks when
// that takes 30 seconds.
//
// # What can be asserted
//
// What was accepted, by whomever, and with which payload ([RequireEnqueued]); what
// handlers were called with ([RequireRan]), and in which order ([RequireOrder]); what
// came of it ([RequireOutcomes] and its relatives). They are about what has happened
// since the test began, in all lives of the executor, or since [Executor.Forget]. They
// call Fatal on the test, with what there was instead. Payloads are equal when their
// bytes are, as the codec of their queue makes them.
//
// # Faults
//
// Of the process: [Executor.Kill], [Executor.Crash] and [Executor.Restart]. Of its [Disk]:
// [Disk.Full], [Disk.NoRoom], [Disk.Slow] and [Disk.FailCommit], also between two commits
// with [Disk.OnCommit]. [EveryCrash] kills a script after each of its commits, one by one.
//
// A goroutine can't be killed. After Kill nothing that the old process does reaches the
// disk: its calls return ErrUnknown or ErrFailed, the contexts of its handlers end when Crash is
// called, which waits until they have returned, and what they return counts for nothing.
// So a handler does not run beside its next life. The crash recorder is not part of the
// disk: a job that kills the process is not suspected in the next life, and Job.Crashes
// is 0.
//
// # What is not promised
//
//   - A bubble for tests that use the network, other processes, or real time: open an
//     executor with [executor.Open] and an empty directory, and wait with Queue.Wait.
//   - That a test that does not name an order sees the same one each time.
//   - The speed of a disk: its commits take no time unless Slow says so.
//
// # Census
//
// The package imports testing: it is for tests only. A test has one goroutine of its own
// outside of the bubble, from the beginning of [Run] to its end, which sees that it goes on.
package executortest
