package journal

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strandjobs/strand/journal/internal/store"
	"github.com/stretchr/testify/require"
)

// fullRig drives a log on a disk that is full now and then, and knows what has
// to be there in the end.
type fullRig struct {
	t        *testing.T
	r        *rand.Rand
	disk     *Memory
	log      *Log
	expected map[Position]string
	keys     map[string]string
	morgue   map[Position]bool
	states   map[Position]bool // which of them are states
	gone     map[Position]bool // refused: must never be seen
	posted   []string          // keys of posted calls
	calls    int
	images   []fullImage
	lives    map[Position]*fullLife
	last     int  // the last call that was a result
	frugal   bool // what is on the disk leaves memory

	mu   sync.Mutex
	refs []Ref // live ones that were delivered, or states
}

// fullImage is the disk after a commit, and what it was known to hold.
type fullImage struct {
	disk  *Memory
	known []Position // entries and states that were delivered or recorded by then
	last  int        // of results
}

// fullLife is which result an entry came from, if it is a state or a follow-up, and
// which one it ended with.
type fullLife struct{ born, ended int }

func startFull(t *testing.T, seed uint64) *fullRig {
	f := &fullRig{
		t: t, r: rand.New(rand.NewPCG(seed, 0)), disk: new(Memory), expected: make(map[Position]string),
		keys: make(map[string]string), states: make(map[Position]bool), morgue: make(map[Position]bool), gone: make(map[Position]bool),
		lives: make(map[Position]*fullLife),
	}
	f.frugal = seed%2 == 0
	f.open()
	f.disk.OnCommit(f.committed)
	return f
}

func (f *fullRig) committed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.images = append(f.images, fullImage{f.disk.Crash(), slices.Collect(maps.Keys(f.lives)), f.last})
}

func (f *fullRig) open() {
	cfg := tight(Config{Deliver: func(d *Delivery) {
		f.mu.Lock()
		for i := range d.Len() {
			r := must(d.Read(i, new(Entry)))
			f.refs = append(f.refs, r)
			if f.lives[r.Position()] == nil { // else it is a follow-up
				f.lives[r.Position()] = new(fullLife)
			}
		}
		f.mu.Unlock()
		d.Done()
	}})
	if f.frugal {
		cfg = frugal(cfg)
	}
	l, err := OpenMemory(f.disk, cfg)
	require.NoError(f.t, err)
	f.log = l
}

// together makes some calls meet in one block, if nothing is being committed.
func (f *fullRig) together() {
	held := f.log.committing.TryLock() // to wait for a mutex would stop the bubble's clock
	var tickets []Ticket
	var numbers [][]Position
	for range 1 + f.r.IntN(6) {
		if held && f.crowded() { // who waits for room waits for a commit
			f.log.committing.Unlock()
			held = false
		}
		if f.r.IntN(2) == 0 {
			f.record()
			continue
		}
		ticket, ps, ok := f.append()
		if ok {
			tickets, numbers = append(tickets, ticket), append(numbers, ps)
		}
	}
	if held {
		f.log.committing.Unlock()
	}
	for i, ticket := range tickets {
		err := ticket.Wait(f.t.Context())
		if err == nil {
			continue
		}
		require.ErrorIs(f.t, err, ErrFull)
		for _, p := range numbers[i] {
			delete(f.expected, p)
			f.gone[p] = true
		}
	}
	synctest.Wait() // for what was posted
}

// crowded reports whether the open block may have no room for a call of append.
func (f *fullRig) crowded() bool {
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	return f.log.open.Size()+2<<10 > f.log.cfg.MaxBlockBytes
}

// room ends all faults and gives the log some virtual time.
func (f *fullRig) room(d time.Duration) {
	f.disk.Limit(0)
	f.disk.Heal()
	time.Sleep(d)
	synctest.Wait()
}

