package executor

import (
	"log/slog"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// loader has the shards of a queue take in what was pending when the journal was
// opened, a stride at a time and in position order. Every processor takes part:
// each reads some entries of the stride, then each goes through all of them for
// its own shards. So what is not in memory is read back once, as it stands on
// the disk.
type loader struct {
	queue  *queue
	cores  []*shard.Core
	absurd int64        // when nobody plans anything, Unix ns
	far    atomic.Int64 // entries that are due after that

	payloads, bytes atomic.Int64 // for the backlog

	// Of the stride.
	refs    []journal.Ref
	entries []journal.Entry
	shardOf []uint32
}

// strideBytes bounds the entries of a stride, which is a part of a page: their
// readers should still have them at hand when they take them in.
const strideBytes = 2 << 20

// absurdDelay is how far ahead nobody plans: a job that is due later was given
// to a clock that was wrong, or this one is.
const absurdDelay = 50 * 365 * 24 * time.Hour

// load gives the cores of the shards what is pending, and lets go of it.
func (q *queue) load(pending [][]journal.Ref, cores []*shard.Core) error {
	l := &loader{queue: q, cores: cores, absurd: time.Now().Add(absurdDelay).UnixNano()}
	for i, page := range pending {
		if err := l.page(page); err != nil {
			return err
		}
		pending[i] = nil
	}
	q.far = l.far.Load()
	q.backlog.Exceed(shard.Weight{Payloads: int(l.payloads.Load()), Bytes: int(l.bytes.Load())})
	return nil
}

// warnFar logs what is due when nobody plans anything.
func (q *queue) warnFar() {
	if q.far > 0 {
		q.x.cfg.Logger.Warn("jobs are due in more than 50 years; was the clock wrong? RunNow runs them",
			slog.String("queue", q.name), slog.Int64("entries", q.far))
	}
}

// page has the cores take in a page, in strides.
func (l *loader) page(refs []journal.Ref) error {
	l.entries = slices.Grow(l.entries[:0], len(refs))[:len(refs)]
	l.shardOf = slices.Grow(l.shardOf[:0], len(refs))[:len(refs)]
	for len(refs) > 0 {
		n := stride(refs)
		l.refs, refs = refs[:n], refs[n:]
		if err := l.together(l.read); err != nil {
			return err
		}
		if err := l.together(l.takeIn); err != nil {
			return err
		}
	}
	return nil
}

// stride returns how many entries the next stride has.
func stride(refs []journal.Ref) (n int) {
	for bytes := 0; n < len(refs) && bytes < strideBytes; n++ {
		bytes += refs[n].Size()
	}
	return n
}

// together has every processor do its part.
func (l *loader) together(do func(part, parts int) error) error {
	var group errgroup.Group
	parts := runtime.GOMAXPROCS(0)
	for part := range parts {
		group.Go(func() error { return do(part, parts) })
	}
	return group.Wait()
}

// read reads a part of the stride and finds out whose the entries are.
func (l *loader) read(part, parts int) error {
	payloads, bytes, newest := 0, 0, 0.0
	for i := part * len(l.refs) / parts; i < (part+1)*len(l.refs)/parts; i++ {
		e := &l.entries[i]
		if err := l.refs[i].Read(e); err != nil {
			return err
		}
		if e.Due > l.absurd {
			l.far.Add(1)
		}
		if e.Kind == journal.KindEnqueued {
			payloads, bytes = payloads+1, bytes+l.refs[i].Size()
			newest = max(newest, defaultScore(e))
		}
		l.shardOf[i] = l.queue.route(e.ID) - l.queue.first
	}
	l.payloads.Add(int64(payloads))
	l.bytes.Add(int64(bytes))
	l.queue.scores.raise(newest)
	return nil
}

// takeIn has a part of the shards take in what is theirs, some entries at a time:
// what each begins with is seldom in the cache.
func (l *loader) takeIn(part, parts int) error {
	mine := make([]int, 0, 64)
	for i := 0; i < len(l.refs); mine = mine[:0] {
		for ; i < len(l.refs) && len(mine) < cap(mine); i++ {
			if s := int(l.shardOf[i]); s%parts == part {
				l.cores[s].Prefetch(l.entries[i].ID)
				mine = append(mine, i)
			}
		}
		for _, i := range mine {
			l.cores[l.shardOf[i]].Load(&l.entries[i], l.refs[i])
		}
	}
	return nil
}
