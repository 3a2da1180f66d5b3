package journal

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// orderRig is a disk without room at times, of which every commit is looked at.
type orderRig struct{ *fullRig }

func (o orderRig) add(payloads ...int) []Ref {
	var list []Entry
	for _, size := range payloads {
		list = append(list, Entry{Queue: modelQueue, ID: []byte("id"), Payload: make([]byte, size)})
	}
	ticket, err := o.log.Append(o.t.Context(), list, nil)
	require.NoError(o.t, err)
	require.NoError(o.t, ticket.Wait(o.t.Context()))
	refs := o.refs
	o.refs = nil
	return refs
}

// state records a state in the place of others.
func (o orderRig) state(ended ...Ref) Ref {
	c := &Change{Ended: ended, States: []JobState{{Entry: Entry{Queue: modelQueue, ID: []byte("id"), Error: []byte("failed")}}}}
	o.log.Record(c)
	return c.States[0].Ref
}

// live is how many entries a crash after each commit comes back to.
func (o orderRig) live() (n []int) {
	for _, image := range o.images {
		live, _, _ := o.found(image.disk)
		n = append(n, len(live))
	}
	return n
}

// Results are durable in the order in which they were recorded, also when there is
// no room for a block into which an entry and a state were carried, and these end
// meanwhile: their ends are in the block after it, behind what was recorded before
// them, and until that is on disk a crash comes back to both.
func TestCarriedAndEndedWhileThereIsNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := orderRig{startFull(t, 1)}
		o.log.committing.Lock() // so that all are in one block
		state := o.state()
		o.log.committing.Unlock()
		first := o.add(10, 10, 3000)
		stays := o.add(10)[0]

		o.images = nil
		o.disk.FailNext(ErrFull, ErrFull, ErrFull)
		o.log.Record(&Change{Ended: first[2:]})
		synctest.Wait() // for the committer, which now waits for room
		require.Equal(t, stays.Block.Seq, o.log.chain.Blocks[0].Seq, "the oldest block was carried forward")
		o.log.Record(&Change{Ended: []Ref{stays}})
		o.log.Record(&Change{Ended: []Ref{first[0], state}})
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []int{4, 4, 1}, o.live(), "the first result, what was carried, and the results since")
		require.NoError(t, o.log.Close())
	})
}

// The same of a state that was replaced before its block was sealed, when the
// block is written in pieces.
func TestReplacedStateInAnEarlierPiece(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := orderRig{startFull(t, 1)}
		job := o.add(10)
		o.images = nil
		o.log.committing.Lock()
		o.state(o.state(job...))
		o.log.committing.Unlock()
		o.disk.FailNext(ErrFull, ErrFull)
		o.log.wakeCommitter()
		synctest.Wait()
		require.Equal(t, []int{1, 1}, o.live(), "its job has a state after each of the pieces")
		require.NoError(t, o.log.Close())
	})
}

// A large block that is mostly alive is not carried where there is some room and not that much: it would
// be in the way of all results for good.
func TestALargeBlockIsNotCarriedIntoALittleRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := new(Memory)
		var refs []Ref
		l, err := OpenMemory(disk, Config{trimSlack: 1, Deliver: gathering(t, &refs)})
		require.NoError(t, err)
		queue, err := l.Queue(t.Context(), "q")
		require.NoError(t, err)
		for _, n := range []int{100, 150, 150} {
			appendMany(t, l, queue, n, 1000)
		}
		disk.Limit((disk.Content() + 20_000) * 16 / 15)
		l.Record(&Change{Ended: refs[100:]})
		require.NoError(t, l.Settled(t.Context()))
		l.Record(&Change{Ended: refs[:100]})
		require.NoError(t, l.Settled(t.Context()))
		require.NoError(t, l.Close())
	})
}

// Where the disk gives more, a block is carried that takes more than the file has room for.
func TestALargeBlockIsCarriedWhereTheDiskGivesMore(t *testing.T) {
	var refs []Ref
	l, err := Open(t.TempDir(), Config{trimSlack: 1, Deliver: gathering(t, &refs)})
	require.NoError(t, err)
	queue, err := l.Queue(t.Context(), "q")
	require.NoError(t, err)
	appendMany(t, l, queue, 1000, 2000) // they stay
	most := 0
	for range 60 {
		refs = nil
		appendMany(t, l, queue, 50, 2000)
		l.Record(&Change{Ended: refs})
		require.NoError(t, l.Settled(t.Context()))
		most = max(most, l.Stats().Bytes)
	}
	require.Less(t, most, 4<<20, "twice what is alive, and a little")
	require.NoError(t, l.Close())
}

