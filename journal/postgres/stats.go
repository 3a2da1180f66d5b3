package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/strandjobs/strand/executor"
)

// Stats are figures of all nodes, as the server has them, and some of this one.
type Stats struct {
	Node       string            // the id of this one
	Nodes      map[string]string // names of those that are candidates for partitions, by id
	Partitions []PartitionStats  // by number
	Lost       int               // partitions whose lease this node could not renew in time
	// The oldest transaction that sees the database as it was some time ago. Until it ends the server keeps
	// all rows that were replaced or deleted since: tables grow, and partitions take longer to open, while
	// commits stay as fast. To the second; 0: none is a minute old, or the role may not see whose it is.
	SnapshotAge    time.Duration
	SnapshotHolder string // the session, or prepared transaction, with what ends it
}

// PartitionStats are figures of a partition.
type PartitionStats struct {
	Partition int
	Owner     string     // the id of a node; empty: it has none
	Name      string     // of the owner; empty: it is no candidate any longer
	Epoch     int64      // of the lease: grows with each owner; it is not what Token returns
	Since     *time.Time // when the owner has acquired it; nil: there is none, or one of before version 2.2
	Inbox     int        // rows that the owner has neither taken in nor refused
	Refused   int        // rows that it has refused: column refused of table inbox says why; set it to null to retry
	// Of what this node owns: what waits in inbox and log for queues that it does not have, by name; half a minute old at most.
	Unserved map[string]int `db:"-"`
}

// Stats asks the server, until Stop is over: then it is executor.ErrClosed. It returns
// executor.ErrContext for a nil ctx, the cause of ctx, or what the server says.
func (n *Node) Stats(ctx context.Context) (s Stats, err error) {
	if ctx == nil {
		return s, errNilContext
	}
	within, cancel := context.WithCancel(ctx) // a stop waits for what is asked
	defer cancel()
	defer context.AfterFunc(n.base, cancel)()
	s, err = readStats(within, n.pool, n.texts)
	s.Node = n.id.String()
	n.mu.Lock()
	s.Lost = n.lost
	n.mu.Unlock()
	for i := range s.Partitions {
		if p := n.owned(s.Partitions[i].Partition); p != nil {
			s.Partitions[i].Unserved = maps.Clone(p.taker.unserved())
		}
	}
	switch {
	case err != nil && n.base.Err() != nil:
		return Stats{}, fmt.Errorf("%w: the node was stopped", executor.ErrClosed)
	case err != nil:
		return Stats{}, because(ctx, fmt.Errorf("postgres: stats: %w", err))
	}
	return s, nil
}

// readStats reads what the server knows.
func readStats(ctx context.Context, q querier, texts texts) (s Stats, err error) {
	s.Nodes = make(map[string]string)
	var id, name string
	rows, _ := q.Query(ctx, texts["nodes"])
	_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error { s.Nodes[id] = name; return nil })
	if err == nil {
		rows, _ = q.Query(ctx, texts["stats"])
		s.Partitions, err = pgx.CollectRows(rows, pgx.RowToStructByPos[PartitionStats])
	}
	if err == nil {
		s.SnapshotAge, s.SnapshotHolder, err = readSnapshot(ctx, q, texts, time.Minute)
	}
	return s, err
}

// Partitions returns the executors of the partitions that the node serves now, by number: to
// inspect them. They are the node's to stop.
func (n *Node) Partitions() map[int]*executor.Executor {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make(map[int]*executor.Executor)
	for number, p := range n.held {
		if p.serving() {
			all[number] = p.x
		}
	}
	return all
}

// oldSnapshot is how old one has to be for Err and the log: a dump takes its time.
const oldSnapshot = time.Hour

// readSnapshot returns the oldest snapshot that is held for so long, or longer.
func readSnapshot(ctx context.Context, q querier, texts texts, least time.Duration) (age time.Duration, holder string, err error) {
	var seconds int64
	err = q.QueryRow(ctx, texts["held"], int64(least.Seconds())).Scan(&seconds, &holder)
	return time.Duration(seconds) * time.Second, holder, err
}

