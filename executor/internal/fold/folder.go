// Package fold makes payloads that wait for one id into one, with a function of the program.
//
// What waits is folded by the worker that runs the id, just before the handler is called
// (Item), and what waits for long also meanwhile (Add). Both go through passes: one decodes
// payloads, calls the function for one after the other, and encodes the outcome. A pass that
// fails may have left anything in the values that it had, so another one begins from the bytes.
//
// # What is promised
//
//   - What becomes one is as long a row of payloads as goes together, from the first on, in
//     their order. A payload that does not decode ends the row, or is left out where a retry
//     could not help. What is too large is not made of all that waits, to find it out.
//   - A fold that was given back with nothing changes nothing: the log is short of room, a
//     payload is gone, or user code has failed.
//   - A call that brings payloads for an id which is being folded waits for that when 2048
//     have come meanwhile: for a second at most, of however many ids it brings some.
//   - After Close nothing new begins. What is under way changes nothing any more.
//
// # Concurrency
//
// All methods may be called from any goroutine; Add is called by shards. User code runs on a
// goroutine of its own for each pass, which it may end, and not under the lock. Goroutines: up
// to four for a queue while what waits is folded, one more for each that has been at it for a
// second, and one for each pass.
package fold

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

const (
	// most is how many goroutines fold what waits, for a queue.
	most = 4
	// patience is after how long another goroutine folds beside one that is at it still, and
	// a call to Enqueue waits for it no longer.
	patience = time.Second
	// crowd is how many calls to Enqueue may come for an id while what waits for it is
	// folded, before the next ones wait.
	crowd = 2048
	// overhead is more than an entry takes beside payload and id.
	overhead = 1 << 10
)

// Config is what a folder has to know of its queue.
type Config struct {
	Log      *journal.Log
	Closing  <-chan struct{} // closed when a stop begins
	Go       func(func())    // begins a goroutine
	MaxBytes int             // of a payload
	TooLarge error           // what is larger wraps it

	Failed  func(id string, err error, why string) // is told why a pass came to nothing
	Skip    func(it *shard.Item, err error) bool   // whether a payload that does not decode never will
	Refused func(err error) string                 // what is told of such a payload
}

// Folder folds what waits for the ids of a queue, off its shards.
type Folder struct {
	c    Config
	busy atomic.Int64 // len(out)

	passOver func(c *Config, p *pass, data [][]byte, skip func(error) bool) error // that of the Program

	// mu is held for memory work only.
	mu      sync.Mutex
	waiting []*shard.Fold
	out     map[string]*out // by id, with those that wait
	running int             // goroutines, without those that are late
	closed  bool
}

// out is a fold that is not over yet.
type out struct {
	over chan struct{}
	come int         // payloads since
	late atomic.Bool // nobody waits for it any more
}

// New returns the folder of a queue.
func New[T any](c Config, of Program[T]) *Folder {
	return &Folder{c: c, passOver: of.passOver, out: make(map[string]*out)}
}

// Add takes in what is to be folded.
func (f *Folder) Add(fold *shard.Fold) {
	o := &out{over: make(chan struct{})}
	fold.Over = func(bool) { f.over(fold.ID, o) }
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	f.out[fold.ID] = o
	f.busy.Store(int64(len(f.out)))
	f.waiting = append(f.waiting, fold)
	f.begin()
}

// over ends the wait of those who wait for a fold.
func (f *Folder) over(id string, o *out) {
	close(o.over)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.out[id] == o { // and not that of what came after a run
		delete(f.out, id)
		f.busy.Store(int64(len(f.out)))
	}
}

// begin starts a goroutine if there is something for it. mu is held.
func (f *Folder) begin() {
	if f.running < most && len(f.waiting) > 0 && !f.closed {
		f.running++
		f.c.Go(f.work)
	}
}

func (f *Folder) work() {
	for fold := f.next(); fold != nil; fold = f.next() {
		late := time.AfterFunc(patience, f.replace)
		f.do(fold)
		if !late.Stop() {
			return // another one may be at work in its place
		}
	}
}

func (f *Folder) next() (fold *shard.Fold) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.waiting) == 0 || f.closed {
		f.running--
		return nil
	}
	fold, f.waiting[0] = f.waiting[0], nil // what it holds may be large
	if f.waiting = f.waiting[1:]; len(f.waiting) == 0 {
		f.waiting = nil
	}
	return fold
}

// replace gives the turn of a goroutine that is late to another one.
func (f *Folder) replace() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running--
	f.begin()
}

// do folds what waits for an id, and gives it back to its shard, with nothing folded if it has
// gone, or the disk has no room.
func (f *Folder) do(fold *shard.Fold) {
	log, over, room := f.c.Log, fold.Over, 0
	fold.Over = func(applied bool) {
		if !applied {
			log.GiveRoomBack(room)
		}
		over(applied)
	}
	defer fold.Shard.Folded(fold)
	if log.Short() {
		return
	}
	data := make([][]byte, fold.Len())
	for i := range data {
		var e journal.Entry
		found, err := fold.Read(i, &e)
		if !found || err != nil {
			return // who needs it finds out
		}
		data[i] = e.Payload
	}
	groups := f.groups(fold.ID, data)
	for i := range groups {
		g := &groups[i]
		g.Room = len(g.Payload) + len(fold.ID) + overhead
		if !log.TakeRoom(f.c.Closing, journal.Room{Bytes: g.Room}) {
			return
		}
		room += g.Room
	}
	log.AwaitRoom(f.c.Closing)
	fold.Groups = groups
}

// groups makes as few of payloads as let it.
func (f *Folder) groups(id string, data [][]byte) (groups []shard.FoldGroup) {
	for from := 0; len(data)-from > 1; {
		p := f.fold(id, data[from:], func(error) bool { return false })
		if p.payload != nil {
			groups = append(groups, shard.FoldGroup{From: from, To: from + p.n, Payload: p.payload})
		}
		from += max(p.n, 1)
	}
	return groups
}

// Admit has a call that brings payloads wait for what is folded of their ids, if many have
// come meanwhile. It returns false when the channel of done was closed first.
func (f *Folder) Admit(entries []journal.Entry, done func() <-chan struct{}) bool {
	if f == nil || f.busy.Load() == 0 {
		return true
	}
	var late chan struct{} // closed when the call waits no longer; nil: it has not waited
	for i := range entries {
		o := f.crowded(string(entries[i].ID))
		if o == nil {
			continue
		}
		if late == nil {
			late = make(chan struct{})
			defer time.AfterFunc(patience, func() { close(late) }).Stop()
		}
		select {
		case <-o.over:
		case <-late:
			o.late.Store(true)
		case <-f.c.Closing:
		case <-done():
			return false
		}
	}
	return true
}

// crowded counts a payload, and returns what it has to wait for.
func (f *Folder) crowded(id string) *out {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.out[id]
	if o == nil || o.late.Load() {
		return nil
	}
	if o.come++; o.come <= crowd {
		return nil
	}
	return o
}

// Close ends the goroutines that are not at work.
func (f *Folder) Close() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed, f.waiting = true, nil
}
