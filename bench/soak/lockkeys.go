package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Queues of a lock life, and how many ids and payloads each is kept filled with.
const (
	countQueue  = "count"  // each payload counts its key up until it is over
	gateQueue   = "gate"   // one id at a time, and its retries, for each key
	loneQueue   = "lone"   // the same, but the payloads of an id have different keys
	waitQueue   = "wait"   // waits for counters, or for a person
	keptQueue   = "kept"   // has a slot, and keeps it when it fails
	serialQueue = "serial" // has a slot for each run
	uniqueQueue = "unique" // one run at a time for each key
)

var lockQueues = []struct {
	name          string
	ids, payloads int
}{
	{countQueue, 400, 1100}, {gateQueue, 300, 300}, {loneQueue, 12, 60}, {waitQueue, 100, 150},
	{keptQueue, 150, 200}, {serialQueue, 30, 40}, {uniqueQueue, 40, 60},
}

const (
	counters, gates = 50, 150
	staying         = 110 // gates whose jobs keep them until the last life
	handKey         = "hand"

	// heldAtLeast is how much a life has to hold before it is killed.
	heldAtLeast = 1000
	// afterwards is when jobs run that are there to hold something: not before
	// the last life says so.
	afterwards = time.Hour
)

// lockKey is the key of a payload.
func lockKey(queue, id string, number uint64) string {
	switch queue {
	case countQueue:
		return fmt.Sprint("counter", number%counters)
	case gateQueue:
		return fmt.Sprint("gate", gate(id))
	case loneQueue:
		return fmt.Sprint("lone", number%30)
	case waitQueue:
		if number%25 == 0 {
			return handKey
		}
		return fmt.Sprint("counter", number%counters)
	}
	return fmt.Sprint("one", number%5)
}

func gate(id string) (n int) {
	_, _ = fmt.Sscanf(id, "k%d", &n)
	return n % gates
}

// locksOnRun reports whether a queue is one whose jobs lock a key when they run.
func locksOnRun(queue string) bool { return slices.Contains([]string{gateQueue, loneQueue}, queue) }

// lockLife draws the settings of a lock life.
func lockLife(r *rand.Rand, dir string, number int) life {
	l := randomLife(r, dir, number)
	l.Mode, l.Queues = lockMode, nil
	l.CrashLimit = -1 // so many deaths would be enough for an innocent job
	l.Workers = 2 + r.IntN(6)
	for _, q := range lockQueues {
		l.Queues = append(l.Queues, queueLife{
			Name: q.name, Shards: 1 + r.IntN(6), Concurrency: 1 + r.IntN(2),
			Batch: max(1, r.IntN(5)-1), MaxPayloads: 1 + r.IntN(5), Merge: merges[r.IntN(len(merges))],
		})
	}
	r.Shuffle(len(l.Queues), func(i, k int) { l.Queues[i], l.Queues[k] = l.Queues[k], l.Queues[i] })
	return l
}
