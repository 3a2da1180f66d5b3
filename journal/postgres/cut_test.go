//go:build unix

package postgres

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// What changes beside a block goes in as many messages as it needs, since one has a limit; and is there with the
// block or not at all, and once, wherever the connection is cut.
func TestChangesOfSeveralMessages(t *testing.T) {
	third(t, 0)
	t.Parallel()
	server := pgtest.Shared(t)
	r := newRig(t, server.URL(), 1)
	proxy := NewProxy(t, server.Addr())
	s := r.own(t, r.newPool(t, proxy.URL(server.URL())), 0)
	s.part = 1000
	const keys = 9
	commits, at := 0, int64(0)
	commit := func(block []byte) {
		commits++
		tx := &store.Transaction{Seq: uint64(commits), Block: block}
		for k := range keys {
			if value := bytes.Repeat(fmt.Append(nil, commits%10), 400); k != commits%keys { // one is deleted
				tx.Changes = append(tx.Changes, format.Edit{Bucket: format.BucketState, Key: fmt.Append(nil, k), Value: value})
			} else {
				tx.Changes = append(tx.Changes, format.Edit{Bucket: format.BucketState, Key: fmt.Append(nil, k)})
			}
		}
		require.NoError(t, s.Commit(tx))
		number, blocks, _ := r.tail(t, 0)
		require.Equal(t, at+4, number, "two values fit into one")
		require.EqualValues(t, commits, blocks)
		at = number
		for k := range keys {
			value, err := s.Get(format.BucketState, fmt.Append(nil, k))
			require.NoError(t, err)
			if k == commits%keys {
				require.Nil(t, value)
			} else {
				require.Equal(t, bytes.Repeat(fmt.Append(nil, commits%10), 400), value)
			}
		}
	}
	commit([]byte("block"))
	require.NoError(t, s.check())
	for cut := int64(0); cut < 6000; cut += int64(times(311, 13)) {
		proxy.CutAfter(cut)
		commit(make([]byte, 1500))
	}
	proxy.Heal()
	for range times(5, 100) {
		proxy.CutAnswer()
		commit([]byte("block"))
	}
	require.NoError(t, s.check())
	again := r.own(t, r.pool, 0)
	require.EqualValues(t, keys-1, again.first.sides)
	require.Equal(t, at, again.number.Load())
}