// append enqueues some entries with a key. It returns the ticket of those who
// may be refused.
func (f *fullRig) append() (Ticket, []Position, bool) {
	f.calls++
	list := make([]Entry, 1+f.r.IntN(3))
	for i := range list {
		list[i] = Entry{Queue: modelQueue, ID: fmt.Appendf(nil, "id %d", f.r.IntN(9)),
			Route: uint32(f.r.IntN(3)), Payload: []byte(strings.Repeat("p", f.r.IntN(300)))}
	}
	key := fmt.Sprintf("test/call %d", f.calls)
	sets := func(first Position) []Set { return []Set{{Key: key, Value: fmt.Append(nil, first)}} }
	posted := f.r.IntN(3) == 0
	enqueue := f.log.Append
	if posted {
		enqueue = f.log.Post
	}
	ticket, err := enqueue(f.t.Context(), list, sets)
	if err != nil {
		require.ErrorIs(f.t, err, ErrFull)
		return ticket, nil, false
	}
	var ps []Position
	for i := range list {
		p := ticket.Position(i)
		ps = append(ps, p)
		f.expected[p] = string(list[i].ID) + string(list[i].Payload)
	}
	f.keys[key] = fmt.Sprint(ps[0])
	if posted {
		f.posted = append(f.posted, key)
	}
	return ticket, ps, !posted
}

// record gives a result: ends something, with or without a state or a burial,
// and keys, perhaps one that may still wait for room.
func (f *fullRig) record() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	f.last = f.calls
	var c Change
	take := func() (Ref, bool) {
		if len(f.refs) == 0 {
			return Ref{}, false
		}
		i := f.r.IntN(len(f.refs))
		r := f.refs[i]
		f.refs = append(f.refs[:i], f.refs[i+1:]...)
		delete(f.expected, r.Position())
		f.lives[r.Position()].ended = f.calls
		return r, true
	}
	if r, ok := take(); ok {
		c.Ended = append(c.Ended, r)
	}
	if r, ok := take(); ok {
		if !f.states[r.Position()] {
			c.Buried = append(c.Buried, Burial{Ref: r, Reason: "no luck"})
			f.morgue[r.Position()] = true
		} else {
			c.Ended = append(c.Ended, r)
		}
	}
	if f.r.IntN(2) == 0 {
		c.States = []JobState{{Entry: Entry{Queue: modelQueue, ID: []byte("id"), Error: []byte(strings.Repeat("e", f.r.IntN(200)))}}}
	}
	if f.r.IntN(8) == 0 { // a new queue, waited for or not
		name := fmt.Sprint("queue ", f.calls)
		go func() { _, _ = f.log.Queue(f.t.Context(), name) }()
		runtime.Gosched()
	}
	key := fmt.Sprintf("test/result %d", f.calls)
	c.Sets, f.keys[key] = []Set{{Key: key, Value: []byte("x")}}, "x"
	if n := len(f.posted); n > 0 {
		late := f.posted[f.r.IntN(n)]
		if f.r.IntN(2) == 0 {
			c.Sets, f.keys[late] = append(c.Sets, Set{Key: late, Value: []byte("y")}), "y"
		} else {
			c.Sets = append(c.Sets, Set{Key: late})
			delete(f.keys, late)
		}
	}
	if f.r.IntN(2) == 0 {
		f.follow(&c)
	}
	f.log.Record(&c)
	for _, e := range c.FollowUps {
		f.lives[e.Position] = &fullLife{born: f.calls}
		f.expected[e.Position] = string(e.ID) + string(e.Payload)
		f.keys[fmt.Sprint("test/follow-up ", e.Position)] = "x"
	}
	for _, s := range c.States {
		f.refs = append(f.refs, s.Ref)
		f.lives[s.Ref.Position()] = &fullLife{born: f.calls}
		f.states[s.Ref.Position()] = true
		f.expected[s.Ref.Position()] = string(s.Entry.ID) + string(s.Entry.Error)
	}
}

