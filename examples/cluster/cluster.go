//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/postgres"
)

// cluster is all that runs, and what is known about it.
type cluster struct {
	cfg     config
	server  *server            // nil: at -url
	jobs    *executor.Executor // looks on, and enqueues in transactions
	numbers *executor.Queue[int]
	db      *pgxpool.Pool
	members []*member
	callers []*caller
	began   time.Time
	giveUp  context.CancelCauseFunc // ends the calls: there will be no verdict

	rolledBack atomic.Int64 // transactions with a number
	hurting    sync.Mutex   // held while something is done to the server

	mu        sync.Mutex
	out       io.Writer
	events    []*event
	cancelled []event // handlers whose contexts ended
}

const idsOfCaller = 16

func newCluster(ctx context.Context, cfg config, out io.Writer) (c *cluster, err error) {
	c = &cluster{cfg: cfg, began: time.Now(), out: out, giveUp: func(error) {}}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if cfg.url == "" {
		if c.server, err = startServer(cfg.promote > 0); err != nil {
			return c, err
		}
		c.cfg.url = c.server.url()
	} else if cfg.server+cfg.promote > 0 {
		return c, errors.New("-server and -promote are for a server that was started here, without -url")
	}
	if err := postgres.Migrate(ctx, c.cfg.url, postgres.Config{Partitions: cfg.partitions}); err != nil {
		return c, err
	}
	if c.db, err = pgxpool.New(ctx, c.cfg.url); err != nil {
		return c, err
	}
	if _, err := c.db.Exec(ctx, tables); err != nil {
		return c, err
	}
	if c.jobs, err = postgres.Open(ctx, c.cfg.url, postgres.Config{Name: "looks on", SingleServer: true}); err != nil {
		return c, err
	}
	nothing := func(context.Context, executor.Job[int]) error { return nil } // it is not started
	if c.numbers, err = executor.Handle(c.jobs, "numbers", nothing, numbersConfig); err != nil {
		return c, err
	}
	for i := range cfg.nodes {
		if err := c.join(i); err != nil {
			return c, err
		}
	}
	name := strconv.FormatInt(c.began.UnixMilli(), 36)
	for i := range cfg.callers {
		c.callers = append(c.callers, newCaller("", name, i+1, idsOfCaller))
	}
	if cfg.deploy {
		c.callers = append(c.callers, newCaller("/extra", name, cfg.callers+1, idsOfCaller))
	}
	return c, nil
}

// join makes a member of the cluster. With another build they begin in turns with this one and with that.
func (c *cluster) join(i int) error {
	m := &member{name: "node " + strconv.Itoa(i+1), lives: i, log: c.cfg.log, say: c.say, cancelled: c.cancel}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	through := c.cfg.url
	if c.cfg.cuts > 0 || c.cfg.hold > 0 {
		if m.proxy, through, err = newProxy(c.cfg.url); err != nil {
			return err
		}
	}
	c.members = append(c.members, m)
	args := []string{"-node", m.name, "-url", through, "-lease", c.cfg.lease.String(),
		"-log=" + strconv.FormatBool(c.cfg.log)}
	m.builds = [][]string{slices.Concat([]string{program}, args)}
	if c.cfg.deploy {
		m.builds[0] = append(m.builds[0], "-deploy")
	}
	if c.cfg.other != "" {
		if program, err = exec.LookPath(c.cfg.other); err != nil {
			return fmt.Errorf("-other: %w", err)
		}
		m.builds = append(m.builds, slices.Concat([]string{program}, args))
	}
	return nil
}

func (c *cluster) close() {
	if c.jobs != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_ = c.jobs.Stop(ctx) // it owns nothing
		cancel()
	}
	if c.db != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, _ = c.db.Exec(ctx, unwatch) // the server may be away
		cancel()
		c.db.Close()
	}
	for _, m := range c.members {
		if m.proxy != nil {
			m.proxy.close()
		}
	}
	if c.server != nil {
		c.server.remove()
	}
}

// note keeps an event, which is over when its node has stood still for as long as any does, or when over is called.
func (c *cluster) note(e event) (over func()) {
	e.over = e.at.Add(c.cfg.lease * 3 / 2)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, &e)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		e.over = time.Now()
	}
}

// cancel notes that the context of a handler has ended on a node.
func (c *cluster) cancel(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancelled = append(c.cancelled, event{node: node, at: time.Now()})
}

// untouched counts the handlers that were cancelled on nodes to which nothing was done, nor to all, within the time that
// its consequences may take.
func (c *cluster) untouched() (count int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.cancelled {
		if !slices.ContainsFunc(c.events, func(e *event) bool {
			return (e.node == "" || e.node == h.node) && !h.at.Before(e.at) && h.at.Before(e.over.Add(c.cfg.lease+slack))
		}) {
			count++
		}
	}
	return count
}

