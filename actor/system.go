package actor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// Config of a System. The zero value works.
type Config struct {
	// Logger gets failures. nil: silence. It must not panic.
	Logger *slog.Logger
	// OnFailure is called with what happened when the first actor fails, and never
	// again. It runs on a goroutine of its own that System.Stop waits for, so it
	// must not wait for System.Stop. nil: the error of a Stop says it.
	OnFailure func(error)
}

// System is a set of actors that fail and stop together. Its methods may be called from any goroutine.
type System struct {
	onFailure func(error)
	logger    *slog.Logger

	failure atomic.Pointer[panicError] // the first one, for good
	lost    atomic.Int64               // accepted messages that failed actors did not handle

	// work holds every actor that has not stopped and every goroutine started here.
	// A goroutine of an actor is added while that actor is inside, so when work is
	// empty nothing can run or start any more: no need to poll for it.
	work gate
	idle chan struct{} // closed when work is shut and empty

	// Goroutines that ran an actor wait here for the next one, up to one for each
	// core, until Stop. A new goroutine has a small stack, and growing it costs
	// several times what an actor does with one message.
	parked  chan *cell
	waiting atomic.Int32   // of them
	runners sync.WaitGroup // all that run or wait

	// mu guards cells. Nothing of a caller runs under it.
	mu    sync.Mutex
	cells map[*cell]struct{} // actors that have not stopped

	number int64 // its actors are told by it from those of other Systems with their names
}

var systems atomic.Int64

// shared makes what all Systems of the process have of protoactor-go, when there is the
// first actor: it takes 3 MB, and as long as opening a journal.
var shared = sync.OnceValue(func() *actor.ActorSystem {
	log := slog.New(warnings{slog.DiscardHandler}) // the default would write coloured text to stderr
	return actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return log }))
})

// New returns a System without actors. It starts no goroutine, and may be dropped as long as no actor was spawned.
func New(config Config) *System {
	s := &System{
		onFailure: config.OnFailure,
		logger:    cmp.Or(config.Logger, slog.New(slog.DiscardHandler)),
		idle:      make(chan struct{}),
		parked:    make(chan *cell),
		cells:     make(map[*cell]struct{}),
		number:    systems.Add(1),
	}
	s.work.drained = func() { close(s.idle) }
	return s
}

// spawn starts c under its name. It returns errStopped or errName.
func (s *System) spawn(c *cell) error {
	if c.name == "" {
		return errName
	}
	// Held across the whole birth, so that Stop sees either no actor or one whose pid is known.
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.work.enter() == 0 {
		return errStopped
	}
	props := actor.PropsFromProducer(func() actor.Actor { return c }, actor.WithDispatcher(c))
	pid, err := shared().Root.SpawnNamed(props, s.inProcess(c.name))
	if err != nil { // pid is then the other actor's: it must not be kept
		s.work.leave()
		return fmt.Errorf("%w: %q", errName, c.name)
	}
	c.pid = pid
	s.cells[c] = struct{}{}
	return nil
}

// inProcess is what protoactor-go knows an actor by.
func (s *System) inProcess(name string) string { return strconv.FormatInt(s.number, 10) + "/" + name }

// start has a goroutine run c: one that waits for that, or else a new one.
func (s *System) start(c *cell) {
	select {
	case s.parked <- c:
	default:
		s.runners.Go(func() { s.run(c) })
	}
}

// run runs c, and then whatever actor comes next.
func (s *System) run(c *cell) {
	for {
		c.loop()
		if s.waiting.Add(1) > int32(runtime.GOMAXPROCS(0)) {
			s.waiting.Add(-1)
			return
		}
		select {
		case c = <-s.parked:
			s.waiting.Add(-1)
		case <-s.idle:
			return
		}
	}
}

// forget is called by an actor that has stopped.
func (s *System) forget(c *cell) {
	s.mu.Lock()
	delete(s.cells, c)
	s.mu.Unlock()
	s.work.leave()
}

// report latches a failure and makes it loud, away from the actor: a slow logger
// must not hold the actor up.
func (s *System) report(failure *panicError) {
	first := s.failure.CompareAndSwap(nil, failure)
	s.work.add()
	go func() {
		defer s.work.leave()
		if first && s.onFailure != nil {
			s.onFailure(failure)
		}
		s.logger.Error("actor failed", slog.String("actor", failure.Actor),
			slog.String("panic", fmt.Sprint(failure.Value)), slog.String("stack", string(failure.Stack)))
	}()
}

// Stop refuses new actors and messages, waits until every accepted message was
// handled, and until no goroutine is left. It returns the cause of ctx when that
// ends first, and the first failure with the number of lost messages if there was one.
//
// All doors close together: an actor that passes messages on to another finds it
// shut. Where that matters, Stop the Refs one by one, upstream first.
func (s *System) Stop(ctx context.Context) error {
	s.mu.Lock()
	cells := slices.Collect(maps.Keys(s.cells))
	s.work.shut() // under mu: no actor is born after the copy
	s.mu.Unlock()
	for _, c := range cells {
		c.inbox.shut()
	}
	if err := await(ctx, s.idle); err != nil {
		return fmt.Errorf("actor: system still draining: %w", err)
	}
	s.runners.Wait() // they only have to notice
	if failure := s.failure.Load(); failure != nil {
		return lossError(failure, s.lost.Load())
	}
	return nil
}

// await returns nil when done is closed, and the cause of ctx when that ends first.
func await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	default: // a drained actor is drained, also for a caller whose ctx is over
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var (
	errStopped = errors.New("actor: system stopped")
	errName    = errors.New("actor: name is empty or in use")
	// errGoexit is the value of a panicError when receive ended its goroutine instead of returning.
	errGoexit = errors.New("actor: receive called runtime.Goexit")
)

// panicError says that receive panicked or called runtime.Goexit: a bug in the code behind the actor.
type panicError struct {
	Actor string // name given to Spawn
	Value any    // what was passed to panic, or errGoexit
	Stack []byte // of the goroutine that failed, the frames of the bug included
}

// Error names the actor and the value; the stack is a field because it would flood a line of log.
func (e *panicError) Error() string {
	return fmt.Sprintf("actor: bug: %q panicked: %v", e.Actor, e.Value)
}

// Unwrap returns the value of the panic when it was an error.
func (e *panicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// lossError tells the caller of a Stop why it was not clean.
func lossError(failure *panicError, lost int64) error {
	return fmt.Errorf("%w; %d accepted messages lost", failure, lost)
}

// warnings is a log handler for protoactor-go, without what it tells of each start
// and stop: users did not ask for that in their log. There is one for the process.
type warnings struct{ slog.Handler }

func (warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && slog.Default().Enabled(ctx, level)
}

func (warnings) Handle(ctx context.Context, r slog.Record) error {
	r.AddAttrs(slog.String("lib", "protoactor"))
	return slog.Default().Handler().Handle(ctx, r)
}
