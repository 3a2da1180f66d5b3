package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/strandjobs/strand/bench/child"
	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/executortest"
	"github.com/strandjobs/strand/journal"
)

// patience is longer than anything in a world takes by itself.
const patience = 10 * time.Minute

// world is an executor with all that happens to it, and what it must be true to.
type world struct {
	t     *stage
	conf  line
	steps script
	x     subject
	test  *executortest.Executor // nil on a cluster
	town  *town                  // nil: there is one executor

	features []*feature // that it can have

	// Of the goroutine of the script.
	full    atomic.Bool // the handlers ask, too
	slow    bool
	broken  int       // steps since the executor has failed, or was killed
	known   int       // the epoch of the last census
	counted time.Time // when it was
	knew    int       // its life
	booted  bool      // a life has begun, and nothing has run in it

	ahead atomic.Int64 // of the clock of the bubble, in nanoseconds
	reset func()       // sets the clock before the next life

	decodes atomic.Int64 // of payloads that a codec refuses now and then
	steady  atomic.Bool  // it does not any more

	commits atomic.Int64 // until the fault that is armed; 0: none is
	armed   atomic.Pointer[func()]

	// mu guards what follows. No call of the executor is made under it.
	mu      guard
	queues  []*queue // that are registered in this life
	all     []*queue
	rename  func() // what changes between this life and the next
	ledger  *ledger
	running []*run
	life    int // of the executor, from 1
	epoch   int // the step, from 1
	runs    int // that have begun in this life
	next    int // the index of the step after it
	calls   []*call
	doing   []*doing
	asking  []*asked // of handlers
	at      line
	waiters sync.WaitGroup
	state   map[string]any // what features keep
	base    map[string]figures

	// Likewise, and of this life.
	accounts  map[string]*account
	reads     bool           // a reader of events has missed none
	listening map[*queue]int // hooks that are at work

	openLog func(journal.Config) (*journal.Log, error) // nil: the disk is in memory; else a kill is that of the process
	dir     string                                     // of the world, where it is on a file
	people  People
}

// subject is what a world is about: an executor, or the one that its calls go to now, of a cluster.
type subject struct {
	*executor.Executor
	rig
}

// rig has jobs run, and ends lives, as [executortest.Executor] does.
type rig interface {
	Live(f func())
	UntilIdle()
	UntilEmpty()
	Advance(d time.Duration)
	Kill()
	Killed() bool
	Crash()
	Restart()
	Reconfigure(cfg executor.Config)
}

// queue is a queue of a world.
type queue struct {
	name    string
	conf    line
	queue   *executor.Queue[payload] // of this life
	former  []string                 // names
	absent  bool                     // it is not registered in this life
	late    int                      // the epoch in which it was registered; 0: before the start of its life
	back    *queue                   // nil, or it is absent because of this one: a program that knows a former name alone
	counted bool                     // all that it had then is known
	taken   int                      // the epoch in which a person last meant dead letters of it
	do      func(ctx context.Context, id string, p payload, o ...executor.Option) (int, error)
}

func newWorld(t *stage, s script) *world {
	w := &world{t: t, ledger: newLedger(), state: make(map[string]any), listening: make(map[*queue]int), conf: newLine("world", "workers", 1)}
	for _, l := range s {
		switch l.verb {
		case "world":
			w.conf = l.clone()
		case "queue":
			w.all = append(w.all, &queue{name: l.str("name"), conf: l.clone()})
		default:
			w.steps = append(w.steps, l)
		}
	}
	w.features = slices.DeleteFunc(slices.Clone(features), func(f *feature) bool { return f.apart && w.conf.has("cluster") })
	return w
}

// fail ends the world: a promise is broken. It may be called with and without the lock,
// on any goroutine.
func (w *world) fail(format string, args ...any) {
	w.t.Errorf(format+"\nat step %d: %v", append(args, w.epoch, w.at)...)
}

// play plays the script, and then lets everything end.
func (w *world) play() {
	time.Sleep(7 * time.Millisecond) // a score of a whole second might be a caller's, as far as a start can know
	cfg := executortest.Config{Executor: w.config(), Patience: 2 * time.Hour, MaxRuns: 3000, OpenLog: w.openLog, Ahead: &w.ahead}
	if w.conf.has("gone") {
		cfg.OpenLog = func(c journal.Config) (*journal.Log, error) { return journal.OpenMemory(nil, c) }
	}
	if w.conf.has("cluster") {
		w.openTown()
	} else {
		w.test = executortest.Open(w.t, cfg, w.setup)
		w.test.Disk.OnCommit(w.committed)
		w.x.rig = w.test
	}
	w.opened()
	for w.next < len(w.steps) && w.t.failure() == "" {
		end := w.next + 1
		for end < len(w.steps) && w.steps[end-1].with {
			end++
		}
		w.step(w.steps[w.next:end])
	}
	if w.t.failure() == "" {
		w.epilogue()
	}
	w.waiters.Wait()
}

