package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cluster"
	"github.com/strandjobs/strand/journal"
)

// ErrLeaseLost is the cause with which the contexts of handlers end on a node that could
// not renew its lease in time. What they do then is not settled: it runs again elsewhere.
var ErrLeaseLost = errors.New("postgres: the lease of the partition could not be renewed in time")

// Config is how a node takes part. The zero value works, but for SingleServer on a server
// without a synchronous standby.
type Config struct {
	// Schema is the name of the schema that has the tables: 1 to 63 bytes of UTF-8, without $$ and control characters,
	// and not pg_ in front. Programs with different schemas have nothing to do with one another. Default "strand".
	Schema string

	// Partitions is how many logs the schema has, each with one owner at a time, 1 to 4096: [Migrate] makes so many, 16
	// by default; Open returns ErrPartitions for another number than there is. Which of them an id belongs to depends
	// on it: see the package comment for how to change it. Default 0: as many as the schema has.
	Partitions int

	// Name is for people, in Stats and logs. Default: the name of the machine.
	Name string

	// Lease is how long a partition stays with a node that is not heard of; it is renewed
	// each third of it. Handlers are canceled when three quarters of it have gone by
	// without a renewal. All nodes should have the same. From 300 ms to an hour; default 3 s.
	Lease time.Duration

	// Partition returns the part of an id that decides which partition it is in: the tenant of
	// "tenant/order", say. It returns the same on each node, and at each time. The first program that
	// opens a schema, or imports into it, decides it: Open and Import call it for some hundred ids of
	// many shapes, as "", "a/1" and "A:7:x", and one that has any of them in another partition, or
	// panics for others, is ErrPartitions from then on. What no such id shows is not noticed: then ids
	// are refused by the owner, or lose their order. To divide a schema by another function, Repartition it to 1 with
	// the old one, and then with the new one. Any goroutine calls it; a panic is executor.ErrConfig. Default nil: the id.
	Partition func(id string) string

	// SingleServer accepts a server without a synchronous standby: what was acknowledged
	// is lost with it. Default false: such a server is ErrUnsafe.
	SingleServer bool

	// Connections is how many connections there may be for commits and calls, beside three
	// for leases and notifications. Half of them commit at a time: what comes for another
	// partition meanwhile goes there together, in its turn; so one that hangs holds up the others if
	// there are few. At least 2; default 10.
	Connections int

	// Executor is the configuration of each partition's executor. Its Workers are those of the node, which the
	// partitions share. Its Advanced.MemoryBudget is that of the node, 256 MiB by default: each partition has an equal
	// part, but 64 KiB at least, whoever owns it. ControlSocket and Splitter must be zero. A call that is kept waiting
	// by WaitForRoom waits on the owner's node only; elsewhere the inbox takes it. OnStart is called once. OnFatal is
	// called when a handler returns Fatal, and each time a partition fails, which the node then tries again. A lost
	// lease does not call it. With DurabilityAsync a call that gets through to the owner on this node may return nil
	// before the commit: its Receipt says so.
	Executor executor.Config

	// Setup is called for each partition that the node begins to own, with its executor x, once that
	// has the queues of all, and before jobs run: for schedules, metrics and events, and for queues with
	// slots, which are made of x. The owner takes in what the inbox has for such a queue, as for others; who
	// enqueues has it from a node that is not started and registers it without slots. It shares lanes
	// with queues of Setup only. Each partition begins its slots at StartFrom: put the partition into the value.
	// An error gives the partition back; it is tried again later.
	//
	// Add a schedule of executor/cron here for each partition, with a queue of x, as the example
	// does: each tick is enqueued once, in the partition that its id belongs to. Added for some
	// of them only, it loses the ticks of the others. There is no hook for the end, and a Cron
	// needs no Stop: it ends with x, and the next owner goes on from the offsets in the journal.
	// Unless Missed says otherwise, what is due while a partition has no owner is lost.
	// Default nil.
	Setup func(x *executor.Executor, partition int) error
}

