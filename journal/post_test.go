package journal

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A full disk refuses those who wait and keeps what was posted: no caller would
// learn that it went, and what came later would survive it.
func TestPostedEntriesOutliveAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := new(Memory)
		var delivered []Position
		l, err := OpenMemory(disk, Config{Deliver: func(d *Delivery) {
			var e Entry
			for i := range d.Len() {
				delivered = append(delivered, must(d.Read(i, &e)).Position())
			}
			d.Done()
		}})
		require.NoError(t, err)
		disk.FailNext(ErrFull, ErrFull, ErrFull)
		one := func(id string) []Entry { return []Entry{{Queue: 1, ID: []byte(id)}} }
		l.committing.Lock() // both in one block
		posted, err := l.Post(t.Context(), one("posted"), nil)
		require.NoError(t, err)
		waiting, err := l.Append(t.Context(), one("waiting"), nil)
		require.NoError(t, err)
		l.committing.Unlock()
		require.ErrorIs(t, waiting.Wait(t.Context()), ErrFull)
		_, err = l.Post(t.Context(), one("late"), nil)
		require.ErrorIs(t, err, ErrFull, "a caller who comes now can be told")

		time.Sleep(4 * fullRetry) // virtual
		synctest.Wait()
		require.NoError(t, l.Close())
		require.Equal(t, []Position{posted.Position(0)}, delivered)

		l, err = OpenMemory(disk, Config{})
		require.NoError(t, err)
		pending := slices.Concat(l.PendingPages(1)...)
		require.Len(t, pending, 1)
		require.Equal(t, posted.Position(0), pending[0].Position())
		require.NoError(t, l.Close())
	})
}

// What was posted and waits for room, and what handlers enqueue meanwhile, is delivered once
// and by id in the order of positions, wherever room comes and goes; and what handlers
// enqueue is on disk at once.
func TestFollowUpsAreBehindWhatWaitsForRoom(t *testing.T) {
	for seed := range uint64(400) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startBehind(t, seed)
				for range 40 {
					r.step()
				}
				r.disk.Heal()
				require.NoError(t, r.Settled(t.Context()))
				r.mu.Lock()
				image, delivered := r.disk.Crash(), maps.Clone(r.refs)
				r.mu.Unlock()
				r.compare(image, delivered)
				r.disk.Limit(0)
				time.Sleep(time.Minute) // virtual
				require.NoError(t, r.Flush(t.Context()))
				require.Len(t, r.refs, r.accepted-len(r.ended))
				live := r.Stats().LiveBytes
				require.NoError(t, r.Close())
				require.Equal(t, live, r.compare(r.disk, r.refs))
			})
		})
	}
}

// A block with nothing but a follow-up that was written before is refused: its place in the
// older block is free, so it stays.
func TestFollowUpThatIsWrittenAgainStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startBehind(t, 0)
		r.post(0, 10)
		synctest.Wait()
		r.disk.Fill(0, 8<<10)
		r.post(1, 10)
		synctest.Wait()
		r.follow(1, 2000)
		require.NoError(t, r.Settled(t.Context()))
		synctest.Wait()
		require.Empty(t, r.delivered[1])
		r.disk.Fill(1000, 8<<10)  // for what was posted
		time.Sleep(2 * fullRetry) // virtual
		synctest.Wait()
		require.Len(t, r.delivered[1], 1)
		r.disk.Fill(8<<10, 8<<10)
		r.disk.FailNext(ErrFull)
		time.Sleep(2 * fullRetry)
		synctest.Wait()
		require.Len(t, r.delivered[1], 2)
		r.Record(&Change{Ended: []Ref{r.refs[r.delivered[0][0]]}})
		delete(r.refs, r.delivered[0][0])
		require.NoError(t, r.Flush(t.Context()))
		r.compare(r.disk.Crash(), r.refs)
		require.NoError(t, r.Close())
	})
}

type behindRig struct {
	*rand.Rand
	*Log
	t         *testing.T
	disk      *Memory
	mu        sync.Mutex
	accepted  int
	delivered [3][]Position // by id
	refs      map[Position]Ref
	followed  []Position
	ended     []Position
}

func startBehind(t *testing.T, seed uint64) *behindRig {
	r := &behindRig{t: t, Rand: rand.New(rand.NewPCG(seed, 0)), disk: new(Memory), refs: make(map[Position]Ref)}
	var err error
	r.Log, err = OpenMemory(r.disk, Config{Deliver: r.deliver})
	require.NoError(t, err)
	return r
}

func (r *behindRig) deliver(d *Delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var e Entry
	for i := range d.Len() {
		ref := must(d.Read(i, &e))
		list := &r.delivered[e.ID[0]]
		require.True(r.t, len(*list) == 0 || (*list)[len(*list)-1] < e.Position)
		*list = append(*list, e.Position)
		r.refs[e.Position] = ref
	}
	d.Done()
}

func (r *behindRig) step() {
	id, size := byte(r.IntN(3)), r.IntN(2)*r.IntN(900)
	switch r.IntN(7) {
	case 0:
		r.disk.Fill(r.IntN(4)*200, 8<<10)
	case 1:
		r.disk.FailNext(ErrFull)
	case 2:
		time.Sleep(fullRetry) // virtual
	case 3:
		synctest.Wait()
	case 4:
		r.post(id, size)
	case 5:
		r.follow(id, size)
	case 6:
		r.end(id)
	}
}

func (r *behindRig) post(id byte, size int) {
	if _, err := r.Post(r.t.Context(), []Entry{{Queue: 1, ID: []byte{id}, Payload: make([]byte, size)}}, nil); err == nil {
		r.accepted++
	}
}

func (r *behindRig) follow(id byte, size int) {
	some := []Entry{{Queue: 1, ID: []byte{id}, Payload: make([]byte, size)}}
	r.Record(&Change{FollowUps: some})
	r.accepted++
	r.followed = append(r.followed, some[0].Position)
}

// end ends half of what was delivered of an id.
func (r *behindRig) end(id byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.delivered[id] {
		if ref, ok := r.refs[p]; ok && r.IntN(2) == 0 {
			r.Record(&Change{Ended: []Ref{ref}})
			r.ended = append(r.ended, p)
			delete(r.refs, p)
		}
	}
}

// compare opens a disk, which has all that was delivered and all follow-ups, each once.
func (r *behindRig) compare(disk *Memory, delivered map[Position]Ref) (live int) {
	l, err := OpenMemory(disk, Config{})
	require.NoError(r.t, err)
	var found []Position
	for _, ref := range slices.Concat(l.PendingPages(1)...) {
		found = append(found, ref.Position())
		if known, ok := delivered[ref.Position()]; ok {
			var a, b Entry
			require.NoError(r.t, ref.Read(&a))
			require.NoError(r.t, known.Read(&b))
			require.Equal(r.t, a.Payload, b.Payload)
		}
	}
	slices.Sort(found)
	require.Equal(r.t, slices.Compact(slices.Clone(found)), found)
	require.Subset(r.t, found, slices.Collect(maps.Keys(delivered)))
	require.Subset(r.t, append(found, r.ended...), r.followed)
	live = l.Stats().LiveBytes
	require.NoError(r.t, l.Close())
	return live
}
