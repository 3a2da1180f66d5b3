package journal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal/internal/store"
)

// Who peeks sees an entry as it was or that it is gone, whatever ends, is carried
// forward or leaves memory meanwhile; what lives is found all the time.
func TestPeekBesideEverything(t *testing.T) {
	f := startEvict(t, Config{MemoryBudget: 1, trimSlack: 1, minCarry: 100 << 10})
	f.add(2000)
	refs := f.refs[:2000:2000]
	var over atomic.Bool
	errs := make([]error, 4)
	var peekers sync.WaitGroup
	for g := range errs {
		peekers.Go(func() {
			for r := rand.New(rand.NewPCG(uint64(g), 0)); errs[g] == nil && !over.Load(); {
				n := r.IntN(len(refs))
				found, err := comparePeek(refs[n], n)
				if errs[g] = err; err == nil && !found && n%5 == 0 {
					errs[g] = fmt.Errorf("entry %d lives and is gone", n)
				}
			}
		})
	}
	for from := 0; from < 2000; from += 100 {
		var ended []Ref
		for n := from; n < from+100; n++ {
			if n%5 != 0 {
				ended = append(ended, refs[n])
			}
		}
		f.log.Record(&Change{Ended: ended})
		f.log.Record(&Change{Sets: []Set{{Key: "test", Value: []byte("x")}}})
		f.settle()
	}
	over.Store(true)
	peekers.Wait()
	require.NoError(t, errors.Join(errs...))
	missing := 0
	for n, ref := range refs {
		found, err := comparePeek(ref, n)
		require.NoError(t, err)
		require.True(t, found || n%5 != 0)
		if !found {
			missing++
		}
	}
	require.NotZero(t, missing, "the test ends what it peeks at")
	require.NoError(t, f.log.Err())
	require.NoError(t, f.log.Close())
}

func comparePeek(ref Ref, n int) (found bool, err error) {
	var e Entry
	found, err = ref.Peek(&e)
	if found && !bytes.Equal(e.Payload, evictPayload(n)) {
		return found, fmt.Errorf("entry %d was peeked at as %s", n, e.ID)
	}
	if err != nil {
		return found, err
	}
	id, found, err := ref.PeekID()
	if found && string(id) != fmt.Sprint("id-", n) {
		return found, fmt.Errorf("entry %d was peeked at as %s", n, id)
	}
	return found, err
}

// brokenStore can't read.
type brokenStore struct{ store.Store }

var errBrokenStore = errors.New("the disk says no")

func (s *brokenStore) Read(uint64, int, int) ([]byte, error) { return nil, errBrokenStore }

func TestPeekFailsNothing(t *testing.T) {
	var refs []Ref
	l := newLog(&brokenStore{new(store.Memory)}, Config{MemoryBudget: 1, Deliver: func(d *Delivery) {
		for i := range d.Len() {
			refs = append(refs, must(d.Read(i, new(Entry))))
		}
		d.Done()
	}}, false)
	require.NoError(t, l.boot())
	f := &evictRig{T: t, log: l}
	_, err := l.Append(t.Context(), []Entry{{Queue: modelQueue, ID: []byte("id"), Payload: evictPayload(0)}}, nil)
	require.NoError(t, err)
	f.settle()
	require.NotNil(t, refs[0].Block.Home.Load().Cold)
	found, err := refs[0].Peek(new(Entry))
	require.ErrorIs(t, err, errBrokenStore)
	require.NotErrorIs(t, err, ErrFailed)
	require.False(t, found)
	_, _, err = refs[0].PeekID()
	require.ErrorIs(t, err, errBrokenStore)
	require.NoError(t, l.Err(), "the log goes on")
	require.ErrorIs(t, refs[0].Read(new(Entry)), ErrFailed, "a reader who needs it has it stop")
	_ = l.Close() // says so once more
}
