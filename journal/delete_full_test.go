package journal

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// On a full disk a Delete waits with the results, in a commit that is refused again and
// again; what takes from the morgue after it waits for it all the same, and finds nothing.
func TestTwoDeletesOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFull(t, 1)
		f.disk.OnCommit(nil)
		ticket, err := f.log.Append(t.Context(), []Entry{{Queue: modelQueue, ID: []byte("a")}, {Queue: modelQueue, ID: []byte("b")}}, nil)
		require.NoError(t, err)
		require.NoError(t, ticket.Wait(t.Context()))
		f.log.Record(&Change{Buried: []Burial{{Ref: f.refs[0], Reason: "no luck"}, {Ref: f.refs[1], Reason: "no luck"}}})
		require.NoError(t, f.log.Flush(t.Context()))
		require.Equal(t, 2, f.log.Buried(modelQueue))

		for range 1000 {
			f.disk.FailNext(ErrFull)
		}
		p := f.refs[0].Position()
		first, others := make(chan error, 1), make(chan error, 2)
		go func() { first <- remove(t.Context(), f.log, p) }()
		synctest.Wait()
		require.ErrorIs(t, f.log.Err(), ErrFull, "its commit was refused")
		go func() { others <- remove(t.Context(), f.log, p) }()
		go func() {
			others <- f.log.Restore(t.Context(), modelQueue, []Position{p}, 0, func([]byte) uint32 { return 0 })
		}()
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(t, first)
		require.Empty(t, others)
		require.Equal(t, 1, f.log.Buried(modelQueue), "counted once")

		f.room(time.Second)
		require.NoError(t, <-first)
		require.ErrorIs(t, <-others, ErrNotFound)
		require.ErrorIs(t, <-others, ErrNotFound)
		require.Equal(t, 1, f.log.Buried(modelQueue))
		require.NoError(t, f.log.Close())
		_, _, morgue := f.found(f.disk.Crash())
		require.Len(t, morgue, 1)
	})
}

// remove deletes from the morgue, and waits until that is on disk.
func remove(ctx context.Context, l *Log, ps ...Position) error {
	if _, err := l.Delete(ctx, modelQueue, ps); err != nil {
		return err
	}
	return l.Settled(ctx)
}