const (
	defaultLease       = 3 * time.Second
	leastLease         = 300 * time.Millisecond
	mostLease          = time.Hour
	defaultConnections = 10
	defaultMemory      = 256 << 20 // of Executor.Advanced.MemoryBudget
	leastMemory        = 64 << 10  // of a partition
)

// checked is cfg with its defaults, for a call with a context.
func (cfg Config) checked(ctx context.Context) (Config, error) {
	cfg.Schema = cmp.Or(cfg.Schema, defaultSchema)
	host, _ := os.Hostname()
	cfg.Name = cmp.Or(cfg.Name, host) // it is for people
	cfg.Lease = cmp.Or(cfg.Lease, defaultLease)
	cfg.Connections = cmp.Or(cfg.Connections, defaultConnections)
	cfg.Executor.Logger = cmp.Or(cfg.Executor.Logger, slog.Default())
	switch {
	case ctx == nil:
		return cfg, errNilContext
	case len(cfg.Schema) > maxSchemaName || !validText(cfg.Schema):
		return cfg, fmt.Errorf("%w: the name of the schema has %d bytes, it must have from 1 to %d, in UTF-8 and none of them zero: %q",
			executor.ErrConfig, len(cfg.Schema), maxSchemaName, cfg.Schema)
	case strings.Contains(cfg.Schema, "$$"), strings.ContainsFunc(cfg.Schema, unicode.IsControl): // which end the text of a function, or a line
		return cfg, fmt.Errorf("%w: schema %q: $$ and control characters are not possible in its name", executor.ErrConfig, cfg.Schema)
	case strings.HasPrefix(cfg.Schema, "pg_"):
		return cfg, fmt.Errorf("%w: schema %q: names that begin with pg_ are those of the server", executor.ErrConfig, cfg.Schema)
	case cfg.Partitions < 0 || cfg.Partitions > maxPartitions:
		return cfg, fmt.Errorf("%w: Partitions is %d, it must be 0 (the default) or from 1 to %d", executor.ErrConfig, cfg.Partitions, maxPartitions)
	case cfg.Lease < leastLease || cfg.Lease > mostLease:
		return cfg, fmt.Errorf("%w: Lease is %v, it must be 0 (the default) or from %v to %v", executor.ErrConfig, cfg.Lease, leastLease, mostLease)
	case cfg.Connections < 2 || cfg.Connections > 1<<15:
		return cfg, fmt.Errorf("%w: Connections is %d, it must be 0 (the default) or from 2 to %d", executor.ErrConfig, cfg.Connections, 1<<15)
	case cfg.Executor.ControlSocket:
		return cfg, fmt.Errorf("%w: Executor.ControlSocket is set, but there is no directory for a socket; leave it false", executor.ErrConfig)
	case cfg.Executor.Splitter.Nodes != 0 || cfg.Executor.Splitter.Owner != nil || cfg.Executor.Splitter.Self != 0:
		return cfg, fmt.Errorf("%w: Executor.Splitter is set, but the partitions divide the ids; use Config.Partition", executor.ErrConfig)
	case !validText(cfg.Name):
		return cfg, fmt.Errorf("%w: Name %q is not UTF-8, or has a zero byte", executor.ErrConfig, cfg.Name)
	}
	return cfg, nil
}

