package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
)

// Errors of a partition's log. They are in what journal.ErrFailed and journal.ErrUnknown
// wrap.
var (
	// errFenced is returned once another owner has the partition: nothing that this one
	// commits from then on changes a row.
	errFenced = errors.New("postgres: another owner has the partition")
	// ErrBehind is returned when the server has less of a partition than this node has seen there: it was set back to
	// an older copy, or a standby has taken over that was not synchronous. The contexts of the partition's handlers
	// end. Until its process is started anew this node does not serve the partition, and takes no others: it goes on
	// with those that it has. See [executor.Executor.Err].
	ErrBehind = errors.New("postgres: the server has lost commits that it had acknowledged")
)

const (
	// partBytes is how much of a block is in one row: what a server takes in one message
	// has a limit of 1 GiB.
	partBytes = 64 << 20
	// chunkBytes is what a block is read back in.
	chunkBytes = 8 << 10
	// Between two attempts the pause doubles from the first to the longest.
	firstPause, longestPause = 5 * time.Millisecond, time.Second
	// attemptTime is how long an attempt goes on while no byte comes or goes before it is given
	// up, with its connection, and made, or asked about, over another one; see silence.
	attemptTime = 3 * time.Second
)

// partitionStore is a store on the rows of one partition, for the owner that has an epoch.
//
// A commit is one call of a function of the server, in one transaction of its own, which finds
// a row of tail with the number of the last commit and the epoch, and puts one with the next
// number in its place, or changes nothing. What is too large for one message takes some of these
// calls, and numbers, in the transaction. So a commit that was sent twice is there once, and one of an owner
// from before is refused by the server, whatever that owner believes. What has become of
// a commit without an answer is asked there: see settle. Lost connections,
// a failover and a server that may only be read are waited out, until ctx ends.
type partitionStore struct {
	reader
	turns chan struct{} // who commits, of the partitions of a node, has put one in; nil: they don't wait
	seen  *seen         // of this process; commits are noted there
	clock *serverClock
	hint  func(partitions []int) // tells the owners of partitions of rows of the inbox
}

// openStore opens the partition for the owner that has epoch, which is in its row of tail:
// from then on nobody else changes what is there. It checks what stands beside the log. All
// that the store does ends when ctx does.
func openStore(ctx context.Context, pool *pgxpool.Pool, schema string, partition int, epoch int64) (*partitionStore, error) {
	s := storeWithin(ctx, nil, textsFor(schema, time.Time{}, 0), partition, epoch)
	s.pool = pool
	if err := s.check(); err != nil {
		s.cancel(err)
		return nil, err
	}
	return s, nil
}

// storeWithin is a store in the transaction of a connection, without a pool.
func storeWithin(ctx context.Context, conn *pgx.Conn, texts texts, partition int, epoch int64) *partitionStore {
	s := &partitionStore{seen: new(seen), clock: new(serverClock), reader: reader{partition: partition, epoch: epoch, within: conn,
		texts: texts, part: partBytes, patience: attemptTime, intake: intake{rows: make(map[int64]int64)}}}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	return s
}

// Close implements store.Store. The pool is its owner's.
func (s *partitionStore) Close() error {
	s.cancel(format.ErrClosed)
	return nil
}

// Turn implements store.Shared. Once the ownership ends there is nothing to wait for.
func (s *partitionStore) Turn() (over func()) {
	if s.turns != nil {
		select {
		case s.turns <- struct{}{}:
			return func() { <-s.turns }
		case <-s.ctx.Done():
		}
	}
	return func() {}
}

// Now implements store.Shared: the server's clock.
func (s *partitionStore) Now() time.Time { return s.clock.now() }

// Room implements store.Store: only a commit can tell how much room the server has.
func (s *partitionStore) Room(int, int) (store.Room, error) { return store.Endless, nil }

// Size, Used and Compact implement store.Store: there is no file, and the server does that by itself.
func (s *partitionStore) Size() int                                          { return 0 }
func (s *partitionStore) Used() (int, error)                                 { return 0, nil }
func (s *partitionStore) Compact(<-chan struct{}) (replaced bool, err error) { return false, nil }

// CopyTo implements store.Store: a bbolt file has what one moment of the server had, and
// the UUID of the partition.
func (s *partitionStore) CopyTo(path string, over <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-over:
			cancel(store.ErrGivenUp)
		case <-ctx.Done():
		}
	}()
	err := pgx.BeginTxFunc(ctx, s.pool, snapshot, func(tx pgx.Tx) (err error) {
		c := storeWithin(ctx, tx.Conn(), s.texts, s.partition, s.epoch)
		defer c.Close()
		if c.first, err = c.header(ctx, tx); err != nil {
			return err
		}
		return store.Copy(c, path)
	})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return err
}

