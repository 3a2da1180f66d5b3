// Package inspect has what a person sees of an executor, and does to it: its jobs and dead
// letters, what runs, what waits for what, and figures. [executor.Executor.Inspect] returns the [Inspector].
//
//	x.Inspect().Jobs(ctx, inspect.JobQuery{Queue: "orders", States: []inspect.JobState{inspect.JobRetrying}})
//	x.Inspect().Requeue(ctx, inspect.SelectIDs("orders", "17"))
//	x.Inspect().Explain(ctx, "orders", "17")
//
// # What is promised
//
//   - Looking changes nothing, and slows nothing down: beside work, all calls that look get,
//     together, a fiftieth of each processor, or half of what lies idle. See [Inspector.Jobs].
//   - An action applies to what a list with the same filter shows. Only a pause includes
//     what is accepted after its call.
//   - When an action returns no error, what it has changed is on disk, except for what a
//     handler has in hand.
//   - Names, errors and payloads may be any bytes. A String method returns one shortened line without control
//     characters.
//
// # What is not promised
//
//   - That a list is of one moment. Each row is.
//   - That an Inspector gets no more methods: one in a test should embed the interface.
//
// # Words
//
//   - A payload has ended when it is done, discarded, merged, deleted or a dead letter; to settle is to write that down.
//   - A dead letter is a payload that was given up, buried in the morgue, until a person or a Retention decides.
//   - A parked or blocked job waits, without a worker, for a key, lease, slot, limit or turn; in lists also for Resume.
//   - A halted id has stopped after its last retry, with all its payloads: see [JobHalted].
//   - A lane is what an id has in a queue, in its order; several queues may share theirs.
//
// Errors that these comments name without a package are of package executor, except for the
// three of this one. A list has 100 entries at most where its comment says so, and a
// field More counts the rest.
package inspect