// Node is a process that takes part: see [NodeOf]. Its methods may be called from any goroutine.
type Node struct {
	cfg      Config
	id       pgtype.UUID
	pool     *pgxpool.Pool // commits, reads, the inbox
	turns    chan struct{} // of its partitions, to commit
	control  *pgxpool.Pool // leases: what fills the other must not hold them up
	texts    texts
	now      func() time.Time  // the time of day here; another one only in tests
	divide   executor.Splitter // without Self
	division []int32           // as the schema has it
	seen     []seen            // by partition
	lines    lines
	front    *executor.Executor // what users have
	part     func(name string, open func(journal.Config) (*journal.Log, error), cfg executor.Config) (*executor.Executor, error)

	base   context.Context // all that the node does ends with it
	cancel context.CancelCauseFunc
	tasks  sync.WaitGroup

	leasing     trouble   // with leases
	renewed     time.Time // when the last renewal that came through was sent
	limits      limits
	outbox      outbox
	asking      asking
	longestWait time.Duration // of an owner for the end of a payload
	notifier    notifier
	wake        chan struct{} // holds a token when leases should be looked at

	hurried chan struct{} // closed when a stop waits for no handler any longer

	// mu guards what follows. No user code and no call of the server is under it.
	mu       sync.Mutex
	state    nodeState
	values   context.Context // of Start
	held     map[int]*partition
	failed   map[int]failure
	behind   bool          // it has seen more than the server has, and is no candidate any longer
	lost     int           // partitions whose lease could not be renewed in time
	snapshot time.Duration // how old one is that holder has for too long
	holder   string        // empty: there is none
}

type nodeState uint8

const (
	opened nodeState = iota
	started
	stopping
)

// failure is why a partition is not served, although it should be.
type failure struct {
	err   error
	times int
	until time.Time
}

// Open connects to the server at url, checks it, the schema and cfg, and returns the executor of all
// partitions, of which this process is a node. Register the queues with executor.Handle and the
// like, on all nodes the same. It can enqueue then, and look at the jobs of all nodes and act on them; it
// owns no partition, and runs no job, before its Start. The connections are made as pgx does it: url
// may be of several hosts, with target_session_attrs=read-write.
//
// Its Err says of each partition of this node why it is not served, or its inbox is not taken in, what
// waits for a queue that this node does not have, and whose handlers hold up the next owner. It says since when leases
// can't be renewed, why the inbox can't be written, and who holds a snapshot for more than an hour, see
// [Stats]. The node goes on trying by itself, but after [ErrBehind].
//
// It returns executor.ErrConfig, ErrNoSchema, journal.ErrTooNew, ErrPartitions, ErrUnsafe, the cause of ctx, or what the server says.
func Open(ctx context.Context, url string, cfg Config) (*executor.Executor, error) {
	cfg, err := cfg.checked(ctx)
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, now: time.Now, wake: make(chan struct{}, 1),
		hurried: make(chan struct{}), held: make(map[int]*partition), failed: make(map[int]failure)}
	n.id.Valid, n.lines.log = true, cfg.Executor.Logger
	n.outbox.n, n.limits.n, n.longestWait = n, n, longestWait
	_, _ = rand.Read(n.id.Bytes[:]) // does not fail
	n.base, n.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	if err = n.connect(ctx, url); err == nil {
		n.front, n.part, err = cluster.Open(cluster.Cluster{Of: n, Partitions: n.divide.Nodes, PartitionOf: n.PartitionOf,
			Enqueue: n.outbox.enqueue, FollowUp: n.outbox.followUp, Ask: n.asking.ask, Self: n.id.String(), Rows: n.limits.permits,
			Start: n.start, Stop: n.stop, Err: n.err}, cfg.Executor)
	}
	if err != nil {
		n.disconnect(err)
		return nil, because(ctx, err)
	}
	n.asking = asking{n: n, wake: make(chan struct{}, 1), waiting: make(map[pgtype.UUID]*asked)}
	n.notifier = notifier{n: n, wake: make(chan struct{}, 1), due: make(map[string]bool), later: make(map[int]int)}
	n.tasks.Go(n.notifier.run)
	n.tasks.Go(n.notifier.listen)
	return n.front, nil
}

// NodeOf returns the node that an executor of Open is; nil for any other, also for that of a partition.
func NodeOf(x *executor.Executor) *Node {
	n, _ := cluster.Of(x).(*Node)
	return n
}