// tellOfSnapshots keeps a snapshot that is older than so much for Err, and logs it once.
func (n *Node) tellOfSnapshots(ctx context.Context, least time.Duration) {
	age, holder, err := readSnapshot(ctx, n.control, n.texts, least)
	if err != nil {
		return // or a minute later
	}
	n.mu.Lock()
	before := n.holder
	n.snapshot, n.holder = age, holder
	n.mu.Unlock()
	if holder != "" && holder != before {
		n.lines.tell(slog.LevelWarn, "a snapshot is held for long, and nothing older can be cleared from the tables", nil,
			slog.Duration("age", age), slog.String("holder", holder))
	}
}

// err is Err of the executor of [Open]. Before Start and after Stop there is no attempt at a lease.
func (n *Node) err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	if n.state == started {
		errs = append(errs, n.leasing.failing("postgres: connection: leases can't be renewed or taken"))
	}
	if n.state != stopping {
		errs = append(errs, n.limits.trouble.failing("postgres: limits of the cluster can't be asked for"))
		errs = append(errs, n.outbox.trouble.failing("postgres: the inbox can't be written"))
	}
	if n.holder != "" {
		errs = append(errs, fmt.Errorf("postgres: nothing newer than %v can be cleared from the tables, because of %s", n.snapshot, n.holder))
	}
	for _, number := range slices.Sorted(maps.Keys(n.failed)) {
		errs = append(errs, fmt.Errorf("partition %d: %w", number, n.failed[number].err))
	}
	for _, number := range slices.Sorted(maps.Keys(n.held)) {
		for _, err := range n.held[number].failing() {
			if err != nil {
				errs = append(errs, fmt.Errorf("partition %d: %w", number, err))
			}
		}
	}
	return errors.Join(errs...)
}

// failing returns what Err says of a partition.
func (p *partition) failing() (errs []error) {
	switch {
	case !p.ready.Load() && time.Since(p.began) <= p.n.cfg.Lease:
		return nil
	case !p.ready.Load() && p.settingUp.Load():
		return []error{fmt.Errorf("not served since %s: Setup has not returned", p.began.Format(time.RFC3339))}
	case !p.ready.Load():
		return []error{fmt.Errorf("not served since %s: it is being opened", p.began.Format(time.RFC3339))}
	}
	errs = []error{p.store.trouble.failing("the server can't be used"), p.taker.trouble.failing("the inbox can't be taken in")}
	if err := p.x.Err(); err != nil && p.serving() && !errors.Is(err, executor.ErrClosed) {
		errs = append(errs, err)
	}
	others := p.taker.unserved()
	for _, queue := range slices.Sorted(maps.Keys(others)) {
		errs = append(errs, fmt.Errorf("%d wait for queue %q, which this node does not have: register it, or stop this node", others[queue], queue))
	}
	if count := p.lingering(); count > 0 {
		errs = append(errs, fmt.Errorf("another node gets it when %d handlers have returned", count))
	}
	return errs
}

// trouble is what goes wrong with something, and since when, by the last attempt at it.
type trouble struct {
	mu    sync.Mutex
	since time.Time
	err   error // nil: nothing
}

// note notes what has become of an attempt that began at a time.
func (t *trouble) note(began time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.since = began
	}
	t.err = err
}

// failing returns an error that says what can't be done, since when, and why; nil: it can.
func (t *trouble) failing(what string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		return nil
	}
	return fmt.Errorf("%s since %s: %w", what, t.since.Format(time.RFC3339), t.err)
}

// explain adds to err, that of a call whose time is over, what it has waited for.
func (t *trouble) explain(err error, what string) error {
	if why := t.failing(what); why != nil {
		return fmt.Errorf("%w: %w", err, why)
	}
	return err
}