// config is that of the executor in this life.
func (w *world) config() executor.Config {
	cfg := executor.Config{Workers: max(w.conf.num("workers"), 1), Logger: slog.New(slog.NewTextHandler(w.logTo(), nil)), Crash: executor.Crash{Limit: -1}}
	for _, f := range w.features {
		if f.config != nil {
			f.config(w, &cfg)
		}
	}
	return cfg
}

func (w *world) logTo() io.Writer {
	if w.t.log == nil {
		return io.Discard
	}
	return w.t.log
}

// setup registers the queues of a life.
func (w *world) setup(x *executor.Executor) error {
	w.x.Executor = x
	w.present()
	if w.reset != nil {
		w.reset()
		w.reset = nil
	}
	for _, f := range w.features {
		if f.begin != nil {
			f.begin(w, x)
		}
	}
	if err := w.registerAll(x); err != nil {
		return err
	}
	for _, f := range w.features {
		if f.after != nil {
			if err := f.after(w, x); err != nil {
				return err
			}
		}
	}
	return nil
}

// registerAll registers the queues of a life.
func (w *world) registerAll(x *executor.Executor) error {
	for _, q := range w.queues {
		if err := w.register(x, q); err != nil {
			return fmt.Errorf("%v: %w", q.conf, err)
		}
	}
	return nil
}

// present finds out which queues there are in a life that begins.
func (w *world) present() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rename != nil {
		w.rename()
		w.rename = nil
	}
	w.queues = nil
	for _, q := range w.all {
		if !q.absent {
			w.queues = append(w.queues, q)
		}
	}
}

func (w *world) register(x *executor.Executor, q *queue) (err error) {
	cfg := executor.QueueConfig[payload]{
		Share: executor.Share{Shards: q.conf.num("shards")}, MaxRetries: q.conf.num("retries"), RetryIn: always(2 * time.Second), Codec: plain{},
	}
	if cfg.MaxRetries == 0 {
		cfg.MaxRetries = -1
	}
	for _, f := range w.features {
		if f.apply != nil {
			f.apply(w, q, &cfg)
		}
	}
	if q.conf.has("result") && q.conf.str("shape") != "batch" && q.conf.str("shape") != "merged" {
		return w.registerCaller(x, q, cfg)
	}
	switch q.conf.str("shape") {
	case "handle":
		if q.conf.has("latest") {
			q.queue, err = executor.HandleLatest(x, q.name, w.single(q), cfg)
			return err
		}
		q.queue, err = executor.Handle(x, q.name, w.single(q), cfg)
	case "merged":
		q.queue, err = executor.HandleMerged(x, q.name, w.merged(q), cfg)
	case "batch":
		q.queue, err = executor.HandleBatch(x, q.name, w.batch(q), cfg)
	default:
		q.queue, err = executor.Handle(x, q.name, w.single(q), cfg)
	}
	return err
}

// lives reports whether what is of a life counts.
func (w *world) lives(life int) bool { return life == w.life && !w.x.Killed() }

// term is like the life, for what is about an id: in a cluster its partition moves meanwhile.
func (w *world) term(id string) int {
	if w.town == nil {
		return w.life
	}
	return w.town.term(id)
}

func (w *world) queueOf(name string) *queue {
	for _, q := range w.queues {
		if q.name == name || q.conf.str("name") == name {
			return q
		}
	}
	return nil
}

// step plays a line, or several at the same time while jobs run.
func (w *world) step(group script) {
	w.mu.Lock()
	w.epoch++
	w.next += len(group)
	w.at = group[0]
	w.spoilAll()
	w.mu.Unlock()
	if w.town != nil {
		w.town.begin(group)
	}
	if w.t.log != nil {
		fmt.Fprintf(w.t.log, "-- %d %v %s\n", w.epoch, time.Now().UTC().Format("15:04:05.000"), strings.TrimSpace(group.String()))
	}
	if len(group) == 1 {
		w.playLine(group[0])
	} else {
		w.together(group)
	}
	w.recoverLife()
	w.settle()
}

func (w *world) playLine(l line) {
	if st, known := stepOf(l.verb); known {
		st.play(w, l)
		return
	}
	w.t.Fatalf("no step is called %s", l.verb)
}

func (w *world) together(group script) {
	w.x.Live(func() {
		var calls sync.WaitGroup
		for _, l := range group {
			st, _ := stepOf(l.verb)
			if st.call {
				calls.Go(func() { w.playLine(l) })
			}
		}
		calls.Wait()
	})
	if last := group[len(group)-1]; !isCall(last) {
		w.playLine(last)
	}
}

func isCall(l line) bool {
	st, _ := stepOf(l.verb)
	return st.call
}

// alone reports whether the step is the only one, with the workers at rest.
func (w *world) alone(l line) bool {
	return !l.with && w.at.String() == l.String() && (w.town == nil || w.town.rests())
}