func (c *cluster) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// It is to be looked at: nothing depends on it.
	_, _ = fmt.Fprintf(c.out, "%6.1fs  %s\n", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}

// figures are what became of the numbers.
type figures struct {
	accepted int64 // by a node
	done     int64 // of those: written down by their jobs
	lost     int64 // the rest; in the end with those of transactions that were committed without an answer

	gaps    int64 // numbers that came too early
	ghosts  int64 // and such whose transaction was rolled back
	stale   int64 // commits by another than the owner of the epoch
	settled int64 // runs of a job whose end was committed before
	over    int64 // jobs that began although as many ran as their limit lets
	most    int64 // that ran at a time

	rolledBack int64 // transactions
	again      int64 // runs of a job that had run before
	twice      int64 // jobs for a number that had one, because their caller did not know
	late       int64 // writes of jobs that were refused by the fence
	commits    int64 // of the nodes
	refused    int64 // commits that came late, and changed nothing
	unknown    int64 // calls without an answer, or with an error

	events    map[string]int
	takeovers map[string][]time.Duration // sorted
	omitted   int                        // takeovers with another event in the midst
}

func (f figures) String() string {
	return fmt.Sprintf("accepted %d, done %d, late writes refused %d, late commits refused %d, order violations %d, "+
		"commits by a stale epoch %d, enqueued by rolled-back transactions %d of %d",
		f.accepted, f.done, f.late, f.refused, f.gaps, f.stale, f.ghosts, f.rolledBack)
}

// glance is how long the server has to tell what happened.
const glance = 20 * time.Second

// look asks for the figures of the moment.
func (c *cluster) look(ctx context.Context) (f figures, err error) {
	ctx, cancel := context.WithTimeout(ctx, glance)
	defer cancel()
	accepted := make(map[string]int64)
	for _, caller := range c.callers {
		for i, id := range caller.ids {
			accepted[id] = caller.accepted[i].Load()
			f.accepted += accepted[id]
		}
		f.unknown += caller.doubtful.Load()
	}
	f.rolledBack = c.rolledBack.Load()
	rows, err := c.db.Query(ctx, "SELECT id, number, gaps, ghosts FROM cluster.count")
	if err != nil {
		return f, err
	}
	var id string
	var number, gaps, ghosts int64
	if _, err := pgx.ForEachRow(rows, []any{&id, &number, &gaps, &ghosts}, func() error {
		if _, ours := accepted[id]; !ours {
			return nil
		}
		f.done += min(number, accepted[id]) // one may have been accepted without an answer
		f.gaps += gaps
		f.ghosts += ghosts
		return nil
	}); err != nil {
		return f, err
	}
	f.lost = f.accepted - f.done
	return f, c.db.QueryRow(ctx, `SELECT (SELECT count(*) FROM cluster.late), (SELECT count(*) FROM cluster.stale),
		(SELECT count(*) FROM cluster.refused), (SELECT sum(number) FROM strand.tail)`).
		Scan(&f.late, &f.stale, &f.refused, &f.commits)
}

// lookBack asks for what is known in the end.
//
// The end of a job that ran is in one of its owner's next commits, so one that runs again although its owner has
// committed for a while since then, and it had not failed, was settled.
func (c *cluster) lookBack(ctx context.Context, f *figures) error {
	ctx, cancel := context.WithTimeout(ctx, 5*glance)
	defer cancel()
	var bills int64
	err := c.db.QueryRow(ctx, `SELECT count(*) - count(DISTINCT (partition, position)),
		count(DISTINCT (partition, position)) - count(DISTINCT (id, number)),
		(SELECT count(*) FROM cluster.bill b LEFT JOIN cluster.count c USING (id) WHERE b.number > coalesce(c.number, 0)),
		(SELECT count(*) FROM (SELECT *, lead(attempt) OVER (PARTITION BY partition, position ORDER BY at) AS next
			FROM cluster.run) r WHERE next = attempt AND (SELECT committed FROM cluster.owner o WHERE o.partition = r.partition
			AND o.node = r.node AND o.at <= r.at ORDER BY epoch DESC LIMIT 1) > r.at + $1)
		FROM cluster.run`, c.cfg.lease+slack).Scan(&f.again, &f.twice, &bills, &f.settled)
	f.lost += bills
	if err != nil {
		return err
	}
	err = c.db.QueryRow(ctx, `SELECT count(*) FILTER (WHERE step > 0 AND running > $1), coalesce(max(running), 0)
		FROM (SELECT step, sum(step) OVER (ORDER BY at, step ROWS UNBOUNDED PRECEDING) AS running
			FROM cluster.span, LATERAL (VALUES (began, 1), (ended, -1)) s (at, step)) r`, concurrent).Scan(&f.over, &f.most)
	if err != nil {
		return err
	}
	return c.takeovers(ctx, f)
}