// call is a commit as the server gets it.
type call struct {
	number  int64 // of the commit before it
	seq     uint64
	parts   [][]byte // the first goes with the call
	drops   []int64
	buckets []int16
	keys    [][]byte
	values  [][]byte
	sums    []int64
	cuts    []int   // where the changes of the second statement begin, and so on
	done    []int64 // rows of the inbox
	follow  []rows  // of that of other partitions
	text    []byte  // manifest
	size    int     // bytes of the block, and of what changes beside it
}

func (s *partitionStore) Commit(t *store.Transaction) error {
	c := s.call(t)
	if err := s.settle(c); err != nil {
		return fmt.Errorf("postgres: partition %d: %w", s.partition, err)
	}
	s.number.Store(c.next())
	s.seen.note(head{s.epoch, c.next()})
	s.intake.note(t.Changes)
	s.intake.over(c.done)
	for _, r := range c.follow {
		s.hint(r.partitions)
	}
	return nil
}

// call writes down what t changes. Of several changes of a key the last one counts.
func (s *partitionStore) call(t *store.Transaction) *call {
	c := &call{number: s.number.Load(), seq: t.Seq, size: len(t.Block)}
	m := t.Manifest
	for rest := t.Block; len(rest) > 0; {
		n := min(len(rest), s.part)
		c.parts, rest = append(c.parts, rest[:n]), rest[n:]
	}
	for _, d := range t.Drop {
		c.drops = append(c.drops, int64(d.Seq))
	}
	var staged []*outCall
	type key struct{ bucket, key string }
	places := make(map[key]int, len(t.Changes))
	for _, e := range t.Changes {
		if isIntake(e.Bucket, e.Key) {
			continue
		}
		if at, ok := placeOf(e); ok {
			staged = append(staged, &outCall{parts: map[place][]byte{at: e.Value}, size: len(e.Value)})
			c.size += len(e.Value)
			continue
		}
		k := key{string(e.Bucket), string(e.Key)}
		i, again := places[k]
		if !again {
			i, places[k] = len(c.keys), len(c.keys)
			c.buckets, c.keys = append(c.buckets, numberOf(e.Bucket)), append(c.keys, e.Key)
			c.values, c.sums = append(c.values, nil), append(c.sums, 0)
		}
		c.values[i], c.sums[i] = nil, 0
		if e.Value != nil {
			v := format.Seal(e.Bucket, e.Key, e.Value, m.Seq)
			c.values[i], c.sums[i] = v, sumOf(e.Key, v)
			c.size += len(v)
		}
	}
	c.cut(s.part)
	m.Version, m.Tx = format.FormatVersion, uint64(c.next())
	c.text = m.Encode()
	c.done = s.intake.taken(t.Changes)
	c.follow = follow(staged)
	return c
}

// cut divides what changes beside the block among statements.
func (c *call) cut(most int) {
	for i, size := 0, 0; i < len(c.keys); i++ {
		more := len(c.keys[i]) + len(c.values[i])
		if size += more; size > most && i > 0 {
			c.cuts, size = append(c.cuts, i), more
		}
	}
}

// next is the number of the commit.
func (c *call) next() int64 { return c.number + 1 + int64(len(c.cuts)) }

// beside are the changes of a statement.
func (c *call) beside(i int) []any {
	from, to := 0, len(c.keys)
	if i > 0 {
		from = c.cuts[i-1]
	}
	if i < len(c.cuts) {
		to = c.cuts[i]
	}
	return []any{c.buckets[from:to], c.keys[from:to], c.values[from:to], c.sums[from:to]}
}

// settle commits c and finds out what has become of it, however long that takes. What may be under way yet is
// not refused for want of room: the next commit would have its number, and the answer about the one would
// be taken for that about the other. After another error none follows in this epoch.
func (s *partitionStore) settle(c *call) (err error) {
	doubt := false
	defer func() {
		if doubt && errors.Is(err, format.ErrFull) {
			err = fmt.Errorf("an attempt had no answer, and the next one: %v", err)
		}
	}()
	for pause := firstPause; ; {
		done, err := s.attempt(c)
		if done && err == nil {
			return nil
		}
		if err != nil && (refusedForGood(err) || s.within != nil) {
			return translated(err)
		}
		doubt = true
		committed, unknown := s.ask(c.number, c.next())
		if committed || unknown != nil {
			return unknown
		}
		if ended := retryAfter(s.ctx, &pause); ended != nil { // and once more
			return errors.Join(ended, err)
		}
	}
}

