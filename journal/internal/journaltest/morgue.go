package journaltest

import (
	"errors"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

func toRoute(route uint32) func([]byte) uint32 { return func([]byte) uint32 { return route } }

// bury appends n payloads and buries them.
func (f *fixture) bury(n int) []Got {
	f.t.Helper()
	before := len(f.taken())
	list := f.entries(before, n, 20)
	for i := range list {
		list[i].Score = float64(1000 - i)
		list[i].Due += 1e9
		list[i].Metadata = journal.NewMetadata(map[string]string{"number": strconv.Itoa(i)})
	}
	f.append(list...)
	got := f.taken()[before:]
	var c journal.Change
	for i, g := range got {
		history := journal.History(nil).Add("", journal.Failure{Attempt: i, At: 7})
		c.Buried = append(c.Buried, journal.Burial{Ref: g.Ref, Retry: i, Reason: "no luck", At: int64(i) * 1e9, History: history, Crashed: i == 1})
	}
	f.record(c)
	return got
}

func testBurial(t *testing.T, f *fixture) {
	want := f.bury(3)
	for f := range f.lasting {
		got := f.morgue()
		require.Len(t, got, 3)
		for i, b := range got {
			assert.Equal(t, []journal.Failure{{Attempt: i, At: 7, Text: "no luck"}}, b.History.Failures(b.Reason))
			b.History = nil
			assert.Equal(t, journal.Buried{Entry: want[i].Entry, Retry: i, Reason: "no luck", At: int64(i) * 1e9, Crashed: i == 1}, b)
		}
		assert.Empty(t, f.pending(), "a buried payload has ended")
		for range f.Morgue(f.queue+1, 0) {
			t.Error("another queue's morgue has something")
		}
	}
}

// What a change takes out of the morgue goes with it, also in the commit that has buried it.
func testExhumed(t *testing.T, f *fixture) {
	dead := f.bury(3)
	before := len(f.taken())
	f.append(f.entries(before, 1, 20)...)
	late := f.taken()[before]
	f.record(journal.Change{
		Buried:  []journal.Burial{{Ref: late.Ref, Reason: "no luck"}},
		Exhumed: []journal.Position{dead[0].Entry.Position, dead[2].Entry.Position}, Queue: f.queue,
	})
	f.record(journal.Change{Exhumed: []journal.Position{late.Entry.Position}, Queue: f.queue})
	require.ErrorIs(t, f.restore(dead[1].Entry.Position, dead[2].Entry.Position), journal.ErrNotFound)
	for f := range f.lasting {
		require.Equal(t, 1, f.Buried(f.queue))
		got := f.morgue()
		require.Len(t, got, 1)
		assert.Equal(t, dead[1].Entry, got[0].Entry)
		assert.Empty(t, f.pending())
	}
}

func testRestore(t *testing.T, f *fixture) {
	want := f.bury(3)
	f.append(f.entries(10, 1, 1)...)
	before := f.Stats().Next
	ps := []journal.Position{want[2].Entry.Position, want[0].Entry.Position, want[2].Entry.Position}
	require.NoError(t, f.Restore(t.Context(), f.queue, ps, 77, toRoute(5)))
	assert.Equal(t, before, f.Stats().Next, "no new positions")
	check := func(e, old journal.Entry) {
		t.Helper()
		old.Restored, old.Accepted, old.Due = true, old.AcceptedAt(), 77
		assert.Equal(t, old, e)
	}
	require.Len(t, f.got[5], 2, "once, though listed twice")
	check(f.got[5][0].Entry, want[0].Entry)
	check(f.got[5][1].Entry, want[2].Entry)
	for _, f := range []*fixture{f.crashed(), f.again()} {
		got := f.pending()
		require.Len(t, got, 3)
		check(got[0], want[0].Entry)
		check(got[1], want[2].Entry)
		assert.False(t, got[2].Restored)
		left := f.morgue()
		require.Len(t, left, 1)
		assert.Equal(t, want[1].Entry.Position, left[0].Entry.Position)
	}
}

func testRestoreTogether(t *testing.T, f *fixture) {
	p := f.bury(1)[0].Entry.Position
	answers := make(chan error, 8)
	for range cap(answers) {
		go func() { answers <- f.restore(p) }()
	}
	restored := 0
	for range cap(answers) {
		if err := <-answers; err == nil {
			restored++
		} else {
			assert.ErrorIs(t, err, journal.ErrNotFound)
		}
	}
	assert.Equal(t, 1, restored)
	assert.Len(t, f.got[5], 1)
	assert.Len(t, f.again().pending(), 1)
}

func testRestoreAllOrNone(t *testing.T, f *fixture) {
	p := f.bury(1)[0].Entry.Position
	assert.ErrorIs(t, f.restore(p, p+1), journal.ErrNotFound)
	assert.ErrorIs(t, f.Restore(t.Context(), f.queue+1, []journal.Position{p}, 0, toRoute(5)), journal.ErrNotFound)
	require.NoError(t, f.restore(), "nothing to restore")
	assert.Empty(t, f.got[5])
	assert.Len(t, f.again().morgue(), 1)
}

func testMorgueLong(t *testing.T, f *fixture) {
	want := f.bury(600)
	buried := each(f.morgue(), func(b journal.Buried) journal.Entry { return b.Entry })
	require.Equal(t, entriesOf(want), buried)
	for range f.Morgue(f.queue, 0) {
		break // a list may be left early
	}
}

func testMorgueLoop(t *testing.T, f *fixture) {
	f.bury(300)
	n := 0
	for b, err := range f.Morgue(f.queue, 0) {
		require.NoError(t, err)
		if n%10 == 0 {
			require.NoError(t, f.restore(b.Entry.Position))
		}
		n++
	}
	assert.Equal(t, 300, n)
	assert.Len(t, f.morgue(), 270)
	assert.Len(t, f.got[5], 30)
}

func testRestoreContext(t *testing.T, f *fixture) {
	p := f.bury(1)[0].Entry.Position
	err := f.Restore(ended(t), f.queue, []journal.Position{p}, 0, toRoute(5))
	require.Error(t, err)
	require.NoError(t, f.Flush(t.Context()))
	if errors.Is(err, journal.ErrUnknown) {
		assert.Len(t, f.got[5], 1)
	} else {
		assert.Empty(t, f.got[5])
	}
	assert.Len(t, f.morgue(), 1-len(f.got[5]))
}

func testRestoreSlowConsumer(t *testing.T, f *fixture) {
	p := f.bury(2)[0].Entry.Position
	deliveries := make(chan *journal.Delivery, 2)
	f.take = func(d *journal.Delivery) { deliveries <- d }
	first := make(chan error)
	go func() { first <- f.restore(p) }()
	d := <-deliveries // committed, not taken in: the next one has to wait
	assert.ErrorIs(t, f.Restore(ended(t), f.queue, []journal.Position{p + 1}, 0, toRoute(5)), ended(t).Err())
	d.Done()
	require.NoError(t, <-first)
	assert.ErrorIs(t, f.restore(p), journal.ErrNotFound)
}

func testBuriedAgain(t *testing.T, f *fixture) {
	want := f.bury(1)[0]
	ref := want.Ref
	for i := range 5 {
		require.NoError(t, f.Restore(t.Context(), f.queue, []journal.Position{ref.Position()}, int64(i), toRoute(5)))
		if i%2 == 1 {
			f = f.again()
			refs := slices.Concat(f.PendingPages(f.queue)...)
			require.Len(t, refs, 1)
			ref = refs[0]
		} else {
			ref = f.got[5][len(f.got[5])-1].Ref
		}
		f.record(journal.Change{Buried: []journal.Burial{{Ref: ref, Retry: i, Reason: "again"}}})
		f = f.again()
		assert.Empty(t, f.pending())
		got := f.morgue()
		require.Len(t, got, 1)
		assert.Equal(t, want.Entry.Score, got[0].Entry.Score)
		assert.Equal(t, want.Entry.Payload, got[0].Entry.Payload)
	}
}