// settling is how long nodes have for what is left, once nobody hurts them.
const settling = time.Minute

// errNoVerdict is returned when nothing can be said of what became of the numbers.
var errNoVerdict = errors.New("no verdict")

// settle waits until all is done, and judges.
func (c *cluster) settle(ctx context.Context) (f figures, err error) {
	for end, over := time.Now().Add(settling), false; !over; time.Sleep(100 * time.Millisecond) {
		over = time.Now().After(end)
		if f, err = c.look(ctx); err == nil && (f.lost == 0 || over) {
			err = c.lookBack(ctx, &f) // there may be more that is to come
			over = over || err == nil && f.lost == 0
		}
	}
	if err != nil {
		return f, fmt.Errorf("%w: the server does not say what was done: %w", errNoVerdict, err)
	}
	c.say("%v", f)
	c.say("%d commits, %d calls without an answer or refused, %d numbers called twice for that, "+
		"%d repeats of what was not settled", f.commits, f.unknown, f.twice, f.again-f.settled)
	for _, kind := range slices.Sorted(maps.Keys(f.events)) {
		c.say("%d × %s%s", f.events[kind], kind, quantiles(f.takeovers[kind]))
	}
	c.say("%d handlers were cancelled, %d of them on nodes that nobody touched; of extra at most %d ran at a time",
		len(c.cancelled), c.untouched(), f.most)
	if f.omitted > 0 {
		c.say("%d takeovers are left out: something else was done meanwhile", f.omitted)
	}
	verdict := fmt.Sprintf("lost %d, order violations %d, commits by a stale epoch %d, "+
		"enqueued by rolled-back transactions %d, repeats of what was settled %d, over the limit %d",
		f.lost, f.gaps, f.stale, f.ghosts, f.settled, f.over)
	c.say("%s", verdict)
	switch {
	case f.gaps+f.lost+f.ghosts+f.stale+f.settled+f.over > 0:
		return f, fmt.Errorf("%s: none must be", verdict)
	case f.accepted == 0:
		return f, fmt.Errorf("%w: no node has accepted anything; -log shows what they say", errNoVerdict)
	}
	return f, nil
}

// slack is how long a takeover may take behind the lease.
const slack = 2 * time.Second

// takeovers finds out how long each partition of a node that was hurt was without an owner that runs jobs: until the
// first run under the next one. Where something else was done within the time that it may take, it is left out.
func (c *cluster) takeovers(ctx context.Context, f *figures) error {
	c.mu.Lock()
	events := slices.SortedFunc(slices.Values(c.events), func(a, b *event) int { return a.at.Compare(b.at) })
	c.mu.Unlock()
	f.events, f.takeovers = make(map[string]int), make(map[string][]time.Duration)
	for i, e := range events {
		f.events[e.kind]++
		rows, err := c.db.Query(ctx, `SELECT run.at FROM unnest($1::integer[]) AS p (partition)
			CROSS JOIN LATERAL (SELECT at FROM cluster.owner o
				WHERE o.partition = p.partition AND at > $2 ORDER BY epoch LIMIT 1) next
			CROSS JOIN LATERAL (SELECT at FROM cluster.run r
				WHERE r.partition = p.partition AND r.at > next.at ORDER BY at LIMIT 1) run
			WHERE $3 = (SELECT node FROM cluster.owner o
				WHERE o.partition = p.partition AND at <= $2 ORDER BY epoch DESC LIMIT 1)`,
			e.partitions, e.at, e.node)
		if err != nil {
			return err
		}
		var first time.Time
		if _, err := pgx.ForEachRow(rows, []any{&first}, func() error {
			if i+1 < len(events) && first.After(events[i+1].at) && events[i+1].at.Sub(e.at) < c.cfg.lease+slack {
				f.omitted++
				return nil
			}
			f.takeovers[e.kind] = append(f.takeovers[e.kind], first.Sub(e.at))
			return nil
		}); err != nil {
			return err
		}
	}
	for _, list := range f.takeovers {
		slices.Sort(list)
	}
	return nil
}

func quantiles(sorted []time.Duration) string {
	if len(sorted) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "; %d partitions taken over", len(sorted))
	for _, q := range []int{50, 99, 100} {
		fmt.Fprintf(&b, ", p%d %v", q, quantile(sorted, q).Round(time.Millisecond))
	}
	return b.String()
}

// quantile returns the least that is not below so many percent of a list, which is not empty.
func quantile(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)*percent+99)/100-1]
}
