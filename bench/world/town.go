package world

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cluster"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// partitions is how many each town has.
const partitions = 2

// partitionOf divides ids among them: a and c are in one, and b is in the other.
func partitionOf(id string) int {
	sum := 0
	for _, b := range []byte(id) {
		sum += int(b)
	}
	return sum % partitions
}

var (
	errDead = errors.New("world: the process has died")
	errLost = fmt.Errorf("%w: planned", executor.ErrUnknown) // of a call whose answer is lost
)

// town is a cluster in memory: nodes, each with a front, and partitions whose logs and inboxes
// outlive them. It is the rig of a world: its workers always work.
type town struct {
	w       *world
	cfg     executor.Config
	killed  atomic.Bool // all nodes are dead
	safe    atomic.Bool // none dies any more
	terms   [partitions]atomic.Int64
	born    [partitions]atomic.Int64 // the epochs of these terms
	epoch   atomic.Int64             // of the step
	staged  atomic.Int64             // letters
	behind  sync.WaitGroup           // what goes on behind the steps
	present atomic.Pointer[node]     // that the steps call

	// mu guards what follows. It comes after that of the world. No executor is called under it.
	mu      sync.Mutex
	nodes   []*node
	owners  [partitions]*tenure
	disks   [partitions]*journal.Memory
	inboxes [partitions][]*row
	offsets [partitions]int64
	posted  map[string]bool        // letters that are in an inbox, or were
	rows    map[string]cluster.Row // of limits
	changed chan struct{}          // closed when something of these has
	last    int                    // term
	moved   bool                   // since the last census
	closing bool                   // nobody takes what has no owner
	lose    string                 // what becomes of the next call that goes from node to node
}

// node is a process.
type node struct {
	t       *town
	number  int
	x       *executor.Executor
	open    func(string, func(journal.Config) (*journal.Log, error), executor.Config) (*executor.Executor, error)
	queues  map[*queue]handle
	limit   *executor.Limit
	working int // calls of handlers
	agreed  int // calls of rows
	left    atomic.Bool
	ctx     context.Context // ends when the process dies
	die     context.CancelCauseFunc
}

// handle is a queue as a node has it.
type handle struct {
	queue *executor.Queue[payload]
	do    func(context.Context, string, payload, ...executor.Option) (int, error)
}

// name is before what is of the node; "": there is no cluster.
func (n *node) name() string {
	if n == nil {
		return ""
	}
	return fmt.Sprint("node ", n.number, " ")
}

func (n *node) lives() bool { return !n.left.Load() && n.ctx.Err() == nil }

// openTown begins the first life of a cluster.
func (w *world) openTown() {
	t := &town{w: w, cfg: w.config(), changed: make(chan struct{}), posted: make(map[string]bool), rows: make(map[string]cluster.Row)}
	for number := range t.disks {
		t.disks[number] = new(journal.Memory)
	}
	w.town, w.x.rig = t, t
	w.t.Cleanup(func() { t.end(time.Millisecond) })
	t.boot()
}

// boot begins a life: the first node has the queues registered as any executor has.
func (t *town) boot() {
	t.mu.Lock()
	t.nodes, t.closing = nil, false
	t.mu.Unlock()
	t.killed.Store(false)
	t.safe.Store(t.w.at.verb == "epilogue")
	for i := range max(t.w.conf.num("cluster"), 1) {
		n := t.newNode()
		register := t.w.setup
		if i > 0 {
			register = t.w.enrol
		}
		if err := register(n.x); err != nil {
			t.w.t.Fatalf("node: %v", err)
		}
		if t.join(n); i == 0 {
			t.face(n)
		}
	}
	for number := range partitions {
		t.adopt(number)
	}
	t.turn(0)
}

// enrol registers the queues of a life with another node.
func (w *world) enrol(x *executor.Executor) error {
	w.newLimits(x)
	return w.registerAll(x)
}

