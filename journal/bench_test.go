package journal

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/strandjobs/strand/journal/internal/store"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// Each iteration of the bulk benchmarks is one fsynced transaction of perCommit
// new records and perCommit that end, while backlog others wait.
const (
	perCommit = 1000
	backlog   = 10_000
	valueSize = 128
)

// BenchmarkBaseline is raw bbolt: keys that come at the end and go at the front.
func BenchmarkBaseline(b *testing.B) {
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "raw.db"), 0o600, store.BoltOptions())
	require.NoError(b, err)
	defer db.Close()
	name, value := []byte("jobs"), make([]byte, valueSize)
	var next, oldest uint64
	var key [8]byte
	round := func(puts, deletes int) {
		err := db.Update(func(tx *bbolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists(name)
			if err != nil {
				return err
			}
			for ; puts > 0; puts-- {
				binary.BigEndian.PutUint64(key[:], next)
				next++
				if err := bucket.Put(key[:], value); err != nil {
					return err
				}
			}
			for ; deletes > 0; deletes-- {
				binary.BigEndian.PutUint64(key[:], oldest)
				oldest++
				if err := bucket.Delete(key[:]); err != nil {
					return err
				}
			}
			return nil
		})
		require.NoError(b, err)
	}
	round(backlog, 0)
	for b.Loop() {
		round(perCommit, perCommit)
	}
	b.ReportMetric(float64(b.N*perCommit)/b.Elapsed().Seconds(), "jobs/s")
}

// harness appends, takes in and ends.
type harness struct {
	log     *Log
	queue   uint32
	entries []Entry
	waiting []Ref // in order
	fresh   chan []Ref
}

func newHarness(b *testing.B, dir string) *harness {
	h := &harness{fresh: make(chan []Ref, 4)}
	cfg := Config{Deliver: h.deliver}
	var err error
	if dir == "" {
		h.log, err = OpenMemory(nil, cfg)
	} else {
		h.log, err = Open(dir, cfg)
	}
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, h.log.Close()) })
	h.queue, err = h.log.Queue(b.Context(), "queue")
	require.NoError(b, err)
	h.entries = make([]Entry, perCommit)
	for i := range h.entries {
		// About as long on disk as the baseline's values.
		h.entries[i] = Entry{Queue: h.queue, ID: fmt.Appendf(nil, "id-%05d", i), Payload: make([]byte, 100)}
	}
	return h
}

func (h *harness) deliver(d *Delivery) {
	refs := make([]Ref, d.Len())
	var e Entry
	for i := range refs {
		refs[i] = must(d.Read(i, &e))
	}
	d.Done()
	h.fresh <- refs
}

func (h *harness) round(b *testing.B, keep int) {
	ticket, err := h.log.Append(b.Context(), h.entries, nil)
	require.NoError(b, err)
	require.NoError(b, ticket.Wait(b.Context()))
	h.waiting = append(h.waiting, <-h.fresh...)
	if over := len(h.waiting) - keep; over > 0 {
		h.log.Record(&Change{Ended: h.waiting[:over]})
		h.waiting = h.waiting[over:]
	}
}

// bulk keeps a backlog. The ends of one round go into the commit of the next.
func bulk(b *testing.B, dir string, backlog int) {
	h := newHarness(b, dir)
	for range backlog / perCommit {
		h.round(b, backlog)
	}
	b.ReportAllocs()
	for b.Loop() {
		h.round(b, backlog)
	}
	b.ReportMetric(float64(b.N*perCommit)/b.Elapsed().Seconds(), "jobs/s")
}

func BenchmarkBulk(b *testing.B)        { bulk(b, filepath.Join(b.TempDir(), "j"), 0) }
func BenchmarkBulkBacklog(b *testing.B) { bulk(b, filepath.Join(b.TempDir(), "j"), backlog) }
func BenchmarkBulkMemory(b *testing.B)  { bulk(b, "", backlog) }

// BenchmarkOne is the latency of one entry, beside one raw commit of one key.
func BenchmarkOne(b *testing.B) {
	h := newHarness(b, filepath.Join(b.TempDir(), "j"))
	h.entries = h.entries[:1]
	for b.Loop() {
		h.round(b, 0)
	}
}

// BenchmarkReplay opens a journal with a backlog of a hundred thousand.
func BenchmarkReplay(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "j")
	h := newHarness(b, dir)
	for range 100 {
		h.round(b, 1<<30)
	}
	require.NoError(b, h.log.Close())
	for b.Loop() {
		l, err := Open(dir, Config{})
		require.NoError(b, err)
		require.Len(b, slices.Concat(l.PendingPages(h.queue)...), 100*perCommit)
		require.NoError(b, l.Close())
	}
	b.ReportMetric(float64(b.N*100*perCommit)/b.Elapsed().Seconds(), "jobs/s")
}
