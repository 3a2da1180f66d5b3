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
//     have come meanwhile, for a second at most.
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
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// errExited is what a pass has come to whose user code called Goexit.
var errExited = errors.New("executor: QueueConfig.Gather.Fold called runtime.Goexit")

// Sum is what some payloads have become. Its methods are code of the program.
type Sum interface {
	// Add adds one more payload: undecodable is why it does not decode, and then it has no part.
	Add(payload []byte) (undecodable, err error)
	Encode() ([]byte, error)
	// Check returns an error for an outcome that does not decode.
	Check(payload []byte) error
}

// pass is what a pass has come to.
type pass struct {
	n       int    // payloads that went into it, or don't decode
	payload []byte // nil: no two of them became one
	bad     map[int]error
	err     error // why it ended before the last payload, or came to nothing
	reason  string
}

// fold makes payloads one, as many from the first on as let it. Those that don't decode are
// passed over if skip says so, or else the last one is before them.
func (f *Folder) fold(id string, data [][]byte, skip func(error) bool) pass {
	most := len(data)
	for failed := false; ; {
		p := f.pass(data[:most], skip)
		if p.err == nil || most == 1 {
			return p
		}
		f.c.Failed(id, p.err, p.reason)
		switch {
		case p.n == most: // what it became is no payload
			most = (most + 1) / 2
		case failed:
			most = 1
		default:
			most, failed = max(p.n, 1), true
		}
	}
}

// pass calls user code on a goroutine of its own, which it may end.
func (f *Folder) pass(data [][]byte, skip func(error) bool) pass {
	p := &pass{err: errExited, reason: errExited.Error()}
	over := make(chan struct{})
	go func() {
		defer close(over)
		if p.err = f.c.Guard(func() error { return f.passOver(p, data, skip) }); p.err != nil {
			p.reason = f.c.Text(p.err)
		}
	}()
	<-over
	return *p
}

func (f *Folder) passOver(p *pass, data [][]byte, skip func(error) bool) error {
	sum := f.c.Sum()
	folded, bytes := 0, 0
	look := f.c.MaxBytes // so many bytes may have become one that is too large
	for ; p.n < len(data); p.n++ {
		undecodable, err := sum.Add(data[p.n])
		switch {
		case undecodable != nil && !skip(undecodable):
			return undecodable
		case undecodable != nil:
			if p.bad == nil {
				p.bad = make(map[int]error)
			}
			p.bad[p.n] = undecodable
			continue
		case err != nil:
			return err
		}
		folded++
		if bytes += len(data[p.n]); folded > 1 && bytes > look {
			if _, err := f.encode(sum, folded); err != nil {
				return err
			}
			look = 2 * bytes
		}
	}
	if folded < 2 {
		return nil
	}
	payload, err := f.encode(sum, folded)
	if err == nil {
		err = sum.Check(payload)
	}
	if err == nil {
		p.payload = append(make([]byte, 0, len(payload)), payload...) // not nil
	}
	return err
}

// encode encodes what some payloads became, if it is not too large.
func (f *Folder) encode(sum Sum, folded int) ([]byte, error) {
	payload, err := sum.Encode()
	if most := f.c.MaxBytes; err == nil && len(payload) > most {
		err = fmt.Errorf("%w: %d payloads became one of %d bytes, the limit is %d", f.c.TooLarge, folded, len(payload), most)
	}
	return payload, err
}

// Item makes the payloads of an item one, or those before the first that does not go together
// with them. If one can't be read, the first runs alone: what is wrong is found out when that
// is decoded, or by the next run.
func (f *Folder) Item(it *shard.Item) {
	if len(it.Payloads) < 2 {
		return
	}
	data := make([][]byte, len(it.Payloads))
	for i, p := range it.Payloads {
		var e journal.Entry
		if p.Ref.Read(&e) != nil {
			it.Fold(1, nil)
			return
		}
		data[i] = e.Payload
	}
	p := f.fold(it.ID, data, func(err error) bool { return f.c.Skip(it, err) })
	for i := range p.n {
		if err := p.bad[i]; err != nil {
			it.Outcome.AddPart(shard.Part{Index: i, Verdict: shard.VerdictCanceled, Error: f.c.Refused(err)})
		}
	}
	it.Fold(max(p.n, 1), p.payload)
}

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

	Sum     func() Sum                             // of no payloads yet
	Guard   func(func() error) error               // calls user code
	Text    func(err error) string                 // of an error of user code
	Failed  func(id string, err error, why string) // is told why a pass came to nothing
	Skip    func(it *shard.Item, err error) bool   // whether a payload that does not decode never will
	Refused func(err error) string                 // what is told of such a payload
}

// Folder folds what waits for the ids of a queue, off its shards.
type Folder struct {
	c    Config
	busy atomic.Int64 // len(out)

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
func New(c Config) *Folder { return &Folder{c: c, out: make(map[string]*out)} }

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
	fold, f.waiting = f.waiting[0], f.waiting[1:]
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
		if !log.TakeRoom(f.c.Closing, g.Room) {
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
	for i := range entries {
		o := f.crowded(string(entries[i].ID))
		if o == nil {
			continue
		}
		late := time.NewTimer(patience)
		defer late.Stop()
		select {
		case <-o.over:
		case <-late.C:
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