// newNode opens the front of another node, without queues.
func (t *town) newNode() *node {
	n := &node{t: t, queues: make(map[*queue]handle)}
	n.ctx, n.die = context.WithCancelCause(context.Background())
	var err error
	n.x, n.open, err = cluster.Open(cluster.Cluster{
		Of: n, Partitions: partitions, PartitionOf: func(id string) (int, error) { return partitionOf(id), nil },
		Enqueue: n.enqueue, FollowUp: n.followUp, Ask: n.ask, Self: fmt.Sprintf("%p", n), Rows: n.rows, Stop: n.stop, Start: func(context.Context) error { return nil }, Err: func() error { return nil },
	}, t.cfg)
	if err != nil {
		t.w.t.Fatalf("node: %v", err)
	}
	return n
}

// join has a node take part.
func (t *town) join(n *node) {
	for _, q := range t.w.queues {
		n.queues[q] = handle{q.queue, q.do}
	}
	n.limit, _ = t.w.state["limit"].(*executor.Limit)
	if err := n.x.Start(context.Background()); err != nil {
		t.w.t.Fatalf("node: %v", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n.number = len(t.nodes)
	t.nodes = append(t.nodes, n)
}

func (t *town) living() (all []*node) {
	for _, n := range t.nodes {
		if n.lives() {
			all = append(all, n)
		}
	}
	return all
}

// turn has the next calls go to a node, or to another one that lives.
func (t *town) turn(number int) {
	t.mu.Lock()
	all := t.living()
	t.mu.Unlock()
	if len(all) == 0 {
		return
	}
	t.face(all[number%len(all)])
}

// face has the next calls go to a node.
func (t *town) face(n *node) {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	t.present.Store(n)
	t.w.x.Executor = n.x
	for _, q := range t.w.queues { // a handler has those of its own node
		q.queue, q.do = n.queues[q].queue, n.queues[q].do
	}
	if n.limit != nil {
		t.w.state["limit"] = n.limit
	}
}

// begin is called before a step.
func (t *town) begin(group script) {
	t.turn(group[0].num("node"))
	t.epoch.Store(int64(t.w.epoch))
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range group {
		t.lose += l.str("lose")
	}
}

// rest is called when a step is over. What a run has ended before it came to the next payload is
// settled when the run is a quantum old.
func (t *town) rest() {
	for t.starting() {
		time.Sleep(shard.Quantum)
		synctest.Wait()
	}
	if !t.present.Load().lives() {
		t.turn(0)
	}
	calm := t.w.calm()
	t.mu.Lock()
	anew := calm && t.moved
	t.lose, t.moved = "", t.moved && !anew
	t.mu.Unlock()
	if anew {
		t.w.baseline()
	}
}

// starting reports whether a run is younger than that.
func (t *town) starting() bool {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	return slices.ContainsFunc(t.w.running, func(r *run) bool { return time.Since(r.began) < shard.Quantum })
}

// rests reports whether no job can begin: then what is done to them can be counted.
func (t *town) rests() bool {
	p := t.w.pauses()["all"]
	return p != nil && p.paused && p.sure && !p.some && len(t.w.running) == 0
}

// whole reports whether all partitions have an owner, which has taken in what is in the inbox, and
// the steps a node.
func (t *town) whole() bool { return t.present.Load().lives() && t.served() }

func (t *town) served() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for number, p := range t.owners {
		if p == nil || p.away || len(t.inboxes[number]) > 0 || p.forwarded.Load() < p.commits.Load() {
			return false
		}
	}
	return true
}

func (t *town) term(id string) int { return int(t.terms[partitionOf(id)].Load()) }

// known reports whether the last census was in the present term of an id.
func (t *town) known(id string) bool { return int(t.born[partitionOf(id)].Load()) <= t.w.known }

// change tells those who wait. mu is held.
func (t *town) change() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// Live implements rig.
func (t *town) Live(f func()) {
	f()
	t.UntilIdle()
}

// UntilIdle implements rig.
func (t *town) UntilIdle() {
	for began, pause := time.Now(), 10*time.Millisecond; ; pause = min(2*pause, time.Second) {
		synctest.Wait()
		t.w.mu.Lock()
		busy := len(t.w.running) > 0
		t.w.mu.Unlock()
		if !busy && t.served() || t.killed.Load() || time.Since(began) > patience {
			return
		}
		time.Sleep(pause)
	}
}

// UntilEmpty implements rig.
func (t *town) UntilEmpty() {
	for began := time.Now(); ; time.Sleep(5 * time.Second) {
		t.UntilIdle()
		t.rest()
		stats, err := t.w.x.Stats(context.Background())
		jobs := 0
		for _, q := range stats.Queues {
			jobs += q.Jobs
		}
		if err == nil && jobs == 0 || t.killed.Load() {
			return
		}
		if time.Since(began) > 45*time.Minute { // less than an hour, after which nodes ask anew for what they have forgotten to
			t.w.t.Fatalf("left: %d jobs: %+v: %v", jobs, stats.Queues, err)
		}
	}
}

// Advance implements rig.
func (t *town) Advance(d time.Duration) { time.Sleep(d) }

// Reconfigure implements rig.
func (t *town) Reconfigure(cfg executor.Config) { t.cfg = cfg }

// Killed implements rig.
func (t *town) Killed() bool { return t.killed.Load() }

// Kill implements rig: all processes die at once.
func (t *town) Kill() {
	t.mu.Lock()
	t.closing = true
	all := slices.Clone(t.nodes)
	t.mu.Unlock()
	for _, n := range all {
		if n.ctx.Err() == nil { // it lives, or is leaving
			t.die(n)
		}
	}
	t.killed.Store(true)
}

// Crash implements rig.
func (t *town) Crash() {
	t.safe.Store(false)
	t.Kill()
	t.behind.Wait()
	t.boot()
}

// Restart implements rig.
func (t *town) Restart() {
	t.end(30 * time.Second)
	t.boot()
}

// end stops all nodes.
func (t *town) end(patience time.Duration) {
	t.mu.Lock()
	t.closing = true
	all := slices.Clone(t.nodes)
	t.mu.Unlock()
	for _, n := range all {
		t.behind.Go(func() { n.end(patience) })
	}
	t.behind.Wait()
}

// end stops the front, which waits for its partitions.
func (n *node) end(patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for errors.Is(n.x.Stop(ctx), executor.ErrStuck) {
		time.Sleep(time.Second)
	}
}

// die ends a process, and others take what it had.
func (t *town) die(n *node) {
	if t.safe.Load() {
		return
	}
	t.mu.Lock()
	all := t.living()
	if last := len(all) == 1 && all[0] == n; last && !t.closing {
		t.mu.Unlock()
		t.Kill()
		return
	}
	t.mu.Unlock()
	t.w.mu.Lock()
	n.die(errDead)
	t.w.mu.Unlock()
	for number := range partitions {
		if p := t.owner(number); p != nil && p.node == n {
			t.fence(p)
		}
	}
	t.behind.Go(func() { n.end(time.Millisecond) })
}

// rows is Rows of a [cluster.Cluster].
func (n *node) rows(_ context.Context, keys []string, change func(time.Time, func(string) bool, []cluster.Row) ([]cluster.Row, error)) error {
	n.t.mu.Lock()
	defer n.t.mu.Unlock()
	if n.ctx.Err() != nil {
		return errLost
	}
	n.agreed++
	deaf := n.t.w.conf.num("deaf")
	lost := deaf > 0 && n.agreed%deaf == 0 && !n.t.safe.Load()
	rows := make([]cluster.Row, len(keys))
	for i, key := range keys {
		rows[i] = n.t.rows[key]
	}
	rows, err := change(time.Now(), func(self string) bool {
		return slices.ContainsFunc(n.t.nodes, func(o *node) bool { return fmt.Sprintf("%p", o) == self && o.ctx.Err() == nil })
	}, rows)
	if lost && n.agreed/deaf%2 == 0 { // and nothing was done
		return errLost
	}
	for i, key := range keys {
		n.t.rows[key] = rows[i]
	}
	if lost {
		return errLost
	}
	return err
}

// stop is the end of a node in order: it gives all away.
func (n *node) stop(ctx context.Context) error {
	n.left.Store(true)
	var all sync.WaitGroup
	for number := range partitions {
		if p := n.t.owner(number); p != nil && p.node == n {
			all.Go(func() {
				n.t.handOver(ctx, p)
				<-p.ctx.Done() // whoever does it
			})
		}
	}
	all.Wait()
	n.die(executor.ErrClosed)
	return nil
}
