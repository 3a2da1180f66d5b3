// Package peer holds what people would take instead of Strand, each behind the
// same small interface, in the settings that its own documents recommend.
//
// What a peer promises when Enqueue returns is named with it: figures are only
// worth comparing below the same promise.
package peer

import (
	"context"
	"hash/maphash"
)

// Promise is what is true of a job when Enqueue has returned.
type Promise string

// Promises, strongest first.
const (
	Synced   Promise = "fsynced"            // survives a power cut
	Second   Promise = "fsync every second" // a power cut loses up to a second
	Buffered Promise = "not fsynced"        // survives kill -9, not a power cut
	Memory   Promise = "memory"             // survives nothing
)

// Item is one job.
type Item struct {
	ID      string
	Payload []byte
}

// Room is what a system gets to work in.
type Room struct {
	Dir     string // empty, on the disk that is measured
	Workers int    // how many handlers may run at a time
	Standby bool   // a PostgreSQL server has a synchronous standby
	Lonely  bool   // jobs come one at a time, to see how long one waits; else it is throughput that counts

	// Handle is the handler. It may be called from any goroutine and doesn't
	// fail.
	Handle func(id string, payload []byte)
}

// System is a peer that runs. Handlers run from the moment it is there.
type System interface {
	// Enqueue returns when the promise of the peer holds for all items. The
	// system may keep them. It may be called from many goroutines.
	Enqueue(ctx context.Context, items []Item) error
	// Close ends it. No handler runs after it has returned.
	Close() error
}

// Peer is a system that can be measured.
type Peer struct {
	Name     string
	Module   string // whose version is reported; empty: none
	Promise  Promise
	Order    string // what it says about jobs of one key
	Settings string // those that matter, and why

	Workers   int // with handlers that do nothing
	Bulk      int // items of one call where many are at hand; 1: there is no such call
	Producers int // that enqueue one by one, for the most throughput
	// Holds: any number of jobs can be queued before one runs, so that it can be
	// filled first and drained then.
	Holds bool
	// Served is whether its system is a [Served] one, and OneLog whether that is one in
	// which calls of many are what there is to see.
	Served, OneLog bool

	// Missing returns the Debian package to install before Open can work.
	// Nil, or an empty result: nothing is missing.
	Missing func() string
	Open    func(context.Context, Room) (System, error)
}

// All returns every peer, Strand first, by falling promise.
func All() []Peer {
	var all []Peer
	for _, group := range [][]Peer{strand(), bolt(), riverPeers(), backlitePeers(), asynqPeers(), channelPeers(), actorPeers(), poolPeers()} {
		all = append(all, group...)
	}
	return all
}

// OnPostgres returns Strand with its journals in PostgreSQL, and what stands beside it: River
// on a server like it, and Strand on a disk of its own.
func OnPostgres() []Peer {
	return append(strandOnPostgres(), riverPeers()[1], strand()[0])
}

// Needs returns the package that is missing, or nothing.
func (p *Peer) Needs() string {
	if p.Missing == nil {
		return ""
	}
	return p.Missing()
}

const (
	bulk = 1000
	many = 256 // callers that wait for an fsync share it
)

var seed = maphash.MakeSeed()

// shardOf says which of n an id belongs to.
func shardOf(id string, n int) int { return int(maphash.String(seed, id) % uint64(n)) }