// follow has the result accept some payloads, with a key for each.
func (f *fullRig) follow(c *Change) {
	n := 1 + f.r.IntN(3)
	for i := range n {
		c.FollowUps = append(c.FollowUps, Entry{Queue: modelQueue, ID: fmt.Append(nil, "after ", f.calls, i),
			Route: uint32(f.r.IntN(3)), Payload: []byte(strings.Repeat("f", f.r.IntN(300)))})
	}
	c.With = func(first Position) (sets []Set) {
		for i := range n {
			sets = append(sets, Set{Key: fmt.Sprint("test/follow-up ", first+Position(i)), Value: []byte("x")})
		}
		return sets
	}
}

// found reads a disk and says what is on it.
func (f *fullRig) found(disk *Memory) (live map[Position]string, keys map[string]string, morgue map[Position]bool) {
	l, err := OpenMemory(disk, Config{})
	require.NoError(f.t, err)
	live, keys, morgue = make(map[Position]string), make(map[string]string), make(map[Position]bool)
	last := Position(0)
	for _, r := range slices.Concat(l.PendingPages(modelQueue)...) {
		var e Entry
		require.NoError(f.t, r.Read(&e))
		require.Greater(f.t, e.Position, last)
		last = e.Position
		live[e.Position] = string(e.ID) + string(e.Payload) + string(e.Error)
	}
	for s, err := range l.Keys("test/", "") {
		require.NoError(f.t, err)
		keys[s.Key] = string(s.Value)
	}
	for b, err := range l.Morgue(modelQueue, 0) {
		require.NoError(f.t, err)
		morgue[b.Entry.Position] = true
	}
	require.Equal(f.t, len(morgue), l.Buried(modelQueue))
	require.NoError(f.t, l.Close())
	return live, keys, morgue
}

// forgetRefused takes the keys of refused calls out of what is expected.
func (f *fullRig) forgetRefused() {
	for key, value := range f.keys {
		var p Position
		if _, err := fmt.Sscan(value, &p); err == nil && f.gone[p] {
			delete(f.keys, key)
		}
	}
}

// look holds a disk against what was recorded: of the results it has the first
// ones, whole, and nothing of those that came later.
func (f *fullRig) look(image fullImage) {
	live, keys, _ := f.found(image.disk)
	for p := range live {
		require.False(f.t, f.gone[p], "position %d was refused and is there after a crash", p)
	}
	durable := 0
	for n := 1; n <= image.last; n++ {
		if _, there := keys[fmt.Sprintf("test/result %d", n)]; there {
			durable = n
		}
	}
	for _, p := range image.known {
		life := f.lives[p]
		_, there := live[p]
		require.Equal(f.t, life.born <= durable && (life.ended == 0 || life.ended > durable), there,
			"position %d, born with result %d and ended with %d, on a disk with the results up to %d", p, life.born, life.ended, durable)
		if _, with := keys[fmt.Sprint("test/follow-up ", p)]; with {
			require.LessOrEqual(f.t, life.born, durable, "the key of position %d is there before it", p)
		}
	}
}

// A disk that is full at random moments, for a random time, loses nothing that
// was accepted and no result, and keeps nothing that was refused.
func TestFullNowAndThen(t *testing.T) {
	rounds := 300 / oneIn
	if long {
		rounds = 5000
	}
	for range rounds {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) {
			f := startFull(t, seed)
			defer func() {
				if t.Failed() {
					t.Log("seed", seed)
				}
			}()
			for range 30 {
				for range f.r.IntN(4) * f.r.IntN(4) {
					f.disk.FailNext(ErrFull)
				}
				if f.r.IntN(4) == 0 {
					f.disk.Limit(f.disk.Content() + f.r.IntN(3000))
				}
				f.together()
				if f.r.IntN(5) == 0 {
					f.room(time.Second)
					require.NoError(t, f.log.Err(), "it goes on by itself")
				}
			}
			f.room(time.Second)
			require.Equal(t, f.log.Stats().LiveBytes, f.liveBytes())
			require.Equal(t, len(f.morgue), f.log.Buried(modelQueue))
			require.Equal(t, len(f.morgue), f.log.Listed(modelQueue))
			require.NoError(t, f.log.Close())
			f.forgetRefused()
			live, keys, morgue := f.found(f.disk.Crash())
			require.Equal(t, f.expected, live)
			require.Equal(t, f.keys, keys)
			require.Equal(t, f.morgue, morgue)
			for _, image := range f.images {
				f.look(image)
			}
		})
	}
}