// What is kept on a disk is for the largest block of which something is live, and gone with the last of these, whichever
// way they go.
func TestRoomIsKeptForTheLargestBlock(t *testing.T) {
	disk := new(Memory)
	var refs, live []Ref
	config := Config{trimSlack: 1, Deliver: gathering(t, &refs)}
	l, err := OpenMemory(disk, config)
	require.NoError(t, err)
	queue, err := l.Queue(t.Context(), "q")
	require.NoError(t, err)
	kept := func() {
		t.Helper()
		largest := 0
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, b := range l.chain.Blocks {
			if b.Live > 0 {
				largest = max(largest, b.Size)
			}
		}
		for _, more := range []int{0, 1 << 20} {
			room := l.chain.Kept(more)
			require.GreaterOrEqual(t, room, max(largest, more)*3/2-48<<10)
			require.LessOrEqual(t, room, max(largest*5/4, more)*3/2)
			require.True(t, max(largest, more) > 32<<10 || room == 0, "%d, and %d more: %d", largest, more, room)
		}
	}
	rand := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		refs = nil
		appendMany(t, l, queue, 1+rand.IntN(300), 1000)
		live = append(live, refs...)
		rand.Shuffle(len(live), func(i, j int) { live[i], live[j] = live[j], live[i] })
		n := rand.IntN(len(live) + 1)
		l.Record(&Change{Ended: live[:n]})
		live = live[n:]
		require.NoError(t, l.Settled(t.Context()))
		kept()
	}
	require.NoError(t, l.Close())
	l, err = OpenMemory(disk.Crash(), config)
	require.NoError(t, err)
	kept()
	l.Record(&Change{Ended: slices.Concat(l.PendingPages(queue)...)})
	require.NoError(t, l.Settled(t.Context()))
	require.Zero(t, l.chain.Kept(0))
	require.NoError(t, l.Close())
}

// A disk that is full comes back by itself where nothing is recorded, if what its oldest blocks have finds room behind
// the others: also a block that takes more than half of it.
func TestAFullDiskWithoutResultsComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := new(Memory)
		var refs []Ref
		l, err := OpenMemory(disk, Config{Deliver: gathering(t, &refs)})
		require.NoError(t, err)
		queue, err := l.Queue(t.Context(), "q")
		require.NoError(t, err)
		for _, n := range []int{10, 300, 100} {
			appendMany(t, l, queue, n, 1000)
		}
		l.Record(&Change{Ended: refs[310:]})
		require.NoError(t, l.Settled(t.Context()))
		disk.Fill(430<<10, 64<<10)
		ticket, err := l.Append(t.Context(), []Entry{{Queue: queue, ID: []byte("refused"), Payload: make([]byte, 1000)}}, nil)
		require.NoError(t, err)
		require.ErrorIs(t, ticket.Wait(t.Context()), ErrFull)
		time.Sleep(time.Minute)
		require.NoError(t, l.Err())
		require.NoError(t, l.Close())
	})
}

// A block that a full disk has no room to carry is not read back for that, time after time.
func TestABlockThatIsNotCarriedIsNotReadBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := new(Memory)
		var refs []Ref
		l, err := OpenMemory(disk, Config{MemoryBudget: 64 << 10, Deliver: gathering(t, &refs)})
		require.NoError(t, err)
		queue, err := l.Queue(t.Context(), "q")
		require.NoError(t, err)
		for _, n := range []int{300, 100} {
			appendMany(t, l, queue, n, 1000)
		}
		l.Record(&Change{Ended: refs[300:]})
		require.NoError(t, l.Settled(t.Context()))
		disk.Fill(200<<10, 64<<10)
		ticket, err := l.Append(t.Context(), []Entry{{Queue: queue, ID: []byte("refused"), Payload: make([]byte, 1000)}}, nil)
		require.NoError(t, err)
		require.ErrorIs(t, ticket.Wait(t.Context()), ErrFull)
		before := l.Stats().ReadBacks
		time.Sleep(time.Minute)
		require.ErrorIs(t, l.Err(), ErrFull)
		require.LessOrEqual(t, l.Stats().ReadBacks, before+1)
		disk.Fill(430<<10, 64<<10)
		time.Sleep(time.Second)
		require.NoError(t, l.Err(), "it is carried when there is room for it")
		require.NoError(t, l.Close())
	})
}

// What a full disk has refused is not in the block any more, and no room is kept to carry it.
func TestABlockInPiecesIsAsLargeAsItIsOnDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := new(Memory)
		l, err := OpenMemory(disk, Config{})
		require.NoError(t, err)
		queue, err := l.Queue(t.Context(), "q")
		require.NoError(t, err)
		disk.Fill(1<<20, 64<<10)
		l.committing.Lock() // so that both are in one block
		ticket, err := l.Append(t.Context(), []Entry{{Queue: queue, ID: []byte("large"), Payload: make([]byte, 2<<20)}}, nil)
		require.NoError(t, err)
		l.Record(&Change{States: []JobState{{Entry: Entry{Queue: queue, ID: []byte("id"), Error: []byte("failed")}}}})
		l.committing.Unlock()
		require.ErrorIs(t, ticket.Wait(t.Context()), ErrFull)
		synctest.Wait()
		l.mu.Lock()
		kept := l.chain.Kept(0)
		l.mu.Unlock()
		require.Zero(t, kept)
		time.Sleep(time.Second)
		appendMany(t, l, queue, 1, 1000)
		require.NoError(t, l.Close())
	})
}

