//go:build unix

package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// An owner whose partition another one has taken changes no row, whatever he commits, and
// knows it.
func TestFencedOwnerChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, pgtest.Shared(t).URL(), 16)
	block := make([]byte, 5000)
	state := func(key string, value []byte) format.Edit {
		return format.Edit{Bucket: format.BucketState, Key: []byte(key), Value: value}
	}
	offset := binary.BigEndian.AppendUint64(nil, 1)
	for partition, kind := range []struct {
		name string
		t    store.Transaction
	}{
		{"the first of an opening", store.Transaction{Manifest: format.Manifest{Oldest: 1, Seq: 1, Next: 2, Epoch: 2}}},
		{"a block", store.Transaction{Seq: 2, Block: block[:100]}},
		{"a block of many parts", store.Transaction{Seq: 2, Block: block}},
		{"a block that leaves", store.Transaction{Seq: 2, Block: block[:100], Drop: []store.Dropped{{Seq: 1}}}},
		{"a state key", store.Transaction{Seq: 2, Block: block[:100], Changes: []format.Edit{state("new", []byte("x"))}}},
		{"a state key again", store.Transaction{Seq: 2, Block: block[:100], Changes: []format.Edit{state("k", []byte("x"))}}},
		{"a state key that goes", store.Transaction{Seq: 2, Block: block[:100], Changes: []format.Edit{state("k", nil)}}},
		{"the name of a queue", store.Transaction{Seq: 2, Block: block[:100], Changes: []format.Edit{format.QueueEdit("other", 2)}}},
		{"a burial", store.Transaction{Seq: 2, Block: block[:100], Changes: []format.Edit{{Bucket: format.BucketMorgue, Key: format.MorgueKey(1, 7), Value: []byte("some bytes")}}}},
		{"rows of the inbox", store.Transaction{Seq: 2, Block: block[:100], Changes: []format.Edit{state(intakeKey, offset)}}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			stale := r.own(t, r.pool, partition)
			stale.part = 1000
			require.NoError(t, stale.Commit(&store.Transaction{Seq: 1, Block: block[:10], Changes: []format.Edit{state("k", []byte("v")), format.QueueEdit("q", 1)}}))
			var number int64
			require.NoError(t, r.pool.QueryRow(t.Context(), in(r.schema, `INSERT INTO {schema}.inbox (partition, queue, calls, token)
				VALUES ($1, 'q', 'x', gen_random_uuid()) RETURNING number`), partition).Scan(&number))
			stale.intake.expect(1, number)

			owner := r.own(t, r.pool, partition)
			before := r.rows(t, partition)
			err := stale.Commit(&kind.t)
			require.ErrorIs(t, err, errFenced)
			require.Equal(t, before, r.rows(t, partition))

			owner.part = 1000
			owner.intake.expect(1, number)
			require.NoError(t, owner.Commit(&kind.t), "the same of the one who may")
			require.NotEqual(t, before, r.rows(t, partition))
			_, err = stale.Get(format.BucketState, []byte("k"))
			require.ErrorIs(t, err, errFenced, "nor is he told what the other one has")
			_, err = stale.Page(format.BucketQueues, nil)
			require.ErrorIs(t, err, errFenced)
			_, err = stale.Read(1, 0, 1)
			require.ErrorIs(t, err, errFenced)
		})
	}
}

