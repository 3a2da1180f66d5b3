//go:build unix

// Cluster runs the jobs of one queue on three processes over PostgreSQL, kills them, and counts what became of the
// jobs. It is a module of its own, because it needs a driver. It starts a PostgreSQL that is installed on the machine,
// in a temporary directory; with -url it uses one that runs.
//
//	cd examples/cluster && go run .
//	cd examples/cluster && go run . -for 5m -kill 15s -stop 10s -end 20s -server 30s -cut 5s -hold 15s
//	cd examples/cluster && go run . -for 5m -end 10s -promote 30s -deploy -other /path/to/another/build
//
// Callers count: each takes the next number of an id of his to a node at random, again and again until one has
// accepted it, and only then goes on to the number after it. One of eight goes with a transaction of the caller's
// instead, beside another one that is rolled back. The job of a number writes it down. So the numbers of an id have to
// arrive in order, with none left out, whoever dies meanwhile, and none of a transaction that was rolled back; and
// triggers see that nobody commits to a partition that another has taken: else the program says so, and exits with 1.
// It exits with 3 when it can't tell, and says why. What may be is that a number comes again: when its node died before
// the job was settled, or when its caller got no answer and has called twice.
//
// With -other nodes change between two builds of this program, as in a deploy that is rolled out and back; the other one
// may be older. With -deploy those of this one have a queue more, extra, whose numbers wait while a node without it owns
// their partition. No more of its jobs run at a time than a limit of the cluster says, on all nodes together.
//
// How a process takes part is in node.go, what it shows of itself in observe.go, and what a job does in count.go and
// limit.go; the rest is what hurts and counts.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// config is what the flags say.
type config struct {
	node string // what this process is; empty: the one that starts the others
	url  string

	length                                       time.Duration
	times                                        int
	nodes, partitions, callers                   int
	lease                                        time.Duration
	kill, stop, end, server, promote, cuts, hold time.Duration // how often; 0: never
	other                                        string        // program; empty: none
	deploy, log                                  bool
}

const usage = `Cluster kills processes that share a queue over PostgreSQL, and sees that the numbers of each id arrive in order,
with none left out and none of a transaction that was rolled back, that nobody commits to a partition that another
has taken, and that a limit of the cluster holds. A number may come again, when its node died or its caller got no answer.

Exit status: 0 it was so, 1 it was not, or a node failed; 2 the flags are wrong; 3 it can't tell, and says why.

Flags:`

func main() {
	var cfg config
	flag.StringVar(&cfg.node, "node", "", "be a node with this `name`, for the process that started it")
	flag.StringVar(&cfg.url, "url", "", "of a PostgreSQL server; empty: start one")
	flag.DurationVar(&cfg.length, "for", 30*time.Second, "how long callers call")
	flag.IntVar(&cfg.nodes, "nodes", 3, "`number` of processes")
	flag.IntVar(&cfg.partitions, "partitions", 16, "`number` of them; what a server at -url has stays")
	flag.IntVar(&cfg.callers, "callers", 16, "`number` of them")
	flag.DurationVar(&cfg.lease, "lease", 3*time.Second, "how long partitions stay with a node that is not heard of")
	flag.DurationVar(&cfg.kill, "kill", 4*time.Second, "how often a node is killed with kill -9; 0: never")
	flag.DurationVar(&cfg.stop, "stop", 0, "how often a node is paused for longer than its lease, with SIGSTOP; 0: never")
	flag.DurationVar(&cfg.end, "end", 0, "how often a node is ended in order, with SIGTERM; 0: never")
	flag.DurationVar(&cfg.server, "server", 0, "how often the server is killed with kill -9; 0: never")
	flag.DurationVar(&cfg.promote, "promote", 0,
		"how often the server is killed, its standby promoted, and a new standby made; 0: never, and there is none")
	flag.StringVar(&cfg.other, "other", "",
		"another build of this `program`: a node that was killed or ended goes on with the other one of the two")
	flag.BoolVar(&cfg.deploy, "deploy", false, "nodes of this build have the queue extra, too")
	flag.DurationVar(&cfg.cuts, "cut", 0, "how often half of the connections are cut; 0: never")
	flag.DurationVar(&cfg.hold, "hold", 0,
		"how often what a node sends is held for longer than its lease, and delivered then; 0: never")
	flag.IntVar(&cfg.times, "times", 0, "`number` of times that each of these is done, instead of -for; 0: no end")
	flag.BoolVar(&cfg.log, "log", false, "show what the nodes log, and what fails")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintln(flag.CommandLine.Output(), "cluster: there are arguments that are no flags:", flag.Args())
		flag.Usage()
		os.Exit(2)
	}
	// A second signal is not needed: callers end at once, what is left is waited for no longer than a minute, and then
	// the server is ended, too.
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer restore()
	var err error
	if cfg.node != "" {
		err = serve(ctx, cfg)
	} else {
		_, err = run(ctx, cfg, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
	}
	switch {
	case errors.Is(err, errNoVerdict):
		os.Exit(3)
	case err != nil:
		os.Exit(1)
	}
}