// What was posted, and follow-ups, come into a block for which there is room to carry it, too, once jobs have ended.
func TestALargeCallWaitsForTheRoomToCarryIt(t *testing.T) {
	const large = 600 << 10
	calls := map[string]func(t *testing.T, l *Log, queue uint32, refs *[]Ref){
		"posted": func(t *testing.T, l *Log, queue uint32, refs *[]Ref) {
			ticket, err := l.Post(t.Context(), []Entry{{Queue: queue, ID: []byte("posted"), Payload: make([]byte, large)}}, nil)
			require.NoError(t, err)
			time.Sleep(10 * time.Second)
			require.ErrorIs(t, l.Err(), ErrFull)
			held, err := l.Arrived(t.Context(), ticket.Position(0))
			require.NoError(t, err)
			require.True(t, held)
			synctest.Wait()
			over := *refs
			*refs = nil
			l.Record(&Change{Ended: over})
			time.Sleep(time.Second)
			synctest.Wait()
			require.Len(t, *refs, 1)
		},
		"follow-ups": func(t *testing.T, l *Log, queue uint32, refs *[]Ref) {
			room := Room{Bytes: large + 1<<10}
			require.True(t, l.TryRoom(Room{Bytes: 100 << 10}))
			l.GiveRoomBack(100 << 10)
			require.False(t, l.TakeRoom(t.Context().Done(), room))
			synctest.Wait()
			over := *refs
			*refs = nil
			l.Record(&Change{Ended: over})
			require.NoError(t, l.Settled(t.Context()))
			require.True(t, l.TakeRoom(t.Context().Done(), room))
			c := &Change{Room: room.Bytes}
			c.FollowUps = []Entry{{Queue: queue, ID: []byte("follow-up"), Payload: make([]byte, large)}}
			l.Record(c)
			time.Sleep(time.Second)
			synctest.Wait()
			require.Len(t, *refs, 1)
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk, refs := new(Memory), []Ref(nil)
				l, err := OpenMemory(disk, Config{Deliver: gathering(t, &refs)})
				require.NoError(t, err)
				queue, err := l.Queue(t.Context(), "q")
				require.NoError(t, err)
				for range 22 {
					appendMany(t, l, queue, 30, 1000)
				}
				disk.Fill(1<<20, 64<<10)
				appendMany(t, l, queue, 1, 10) // so that it is known
				call(t, l, queue, &refs)
				require.NoError(t, l.Err(), "what is kept for it is there")
				require.NoError(t, l.Close())
			})
		})
	}
}

// What was posted does not wait for what there never will be.
func TestALargeCallThatCanNeverBeCarried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, refs := new(Memory), []Ref(nil)
		l, err := OpenMemory(disk, Config{Deliver: gathering(t, &refs)})
		require.NoError(t, err)
		queue, err := l.Queue(t.Context(), "q")
		require.NoError(t, err)
		disk.Fill(1<<20, 64<<10)
		_, err = l.Post(t.Context(), []Entry{{Queue: queue, ID: []byte("posted"), Payload: make([]byte, 600<<10)}}, nil)
		require.NoError(t, err)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, refs, 1)
		require.ErrorIs(t, l.Err(), ErrFull, "nothing is kept for it")
		l.Record(&Change{Ended: refs})
		time.Sleep(time.Second)
		require.NoError(t, l.Err())
		room := Room{Bytes: 600 << 10}
		require.True(t, l.TakeRoom(t.Context().Done(), room), "nor do follow-ups")
		l.GiveRoomBack(room.Bytes)
		require.NoError(t, l.Close())
	})
}

// A disk without the room to carry the largest block is short of it as soon as the log is open.
func TestAFullDiskIsShortFromTheStart(t *testing.T) {
	disk := new(Memory)
	l, err := OpenMemory(disk, Config{})
	require.NoError(t, err)
	queue, err := l.Queue(t.Context(), "q")
	require.NoError(t, err)
	appendMany(t, l, queue, 300, 1000)
	require.NoError(t, l.Close())
	disk = disk.Crash()
	disk.Fill(430<<10, 64<<10)
	l, err = OpenMemory(disk, Config{})
	require.NoError(t, err)
	require.True(t, l.Short())
	require.NoError(t, l.Close())
}

// gathering is a Deliver that keeps where entries are.
func gathering(t *testing.T, refs *[]Ref) func(*Delivery) {
	return func(d *Delivery) {
		for i := range d.Len() {
			var e Entry
			ref, err := d.Read(i, &e)
			assert.NoError(t, err)
			*refs = append(*refs, ref)
		}
		d.Done()
	}
}

// appendMany appends n entries in one call, and waits until they are taken in.
func appendMany(t *testing.T, l *Log, queue uint32, n, size int) {
	list := slices.Repeat([]Entry{{Queue: queue, ID: []byte("id"), Payload: make([]byte, size)}}, n)
	ticket, err := l.Append(t.Context(), list, nil)
	require.NoError(t, err)
	require.NoError(t, ticket.Wait(t.Context()))
}