func (f *fullRig) liveBytes() (n int) {
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	for _, b := range f.log.chain.Blocks {
		n += b.Bytes
	}
	return n
}

// A disk that nothing but the log fills comes back by itself, once jobs end.
func TestFullByItself(t *testing.T) {
	t.Run("in memory", func(t *testing.T) { fullByItself(t, 1) })
	t.Run("on disk only", func(t *testing.T) { fullByItself(t, 2) })
}

func fullByItself(t *testing.T, seed uint64) {
	synctest.Test(t, func(t *testing.T) {
		f := startFull(t, seed)
		f.disk.OnCommit(nil)
		f.disk.Limit(256 << 10)
		var err error
		for n := 0; f.log.Err() == nil; n++ { // what is carried may give room back at first
			require.Less(t, n, 1000)
			var ticket Ticket
			ticket, err = f.log.Append(t.Context(), []Entry{{Queue: modelQueue, ID: fmt.Append(nil, n), Payload: make([]byte, 1000)}}, nil)
			if err == nil {
				err = ticket.Wait(t.Context())
			}
			if err != nil {
				time.Sleep(time.Second)
				synctest.Wait()
			}
		}
		require.ErrorIs(t, err, ErrFull)
		require.ErrorIs(t, f.log.Err(), ErrFull)
		accepted := len(f.refs)
		require.Greater(t, accepted, 150)

		// Every third job ends, with no room but what is kept for that.
		var ended []Ref
		for i := 0; i < accepted; i += 3 {
			ended = append(ended, f.refs[i])
		}
		for _, r := range ended {
			f.log.Record(&Change{Ended: []Ref{r}, Sets: []Set{{Key: fmt.Sprint("test/", r.Position()), Value: []byte("done")}}})
			synctest.Wait()
		}
		_, keys, _ := f.found(f.disk.Crash())
		require.Len(t, keys, len(ended), "results are on disk while it is full")
		time.Sleep(time.Second)
		synctest.Wait()
		require.NoError(t, f.log.Err(), "jobs that ended have given room")
		ticket, err := f.log.Append(t.Context(), []Entry{{Queue: modelQueue, ID: []byte("new"), Payload: make([]byte, 1000)}}, nil)
		require.NoError(t, err)
		require.NoError(t, ticket.Wait(t.Context()))
		require.NoError(t, f.log.Close())
		live, _, _ := f.found(f.disk.Crash())
		require.Len(t, live, accepted-len(ended)+1)
	})
}

// What was posted is lost only if the log is closed while the disk is full, and
// then Close says so.
func TestFullToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFull(t, 1)
		f.log.committing.Lock()
		_, err := f.log.Post(t.Context(), []Entry{{Queue: modelQueue, ID: []byte("posted")}}, nil)
		require.NoError(t, err)
		f.log.Record(&Change{Sets: []Set{{Key: "test/result", Value: []byte("x")}}})
		f.disk.FailNext(ErrFull)
		f.log.committing.Unlock()
		synctest.Wait()
		f.disk.FailNext(ErrFull)
		err = f.log.Close()
		if errors.Is(err, ErrFull) {
			require.ErrorIs(t, err, ErrFailed)
		} else {
			require.NoError(t, err)
		}
		live, keys, _ := f.found(f.disk.Crash())
		require.Equal(t, err == nil, len(live) == 1)
		require.Equal(t, map[string]string{"test/result": "x"}, keys)
	})
}

// Nobody waits for room on a disk that was full when the log was closed.
func TestFullForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFull(t, 1)
		f.disk.Limit(f.disk.Content() + 50)
		_, err := f.log.Post(t.Context(), []Entry{{Queue: modelQueue, ID: []byte("posted"), Payload: make([]byte, 100_000)}}, nil)
		require.NoError(t, err)
		synctest.Wait()
		err = f.log.Close()
		require.ErrorIs(t, err, ErrFull)
		require.ErrorIs(t, err, ErrFailed)
		f.disk.Limit(1 << 30)
		require.ErrorIs(t, f.log.Settled(t.Context()), ErrFailed)
		_, err = f.log.Arrived(t.Context(), 0)
		require.ErrorIs(t, err, ErrFailed)
	})
}