const (
	gatherFor = 100 * time.Millisecond // how long a line waits for others that say the same of other partitions
	mostLines = 1000                   // that wait for the log; those that come then are left out, and counted
	logFor    = stopSlack / 4          // how long a stop waits for the last ones
)

// lines is what the node is to log: one line for all partitions of which the same is told. The log is the program's code,
// which may block, panic or enqueue: nobody who tells waits for it.
type lines struct {
	log     *slog.Logger
	logging sync.Mutex // it is taken before mu

	mu      sync.Mutex
	pending []*line
	leftOut int // since the last line
}

type line struct {
	level      slog.Level
	message    string
	attributes []slog.Attr // of an error, that of the first partition
	partitions []int
}

// tell logs a message before long, about partitions if there are some.
func (l *lines) tell(level slog.Level, message string, partitions []int, attributes ...slog.Attr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.pending, func(p *line) bool {
		return p.level == level && p.message == message && slices.EqualFunc(p.attributes, attributes,
			func(a, b slog.Attr) bool { return a.Key == "error" || a.Equal(b) })
	})
	if i < 0 && len(l.pending) == mostLines {
		l.leftOut++
		return
	}
	if i < 0 {
		i, l.pending = len(l.pending), append(l.pending, &line{level: level, message: message, attributes: attributes})
		if i == 0 {
			time.AfterFunc(gatherFor, l.flush)
		}
	}
	of := &l.pending[i].partitions
	for _, number := range partitions {
		if at, there := slices.BinarySearch(*of, number); !there {
			*of = slices.Insert(*of, at, number)
		}
	}
}

// tell logs a message about the partition before long.
func (p *partition) tell(level slog.Level, message string, attributes ...slog.Attr) {
	p.n.lines.tell(level, message, []int{p.number}, attributes...)
}

// flush logs what there is.
func (l *lines) flush() {
	l.logging.Lock()
	defer l.logging.Unlock()
	l.mu.Lock()
	pending := l.pending
	if l.leftOut > 0 {
		pending = append(pending, &line{slog.LevelWarn, "lines of the log were left out", []slog.Attr{slog.Int("left_out", l.leftOut)}, nil})
	}
	l.pending, l.leftOut = nil, 0
	l.mu.Unlock()
	for _, p := range pending {
		if len(p.partitions) > 0 {
			p.attributes = append(p.attributes, slog.Any("partitions", p.partitions))
		}
		_ = guarded(func() error { l.log.LogAttrs(context.Background(), p.level, p.message, p.attributes...); return nil })
	}
}

// end logs what there is, unless the log blocks: it may be what waits for the stop.
func (l *lines) end() {
	select {
	case <-returned(l.flush):
	case <-time.After(logFor):
	}
}

// levelOf is that of a line about an error: one that passes by itself is a warning.
func levelOf(err error) slog.Level {
	if !errors.Is(err, ErrUnsafe) && (isTakeover(err) || unreached(err) || errors.Is(err, errWarned) || errors.Is(err, context.Canceled)) {
		return slog.LevelWarn
	}
	return slog.LevelError
}

// isTakeover reports whether another node goes on with what has failed here.
func isTakeover(err error) bool { return errors.Is(err, ErrLeaseLost) || errors.Is(err, errFenced) }

// calm is the log of a partition's executor, for which the end of its journal is an error, whoever goes on.
type calm struct{ slog.Handler }

func (c calm) Handle(ctx context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok && isTakeover(err) {
			r.Level = min(r.Level, slog.LevelWarn)
		}
		return true
	})
	if !c.Enabled(ctx, r.Level) {
		return nil
	}
	return c.Handler.Handle(ctx, r)
}

func (c calm) WithAttrs(attrs []slog.Attr) slog.Handler { return calm{c.Handler.WithAttrs(attrs)} }
func (c calm) WithGroup(name string) slog.Handler       { return calm{c.Handler.WithGroup(name)} }
