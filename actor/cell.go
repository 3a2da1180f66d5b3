package actor

import (
	"runtime/debug"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// throughput is how many messages one actor handles before it lets other goroutines run.
const throughput = 300

// cell is the untyped actor behind a Ref. For protoactor-go it is both the actor and its dispatcher.
//
// Invariant: the goroutine that runs process or deliver has the turn, so the second
// group of fields needs no lock. Elsewhere they are read after done.
type cell struct {
	system *System
	name   string
	pid    *actor.PID
	handle func(message any) // unwraps the message and calls the user's receive
	inbox  gate              // messages accepted and not yet handled
	done   chan struct{}     // closed when the actor has stopped

	// turn is 1 while a goroutine of the System, or a sender in SendHere, runs the
	// actor, and 2 when the mailbox has woken up meanwhile: the one that has the turn sees to it.
	turn atomic.Int32

	process func()      // empties the mailbox; always the same function
	loop    func()      // c.run, bound once: binding it at each wake-up would allocate
	stopped bool        // protoactor-go has let go of the actor
	failure *panicError // set once
	lost    int64       // messages popped after failure
}

// Receive implements [actor.Actor].
func (c *cell) Receive(ctx actor.Context) {
	switch message := ctx.Message().(type) {
	case *actor.Started, *actor.Stopping:
	case *actor.Stopped:
		c.stopped = true
		c.system.forget(c)
		close(c.done)
	default:
		c.deliver(func() { c.handle(message) })
	}
}

// deliver calls handle for one message and tells return, panic and Goexit apart. A
// panic must end here: protoactor-go would lose the message, restart the actor, and
// at the eleventh within 10 s stop it and drop its queue.
func (c *cell) deliver(handle func()) {
	if c.failure != nil {
		c.lost++
		c.system.lost.Add(1)
		c.inbox.leave()
		return
	}
	returned := false
	defer func() {
		if !returned {
			c.fail(recover()) // nil for Goexit only: panic(nil) arrives as a *runtime.PanicNilError
		}
		c.inbox.leave()
	}()
	handle()
	returned = true
}

// fail latches the failure. It runs in the deferred call of the goroutine that
// failed, so the stack still shows the bug.
func (c *cell) fail(value any) {
	if value == nil {
		value = errGoexit
	}
	c.failure = &panicError{Actor: c.name, Value: value, Stack: debug.Stack()}
	c.inbox.shut()
	c.system.report(c.failure)
}

// Schedule implements [actor.Dispatcher]: a message came in while the mailbox was idle.
//
// The sender that wakes the mailbox owns it until process runs, so stopped cannot
// change here. It can be set already: the actor may take a message before the
// goroutine that posted it comes to wake the mailbox, and be stopped by then. That
// wake-up has nothing left to do, and would be a goroutine that outlives System.Stop.
func (c *cell) Schedule(process func()) {
	if !c.stopped {
		c.process = process
		if c.turn.Add(1) == 1 {
			c.begin()
		}
	}
}

// begin starts a goroutine that empties the mailbox. The caller passes its turn on.
func (c *cell) begin() {
	c.system.work.add()
	c.system.start(c)
}

// here runs handle on the goroutine of the caller, who has set turn. If messages have come meanwhile, a new goroutine
// goes on with them.
func (c *cell) here(handle func()) {
	defer func() {
		if c.turn.Add(-1) > 0 {
			c.begin()
		}
	}()
	c.deliver(handle)
}

// Throughput implements [actor.Dispatcher].
func (c *cell) Throughput() int { return throughput }

// run empties the mailbox. When receive ended this goroutine with Goexit, the
// mailbox still believes that it is being run and would never be woken again, so
// run goes on with it on a new goroutine.
func (c *cell) run() {
	emptied := false
	defer func() {
		if !emptied {
			go c.loop()
			return
		}
		c.system.work.leave()
	}()
	for {
		c.process()
		if c.turn.Add(-1) == 0 {
			break
		}
	}
	emptied = true
}

// drained is called once, when the inbox is shut and empty. Only now may the actor
// be stopped: protoactor-go's Stop overtakes the queue and drops it. Its Poison
// would wait for the queue, but is refused nowhere, so what is sent behind it is
// dropped too; and its future gives up after 10 s.
func (c *cell) drained() { shared().Root.Stop(c.pid) }
