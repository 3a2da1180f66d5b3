//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// long reports whether the long tiers are asked for.
func long() bool { return os.Getenv("STRAND_LONG") != "" }

// third leaves a test that costs much to one day of three: on each, .ci/run makes another third of
// them, and says which by STRAND_THIRD. Without it all of them are made.
func third(t *testing.T, turn int) {
	t.Helper()
	if day := os.Getenv("STRAND_THIRD"); day != "" && day != strconv.Itoa(turn) && !long() {
		t.Skip("costs much: it is made with STRAND_THIRD=", turn, ", or without")
	}
}

// times is how often a test does what it repeats: short, or more in the long tier.
func times(short, more int) int {
	if long() {
		return more
	}
	return short
}

// tail returns the number of the last commit, how many blocks there are, and how often an
// outcome was asked for.
func (r *rig) tail(t testing.TB, partition int) (number, blocks, asked int64) {
	t.Helper()
	require.NoError(t, r.pool.QueryRow(t.Context(), in(r.schema, `SELECT number, asked, (SELECT count(DISTINCT seq) FROM {schema}.block b WHERE b.partition = t.partition)
		FROM {schema}.tail t WHERE partition = $1`), partition).Scan(&number, &asked, &blocks))
	return number, blocks, asked
}

// A commit whose connection is cut, wherever that is, is there once when it returns, and the
// next one goes on from it.
func TestConnectionIsCut(t *testing.T) {
	third(t, 2)
	t.Parallel()
	server := pgtest.Shared(t)
	r := newRig(t, server.URL(), 2)
	for partition, part := range []int{partBytes, 1000} {
		proxy := NewProxy(t, server.Addr())
		s := r.own(t, r.newPool(t, proxy.URL(server.URL())), partition)
		s.part = part
		block := make([]byte, 3000)
		commits := int64(0)
		commit := func() {
			commits++
			require.NoError(t, s.Commit(&store.Transaction{Seq: uint64(commits), Block: block, Changes: []format.Edit{
				{Bucket: format.BucketState, Key: []byte("k"), Value: fmt.Append(nil, commits)}}}))
			number, blocks, _ := r.tail(t, partition)
			require.Equal(t, commits, number)
			require.Equal(t, commits, blocks)
			value, err := s.Get(format.BucketState, []byte("k"))
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(commits), string(value))
		}
		commit()
		for cut := int64(0); cut < 4500; cut += int64(times(311, 13)) {
			proxy.CutAfter(cut)
			commit()
		}
		proxy.Heal()
		_, _, before := r.tail(t, partition)
		for range times(5, 100) {
			commit()
			proxy.CutAnswer()
			commit()
		}
		_, _, asked := r.tail(t, partition)
		require.GreaterOrEqual(t, asked-before, int64(times(5, 100)), "the server was asked each time")
	}
}

// A server whose answers do not come is asked over other connections until one is answered,
// whether it has done what it was told or gets no further with it.
func TestAnswersAreLost(t *testing.T) {
	third(t, 0)
	t.Parallel()
	server := pgtest.Shared(t)
	r := newRig(t, server.URL(), 1)
	proxy := NewProxy(t, server.Addr())
	var dials atomic.Int32
	s := r.own(t, r.dialing(t, proxy.URL(server.URL()), func(net.Conn) error { dials.Add(1); return nil }), 0)
	s.patience = 100 * time.Millisecond
	next := uint64(0)
	commit := func() chan error {
		next++
		done := make(chan error, 1)
		go func() { done <- s.Commit(&store.Transaction{Seq: next, Block: []byte("block")}) }()
		return done
	}
	// unheard makes a commit whose answers are lost, and says whether it was there already
	// while the store was asking for it.
	unheard := func(stuck bool) bool {
		require.NoError(t, <-commit())
		tx, err := r.pool.Begin(t.Context())
		require.NoError(t, err)
		if stuck {
			_, err = tx.Exec(t.Context(), in(r.schema, "SELECT FROM {schema}.tail FOR UPDATE"))
			require.NoError(t, err)
		}
		proxy.Swallow()
		before := dials.Load()
		done := commit()
		for dials.Load() < before+4 { // one of them may say that the first is given up
			time.Sleep(time.Millisecond)
		}
		require.Empty(t, done, "it returned without an answer")
		there, _, _ := r.tail(t, 0)
		require.NoError(t, tx.Rollback(t.Context()))
		proxy.Heal()
		require.NoError(t, <-done)
		number, blocks, _ := r.tail(t, 0)
		require.Equal(t, []uint64{next, next}, []uint64{uint64(number), uint64(blocks)})
		return uint64(there) == next
	}
	for range times(3, 30) {
		for !unheard(false) {
			s.patience *= 2 // a busy server takes longer than that for a commit
		}
		require.False(t, unheard(true))
	}
}

