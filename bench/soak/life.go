package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// childVariable carries a life to the process that is to live it.
const childVariable = "STRAND_SOAK_LIFE"

// life says how one process works on a journal. Every restart gets other
// settings: order and durability must not depend on them.
type life struct {
	Mode   string // see below
	Dir    string // of the journal
	Number int    // grows from life to life on one journal
	Seed   uint64

	Workers    int
	Seq        bool // the scheduler is RoundRobin, else OldestFirst
	Producers  int
	Ops        int  // calls of each producer; 0: until the end
	Dies       bool // after these calls
	Compact    bool // the file is replaced all the time
	Processors int  // 0: as many as there are
	CrashLimit int  // of the executor
	Reports    bool // of crashes, by Go
	Budget     int  // of memory for payloads; 0: the default
	WAL        int  // bytes of the log before the file; 0: the default; -1: none
	Supervised bool // system calls wait for what a supervisor says
	Queues     []queueLife

	// Of the kill proof.
	Keyed   bool    // calls have keys, and some are made again
	Again   []again // calls to begin with
	Sources int     // numbered sources
	Busy    bool    // few workers, long runs, handlers that are fast or slow
	Wide    bool    // few workers, tens of thousands of ids
	Parked  bool    // jobs of the merging queue wait at a gate

	First int    // number that the chain proof goes on with
	Hangs string // the file of which a sync stands still, in the slow proof
}

// queueLife are the settings of one queue in one life.
type queueLife struct {
	Name        string
	Shards      int
	Concurrency int
	Batch       int
	MaxPayloads int
	Merge       executor.Merge
	Block       bool
	Pull        bool
	Async       bool
}

const (
	liveMode     = "live"      // enqueue and run until stdin ends or the calls are made
	drainMode    = "drain"     // enqueue nothing, run until nothing is left
	tinyMode     = "tiny"      // fill a small file system; see fillDisk
	crowdMode    = "crowd"     // keep a small file system for others; see keepDisk
	crowdedMode  = "crowded"   // fill it and die; see crowdDisk
	crowdEndMode = "crowd-end" // start on it and drain it
	poisonMode   = "poison"    // a job that ends the process
	slowMode     = "slow"      // the disk hangs, and goes on; see hangDisk
	slowStopMode = "slow-stop" // the disk hangs to the end
	lockMode     = "lock"      // hold locks, counters and slots until killed; see hold
	unlockMode   = "unlock"    // lock nothing more, run until nothing is left
	chainMode    = "chain"     // enqueue for a chain of queues until killed; see playChain
	chainEndMode = "chain-end" // enqueue nothing, run until all is in the ledger
)

// Queues of every life. Payloads of the first two are unique, so each of them
// must run; those of the last come from a handful of values and merge. The handler
// of eventQueue gets one payload at a time, those of the others all that wait, of
// one id or a batch of them.
var (
	sequenceQueues = []string{"orders", eventQueue}
	mergingQueue   = "merge"
)

const eventQueue = "events"

// merges are those that lose no payload.
var merges = []executor.Merge{executor.MergeKeepAll, executor.MergeMinScore, executor.MergeKeepFirst, executor.MergeKeepLast}

// randomLife draws the settings of a life.
func randomLife(r *rand.Rand, dir string, number int) life {
	l := life{
		Mode: liveMode, Dir: dir, Number: number, Seed: r.Uint64(),
		Workers: 1 + r.IntN(8), Seq: r.IntN(2) == 0, Producers: 1 + r.IntN(4),
		Budget: []int{0, 1, 64 << 10}[r.IntN(3)], // 1: what is on disk is not in memory
		WAL:    []int{-1, 0, smallWAL, smallWAL, 2 * smallWAL, 8 * smallWAL}[r.IntN(6)],
	}
	for _, name := range append([]string{mergingQueue}, sequenceQueues...) {
		q := queueLife{
			Name: name, Shards: 1 + r.IntN(6), Concurrency: 1 + r.IntN(2), Batch: 1,
			MaxPayloads: 1 + r.IntN(50), Merge: merges[r.IntN(len(merges))],
			Block: r.IntN(2) == 1, Pull: r.IntN(2) == 1,
			Async: r.IntN(4) == 0,
		}
		if r.IntN(3) == 0 {
			q.Batch = 2 + r.IntN(3)
		}
		if name == eventQueue {
			q.Batch, q.MaxPayloads = 1, 1
		}
		l.Queues = append(l.Queues, q)
	}
	l.Compact = r.IntN(3) == 0
	if r.IntN(8) == 0 { // this one is not registered: its jobs have to wait
		l.Queues = l.Queues[1:]
	}
	return l
}

// drainLife runs everything that is left, all queues registered.
func drainLife(r *rand.Rand, dir string, number int) life {
	for {
		if l := randomLife(r, dir, number); len(l.Queues) == 3 {
			l.Mode = drainMode
			return l
		}
	}
}

func (l life) environment() string {
	b, err := json.Marshal(l)
	if err != nil {
		panic(fmt.Sprintf("soak: bug: %v", err))
	}
	return childVariable + "=" + string(b)
}

// beChild lives the life that the environment asks for, if any, and then does
// not return.
func beChild() {
	text := os.Getenv(childVariable)
	if text == "" {
		return
	}
	var l life
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
	if l.Processors > 0 {
		runtime.GOMAXPROCS(l.Processors)
	}
	if l.Supervised {
		if err := superviseMe(); err != nil {
			fmt.Fprintln(os.Stderr, "soak: no supervision:", err)
			os.Exit(1)
		}
	}
	switch l.Mode {
	case tinyMode:
		os.Exit(fillDisk(l))
	case crowdMode:
		os.Exit(keepDisk(l))
	case crowdedMode, crowdEndMode:
		os.Exit(crowdDisk(l))
	case slowMode, slowStopMode:
		os.Exit(hangDisk(l))
	case poisonMode:
		os.Exit(takePoison(l))
	case lockMode, unlockMode:
		os.Exit(newLockHolder(l).play())
	case chainMode, chainEndMode:
		os.Exit(playChain(l))
	}
	os.Exit(newActor(l).play())
}

// smallWAL is a log before the file that a few calls fill, and that a small disk has room for.
const smallWAL = 32 << 10

// open opens the executor of a life.
func (l life) open(onFailure func(error)) (*executor.Executor, error) {
	cfg := executor.Config{Logger: slog.New(slog.DiscardHandler), Workers: l.Workers, OnFatal: onFailure, StopTimeout: stopTime, Crash: executor.Crash{Limit: l.CrashLimit, Reports: l.Reports}, Advanced: executor.Advanced{MemoryBudget: l.Budget}}
	if l.Seq {
		cfg.Scheduler = executor.RoundRobin()
	}
	return executor.OpenLog(l.Dir, func(c journal.Config) (*journal.Log, error) { // all that Open does, without a control socket
		c.WALBytes = l.WAL
		return journal.Open(l.Dir, c)
	}, cfg)
}

func (q queueLife) config(retryIn func(int) time.Duration) executor.QueueConfig[[]byte] {
	cfg := executor.QueueConfig[[]byte]{
		Share: executor.Share{Shards: q.Shards, Concurrency: q.Concurrency}, BatchSize: q.Batch, Merge: q.Merge,
		Gather:  executor.Gather[[]byte]{MaxPayloads: q.MaxPayloads, Block: q.Block, Pull: q.Pull},
		RetryIn: retryIn, Defaults: executor.Defaults[[]byte]{Durability: executor.DurabilitySync},
	}
	if q.Async {
		cfg.Defaults.Durability = executor.DurabilityAsync
	}
	return cfg
}