// evil is something that is done again and again.
type evil struct {
	every time.Duration // 0: never
	do    func(context.Context) error
}

// run has callers count for a while, on nodes that are hurt, and tells what it found. The error is that something was
// out of order or lost, or errNoVerdict.
func run(ctx context.Context, cfg config, out io.Writer) (f figures, err error) {
	beginning, cancel := context.WithTimeout(ctx, time.Minute)
	c, err := newCluster(beginning, cfg, out)
	cancel()
	if err != nil {
		return f, fmt.Errorf("%w: there is no cluster: %w", errNoVerdict, err)
	}
	defer c.close()
	var nodes, evils, callers sync.WaitGroup
	living, end := context.WithCancel(context.WithoutCancel(ctx))
	defer nodes.Wait()
	defer end()
	for _, m := range c.members {
		nodes.Go(func() { m.live(living) })
	}

	all := []evil{{cfg.kill, c.kill}, {cfg.stop, c.stop}, {cfg.end, c.end}, {cfg.server, c.killServer},
		{cfg.promote, c.promote}, {cfg.cuts, c.cut}, {cfg.hold, c.hold}}
	for _, e := range all {
		if cfg.times > 0 { // a bound, for when there is nothing left to hurt
			cfg.length = max(cfg.length, time.Minute+3*time.Duration(cfg.times)*(e.every+2*cfg.lease))
		}
	}
	calling, stop := context.WithTimeout(ctx, cfg.length)
	defer stop()
	calling, c.giveUp = context.WithCancelCause(calling)
	for _, caller := range c.callers {
		callers.Go(func() { caller.count(calling, c) })
	}
	for _, e := range all {
		if e.every > 0 {
			evils.Go(func() { c.again(calling, e) })
		}
	}
	if cfg.times > 0 {
		go func() { evils.Wait(); stop() }()
	}
	for tick := time.Tick(5 * time.Second); calling.Err() == nil; {
		select {
		case <-calling.Done():
		case <-tick:
			if f, err := c.look(calling); err == nil { // else the server is away
				c.say("%v", f)
			}
		}
	}
	callers.Wait()
	evils.Wait()
	if why := context.Cause(calling); why != calling.Err() {
		return f, fmt.Errorf("%w: %w", errNoVerdict, why)
	}
	for _, m := range c.members {
		m.deploy()
	}
	return c.settle(context.WithoutCancel(ctx))
}

// again does something evil again and again, about so often.
func (c *cluster) again(ctx context.Context, e evil) {
	for times := 0; c.cfg.times == 0 || times < c.cfg.times; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(e.every*3/4 + rand.N(e.every/2)):
		}
		if err := e.do(ctx); err == nil {
			times++
		} else if c.cfg.log { // the server may be away
			c.say("%v", err)
		}
	}
}