func (n *Node) connect(ctx context.Context, url string) (err error) {
	if n.pool, err = newPool(n.base, url, n.cfg.SingleServer, int32(n.cfg.Connections)); err == nil {
		n.control, err = newPool(n.base, url, n.cfg.SingleServer, 2)
	}
	if err != nil {
		return err
	}
	n.turns = make(chan struct{}, n.cfg.Connections/2)
	conn, err := n.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("postgres: open: %w", err)
	}
	defer conn.Release()
	partitions, err := n.cfg.guard(ctx, conn, n.control, true)
	if err != nil {
		return err
	}
	n.divide, n.seen = n.cfg.divide(partitions), make([]seen, partitions)
	n.division, n.texts, err = n.cfg.settle(ctx, conn, n.divide, true)
	return cmp.Or(err, n.outbox.clock.read(ctx, conn, readClock))
}

// disconnect ends all that the node does, without waiting for what it has begun.
func (n *Node) disconnect(cause error) {
	n.cancel(cause)
	n.tasks.Wait()
	for _, pool := range []*pgxpool.Pool{n.pool, n.control} {
		if pool != nil {
			pool.Close()
		}
	}
	n.lines.end()
}

// PartitionOf returns the number of the partition that an id belongs to, from 0. It returns
// executor.ErrConfig when Config.Partition panics.
func (n *Node) PartitionOf(id string) (int, error) {
	number, err := n.divide.OwnerOf(id)
	if err != nil {
		err = fmt.Errorf("postgres: Config.Partition: %w", err)
	}
	return number, err
}

// start makes the node a candidate for partitions, and runs the jobs of those that it gets. It does not
// wait for the server: see err.
func (n *Node) start(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state, n.values = started, context.WithoutCancel(ctx)
	n.tasks.Go(n.leases)
	n.tasks.Go(n.keepHouse)
	return nil
}

// grace is how long handlers have to end: executor.Config's default, too.
func (cfg Config) grace() time.Duration {
	return max(cmp.Or(cfg.Executor.StopTimeout, 30*time.Second), 0)
}

// stopSlack is how long a stop waits for executors and the server once ctx has ended.
const stopSlack = time.Second

// stop ends the node in order: it is no candidate any longer, and each of its partitions is
// given away as soon as its handlers have returned. When ctx ends they are canceled; a partition
// that has some half a second later is left to its lease, and is another node's when that has ended.
// What is enqueued meanwhile goes to those that have handlers still, or into the inbox. With the last partition that ends, too: then it is
// executor.ErrClosed, and the connections are closed. It returns what the partitions' executors say.
func (n *Node) stop(ctx context.Context) error {
	n.mu.Lock()
	candidate := n.state == started
	n.state = stopping
	held := slices.Collect(maps.Values(n.held))
	n.mu.Unlock()
	if candidate {
		leaving, cancel := context.WithTimeout(n.base, n.cfg.Lease)
		over := context.AfterFunc(ctx, func() { time.AfterFunc(stopSlack/4, cancel) })
		n.leave(leaving) // so that others want what it gives away
		over()
		cancel()
	}
	var errs []error
	for _, p := range held {
		p.stepDown(ctx)
	}
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stopSlack/2, func() { close(n.hurried) }) })()
	for _, p := range held {
		<-p.over
		errs = append(errs, p.stopErr)
	}
	n.outbox.drain(ctx)
	n.disconnect(executor.ErrClosed)
	return errors.Join(errs...)
}

// owned returns a partition that the node serves now, or nil.
func (n *Node) owned(number int) *partition {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.held[number]; p != nil && p.serving() {
		return p
	}
	return nil
}

// errNilContext is what a call without a context gets.
var errNilContext = fmt.Errorf("%w: it is nil; context.Background() is one that never ends", executor.ErrContext)

// because returns err as what it is, and as the cause of ctx where that is why.
func because(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || errors.Is(err, context.Cause(ctx)) || !errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("%w: %w", context.Cause(ctx), err)
}

// retryAfter waits before the next attempt, twice as long each time.
func retryAfter(ctx context.Context, pause *time.Duration) error {
	over := time.After(*pause)
	*pause = min(*pause*2, longestPause)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-over:
		return nil
	}
}
