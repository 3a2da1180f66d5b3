package journal

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Queues that share blocks get what is theirs, and nothing of a block stays in
// memory when all of it has ended.
func TestReadOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "read.strand")
	var refs []Ref
	l, err := Open(dir, Config{Deliver: func(d *Delivery) {
		var e Entry
		for i := range d.Len() {
			refs = append(refs, must(d.Read(i, &e)))
		}
		d.Done()
	}})
	require.NoError(t, err)
	due := time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC).UnixNano()
	const blocks, each = 6, 7
	for i := range blocks {
		var entries []Entry
		for j := range each {
			n := each*i + j
			entries = append(entries, Entry{Queue: uint32(n % 2), ID: fmt.Appendf(nil, "id-%d", n), Due: due + int64(n)})
		}
		ticket, err := l.Append(t.Context(), entries, nil)
		require.NoError(t, err)
		require.NoError(t, ticket.Wait(t.Context()))
	}
	// The first block keeps an entry, so that the empty third one stays.
	l.Record(&Change{Ended: append(refs[1:each:each], refs[2*each:3*each]...)})
	require.NoError(t, l.Close())

	v, err := OpenView(dir)
	require.NoError(t, err)
	info := v.Blocks()
	for i, b := range info[1:] {
		require.Equal(t, b.First, info[i].Next)
	}
	require.Equal(t, refs[len(refs)-1].Position()+1, info[len(info)-1].Next)
	require.NoError(t, v.Close())

	l, err = Open(dir, Config{})
	require.NoError(t, err)
	require.Nil(t, l.chain.Blocks[2].Home.Load())
	found := 0
	for queue := range uint32(2) {
		for _, ref := range slices.Concat(l.PendingPages(queue)...) {
			var e Entry
			require.NoError(t, ref.Read(&e))
			n := int(ref.Position() - refs[0].Position())
			id, at, err := ref.Head()
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint("id-", n), string(id))
			require.Equal(t, due+int64(n), at)
			require.Equal(t, []any{queue, id, at}, []any{e.Queue, e.ID, e.Due})
			require.Equal(t, queue, uint32(n%2))
			found++
		}
	}
	require.Equal(t, blocks*each-(each-1)-each, found)
	require.NoError(t, l.Close())
}