// attempt calls the server once. It reports whether c is there; after an error that is not
// known, and so when it is not and there is no error.
func (s *partitionStore) attempt(c *call) (done bool, err error) {
	err = s.with(silence(s.patience, c.size+len(c.drops)<<10), func(ctx context.Context, conn *pgx.Conn) (err error) {
		if len(c.parts) < 2 && len(c.follow) < 2 && len(c.cuts) == 0 || s.within != nil {
			done, err = s.send(ctx, conn, c)
			return err
		}
		// The next owner waits for one that stands still, or is cut off, no longer than a slow link needs for a message.
		idle := s.patience * time.Duration(1+c.size>>16)
		begin := fmt.Sprintf("BEGIN; SET LOCAL idle_in_transaction_session_timeout = %d", idle.Milliseconds())
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{BeginQuery: begin}, func(tx pgx.Tx) (err error) {
			done, err = s.send(ctx, tx, c)
			return err
		})
	})
	return done, err
}

func (s *partitionStore) send(ctx context.Context, q querier, c *call) (done bool, err error) {
	var first []byte
	if len(c.parts) > 0 {
		first = c.parts[0]
	}
	text, args := "commit", append([]any{s.partition, s.epoch, c.number, c.text, int64(c.seq), first, c.drops}, append(c.beside(0), c.done)...)
	if len(c.follow) > 0 {
		r := &c.follow[0]
		text, args = "commitWith", append(args, r.partitions, r.queues, r.calls, r.tokens)
	}
	err = q.QueryRow(ctx, s.texts[text], args...).Scan(&done)
	for i := 1; i <= len(c.cuts) && done && err == nil; i++ {
		args := append([]any{s.partition, s.epoch, c.number + int64(i), c.text, int64(c.seq), nil, nil}, append(c.beside(i), nil)...)
		if err = q.QueryRow(ctx, s.texts["commit"], args...).Scan(&done); err == nil && !done {
			err = errors.New("the row of tail has gone that this transaction has put there")
		}
	}
	for i := 1; i < len(c.parts) && done && err == nil; i++ {
		_, err = q.Exec(ctx, s.texts["putPart"], s.partition, int64(c.seq), i, c.parts[i])
	}
	for i := 1; i < len(c.follow) && done && err == nil; i++ {
		r := &c.follow[i]
		_, err = q.Exec(ctx, s.texts["follow"], r.partitions, r.queues, r.calls, r.tokens)
	}
	return done, err
}

// ask tells whether the commit after that of a number is there, whose own is next. No transaction that was
// under way can make it so afterwards, unless it is the same commit.
func (s *partitionStore) ask(number, next int64) (committed bool, err error) {
	err = s.patient(func(ctx context.Context, conn *pgx.Conn) error {
		var epoch, last int64
		err := conn.QueryRow(ctx, s.texts["ask"], s.partition, s.epoch).Scan(&epoch, &last)
		committed = err == nil && epoch == s.epoch && last == next
		switch {
		case err != nil:
			return err
		case epoch != s.epoch:
			return s.foreign(epoch)
		case last < number:
			return behind(s.partition, head{epoch, number}, head{epoch, last})
		case last > next:
			return fmt.Errorf("%w: commit %d is there, and this one was to make %d", errFenced, last, next)
		}
		return nil
	})
	return committed, err
}

// seen is how far a partition has come as far as this process knows: what it committed there,
// or found. A server that has less has lost something.
type seen struct {
	mu sync.Mutex
	h  head
}

func (s *seen) note(h head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h = head{max(s.h.epoch, h.epoch), max(s.h.number, h.number)}
}

func (s *seen) head() head {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.h
}

// behind returns an error for a partition with less than was seen before it was asked for.
func behind(partition int, before, now head) error {
	if now.epoch >= before.epoch && now.number >= before.number {
		return nil
	}
	return fmt.Errorf("%w: partition %d is at commit %d of epoch %d, and this node has seen commit %d of epoch %d; "+
		"stop the nodes and have a server take over that has those, or go without them: then start this node's process anew",
		ErrBehind, partition, now.number, now.epoch, before.number, before.epoch)
}