// The position of a call that was refused is not used again, and nothing is
// written for it alone.
func TestFullForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFull(t, 1)
		number, err := f.log.Queue(t.Context(), "orders")
		require.NoError(t, err)
		one := []Entry{{Queue: number, ID: []byte("id"), Payload: make([]byte, 100)}}
		f.disk.Limit(f.disk.Content() + 50)
		before := len(f.images)
		for range 10 {
			ticket, err := f.log.Append(t.Context(), one, nil)
			if err == nil {
				err = ticket.Wait(t.Context())
			}
			require.ErrorIs(t, err, ErrFull)
			time.Sleep(time.Second)
		}
		require.LessOrEqual(t, len(f.images), before+1, "once, to delete the block of the queue's name")
		f.room(time.Second)
		require.NoError(t, f.log.Err())

		f.log.Record(&Change{Sets: []Set{{Key: "test/result", Value: []byte("x")}}})
		synctest.Wait()
		ticket, err := f.log.Append(t.Context(), one, nil)
		require.NoError(t, err)
		require.NoError(t, ticket.Wait(t.Context()))
		require.Greater(t, ticket.Position(0), Position(1))
		for _, image := range f.images {
			f.found(image.disk)
		}
		require.NoError(t, f.log.Close())
	})
}

// What is appended while a block is on its way to a full disk is refused with it.
func TestFullMeanwhile(t *testing.T) {
	for _, posted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := startFull(t, 1)
			one := []Entry{{Queue: modelQueue, ID: []byte("id")}}
			failing, goOn := make(chan struct{}), make(chan struct{})
			f.log.store = &stopper{Store: f.disk, stop: func() { close(failing); <-goOn }}
			f.disk.FailNext(ErrFull)
			first, err := f.log.Append(t.Context(), one, nil)
			require.NoError(t, err)
			<-failing
			var second Ticket
			if posted {
				_, err = f.log.Post(t.Context(), one, nil)
			} else {
				second, err = f.log.Append(t.Context(), one, nil)
			}
			require.NoError(t, err)
			close(goOn)
			require.ErrorIs(t, first.Wait(t.Context()), ErrFull)
			if !posted {
				require.ErrorIs(t, second.Wait(t.Context()), ErrFull)
			}
			f.room(time.Second)
			f.log.Record(&Change{Sets: []Set{{Key: "test/result", Value: []byte("x")}}})
			require.NoError(t, f.log.Close())
			live, keys, _ := f.found(f.disk.Crash())
			require.Equal(t, posted, len(live) == 1)
			require.Len(t, keys, 1)
		})
	}
}

// stopper calls stop in the first commit.
type stopper struct {
	store.Store
	stop func()
}

func (s *stopper) Commit(t *store.Transaction) error {
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
	return s.Store.Commit(t)
}

// A disk that was short of room is so until it gives more, or has room to bury all that is live.
func TestFullDiskIsShortUntilThereIsRoom(t *testing.T) {
	var d fullDisk
	const live = 1 << 20
	for _, step := range []struct {
		says  string
		full  bool
		room  store.Room
		short bool
	}{
		{"at first", false, store.Room{Spare: shortRoom}, false},
		{"refused", true, store.Room{Spare: live, Gives: true}, true},
		{"room again, but not for all that is live", false, store.Room{Spare: live - 1}, true},
		{"room for all", false, store.Room{Spare: live}, false},
		{"it was never full since", false, store.Room{Spare: live - 1}, false},
		{"hardly any", false, store.Room{Spare: shortRoom - 1}, true},
		{"the disk gives", false, store.Room{Spare: shortRoom, Gives: true}, false},
	} {
		d.full = step.full
		d.gauge(step.room, live)
		require.Equal(t, step.short, d.short.Load(), step.says)
	}
}