// The log of such an owner latches, and what it had accepted is there no more than it was told.
func TestFencedLogLatches(t *testing.T) {
	r := newRig(t, pgtest.Shared(t).URL(), 1)
	open := func() *journal.Log {
		l, err := journal.OpenStore(r.own(t, r.pool, 0), journal.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	stale := open()
	q, err := stale.Queue(t.Context(), "q")
	require.NoError(t, err)
	add := func(l *journal.Log, id string) error {
		ticket, err := l.Append(t.Context(), []journal.Entry{{Queue: q, ID: []byte(id)}}, nil)
		if err == nil {
			err = ticket.Wait(t.Context())
		}
		return err
	}
	require.NoError(t, add(stale, "kept"))
	owner := open()
	require.Greater(t, owner.Stats().Epoch, stale.Stats().Epoch)
	err = add(stale, "refused")
	require.ErrorIs(t, err, journal.ErrUnknown)
	require.ErrorIs(t, err, errFenced)
	require.ErrorIs(t, add(stale, "late"), journal.ErrFailed)
	require.ErrorIs(t, stale.Close(), errFenced)
	require.NoError(t, add(owner, "new"))
	require.NoError(t, owner.Close())
	owner = open()
	var ids []string
	for _, ref := range slices.Concat(owner.PendingPages(q)...) {
		var e journal.Entry
		require.NoError(t, ref.Read(&e))
		ids = append(ids, string(e.ID))
	}
	require.Equal(t, []string{"kept", "new"}, ids)
}

// Many who take a partition from one another at the same time, each committing as long as it
// may: what is there at the end is what one of them after the other was told.
func TestOwnersOneAfterTheOther(t *testing.T) {
	third(t, 2)
	t.Parallel()
	r := newRig(t, pgtest.Shared(t).URL(), 1)
	type outcome struct {
		epoch  int64
		number int64
	}
	told := make(chan outcome, 10000)
	ended := make(chan error, 8)
	for range cap(ended) {
		go func() {
			for range 10 {
				epoch, err := take(t.Context(), r.pool, r.schema, 0)
				if err != nil {
					ended <- err
					return
				}
				s, err := openStore(t.Context(), r.pool, r.schema, 0, epoch)
				for i := 0; i < 5 && err == nil; i++ {
					if err = s.Commit(&store.Transaction{}); err == nil {
						told <- outcome{epoch, s.number.Load()}
					}
				}
				if err != nil && !errors.Is(err, errFenced) {
					ended <- err
					return
				}
			}
			ended <- nil
		}()
	}
	for range cap(ended) {
		require.NoError(t, <-ended)
	}
	close(told)
	numbers := make(map[int64]int64)
	most := int64(0)
	for o := range told {
		require.Zero(t, numbers[o.number], "commit %d was told to the owners of epochs %d and %d", o.number, numbers[o.number], o.epoch)
		numbers[o.number] = o.epoch
		most = max(most, o.number)
	}
	require.Len(t, numbers, int(most), "numbers have no gap")
	for n, epoch := int64(1), int64(0); n <= most; n++ {
		require.GreaterOrEqual(t, numbers[n], epoch)
		epoch = numbers[n]
	}
	require.NotEmpty(t, numbers)
}

// What stands beside the log and is not what was written is damage, with its place.
func TestDamage(t *testing.T) {
	third(t, 2)
	t.Parallel()
	r := newRig(t, pgtest.Shared(t).URL(), 16)
	for name, test := range map[string]struct {
		sql, says string
	}{
		"a flipped bit of a state key": {"UPDATE {schema}.side SET value = set_byte(value, 0, get_byte(value, 0) # 1) WHERE partition = $1 AND bucket = 3 AND key = 'k1'", `bucket "state", key "k1"`},
		"a flipped bit of a name":      {"UPDATE {schema}.side SET value = set_byte(value, 0, get_byte(value, 0) # 1) WHERE partition = $1 AND bucket = 1", `bucket "queues", key "q"`},
		"another key":                  {"UPDATE {schema}.side SET key = 'k9' WHERE partition = $1 AND bucket = 3 AND key = 'k1'", `bucket "state", key "k9"`},
		"a state key that is gone":     {"DELETE FROM {schema}.side WHERE partition = $1 AND key = 'k1'", "has 2 rows beside its log, want 3"},
		"a row of nothing":             {"INSERT INTO {schema}.side VALUES ($1, 9, 'x', 'x', 0)", "bucket 9"},
		"another row":                  {"UPDATE {schema}.side SET value = (SELECT value FROM {schema}.side WHERE partition = $1 AND key = 'k2') WHERE partition = $1 AND key = 'k1'", `key "k1"`},
		"a block that is gone":         {"DELETE FROM {schema}.block WHERE partition = $1 AND seq = (SELECT max(seq) FROM {schema}.block WHERE partition = $1)", "the log ends at"},
		"a part that is gone":          {"DELETE FROM {schema}.block WHERE partition = $1 AND part = 1", "part 1 is missing"},
		"a flipped bit of a block":     {"UPDATE {schema}.block SET data = set_byte(data, 50, get_byte(data, 50) # 1) WHERE partition = $1 AND part = 0", "checksum"},
		"the end mark":                 {"UPDATE {schema}.tail SET manifest = set_byte(manifest, 5, get_byte(manifest, 5) # 1) WHERE partition = $1", "the end mark"},
	} {
		t.Run(name, func(t *testing.T) {
			partition := int(r.next.Add(1)) - 1
			s := r.own(t, r.pool, partition)
			s.part = 1000
			l, err := journal.OpenStore(s, journal.Config{})
			require.NoError(t, err)
			q, err := l.Queue(t.Context(), "q")
			require.NoError(t, err)
			for i := range 2 {
				require.NoError(t, l.Put(t.Context(), journal.Set{Key: fmt.Sprintf("k%d", i+1), Value: []byte("v")}))
				ticket, err := l.Append(t.Context(), []journal.Entry{{Queue: q, ID: []byte("a"), Payload: make([]byte, 3000)}}, nil)
				require.NoError(t, err)
				require.NoError(t, ticket.Wait(t.Context()))
			}
			require.NoError(t, l.Close())
			r.exec(t, test.sql, partition)
			epoch, err := take(t.Context(), r.pool, r.schema, partition)
			require.NoError(t, err)
			if s, err = openStore(context.Background(), r.pool, r.schema, partition, epoch); err == nil {
				l, err = journal.OpenStore(s, journal.Config{})
				if err == nil {
					require.NoError(t, l.Close())
				}
			}
			require.ErrorIs(t, err, journal.ErrCorrupt)
			require.ErrorContains(t, err, test.says)
		})
	}
}

// An older version of a row, with its checksum right, is damage, too.
func TestOlderVersionOfARow(t *testing.T) {
	r := newRig(t, pgtest.Shared(t).URL(), 1)
	s := r.own(t, r.pool, 0)
	put := func(seq uint64, value string) {
		require.NoError(t, s.Commit(&store.Transaction{Seq: seq, Block: []byte("block"), Changes: []format.Edit{
			{Bucket: format.BucketState, Key: []byte("other"), Value: []byte("v")},
			{Bucket: format.BucketState, Key: []byte("k"), Value: []byte("of the same call before")},
			{Bucket: format.BucketState, Key: []byte("k"), Value: []byte(value)}}}))
	}
	put(1, "old")
	r.exec(t, "CREATE TABLE {schema}.kept AS SELECT * FROM {schema}.side")
	put(2, "new")
	s = r.own(t, r.pool, 0)
	value, err := s.Get(format.BucketState, []byte("k"))
	require.NoError(t, err)
	require.Equal(t, "new", string(value))
	r.exec(t, "UPDATE {schema}.side o SET value = k.value, sum = k.sum FROM {schema}.kept k WHERE k.key = o.key AND o.key = 'k'")
	epoch, err := take(t.Context(), r.pool, r.schema, 0)
	require.NoError(t, err)
	_, err = openStore(t.Context(), r.pool, r.schema, 0, epoch)
	require.ErrorIs(t, err, journal.ErrCorrupt)
	require.ErrorContains(t, err, "an older version of some of its 2 rows")
}
