// Package actor runs functions that own their state: each handles its messages one
// at a time, on a goroutine that it has only while there are some, or on that of a
// sender. It is the only door to protoactor-go, whose sharp edges end here.
//
// # Promised
//
//   - Order. Messages are handled one at a time, and those sent by one goroutine in
//     the order it sent them. What one call of receive wrote is visible to the
//     next.
//   - An accepted message is handled. When [Ref.Send] returned true, receive is
//     called with the message, also when Stop was called meanwhile. The one
//     exception is an actor that failed (below), and Stop then says how many were
//     lost.
//   - Send never blocks: the mailbox has no bound. SendHere takes no longer than
//     receive. Neither allocates anything of its own when M is pointer-shaped (a
//     pointer, a map, a chan, a func); any other M is copied to the heap.
//     Backpressure belongs to who sends.
//   - Stop drains. [Ref.Stop] and [System.Stop] close the door and return when
//     everything accepted before was handled, however long that takes. When ctx
//     ends first they return its cause and the draining goes on. They may be called
//     again and together: each caller waits.
//   - Nothing is left. When System.Stop returns nil, no goroutine of this package
//     or of protoactor-go runs any more.
//   - A bug is loud. A panic or runtime.Goexit in receive is a bug in our own code.
//     The first of a System is given to [Config.OnFailure]; each is logged at error
//     level, with its stack. That actor never calls receive again, because its
//     state is suspect: it refuses what is sent, counts what waited as lost, and
//     stops. The other actors run on.
//   - One protoactor-go for the process, of 3 MB. What it warns of, which takes a
//     bug here, goes to [slog.Default], and it writes to no file.
//   - Time is the caller's. Nothing here reads a clock, so everything works inside
//     a testing/synctest bubble, provided that the System was made in it.
//
// # Not promised
//
//   - Compatibility. This is a room of Strand: what it exports may change with any
//     version. Programs import executor.
//   - Order between goroutines that send, and fairness between actors beyond what
//     the Go scheduler gives.
//   - Supervision and restarts. State that a panic left half changed cannot be
//     repaired here.
//   - A way out of receive: a call that never returns holds its actor, and
//     System.Stop, until their ctx ends.
//   - Stop from inside: receive and OnFailure must not wait for the Stop of what
//     they belong to, it waits for them.
//   - Memory back from a burst: the mailbox keeps the size of its largest backlog
//     (16 bytes a message) until it stops.
//
// # Goroutines
//
// One for each actor that is new, or has messages in its mailbox; one for the report of each
// failed actor. When the messages of an actor end, its goroutine waits for another
// actor until the System stops, unless as many as there are cores wait already. So
// a System that is dropped without Stop leaks those, and its actors.
//
// # What it costs
//
// [Ref.SendHere] has the sender handle the message when the actor is idle: 35 to 70
// ns, and no other goroutine wakes up, for which the sender would pay 1 to 10 µs
// where a core has nothing to do. It does so for one message: what others send
// meanwhile waits for a goroutine of the actor's own, so a sender never works for others for long.
//
// A message takes about 30 ns more from Send to receive than with protoactor-go
// alone (115 ns to 87 ns, one sender, two cores at 2.1 GHz, see BenchmarkSend): for
// the count that makes Stop exact and the guard around receive. A Send that wakes an
// idle actor takes 2.3 µs with either. It hands the actor to a goroutine that waits,
// because a new one would have to grow its stack first. A mailbox of our own would be
// faster, but then every promise on delivery would rest on our own queue.
//
// protoactor-go is most of what Strand adds to a program: examples/quickstart has
// 325 packages and 13.0 MB (9.0 stripped); a program that only imports
// protoactor-go's package actor has 314 and 10.2 (7.0), an empty one 31 and 1.8
// (1.2). That package imports OpenTelemetry's Prometheus exporter, protobuf and
// net/http, and the linker keeps what their initialisation reaches. The versions in
// our go.mod save 3 MB of what those of protoactor-go's would add.
package actor