// recoverLife begins a new life some steps after the executor has failed, or was killed.
func (w *world) recoverLife() {
	if err := w.x.Err(); !w.x.Killed() && !errors.Is(err, executor.ErrFailed) && !errors.Is(err, executor.ErrClosed) {
		w.broken = 0
		return
	}
	if w.broken++; w.broken > 1 {
		w.newLife(w.crash, newLine("crash"))
	}
}

// newLife ends this life in some way and begins the next.
func (w *world) newLife(end func(), l line) {
	w.disarm()
	w.mu.Lock()
	for _, name := range []string{"workers", "shards"} {
		if l.has(name) {
			w.conf.set(name, l.str(name))
			for _, q := range w.all {
				q.conf.set(name, l.str(name))
			}
		}
	}
	w.mu.Unlock()
	cfg := w.nextConfig(l)
	if !w.slow && !w.full.Load() { // else it is the disk that takes longer
		cfg.StopTimeout = l.dur("stop")
	}
	w.slow, w.broken = false, 0
	w.full.Store(false)
	w.fast()
	w.x.Reconfigure(cfg)
	end()
	w.opened()
}

// kill ends the process.
func (w *world) kill() {
	if w.openLog != nil {
		child.Die()
	}
	if w.town != nil {
		w.town.die(w.town.present.Load())
		return
	}
	w.x.Kill()
}

// crash ends the process, and the next one begins.
func (w *world) crash() {
	w.kill()
	w.x.Crash()
}

// opened is what is noted when a life has begun.
func (w *world) opened() {
	if w.town == nil { // it begins at once, and says when it is calm
		w.baseline()
	}
	w.booted = true
	w.settle()
	w.booted = false
}

// calm reports whether nothing is under way: what is on disk is what there is.
func (w *world) calm() bool {
	return !w.full.Load() && !w.slow && w.commits.Load() == 0 && !w.x.Killed() && w.x.Err() == nil && (w.town == nil || w.town.whole())
}

// settle takes a census when nothing is under way.
func (w *world) settle() {
	if w.t.failure() != "" {
		w.t.Fatal("over")
	}
	time.Sleep(20 * time.Millisecond)
	synctest.Wait()
	if w.town != nil {
		w.town.rest()
	}
	w.hear()
	if w.calm() {
		w.takeCensus()
	}
	if w.t.failure() != "" {
		w.t.Fatal("over")
	}
}

// hear takes in the events since it was last called.
func (w *world) hear() {
	if w.test == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.test.History() {
		w.told(e)
	}
	w.test.Forget()
}

// fast ends that commits take time.
func (w *world) fast() {
	if w.test != nil {
		w.test.Disk.Slow(0)
	}
}

// told hears of an event.
func (w *world) told(e events.Event) {
	if i := w.ledger.byPos[spot{e.ID, e.Position}]; i != nil && e.Kind == events.Merged {
		i.hint = "merged"
	}
	if a := w.account(e.Queue); e.Kind != events.Progress {
		a.payloads[e.Kind] += e.Payloads
		a.runs[e.Kind]++
	}
}

// arm has a fault happen after so many commits.
func (w *world) arm(commits int, fault func()) {
	w.armed.Store(&fault)
	w.commits.Store(int64(commits))
}

func (w *world) disarm() { w.commits.Store(0) }

// committed is called after each commit.
func (w *world) committed() {
	if w.commits.Load() > 0 && w.commits.Add(-1) == 0 {
		(*w.armed.Load())()
	}
}

// endless draws the context that most callers have: it has no end, and no channel that would tell of it. Where the disk
// may be full for as long as the step lasts, each call has an end.
func (d *draw) endless(l line) {
	if d.chance(2) && !d.has("disk") {
		l.set("ctx", "none")
	}
}

// context is that of a call: with an end of its own, a long one, or none.
func (w *world) context(l line) (context.Context, context.CancelFunc) {
	if l.str("ctx") == "none" {
		return context.Background(), func() {}
	}
	d := l.dur("ctx")
	if d == 0 {
		d = patience
	}
	ctx, cancel := context.WithTimeout(context.Background(), d)
	if l.has("spins") { // in the middle of what takes no time
		go func() {
			for range l.num("spins") {
				runtime.Gosched()
			}
			cancel()
		}()
	}
	return ctx, cancel
}

// epilogue ends all faults and pauses, and lets all jobs end.
func (w *world) epilogue() {
	w.mu.Lock()
	w.epoch++
	w.at = newLine("epilogue")
	w.spoilAll()
	w.mu.Unlock()
	if w.test != nil {
		w.room()
	}
	w.fast()
	time.Sleep(30 * time.Second) // it is at a commit, and a disk that has room is found out
	w.slow = false
	w.settle()
	if !w.conf.has("gone") {
		w.reset = w.catchUp
		w.newLife(w.x.Restart, newLine("restart")) // with it go faults that have not come
	}
	for _, f := range w.features {
		if f.lift != nil {
			f.lift(w)
		}
	}
	w.settle()
	w.x.UntilEmpty()
	w.settle()
	if !w.conf.has("gone") {
		w.newLife(w.x.Restart, newLine("restart"))
	}
}