// dialing returns a pool that has each new connection seen.
func (r *rig) dialing(t testing.TB, url string, seen func(net.Conn) error) *pgxpool.Pool {
	t.Helper()
	cfg := r.newPool(t, url).Config()
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err == nil {
			err = seen(conn)
		}
		return conn, err
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// Waiting ends with the store: its cause is what a commit, and a reader, is told.
func TestWaitingEnds(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	r := newRig(t, server.URL(), 1)
	proxy := NewProxy(t, server.Addr())
	epoch, err := take(t.Context(), r.pool, r.schema, 0)
	require.NoError(t, err)
	lost := errors.New("the lease is lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	s, err := openStore(ctx, r.newPool(t, proxy.URL(server.URL())), r.schema, 0, epoch)
	require.NoError(t, err)
	proxy.Refuse()
	proxy.Cut()
	done := make(chan error, 2)
	go func() { done <- s.Commit(&store.Transaction{}) }()
	go func() { _, err := s.Get(format.BucketState, []byte("k")); done <- err }()
	time.AfterFunc(100*time.Millisecond, func() { cancel(lost) })
	require.ErrorIs(t, <-done, lost)
	require.ErrorIs(t, <-done, lost)
}

// A full disk of the server is a full disk: what was appended is refused, and the log goes on
// when there is room.
func TestServerDiskFull(t *testing.T) {
	t.Parallel()
	r := newRig(t, pgtest.Shared(t).URL(), 1)
	l, err := journal.OpenStore(r.own(t, r.pool, 0), journal.Config{})
	require.NoError(t, err)
	q, err := l.Queue(t.Context(), "q")
	require.NoError(t, err)
	r.noRoom(t, "block")
	ticket, err := l.Append(t.Context(), []journal.Entry{{Queue: q, ID: []byte("refused")}}, nil)
	require.NoError(t, err)
	require.ErrorIs(t, ticket.Wait(t.Context()), journal.ErrFull)
	require.ErrorIs(t, l.Err(), journal.ErrFull)
	r.exec(t, "DROP TRIGGER no_room ON {schema}.block")
	require.Eventually(t, func() bool { return l.Err() == nil }, time.Minute, time.Millisecond)
	ticket, err = l.Append(t.Context(), []journal.Entry{{Queue: q, ID: []byte("kept")}}, nil)
	require.NoError(t, err)
	require.NoError(t, ticket.Wait(t.Context()))
	require.NoError(t, l.Close())
}

// noRoom has the server of a rig refuse the rows of a table, with what it says when a file can't grow.
func (r *rig) noRoom(t *testing.T, table string) {
	t.Helper()
	r.exec(t, `CREATE FUNCTION {schema}.no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$`)
	r.exec(t, "CREATE TRIGGER no_room BEFORE INSERT ON {schema}."+table+" EXECUTE FUNCTION {schema}.no_room()")
}

// A commit that may be under way yet is not refused for want of room: the next one would have its number, and
// what became of the first would be taken for it.
func TestServerDiskFullAfterAnAttemptWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	r := newRig(t, server.URL(), 1)
	proxy := NewProxy(t, server.Addr())
	s := r.own(t, r.newPool(t, proxy.URL(server.URL())), 0)
	s.patience = 100 * time.Millisecond
	l, err := journal.OpenStore(s, journal.Config{})
	require.NoError(t, err)
	q, err := l.Queue(t.Context(), "q")
	require.NoError(t, err)
	r.noRoom(t, "block")
	held, release := proxy.Hold("refused")
	release = sync.OnceFunc(release)
	defer release()
	refused, err := l.Append(t.Context(), []journal.Entry{{Queue: q, ID: []byte("refused")}}, nil)
	require.NoError(t, err)
	<-held
	err = refused.Wait(t.Context())
	require.ErrorIs(t, err, journal.ErrUnknown)
	require.NotErrorIs(t, err, journal.ErrFull)
	r.exec(t, "DROP TRIGGER no_room ON {schema}.block")
	release()
	kept, err := l.Append(t.Context(), []journal.Entry{{Queue: q, ID: []byte("kept")}}, nil)
	if err == nil {
		err = kept.Wait(t.Context())
	}
	require.ErrorIs(t, err, journal.ErrFailed, "whoever opens the partition finds out")
	_ = l.Close()
}

// A row of the inbox goes in the commit that takes it in; when it is not there, nothing is
// committed.
func TestInboxRowsGoWithTheirBlock(t *testing.T) {
	r := newRig(t, pgtest.Shared(t).URL(), 1)
	s := r.own(t, r.pool, 0)
	put := func() (number int64) {
		require.NoError(t, r.pool.QueryRow(t.Context(), in(r.schema, `INSERT INTO {schema}.inbox (partition, queue, calls, token)
			VALUES (0, 'q', 'x', gen_random_uuid()) RETURNING number`)).Scan(&number))
		return number
	}
	count := func(table string) (n int) {
		require.NoError(t, r.pool.QueryRow(t.Context(), in(r.schema, "SELECT count(*) FROM {schema}."+table)).Scan(&n))
		return n
	}
	offset := func(n byte) []format.Edit {
		return []format.Edit{{Bucket: format.BucketState, Key: []byte(intakeKey), Value: []byte{0, 0, 0, 0, 0, 0, 0, n}}}
	}
	s.intake.expect(1, put())
	s.intake.expect(2, put())
	s.intake.expect(3, put())
	require.NoError(t, s.Commit(&store.Transaction{Seq: 1, Block: []byte("b")}))
	require.Equal(t, 3, count("inbox"), "a block without them takes none")
	require.NoError(t, s.Commit(&store.Transaction{Seq: 2, Block: []byte("b"), Changes: append(offset(1), offset(2)...)}))
	require.Equal(t, []int{1, 2}, []int{count("inbox"), count("taken")})
	r.exec(t, "DELETE FROM {schema}.inbox")
	require.ErrorContains(t, s.Commit(&store.Transaction{Seq: 3, Block: []byte("b"), Changes: offset(3)}), "1 of 1 rows of the inbox of partition 0 are gone")
	number, blocks, _ := r.tail(t, 0)
	require.Equal(t, []int64{2, 2}, []int64{number, blocks})
}

// An attempt that was given up may reach the server late, after the one that was made in its
// stead, and after others: then it changes nothing.
func TestLateAttemptChangesNothing(t *testing.T) {
	r := newRig(t, pgtest.Shared(t).URL(), 1)
	s := r.own(t, r.pool, 0)
	late := s.call(&store.Transaction{Changes: []format.Edit{
		{Bucket: format.BucketState, Key: []byte("k"), Value: []byte("v")}}})
	for i := range uint64(3) {
		require.NoError(t, s.Commit(&store.Transaction{Seq: i + 1, Block: []byte("block")}))
		before := r.rows(t, 0)
		done, err := s.attempt(late)
		require.NoError(t, err)
		require.False(t, done)
		require.Equal(t, before, r.rows(t, 0))
	}
}

// A slow link is no silent one: an attempt goes on as long as bytes come and go, although it takes
// a multiple of what a silent server is given.
func TestASlowLinkIsNotSilent(t *testing.T) {
	third(t, 0)
	t.Parallel()
	server := pgtest.Shared(t)
	r := newRig(t, server.URL(), 1)
	proxy := NewProxy(t, server.Addr())
	proxy.Throttle(80 << 10)
	pool := r.dialing(t, proxy.URL(server.URL()), func(conn net.Conn) error {
		return conn.(*watchedConn).Conn.(*net.TCPConn).SetWriteBuffer(64 << 10) // so that it is the link that takes time
	})
	s := r.own(t, pool, 0)
	s.patience = 1200 * time.Millisecond
	block := make([]byte, 256<<10)
	for i := range block {
		block[i] = byte(i >> 8)
	}
	took := func(f func()) {
		began := time.Now()
		f()
		require.Greater(t, time.Since(began), 2*time.Second)
	}
	took(func() { require.NoError(t, s.Commit(&store.Transaction{Seq: 1, Block: block})) })
	number, _, asked := r.tail(t, 0)
	require.Equal(t, int64(1), number)
	require.Less(t, asked, int64(6)) // at the first attempt, if the machine does not stand still
	took(func() {
		got, err := s.Read(1, 0, len(block)/chunkBytes)
		require.NoError(t, err)
		require.Equal(t, block, got)
	})
	took(func() {
		require.NoError(t, s.Scan(func(_ uint64, got []byte) error {
			require.Equal(t, block, got)
			return nil
		}))
	})
}

// A commit that deletes many blocks has time for that: it would be given up, and made again, for ever.
func TestACommitThatDeletesMuchHasTime(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	r := newRig(t, server.URL(), 1)
	s := r.own(t, r.pool, 0)
	drop := &store.Transaction{Seq: 2000, Block: []byte("block")}
	for seq := range uint64(1000) {
		drop.Drop = append(drop.Drop, store.Dropped{Seq: seq + 1})
	}
	for _, sql := range []string{
		"INSERT INTO {schema}.block SELECT 0, seq, 0, '' FROM generate_series(1, 1000) AS seq",
		"CREATE FUNCTION {schema}.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1.5); RETURN NULL; END $$",
		"CREATE TRIGGER slow AFTER DELETE ON {schema}.block FOR EACH STATEMENT EXECUTE FUNCTION {schema}.slow()",
	} {
		_, err := r.pool.Exec(t.Context(), in(r.schema, sql))
		require.NoError(t, err)
	}
	s.patience = time.Second
	time.AfterFunc(time.Minute, func() { s.cancel(errors.New("it is not there after a minute")) })
	require.NoError(t, s.Commit(drop))
	_, blocks, _ := r.tail(t, 0)
	require.Equal(t, int64(1), blocks)
}

// An owner that stands still, or is cut off, between the statements of a commit keeps the next one waiting for no longer
// than a slow link would.
func TestACommitThatStandsStillIsEnded(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	r := newRig(t, server.URL(), 1)
	proxy := NewProxy(t, server.Addr())
	s := r.own(t, r.newPool(t, proxy.URL(server.URL())), 0)
	s.part, s.patience = 10, 300*time.Millisecond
	held, release := proxy.Hold("put_part")
	defer release()
	done := make(chan error, 1)
	go func() {
		done <- s.Commit(&store.Transaction{Seq: 1, Block: []byte("a block of several parts")})
	}()
	<-held
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := take(ctx, r.pool, r.schema, 0)
	require.NoError(t, err)
	if err := <-done; err != nil { // or it was asked for first
		require.ErrorIs(t, err, errFenced)
	}
}
