// Package inspect has what a person sees of an executor, and does to it: its jobs and dead
// letters, what runs, what waits for what, and figures. [executor.Executor.Inspect] returns the [Inspector].
//
//	x.Inspect().Jobs(ctx, inspect.JobQuery{Queue: "orders", States: []inspect.JobState{inspect.JobRetrying}})
//	x.Inspect().Requeue(ctx, inspect.SelectIDs("orders", "17"))
//	x.Inspect().Explain(ctx, "orders", "17")
//
// # What is promised
//
//   - To look changes nothing, and slows nothing down: beside work, all who look together get a
//     fiftieth of each processor, or half of what lies idle. See [Inspector.Jobs].
//   - What is acted upon is what a list with the same filter shows. An action never includes
//     what is accepted after its call, but for a pause.
//   - After an action without an error, what it has changed is on disk, but for what a handler
//     has in hand.
//   - Names, errors and payloads may be any bytes. A String method returns one line, cut, and
//     nothing in it moves the cursor of a terminal.
//
// # What is not promised
//
//   - That a list is of one moment. Each row is.
//   - That an Inspector gets no more methods: one in a test should embed the interface.
//
// Errors without a package in these comments are those of package executor, but for the three
// of this one. A list has [MaxListed] entries at most where its comment says so, and a field
// More counts the rest.
package inspect
