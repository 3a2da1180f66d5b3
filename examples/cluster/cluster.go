//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/postgres"
)

// cluster is all that runs, and what is known about it.
type cluster struct {
	cfg     config
	server  *server        // nil: at -url
	proxy   *proxy         // nil: nothing is cut
	node    *postgres.Node // looks on, and enqueues in transactions
	numbers *postgres.Queue[int]
	db      *pgxpool.Pool
	members []*member
	callers []*caller
	began   time.Time

	mu     sync.Mutex
	out    io.Writer
	events []event
}

const idsOfCaller = 16

func newCluster(ctx context.Context, cfg config, out io.Writer) (c *cluster, err error) {
	c = &cluster{cfg: cfg, began: time.Now(), out: out}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if cfg.url == "" {
		if c.server, err = startServer(); err != nil {
			return c, err
		}
		c.cfg.url = c.server.url()
	} else if cfg.server > 0 {
		return c, errors.New("-server is for a server that was started here, without -url")
	}
	if err := postgres.Migrate(ctx, c.cfg.url, postgres.Schema{Partitions: cfg.partitions}); err != nil {
		return c, err
	}
	if c.db, err = pgxpool.New(ctx, c.cfg.url); err != nil {
		return c, err
	}
	if _, err := c.db.Exec(ctx, tables); err != nil {
		return c, err
	}
	if c.node, err = postgres.Open(ctx, c.cfg.url, postgres.Config{Name: "looks on", SingleServer: true}); err != nil {
		return c, err
	}
	nothing := func(context.Context, executor.Job[int]) error { return nil } // it is not started
	if c.numbers, err = postgres.Handle(c.node, "numbers", nothing, numbersConfig); err != nil {
		return c, err
	}
	through := c.cfg.url
	if cfg.cuts > 0 {
		if c.proxy, through, err = newProxy(c.cfg.url); err != nil {
			return c, err
		}
	}
	program, err := os.Executable()
	if err != nil {
		return c, err
	}
	for i := range cfg.nodes {
		name := "node " + strconv.Itoa(i+1)
		c.members = append(c.members, &member{name: name, log: cfg.log,
			args: []string{program, "-node", name, "-url", through, "-lease", cfg.lease.String(),
				"-log=" + strconv.FormatBool(cfg.log)}})
	}
	for i := range cfg.callers {
		c.callers = append(c.callers, newCaller(i+1, idsOfCaller))
	}
	return c, nil
}

func (c *cluster) close() {
	if c.node != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_ = c.node.Stop(ctx) // it owns nothing
		cancel()
	}
	if c.db != nil {
		c.db.Close()
	}
	if c.proxy != nil {
		c.proxy.close()
	}
	if c.server != nil {
		c.server.remove()
	}
}

func (c *cluster) note(e event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, e)
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
	gaps     int64 // numbers that came too early
	ghosts   int64 // and such whose transaction was rolled back
	lost     int64 // accepted, and not written down

	again   int64 // runs of a job that had run before
	twice   int64 // jobs for a number that had one, because their caller did not know
	late    int64 // writes that were refused by the fence
	unknown int64 // calls without an answer, or with an error

	events    map[string]int
	takeovers map[string][]time.Duration // sorted
}

func (f figures) String() string {
	return fmt.Sprintf("accepted %d, done %d, repeats %d and %d called twice, late writes refused %d, "+
		"order violations %d, rolled back and run %d", f.accepted, f.done, f.again, f.twice, f.late, f.gaps, f.ghosts)
}

// look asks for the figures of the moment.
func (c *cluster) look(ctx context.Context) (f figures, err error) {
	accepted := make(map[string]int64)
	for _, caller := range c.callers {
		for i, id := range caller.ids {
			accepted[id] = caller.accepted[i].Load()
			f.accepted += accepted[id]
		}
		f.unknown += caller.doubtful.Load()
	}
	rows, err := c.db.Query(ctx, "SELECT id, number, gaps, ghosts FROM cluster.count")
	if err != nil {
		return f, err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var number, gaps, ghosts int64
		if err := rows.Scan(&id, &number, &gaps, &ghosts); err != nil {
			return f, err
		}
		f.done += min(number, accepted[id]) // one may have been accepted without an answer
		f.gaps += gaps
		f.ghosts += ghosts
	}
	if err := rows.Err(); err != nil {
		return f, err
	}
	err = c.db.QueryRow(ctx, `SELECT count(*) - count(DISTINCT (partition, position)),
		count(DISTINCT (partition, position)) - count(DISTINCT (id, number)),
		(SELECT count(*) FROM cluster.late) FROM cluster.run`).Scan(&f.again, &f.twice, &f.late)
	f.lost = f.accepted - f.done
	return f, err
}

// settling is how long nodes have for what is left, once nobody hurts them.
const settling = time.Minute

// settle waits until all is done, and judges.
func (c *cluster) settle(ctx context.Context) (f figures, err error) {
	for end := time.Now().Add(settling); ; time.Sleep(100 * time.Millisecond) {
		f, err = c.look(ctx)
		if err == nil && f.lost == 0 || time.Now().After(end) {
			break
		}
	}
	if err == nil {
		err = c.takeovers(ctx, &f)
	}
	if err != nil {
		return f, err
	}
	c.say("%v, lost %d", f, f.lost)
	for kind, count := range f.events {
		c.say("%d × %s%s", count, kind, quantiles(f.takeovers[kind]))
	}
	switch {
	case f.gaps > 0 || f.lost > 0 || f.ghosts > 0:
		return f, fmt.Errorf("order violations %d, lost %d, rolled back and run %d: none must be", f.gaps, f.lost, f.ghosts)
	case f.accepted == 0:
		return f, errors.New("no node has accepted anything; -log shows what they say")
	}
	return f, nil
}

// takeovers finds out how long each partition of a node that was hurt was without an owner that runs jobs: until the
// first run on another. One that is hurt again meanwhile is left out.
func (c *cluster) takeovers(ctx context.Context, f *figures) error {
	c.mu.Lock()
	events := slices.SortedFunc(slices.Values(c.events), func(a, b event) int { return a.at.Compare(b.at) })
	c.mu.Unlock()
	f.events, f.takeovers = make(map[string]int), make(map[string][]time.Duration)
	for i, e := range events {
		f.events[e.kind]++
		if len(e.partitions) == 0 {
			continue
		}
		rows, err := c.db.Query(ctx, `SELECT min(at) FROM cluster.run
			WHERE partition = ANY ($1) AND at > $2 AND node <> $3 GROUP BY partition`, e.partitions, e.at, e.node)
		if err != nil {
			return err
		}
		for rows.Next() {
			var first time.Time
			if err := rows.Scan(&first); err != nil {
				return err
			}
			if i+1 == len(events) || first.Before(events[i+1].at) {
				f.takeovers[e.kind] = append(f.takeovers[e.kind], first.Sub(e.at))
			}
		}
		if err := cmp.Or(rows.Err(), ctx.Err()); err != nil {
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
