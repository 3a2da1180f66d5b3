package executor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

const (
	// maxFolders is how many goroutines fold what waits, for a queue.
	maxFolders = 4
	// foldPatience is after how long another goroutine folds beside one that is at it
	// still, and a call to Enqueue waits for it no longer.
	foldPatience = time.Second
	// foldCrowd is how many calls to Enqueue may come for an id while what waits for it
	// is folded, before the next ones wait.
	foldCrowd = 2048
	// foldOverhead is more than an entry takes beside payload and id.
	foldOverhead = 1 << 10
)

// folder folds what waits for the ids of a queue, off its shards.
type folder struct {
	q    *queue
	item func(*shard.Item)
	fold func(id string, data [][]byte, skip func(error) bool) foldPass

	busy atomic.Int64 // len(out)

	// mu is held for memory work only.
	mu      sync.Mutex
	waiting []*shard.Fold
	out     map[string]*foldOut // by id, with those that wait
	running int                 // goroutines, without those that are late
	closed  bool
}

// foldOut is a fold that is not over yet.
type foldOut struct {
	over chan struct{}
	come int         // payloads since
	late atomic.Bool // nobody waits for it any more
}

// add is called by shards.
func (d *folder) add(f *shard.Fold) {
	o := &foldOut{over: make(chan struct{})}
	f.Over = func(bool) { d.over(f.ID, o) }
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	if d.out == nil {
		d.out = make(map[string]*foldOut)
	}
	d.out[f.ID] = o
	d.busy.Store(int64(len(d.out)))
	d.waiting = append(d.waiting, f)
	d.begin()
}

// over ends the wait of those who wait for a fold.
func (d *folder) over(id string, o *foldOut) {
	close(o.over)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.out[id] == o { // and not that of what came after a run
		delete(d.out, id)
		d.busy.Store(int64(len(d.out)))
	}
}

// begin starts a goroutine if there is something for it. mu is held.
func (d *folder) begin() {
	if d.running < maxFolders && len(d.waiting) > 0 && !d.closed {
		d.running++
		d.q.x.folding.Go(d.work)
	}
}

func (d *folder) work() {
	for f := d.next(); f != nil; f = d.next() {
		late := time.AfterFunc(foldPatience, d.replace)
		d.do(f)
		if !late.Stop() {
			return // another one may be at work in its place
		}
	}
}

func (d *folder) next() (f *shard.Fold) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.waiting) == 0 || d.closed {
		d.running--
		return nil
	}
	f, d.waiting = d.waiting[0], d.waiting[1:]
	return f
}

// replace gives the turn of a goroutine that is late to another one.
func (d *folder) replace() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running--
	d.begin()
}

// do folds what waits for an id, and gives it back to its shard, with nothing folded if
// it has gone, or the disk has no room.
func (d *folder) do(f *shard.Fold) {
	log, over, room := d.q.x.log, f.Over, 0
	f.Over = func(applied bool) {
		if !applied {
			log.GiveRoomBack(room)
		}
		over(applied)
	}
	defer f.Shard.Folded(f)
	if log.Short() {
		return
	}
	data := make([][]byte, f.Len())
	for i := range data {
		var e journal.Entry
		found, err := f.Read(i, &e)
		if !found || err != nil {
			return // who needs it finds out
		}
		data[i] = e.Payload
	}
	groups := d.groups(f.ID, data)
	for i := range groups {
		g := &groups[i]
		g.Room = len(g.Payload) + len(f.ID) + foldOverhead
		if !log.TakeRoom(d.q.x.closing, g.Room) {
			return
		}
		room += g.Room
	}
	log.AwaitRoom(d.q.x.closing)
	f.Groups = groups
}

// groups makes as few of payloads as let it.
func (d *folder) groups(id string, data [][]byte) (groups []shard.FoldGroup) {
	for from := 0; len(data)-from > 1; {
		p := d.fold(id, data[from:], func(error) bool { return false })
		if p.payload != nil {
			groups = append(groups, shard.FoldGroup{From: from, To: from + p.n, Payload: p.payload})
		}
		from += max(p.n, 1)
	}
	return groups
}

// admit has a call that brings payloads wait for what is folded of their ids, if many
// have come meanwhile.
func (d *folder) admit(ctx context.Context, entries []journal.Entry) error {
	if d == nil || d.busy.Load() == 0 {
		return nil
	}
	for i := range entries {
		o := d.crowded(string(entries[i].ID))
		if o == nil {
			continue
		}
		patience := time.NewTimer(foldPatience)
		defer patience.Stop()
		select {
		case <-o.over:
		case <-patience.C:
			o.late.Store(true)
		case <-d.q.x.closing:
		case <-done(ctx):
			return ended(ctx)
		}
	}
	return nil
}

// crowded counts a payload, and returns what it has to wait for.
func (d *folder) crowded(id string) *foldOut {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.out[id]
	if o == nil || o.late.Load() {
		return nil
	}
	if o.come++; o.come <= foldCrowd {
		return nil
	}
	return o
}

// close ends the goroutines that are not at work.
func (d *folder) close() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed, d.waiting = true, nil
}

// awaitFolders gives the goroutines that fold some time to return. What they do after it
// changes nothing any more.
func (x *Executor) awaitFolders() {
	folds := false
	for _, q := range x.queues { // no more are made
		folds = folds || q.folder != nil
	}
	if !folds {
		return
	}
	over := make(chan struct{})
	go func() {
		x.folding.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(stuckAfter):
	}
}
