package main

import (
	"context"
	"time"

	"github.com/strandjobs/strand/bench/peers/peer"
)

// carried is what went over connections: bytes, and packets with something in them, one for
// each request that is not large.
type carried struct{ Sent, Received, Packets int64 }

// cost is what a job costs on the server and on the way to it, until it is on record that it
// is done.
type cost struct {
	Writes   float64 `json:"writes"` // transactions that have written
	WAL      float64 `json:"wal_bytes"`
	Server   float64 `json:"server_cpu_us"` // of all its processes, a standby's, too
	Client   float64 `json:"client_cpu_us"`
	Requests float64 `json:"requests"` // packets, see carried
	Sent     float64 `json:"sent_bytes"`
	Received float64 `json:"received_bytes"`
}

// meter is what was spent when it was read.
type meter struct {
	peer.Spent
	carried
	server, own time.Duration
}

func readMeter(ctx context.Context, s peer.Served) (m meter, err error) {
	m.Spent, err = s.Spent(ctx)
	m.carried, m.server, m.own = wire(), serverTime(), ownTime()
	return m, err
}

// since returns the cost of each of some jobs.
func (m meter) since(from meter, jobs int) *cost {
	each := func(v int64) float64 { return float64(v) / float64(jobs) }
	return &cost{
		each(m.Writes - from.Writes), each(m.WAL - from.WAL),
		each((m.server - from.server).Nanoseconds()) / 1e3, each((m.own - from.own).Nanoseconds()) / 1e3,
		each(m.Packets - from.Packets), each(m.Sent - from.Sent), each(m.Received - from.Received),
	}
}

// transactions enqueues each job with a row of the user's.
type transactions struct{ peer.Served }

func (s transactions) Enqueue(ctx context.Context, items []peer.Item) error {
	for _, item := range items {
		if err := s.EnqueueTx(ctx, item); err != nil {
			return err
		}
	}
	return nil
}
