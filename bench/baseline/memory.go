package baseline

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"time"
)

const (
	channels        = 16
	channelCapacity = 1024
)

// job is what goes through a channel: no closure, nothing to allocate.
type job struct {
	id      string
	payload []byte
	score   float64
	due     int64
}

// Channels sends n jobs from one producer to 16 goroutines, each with a channel
// of its own, chosen by the hash of the id: order per id as it is done by hand.
func Channels(ctx context.Context, n int, ids []string, payload []byte) (time.Duration, error) {
	seed := maphash.MakeSeed()
	var lanes [channels]chan job
	var ran [channels]int
	var group sync.WaitGroup
	start := time.Now()
	for i := range lanes {
		lanes[i] = make(chan job, channelCapacity)
		group.Go(func() {
			for j := range lanes[i] {
				if len(j.id) > 0 && len(j.payload) > 0 {
					ran[i]++
				}
			}
		})
	}
	for i := range n {
		id := ids[i%len(ids)]
		lanes[maphash.String(seed, id)%channels] <- job{id, payload, float64(i), int64(i)}
		if i%channelCapacity == 0 && ctx.Err() != nil {
			break
		}
	}
	total := 0
	for _, lane := range lanes {
		close(lane)
	}
	group.Wait()
	elapsed := time.Since(start)
	for _, r := range ran {
		total += r
	}
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	if total != n {
		return 0, fmt.Errorf("baseline: %d jobs came through the channels, want %d", total, n)
	}
	return elapsed, nil
}

// HandOffs measures how long it takes n times to wake a goroutine that waits on
// a channel. The sender pauses before each.
func HandOffs(ctx context.Context, n int, pause func()) ([]time.Duration, error) {
	sent, woken := make(chan time.Time), make(chan time.Duration)
	go func() { // ends with sent
		for at := range sent {
			woken <- time.Since(at)
		}
	}()
	defer close(sent)
	took := make([]time.Duration, 0, n)
	for range n {
		pause()
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		sent <- time.Now()
		took = append(took, <-woken)
	}
	return took, nil
}

// Pending is a backlog in the plainest form: a map from id to payload, with
// score and due time.
type Pending struct{ jobs map[string]waiting }

type waiting struct {
	payload []byte
	score   float64
	due     int64
}

// NewPending returns a backlog of n jobs with payloads of some bytes. It makes
// ids and payloads of its own, as something that was decoded would have.
func NewPending(n int, id func(int) string, payloadBytes int) *Pending {
	p := &Pending{jobs: make(map[string]waiting)}
	for i := range n {
		p.jobs[id(i)] = waiting{make([]byte, payloadBytes), float64(i), int64(i)}
	}
	return p
}

// Len returns how many jobs wait.
func (p *Pending) Len() int { return len(p.jobs) }
