package journal

import (
	"fmt"
	"testing"

	"github.com/strandjobs/strand/journal/internal/store"
	"github.com/stretchr/testify/require"
)

// dropStore notes the most that a commit deletes.
type dropStore struct {
	store.Store
	most int
}

func (s *dropStore) Commit(t *store.Transaction) error {
	s.most = max(s.most, len(t.Drop))
	return s.Store.Commit(t)
}

// A block with something live stands before thousands that have run empty. When it is carried they leave the log, some with
// each commit, also what is written to the log meanwhile.
func TestManyEmptyBlocksLeaveSomeAtATime(t *testing.T) {
	s := &dropStore{Store: new(store.Memory)}
	var refs []Ref
	l := newLog(s, Config{MemoryBudget: 1, trimSlack: 1, Deliver: func(d *Delivery) {
		for i := range d.Len() {
			refs = append(refs, must(d.Read(i, new(Entry))))
		}
		d.Done()
	}}, false)
	require.NoError(t, l.boot())
	f := &evictRig{T: t, log: l}
	add := func(id string, payload int) {
		_, err := l.Append(t.Context(), []Entry{{Queue: modelQueue, ID: []byte(id), Payload: make([]byte, payload)}}, nil)
		require.NoError(t, err)
		f.settle()
	}
	add("reminder", 1<<19)
	most, carried := 0, 0
	for i := 0; carried == 0; i++ {
		add(fmt.Sprint(i), 10)
		l.Record(&Change{Ended: refs[1:]})
		refs = refs[:1]
		if n := l.Stats().Blocks; n < most {
			carried = i
		} else {
			most = n
		}
	}
	require.Greater(t, most, 3000)
	for i := range 5 {
		add(fmt.Sprint("after ", i), 10)
	}
	require.LessOrEqual(t, l.Stats().Blocks, 10)
	require.LessOrEqual(t, s.most, 1100)
	require.NoError(t, refs[0].Read(new(Entry)))
	require.NoError(t, l.Close())
}
